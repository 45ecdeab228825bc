# SPDX-License-Identifier: Apache-2.0
"""When paths fail: a link of theirs loses everything or is down, or an end of theirs loses its address. From the
intent, so that what is watched while a run lasts and what is measured after it are told by the same rule."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# How long after a failure the data of MPTCP connections is watched, in all of a run at most, and how often.
WATCHED_NS = 10_000_000_000
MOST_WATCHED_NS = 60_000_000_000
WATCH_EVERY_NS = 10_000_000


@dataclass(frozen=True)
class Failure:
    """A path that carries nothing from begin_ns to end_ns, from time zero; None: for good."""

    path: str
    begin_ns: int
    end_ns: int | None

    @property
    def watched_until_ns(self) -> int:
        latest = self.begin_ns + WATCHED_NS
        return latest if self.end_ns is None else min(latest, self.end_ns)


def find_failures(flow: Mapping[str, Any], changes: Sequence[Mapping[str, Any]]) -> tuple[Failure, ...]:
    """The failures of a flow's paths. flow, changes: of the intent, the latter in the order of time."""
    found = []
    for path in flow["paths"]:
        causes: set[tuple[str, ...]] = set()
        began_ns = None
        for change in changes:
            if change["link"] not in path["links"]:
                continue
            host = change.get("host", "")
            if host and host not in (flow["source"], flow["destination"]):
                continue
            cause = (change["link"], host)
            is_bad = not change["is_there"] if host else _carries_nothing(change)
            causes = causes | {cause} if is_bad else causes - {cause}
            if causes and began_ns is None:
                began_ns = change["at_ns"]
            elif not causes and began_ns is not None:
                found.append(Failure(path["name"], began_ns, change["at_ns"]))
                began_ns = None
        if began_ns is not None:
            found.append(Failure(path["name"], began_ns, None))
    return tuple(sorted(found, key=lambda failure: failure.begin_ns))


def find_watches(intent: Mapping[str, Any]) -> tuple[tuple[int, int], ...]:
    """The spans, from time zero, in which the data of connections is watched: after failures of MPTCP flows' paths, of
    which a run for hours may have thousands: the first minute of them."""
    flows: Iterable[Mapping[str, Any]] = (flow for flow in intent["traffic"] if flow["protocol"] == "mptcp")
    failures = [failure for flow in flows for failure in find_failures(flow, intent["changes"])]
    spans: list[tuple[int, int]] = []
    for failure in sorted(failures, key=lambda failure: failure.begin_ns):
        if spans and failure.begin_ns <= spans[-1][1]:
            spans[-1] = spans[-1][0], max(spans[-1][1], failure.watched_until_ns)
        else:
            spans.append((failure.begin_ns, failure.watched_until_ns))
    watched: list[tuple[int, int]] = []
    left_ns = MOST_WATCHED_NS
    for begin_ns, end_ns in spans:
        if left_ns:
            watched.append((begin_ns, min(end_ns, begin_ns + left_ns)))
            left_ns -= watched[-1][1] - begin_ns
    return tuple(watched)


def _carries_nothing(change: Mapping[str, Any]) -> bool:
    """One way is enough: no data without acknowledgements."""
    losses = (change[way]["loss"] for way in ("forward", "reverse"))
    return not change["is_up"] or any(loss is not None and loss.get("probability") == 1 for loss in losses)
