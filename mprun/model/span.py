# SPDX-License-Identifier: Apache-2.0
"""The start and end of flows, as far as they are known before the run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mprun.model.frozen import Frozen
from mprun.model.grouping import gather
from mprun.model.spec import Flow


class Span(Frozen):
    """The start and end of a flow in ns from time zero. None if they depend on the run."""

    start_ns: int | None
    end_ns: int | None


UNKNOWN = Span(None, None)


def find_end(flows: Iterable[Flow]) -> int | None:
    """The end of the last flow in ns from time zero. None if it depends on the run, or without flows."""
    ends = [span.end_ns for span in find_spans(flows).values()]
    known = [end for end in ends if end is not None]
    return max(known) if known and len(known) == len(ends) else None


def find_spans(flows: Iterable[Flow]) -> dict[str, Span]:
    """The span of each flow by its name. No flow waits for itself (`traffic` checks this)."""
    listed = tuple(flows)
    members = gather((name, flow) for flow in listed for name in (flow.name, flow.group))
    spans: dict[str, Span] = {}
    # in a chain of flows that wait for each other, each round resolves one more flow
    waiting = list(listed)
    while waiting:
        left = []
        for flow in waiting:
            awaited = [] if flow.after is None else members.get(flow.after.flow, [])
            if all(one.name in spans for one in awaited):
                spans[flow.name] = _span(flow, [spans[one.name] for one in awaited])
            else:
                left.append(flow)
        if len(left) == len(waiting):
            return spans | {flow.name: UNKNOWN for flow in left}
        waiting = left
    return spans


def _span(flow: Flow, awaited: Sequence[Span]) -> Span:
    """The span of a flow. awaited: the spans of the flows whose first start or last end it waits for."""
    base: int | None = 0
    if flow.after is not None:
        moments = [span.start_ns if flow.after.of == "start" else span.end_ns for span in awaited]
        known = [moment for moment in moments if moment is not None]
        base = None if len(known) < len(moments) or not known else (min if flow.after.of == "start" else max)(known)
    if base is None:
        return UNKNOWN
    start_ns = base + flow.start_ns
    return Span(start_ns, None if flow.duration_ns is None else start_ns + flow.duration_ns)
