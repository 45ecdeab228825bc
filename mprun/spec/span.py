# SPDX-License-Identifier: Apache-2.0
"""When flows begin and end, as far as that can be told before they run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mprun.spec.spec import Flow


@dataclass(frozen=True)
class Span:
    """From time zero, ns; None where only the run will tell."""

    start_ns: int | None
    end_ns: int | None


def find_spans(flows: Iterable[Flow]) -> dict[str, Span]:
    """The span of each flow by its name. No flow waits for itself (`traffic` sees to that)."""
    by_name = {flow.name: flow for flow in flows}
    spans: dict[str, Span] = {}
    for name in by_name:
        chain = []
        while name not in spans and name not in chain:
            chain.append(name)
            after = by_name[name].after
            if after is None or after.flow not in by_name:
                break
            name = after.flow
        for name in reversed(chain):
            spans[name] = _span(by_name[name], spans)
    return spans


def meet(spans: Sequence[Span]) -> bool:
    """Whether there is a moment at which all are under way, as far as can be told; no end counts as a late one."""
    starts = [span.start_ns for span in spans]
    ends = [span.end_ns for span in spans if span.end_ns is not None]
    if any(start is None for start in starts):
        return False
    return not ends or max(start or 0 for start in starts) < min(ends)


def _span(flow: Flow, spans: dict[str, Span]) -> Span:
    base: int | None = 0
    if flow.after is not None:
        before = spans.get(flow.after.flow, Span(None, None))
        base = before.start_ns if flow.after.of == "start" else before.end_ns
    if base is None:
        return Span(None, None)
    start_ns = base + flow.start_ns
    return Span(start_ns, None if flow.duration_ns is None else start_ns + flow.duration_ns)
