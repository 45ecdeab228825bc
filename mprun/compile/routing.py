# SPDX-License-Identifier: Apache-2.0
"""Shortest paths over segments, and the next hops of routers.

A *segment* is a broadcast domain: links joined by switches, or one link. Routers join segments and forward packets;
hosts do not. If several ways are equally short, the subnets behind a router take turns in the order of the file. The
suffixes of Al-Fares et al. (SIGCOMM 2008, section 3.3) do the same in a fat tree. So routes depend only on the
topology, no link is idle while another is shared, and each interface of a host has its own path. With equal-cost
multipath, a router has all the ways, and a hash of the flow chooses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import reduce

from mprun.model.frozen import Frozen
from mprun.model.grouping import gather
from mprun.model.network import Interface
from mprun.model.path import count_steps, search, steps_to
from mprun.model.spec import Family, LinkSpec, NodeKind

# A link seen from one end: the link, this end, the other end, and whether this direction is forward.
_Crossing = tuple[LinkSpec, Interface, Interface, bool]
# From an interface of a router to an interface of another router.
_Way = tuple[Interface, Interface]


class Hop(Frozen):
    """The next hop from a router to a segment: out of `out`, to `gateway` (None: the router is on the segment)."""

    out: Interface
    gateway: Interface | None


class RoutedLinks(Frozen):
    """The links from one interface to another: one way, or several ways with equally many routers.

    - crossed: the links, each with True if it is crossed forwards. The links of the first way come first, in the order
        in which a packet meets them, then the further links of the other ways.
    - ways: the number of ways.
    - least_ns, most_ns: the sum of the delays of the fastest and of the slowest way.
    """

    crossed: tuple[tuple[LinkSpec, bool], ...]
    ways: int
    least_ns: int
    most_ns: int

    def then(self, onward: RoutedLinks) -> RoutedLinks:
        return RoutedLinks(
            self.crossed + onward.crossed,
            self.ways * onward.ways,
            self.least_ns + onward.least_ns,
            self.most_ns + onward.most_ns,
        )

    def or_else(self, other: RoutedLinks) -> RoutedLinks:
        """Return the ways of both traces. A link that both share is named once."""
        known = {link.name for link, _ in self.crossed}
        return RoutedLinks(
            self.crossed + tuple(crossing for crossing in other.crossed if crossing[0].name not in known),
            self.ways + other.ways,
            min(self.least_ns, other.least_ns),
            max(self.most_ns, other.most_ns),
        )


# The hops of each router. Without multipath, there is only the way whose turn it is.
_Hops = dict[str, tuple[Hop, ...]]
_Load = Counter[tuple[str, str]]


class Routing:
    """The next hops towards each segment in one address family, computed on first use.

    speakers: routers that other nodes need routes to, as for hosts.
    """

    def __init__(
        self,
        kinds: Mapping[str, NodeKind],
        links: Sequence[tuple[LinkSpec, Interface, Interface]],
        family: Family,
        is_multipath: bool,
        speakers: Collection[str],
    ) -> None:
        self.family = family
        self._is_multipath = is_multipath
        self._kinds = kinds
        self.members: dict[int, list[Interface]] = {}
        self.interfaces: dict[str, list[Interface]] = {name: [] for name in kinds}
        self._crossings: dict[str, list[_Crossing]] = {name: [] for name in kinds}
        for link, a, b in links:
            self._crossings[a.node].append((link, a, b, True))
            self._crossings[b.node].append((link, b, a, False))
            for end in (a, b):
                self.interfaces[end.node].append(end)
                if end.address(family):
                    self.members.setdefault(end.segment, []).append(end)
        self.host_segments = tuple(
            dict.fromkeys(
                interface.segment
                for name, kind in kinds.items()
                if kind == "host" or name in speakers
                for interface in self.interfaces[name]
                if interface.address(family)
            )
        )
        self._adjacent = {name: list(self._find_adjacent(name)) for name, kind in kinds.items() if kind == "router"}
        self._behind = gather((self._routers_on(segment), segment) for segment in sorted(self.host_segments))
        self._sources = {router for routers in self._behind for router in routers}
        self._hops: dict[int, _Hops] = {}
        # (MAC, MAC) -> the trace within a segment; (router, MAC) -> the trace from the router onwards
        self._within: dict[tuple[str, str], RoutedLinks] = {}
        self._onward: dict[tuple[str, str], RoutedLinks] = {}

    def hops_to(self, segment: int) -> Mapping[str, tuple[Hop, ...]]:
        """Return the hop towards `segment` of each router that can reach it; with multipath, all hops."""
        if not self._hops:
            carried: _Load = Counter()
            for last, together in self._behind.items():
                self._hops |= self._spread(last, together, carried)
        if segment not in self._hops:
            self._hops |= self._spread(self._routers_on(segment), [segment], Counter())
        return self._hops[segment]

    def _spread(self, last: tuple[str, ...], together: Sequence[int], carried: _Load) -> dict[int, _Hops]:
        """Return the hops to segments behind the same routers, which therefore share the ways there.

        For each segment, a router takes the way that the fewest of these segments use so far. If several ways are
        equal, it takes the way that carries the fewest segments of all, then the first. Only segments whose traffic
        passes a router count, so the farthest routers choose first. If routers simply took turns, two routers in a row
        would always turn together, and half the paths would be idle.
        """
        ways = self._shortest_ways(last)
        taken: _Load = Counter()
        found = {}
        for segment in together:
            hops: _Hops = {}
            for member in self.members[segment]:
                if self._kinds[member.node] == "router":
                    hops.setdefault(member.node, (Hop(member, None),))
            passed = set(self._sources)
            for router, choices in ways.items():
                if self._is_multipath:
                    hops[router] = tuple(Hop(*way) for way in choices)
                    continue
                if len(choices) > 1:
                    way = min(choices, key=lambda way: (taken[_name(way)], carried[_name(way)]))
                else:
                    way = choices[0]
                hops[router] = (Hop(*way),)
                if router in passed:
                    passed.add(way[1].node)
                    taken[_name(way)] += 1
            found[segment] = hops
        carried += taken
        return found

    def _shortest_ways(self, last: tuple[str, ...]) -> dict[str, list[_Way]]:
        """Return the equally short ways of each router to the nearest of `last`, the farthest router first."""
        distance = count_steps(search(last, lambda here: ((way[1].node, way) for way in self._adjacent[here])))
        return {
            router: [way for way in self._adjacent[router] if distance[way[1].node] == distance[router] - 1]
            for router in reversed(distance)
            if distance[router] > 0
        }

    def _find_adjacent(self, router: str) -> Iterator[_Way]:
        """Yield pairs of an interface of a router and an interface of another router on the same segment."""
        for own in self.interfaces[router]:
            if not own.address(self.family):
                continue
            for peer in self.members.get(own.segment, ()):
                if peer.node != router and self._kinds[peer.node] == "router":
                    yield own, peer

    def _routers_on(self, segment: int) -> tuple[str, ...]:
        members = self.members.get(segment, ())
        return tuple(dict.fromkeys(member.node for member in members if self._kinds[member.node] == "router"))

    def gateway_of(self, segment: int) -> Interface | None:
        """Return the router interface that hosts of a segment use as gateway: the first on the segment."""
        routers = (m for m in self.members.get(segment, ()) if self._kinds[m.node] == "router")
        return next(routers, None)

    def reaches(self, source: Interface, destination: Interface) -> bool:
        """Check whether a route leads from one host's interface to another's."""
        if not source.address(self.family) or not destination.address(self.family):
            return False
        if source.segment == destination.segment:
            return True
        gateway = self.gateway_of(source.segment)
        return gateway is not None and gateway.node in self.hops_to(destination.segment)

    def trace(self, source: Interface, destination: Interface) -> RoutedLinks:
        """Return the links from one host's interface to another's that it reaches."""
        if source.segment == destination.segment:
            return self._cross(source, destination)
        gateway = self.gateway_of(source.segment)
        assert gateway is not None
        return self._cross(source, gateway).then(self._follow(gateway.node, destination))

    def _follow(self, router: str, destination: Interface) -> RoutedLinks:
        """Return the links from a router to a host's interface.

        There is no recursion, because a line may have hundreds of routers.
        """
        to = destination.mac
        hops = self.hops_to(destination.segment)
        found = [] if (router, to) in self._onward else [router]
        seen = set(found)
        # each hop is one router nearer, so the routers found last are the nearest
        for here in found:
            nearer = {hop.gateway.node: None for hop in hops[here] if hop.gateway}
            unknown = [node for node in nearer if node not in seen and (node, to) not in self._onward]
            found += unknown
            seen.update(unknown)
        for here in reversed(found):
            ways = [
                self._cross(hop.out, hop.gateway).then(self._onward[hop.gateway.node, to])
                if hop.gateway
                else self._cross(hop.out, destination)
                for hop in hops[here]
            ]
            self._onward[here, to] = reduce(RoutedLinks.or_else, ways)
        return self._onward[router, to]

    def _cross(self, start: Interface, end: Interface) -> RoutedLinks:
        """Return the links from `start` to `end` within one segment, through its switches."""
        key = (start.mac, end.mac)
        if key not in self._within:
            crossed = tuple(self._search(start, end))
            delay_ns = sum((link.forward if forwards else link.reverse).delay_ns for link, forwards in crossed)
            self._within[key] = RoutedLinks(crossed, 1, delay_ns, delay_ns)
        return self._within[key]

    def _search(self, start: Interface, end: Interface) -> list[tuple[LinkSpec, bool]]:
        """Return the links from `start` to `end`, each with True if it is crossed forwards."""

        def onward(node: str) -> Iterator[tuple[str, tuple[LinkSpec, bool]]]:
            for link, this, that, forwards in self._crossings[node]:
                is_outside = this.segment != start.segment or (node == start.node and this is not start)
                if not is_outside and (that is end or self._kinds[that.node] == "switch"):
                    yield that.node, (link, forwards)

        return steps_to(end.node, search([start.node], onward))


def _name(way: _Way) -> tuple[str, str]:
    """Return a key for a way that is quick to hash."""
    return way[0].mac, way[1].mac
