# SPDX-License-Identifier: Apache-2.0
"""Repeated flows. Each repetition is a flow of its own, with a number after its name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from mprun.model.spec import After, Flow


def names_of(flow: Flow) -> tuple[str, ...]:
    """The names of a flow's repetitions: `bulk-1`, `bulk-2`. Its own name if it is not repeated."""
    if flow.repetition is None:
        return (flow.name,)
    return tuple(f"{flow.name}-{k}" for k in range(1, flow.repetition.times + 1))


def expand(flows: Sequence[Flow]) -> tuple[Flow, ...]:
    """Return a flow for each repetition. A flow that waits for a repeated one waits for its first start or its last
    end.
    """
    names = {flow.name: names_of(flow) for flow in flows}
    return tuple(_refer(one, names) for flow in flows for one in _expand(flow))


def _expand(flow: Flow) -> Iterator[Flow]:
    repetition, names = flow.repetition, names_of(flow)
    if repetition is None:
        yield flow
        return
    for k, name in enumerate(names):
        one = replace(flow, name=name, repetition=None)
        if k and repetition.pause_ns is not None:
            yield replace(one, after=After(names[k - 1], "end"), start_ns=repetition.pause_ns)
        else:
            yield replace(one, start_ns=flow.start_ns + k * (repetition.interval_ns or 0))


def _refer(flow: Flow, names: dict[str, tuple[str, ...]]) -> Flow:
    if flow.after is None or flow.after.flow not in names:
        return flow
    found = names[flow.after.flow]
    return replace(flow, after=replace(flow.after, flow=found[0] if flow.after.of == "start" else found[-1]))
