# SPDX-License-Identifier: Apache-2.0
"""Failures of paths: a link loses all packets or is down, or an end loses its address.

Failures follow from the intent. So one rule decides which data is watched during a run and measured after it.
"""

from __future__ import annotations

from collections.abc import Sequence

from mprun.model.frozen import Frozen
from mprun.model.intent.values import AddressedFlow, Intent
from mprun.model.spec import AddressChange, Chance, Change, LinkChange, Rebinding

# The time for which the data of MPTCP connections is watched after a failure, the longest such time in a run, and the
# interval of the samples.
WATCHED_NS = 10_000_000_000
MOST_WATCHED_NS = 60_000_000_000
WATCH_EVERY_NS = 10_000_000


class PathFailure(Frozen):
    """A path that carries nothing from begin_ns to end_ns, counted from time zero. end_ns None: to the end."""

    path: str
    begin_ns: int
    end_ns: int | None

    @property
    def watched_until_ns(self) -> int:
        latest = self.begin_ns + WATCHED_NS
        return latest if self.end_ns is None else min(latest, self.end_ns)


def find_failures(flow: AddressedFlow, changes: Sequence[Change]) -> tuple[PathFailure, ...]:
    """Return the failures of a flow's paths. changes: of the intent, in the order of time."""
    found = []
    for path in flow.paths:
        causes: set[tuple[str, ...]] = set()
        began_ns = None
        for change in changes:
            if change.link not in path.links or isinstance(change, Rebinding):
                continue
            host = change.host if isinstance(change, AddressChange) else ""
            if host and host not in (flow.source, flow.destination):
                continue
            cause = (change.link, host)
            causes = causes | {cause} if _is_bad(change) else causes - {cause}
            if causes and began_ns is None:
                began_ns = change.at_ns
            elif not causes and began_ns is not None:
                found.append(PathFailure(path.name, began_ns, change.at_ns))
                began_ns = None
        if began_ns is not None:
            found.append(PathFailure(path.name, began_ns, None))
    return tuple(sorted(found, key=lambda failure: failure.begin_ns))


def find_watches(intent: Intent) -> tuple[tuple[int, int], ...]:
    """Return the spans, from time zero, in which the data of connections is watched.

    They follow failures of MPTCP flows' paths. A run for hours may have thousands of failures: the first minute counts.
    """
    flows = [flow for flow in intent.traffic if flow.protocol == "mptcp"]
    failures = [failure for flow in flows for failure in find_failures(flow, intent.changes)]
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


def _is_bad(change: LinkChange | AddressChange) -> bool:
    """Check whether an address is gone, or one direction carries nothing: no data arrives without acknowledgements."""
    if isinstance(change, AddressChange):
        return not change.is_there
    losses = (change.forward.loss, change.reverse.loss)
    return not change.is_up or any(isinstance(loss, Chance) and loss.probability == 1 for loss in losses)
