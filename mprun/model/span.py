# SPDX-License-Identifier: Apache-2.0
"""The start and end of flows, as far as they are known before the run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from graphlib import CycleError, TopologicalSorter

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
    return _join([*find_spans(flows).values()]).end_ns


def find_spans(flows: Iterable[Flow]) -> dict[str, Span]:
    """The span of each flow by its name. No flow waits for itself (`traffic` checks this)."""
    listed = tuple(flows)
    spans = [UNKNOWN] * len(listed)
    members = gather((name, n) for n, flow in enumerate(listed) for name in _names_of(flow))
    awaited: dict[str, Span] = {}
    with suppress(CycleError):
        for node in _order(listed).static_order():
            if isinstance(node, int):
                spans[node] = _span(listed[node], awaited)
            else:
                awaited[node] = _join([spans[n] for n in members.get(node, ())])
    return {flow.name: span for flow, span in zip(listed, spans, strict=True)}


def find_circle(flows: Sequence[Flow]) -> list[int]:
    """The places of flows that wait for each other, from the first of them back to itself. Empty without such a circle.

    Each flow waits for the next one.
    """
    try:
        _order(flows).prepare()
    except CycleError as error:
        circle = [node for node in error.args[1][-2::-1] if isinstance(node, int)]
        first = circle.index(min(circle))
        return [*circle[first:], *circle[: first + 1]]
    return []


def _order(flows: Sequence[Flow]) -> TopologicalSorter[int | str]:
    """The order of flows, by their places, and of their names.

    A flow comes after the name that it waits for, and a name after all flows that have it.
    """
    sorter: TopologicalSorter[int | str] = TopologicalSorter()
    for n, flow in enumerate(flows):
        sorter.add(n, *([flow.after.flow] if flow.after else []))
        for name in _names_of(flow):
            sorter.add(name, n)
    return sorter


def _names_of(flow: Flow) -> dict[str, None]:
    """The names that another flow may wait for."""
    return dict.fromkeys(name for name in (flow.name, flow.group, *flow.names) if name)


def _join(spans: Sequence[Span]) -> Span:
    """The first start and the last end of flows. None if one of them is not known, or without flows."""
    starts = [span.start_ns for span in spans if span.start_ns is not None]
    ends = [span.end_ns for span in spans if span.end_ns is not None]
    return Span(
        min(starts) if starts and len(starts) == len(spans) else None,
        max(ends) if ends and len(ends) == len(spans) else None,
    )


def _span(flow: Flow, awaited: Mapping[str, Span]) -> Span:
    """The span of a flow. awaited: the spans of the names that flows wait for."""
    base: int | None = 0
    if flow.after is not None:
        event = awaited[flow.after.flow]
        base = event.start_ns if flow.after.of == "start" else event.end_ns
    if base is None:
        return UNKNOWN
    start_ns = base + flow.start_ns
    return Span(start_ns, None if flow.duration_ns is None else start_ns + flow.duration_ns)
