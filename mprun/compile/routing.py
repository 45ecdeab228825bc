# SPDX-License-Identifier: Apache-2.0
"""Shortest paths over segments: who forwards to whom.

A *segment* is a broadcast domain: links joined by switches, or one link. Routers join segments and
forward; hosts do not. Ties go to what stands first in the file, so that routes are a function of
the topology alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mprun.compile.network import Interface
from mprun.spec.spec import LinkSpec, NodeKind

# A link as one of its ends sees it: that end, the other one, and whether it leaves forwards.
_Crossing = tuple[LinkSpec, Interface, Interface, bool]


@dataclass(frozen=True)
class Hop:
    """How a router reaches a segment: out of `out`, to `gateway` (None: it is on the segment)."""

    out: Interface
    gateway: Interface | None


def number_segments(kinds: Mapping[str, NodeKind], links: Sequence[LinkSpec]) -> list[int]:
    """The segment of each link, numbered in the order of the links."""
    parent = list(range(len(links)))

    def find(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    first_at: dict[str, int] = {}
    for i, link in enumerate(links):
        for end in link.ends:
            if kinds[end] == "switch":
                other = find(first_at.setdefault(end, i))
                parent[max(other, find(i))] = min(other, find(i))
    numbers: dict[int, int] = {}
    return [numbers.setdefault(find(i), len(numbers)) for i in range(len(links))]


class Routing:
    """Next hops towards each segment, computed when first asked for."""

    def __init__(self, kinds: Mapping[str, NodeKind], links: Sequence[tuple[LinkSpec, Interface, Interface]]) -> None:
        self._kinds = kinds
        self.members: dict[int, list[Interface]] = {}
        self.interfaces: dict[str, list[Interface]] = {name: [] for name in kinds}
        self._crossings: dict[str, list[_Crossing]] = {name: [] for name in kinds}
        for link, a, b in links:
            self._crossings[a.node].append((link, a, b, True))
            self._crossings[b.node].append((link, b, a, False))
            for end in (a, b):
                self.interfaces[end.node].append(end)
                if end.address:
                    self.members.setdefault(end.segment, []).append(end)
        self._hops: dict[int, dict[str, Hop]] = {}

    def hops_to(self, segment: int) -> Mapping[str, Hop]:
        """For each router that can reach `segment`, its hop towards it."""
        if segment in self._hops:
            return self._hops[segment]
        hops: dict[str, Hop] = {}
        entered_by: dict[int, Interface | None] = {segment: None}
        waiting = deque([segment])
        while waiting:
            here = waiting.popleft()
            for member in self.members.get(here, ()):
                if self._kinds[member.node] != "router" or member.node in hops:
                    continue
                hops[member.node] = Hop(member, entered_by[here])
                for further in self.interfaces[member.node]:
                    if further.segment not in entered_by:
                        entered_by[further.segment] = further
                        waiting.append(further.segment)
        self._hops[segment] = hops
        return hops

    def gateway_of(self, segment: int) -> Interface | None:
        """The router that hosts of a segment use: the first on it."""
        routers = (m for m in self.members.get(segment, ()) if self._kinds[m.node] == "router")
        return next(routers, None)

    def trace(self, source: Interface, destination: Interface) -> list[tuple[LinkSpec, bool]] | None:
        """The links from one host's interface to another's, each with whether it is crossed
        forwards; None where no route leads there."""
        crossed: list[tuple[LinkSpec, bool]] = []
        here = source
        while here.segment != destination.segment:
            if here is source:
                arrived = self.gateway_of(here.segment)
            else:
                arrived = self.hops_to(destination.segment)[here.node].gateway
            if arrived is None or arrived.node not in self.hops_to(destination.segment):
                return None
            crossed += self._cross(here, arrived)
            here = self.hops_to(destination.segment)[arrived.node].out
        return crossed + self._cross(here, destination)

    def _cross(self, start: Interface, end: Interface) -> list[tuple[LinkSpec, bool]]:
        """The links within one segment from `start` to `end`, through its switches."""
        came: dict[str, tuple[str, LinkSpec, bool] | None] = {start.node: None}
        waiting = deque([start.node])
        while waiting and end.node not in came:
            node = waiting.popleft()
            for link, this, that, forwards in self._crossings[node]:
                if this.segment != start.segment or that.node in came:
                    continue
                if node == start.node and this is not start:
                    continue
                if that is end or self._kinds[that.node] == "switch":
                    came[that.node] = (node, link, forwards)
                    waiting.append(that.node)
        crossed: list[tuple[LinkSpec, bool]] = []
        step = came[end.node]
        while step is not None:
            node, link, forwards = step
            crossed.append((link, forwards))
            step = came[node]
        return crossed[::-1]
