# SPDX-License-Identifier: Apache-2.0
"""Preference: the subflow that carried most in each second, how often it changes, and how shares vary.

Seconds are whole seconds from time zero. The last sample before the end of a second counts for it.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from mprun.model.units import NS_PER_S

# A sample is taken a little after its moment, in real time by as much as a busy machine is late.
LATE_NS = 20_000_000


@dataclass(frozen=True)
class Carried:
    """Payload bytes of a subflow in each second."""

    connection: int
    path: str | None
    by_second: Sequence[int]


def carry(
    samples: Iterable[tuple[int, tuple[int, str | None, tuple[Any, ...]], int]], began_ns: int, ended_ns: int
) -> list[Carried]:
    """Return what each subflow carried in the whole seconds between two moments.

    The result is empty if there are fewer than two seconds, or if a second has no sample.

    samples: (moment, (connection, path, addresses) of a subflow, what it had carried so far), in the order of time.
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
    connections: dict[int, list[Sequence[int]]] = {}
    for one in carried:
        connections.setdefault(one.connection, []).append(one.by_second)
    for subflows in connections.values():
        leaders = list(_leaders(subflows))
        changes += sum(before != after for before, after in pairwise(leaders))
        chances += max(0, len(leaders) - 1)
    return changes / chances if chances else None


def _leaders(subflows: Sequence[Sequence[int]]) -> Iterator[int]:
    """The number of the one that carried most, of each second in which any carried something."""
    leader = 0
    for second in zip(*subflows, strict=True):
        most = max(second)
        if most > 0:
            leader = leader if second[leader] == most else second.index(most)
            yield leader


def share_deviations(carried: Sequence[Carried], paths: Iterable[str]) -> Mapping[str, float]:
    """The standard deviation, of the sample, of each path's share from second to second, of the seconds in which
    anything was carried."""
    totals = [sum(second) for second in zip(*(one.by_second for one in carried), strict=True)]
    if sum(total > 0 for total in totals) < 2:
        return {}
    found = {}
    for path in paths:
        mine = [one.by_second for one in carried if one.path == path]
        sums = [sum(second) for second in zip(*mine, strict=True)] if mine else [0] * len(totals)
        found[path] = statistics.stdev(part / total for part, total in zip(sums, totals, strict=True) if total > 0)
    return found
