# SPDX-License-Identifier: Apache-2.0
"""Preference: how a scheduler used a flow's paths over time. Pure.

A preferred subflow carried most of its connection in a second. Seconds are whole seconds from time zero. The last
sample before the end of a second counts for it.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from mprun.metrics.connection import goes_forward, subflows_of
from mprun.metrics.observation import ENDS
from mprun.metrics.readings import Readings, name_metrics
from mprun.metrics.series import FlowConnections
from mprun.model.frozen import Frozen
from mprun.model.grouping import gather
from mprun.model.metric import OF_CONNECTIONS
from mprun.model.units import NS_PER_S

if TYPE_CHECKING:
    import polars


# A sample is taken a little after the end of its second. On a busy machine in real time, it is later.
LATE_NS = 20_000_000


class Carried(Frozen):
    """Payload bytes of a subflow in each second."""

    connection: int
    path: str | None
    by_second: Sequence[int]


def carry(
    samples: Iterable[tuple[int, tuple[int, str | None, tuple[Any, ...]], int]], began_ns: int, ended_ns: int
) -> list[Carried]:
    """Return what each subflow carried in the whole seconds between two times.

    The result is empty if there are fewer than two seconds, or if a second has no sample.
    samples: (time, (connection, path, addresses) of a subflow, bytes that it had carried until then), in order of time.
    """
    ends = [second * NS_PER_S for second in range(-(-began_ns // NS_PER_S), ended_ns // NS_PER_S + 1)]
    if len(ends) < 3:
        return []
    last: dict[tuple[int, str | None, tuple[Any, ...]], int] = {}
    reached: list[dict[tuple[int, str | None, tuple[Any, ...]], int]] = []
    sampled_ns = ends[0] - NS_PER_S
    for moment, subflow, size_bytes in samples:
        while len(reached) < len(ends) and moment > ends[len(reached)] + LATE_NS:
            if sampled_ns + NS_PER_S < ends[len(reached)]:
                return []
            reached.append(dict(last))
        sampled_ns = moment
        last[subflow] = size_bytes
    while len(reached) < len(ends):
        reached.append(dict(last))
    return [
        Carried(key[0], key[1], [after.get(key, 0) - before.get(key, 0) for before, after in pairwise(reached)])
        for key in last
    ]


def find_flapping(carried: Sequence[Carried]) -> float | None:
    """Return how often per second another subflow carries most of its connection.

    None without two seconds in which a connection carried something. Of equal subflows, the previous one counts.
    """
    changes = chances = 0
    for subflows in gather((one.connection, one.by_second) for one in carried).values():
        leaders = list(_leaders(subflows))
        changes += sum(before != after for before, after in pairwise(leaders))
        chances += max(0, len(leaders) - 1)
    return changes / chances if chances else None


def _leaders(subflows: Sequence[Sequence[int]]) -> Iterator[int]:
    """Yield the number of the subflow that carried most, for each second in which a subflow carried something."""
    leader = 0
    for second in zip(*subflows, strict=True):
        most = max(second)
        if most > 0:
            leader = leader if second[leader] == most else second.index(most)
            yield leader


def share_deviations(carried: Sequence[Carried], paths: Iterable[str]) -> Mapping[str, float]:
    """Return the sample standard deviation of each path's share over the seconds in which something was carried."""
    totals = [sum(second) for second in zip(*(one.by_second for one in carried), strict=True)]
    if sum(total > 0 for total in totals) < 2:
        return {}
    found = {}
    for path in paths:
        mine = [one.by_second for one in carried if one.path == path]
        sums = [sum(second) for second in zip(*mine, strict=True)] if mine else [0] * len(totals)
        found[path] = statistics.stdev(part / total for part, total in zip(sums, totals, strict=True) if total > 0)
    return found


def measure_preference(one: FlowConnections, sockets: polars.DataFrame) -> Readings:
    """Return flapping and share.stdev, without the times that the flow omits."""
    flow = one.flow
    mine = sockets.filter(flow=flow.name, host=flow.source).sort("time_ns", maintain_order=True)
    carried_bytes = "bytes_acked" if goes_forward(subflows_of(one.connections)) else "bytes_received"
    columns = ("time_ns", "connection", "path", *ENDS, carried_bytes)
    samples = ((row[0], (row[1], row[2], row[3:-1]), row[-1]) for row in mine.select(columns).iter_rows())
    of_paths = carry(samples, *one.counted_ns)
    deviations = share_deviations(of_paths, [path.name for path in flow.paths])
    values = {"flapping": find_flapping(of_paths), **{f"share.stdev.{path}": one for path, one in deviations.items()}}
    return Readings(name_metrics(flow.name, values, OF_CONNECTIONS))
