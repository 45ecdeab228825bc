# SPDX-License-Identifier: Apache-2.0
"""The rate and the fairness of several flows together, from the payload that each got and when. Pure.

Flows may start and end at different times. A sum of their mean rates would add means over different intervals, and
could exceed what the network carries.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from mprun.metrics.statistics import jain
from mprun.workloads.tool import Portion

# The begin and the end, in ns from time zero.
TimeInterval = tuple[int, int]


def find_rate(flows: Sequence[Sequence[Portion]]) -> float | None:
    """Return the payload of all flows, divided by the time in which at least one of them ran, in bit/s.

    A flow runs during its portions. None if no two flows ran at the same time.
    """
    ran = [_join(_intervals(portions)) for portions in flows]
    together = _join([interval for intervals in ran for interval in intervals])
    if _length(together) == sum(map(_length, ran)):
        return None
    return sum(portion.size_bytes for portions in flows for portion in portions) * 8e9 / _length(together)


def find_fairness(flows: Sequence[Sequence[Portion]]) -> float | None:
    """Return the mean of Jain's index over the times with two flows or more, weighted by their lengths.

    Each time lasts while the same flows run. None if there is no such time, or if no flow got payload in one.
    """
    moments = sorted({at for portions in flows for ends in _join(_intervals(portions)) for at in ends})
    # for each time between two moments, the payload of each flow that ran
    got: list[dict[int, float]] = [{} for _ in moments]
    for flow, portions in enumerate(flows):
        for portion in portions:
            for number, size_bytes in _divide(portion, moments):
                got[number][flow] = got[number].get(flow, 0.0) + size_bytes
    index, shared_ns = 0.0, 0
    for number, sizes in enumerate(got):
        if len(sizes) > 1 and any(sizes.values()):
            length_ns = moments[number + 1] - moments[number]
            index += length_ns * jain(list(sizes.values()))
            shared_ns += length_ns
    return index / shared_ns if shared_ns else None


def _divide(portion: Portion, moments: Sequence[int]) -> Iterator[tuple[int, float]]:
    """Yield the numbers of the times between moments in which a portion lies, each with the portion's bytes in it."""
    number = bisect_right(moments, portion.begin_ns) - 1
    begin_ns = portion.begin_ns
    while begin_ns < portion.end_ns:
        end_ns = min(portion.end_ns, moments[number + 1])
        yield number, portion.size_bytes * (end_ns - begin_ns) / (portion.end_ns - portion.begin_ns)
        begin_ns, number = end_ns, number + 1


def _intervals(portions: Sequence[Portion]) -> list[TimeInterval]:
    return [(portion.begin_ns, portion.end_ns) for portion in portions if portion.begin_ns < portion.end_ns]


def _join(intervals: Sequence[TimeInterval]) -> list[TimeInterval]:
    """Return the same time as few intervals in order."""
    joined: list[TimeInterval] = []
    for begin_ns, end_ns in sorted(intervals):
        if joined and begin_ns <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], end_ns)
        else:
            joined.append((begin_ns, end_ns))
    return joined


def _length(intervals: Sequence[TimeInterval]) -> int:
    return sum(end_ns - begin_ns for begin_ns, end_ns in intervals)
