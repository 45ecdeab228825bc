# SPDX-License-Identifier: Apache-2.0
"""The links that packets may cross, before anything has an address or a route.

A packet takes one of the ways with the fewest routers. Between two of them, it takes one of the ways with the fewest
links, as switches do. If several ways are equal, all of them count, because a hash or the turns of subnets choose
(`mprun.compile.routing`).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property

from mprun.model.frozen import Frozen
from mprun.model.grouping import gather
from mprun.model.path import HostPair, NamedPath, PathEnd, count_steps, name_paths, search, usable_paths, used_paths
from mprun.model.spec import FAMILIES, ExperimentSpec, Family, Flow, LinkSpec, TopologySpec

# A direction of a link: its name, and the two nodes in the order in which a packet meets them.
Crossing = tuple[str, str, str]


class _Segment(Frozen):
    """The switches and routers that an interface reaches without a router between.

    switches: each with the fewest links to it, from the nearest one on. routers: their interfaces.
    """

    switches: Mapping[str, int]
    routers: tuple[PathEnd, ...]


class Ways:
    """The ways of packets through a topology."""

    def __init__(self, topology: TopologySpec) -> None:
        self.topology = topology
        self._kinds = topology.nodes
        self._links = {link.name: link for link in topology.links}
        self._segment = cache(self._find_segment)
        self._distance = cache(self._count_routers)

    @cached_property
    def _beside(self) -> Mapping[Family, Mapping[str, Sequence[tuple[str, str]]]]:
        """By family and node, the links that lead to other switches and routers, each with this node."""
        inner = [link for link in self.topology.links if "host" not in map(self._kinds.get, link.ends)]
        return {
            family: gather(
                (end, (link.name, other))
                for link in inner
                if self.topology.carries(link, family)
                for end, other in (link.ends, link.ends[::-1])
            )
            for family in FAMILIES
        }

    def find_narrowest(self, flow: Flow, path: NamedPath) -> tuple[LinkSpec, frozenset[str]]:
        """Return a link with the smallest MTU on all ways of a path of a flow, and the names of all links on them."""
        ways = self.between((flow.source, path.first_link), (flow.destination, path.last_link), path.family)
        names = frozenset(name for name, _, _ in ways)
        return min((link for link in self.topology.links if link.name in names), key=lambda link: link.mtu), names

    def find_mtu(self, flow: Flow, path: NamedPath) -> int:
        """Return the smallest MTU on all ways of a path of a flow."""
        if len(mtus := {link.mtu for link in self.topology.links}) == 1:
            return mtus.pop()
        return self.find_narrowest(flow, path)[0].mtu

    def of(self, sender: str, receiver: str, flow: Flow, used: Iterable[NamedPath]) -> frozenset[Crossing]:
        """Return the crossings on all ways of the paths that a flow uses in one direction."""
        ways = [
            self.between((sender, first), (receiver, last), path.family)
            for path in used
            for first, last in [(path.first_link, path.last_link)[:: 1 if sender == flow.source else -1]]
        ]
        return frozenset[Crossing]().union(*ways)

    def between(self, first: PathEnd, last: PathEnd, family: Family) -> frozenset[Crossing]:
        """Return the crossings on all ways between two interfaces of hosts; empty if they are not joined."""
        if first == last:
            return frozenset()
        if last[1] == first[1] or self._beyond(last) in self._segment(first, family).switches:
            return frozenset(self._cross(first, last, family))
        ahead, behind = self._distance(first, family), self._distance(last, family)
        sums = {router: ahead[router] + behind[router] for router in ahead if router in behind}
        fewest = min(sums.values(), default=0)
        passed = {router for router, routers in sums.items() if routers == fewest}
        found = set[Crossing]()
        for end in self._segment(first, family).routers:
            if end[0] in passed and not ahead[end[0]]:
                found.update(self._cross(first, end, family))
        for end in self._segment(last, family).routers:
            if end[0] in passed and not behind[end[0]]:
                found.update((name, b, a) for name, a, b in self._cross(last, end, family))
        for own, end in (hop for router in passed for hop in self._hops(router, family)):
            if end[0] in passed and ahead[end[0]] == ahead[own[0]] + 1:
                found.update(self._cross(own, end, family))
        return frozenset(found)

    def have_equals(self) -> bool:
        """Return True if a router may choose among several links on the ways with the fewest routers to a host."""
        return any(
            self.are_several(router, (host, link.name), family)
            for host, kind in self.topology.nodes.items()
            for link in self.topology.links_at(host)
            for family in self.topology.families_of(link)
            for router, other in self.topology.nodes.items()
            if kind == "host" and other == "router"
        )

    def are_several(self, router: str, end: PathEnd, family: Family) -> bool:
        """Return True if a router may choose among several next routers or links towards an interface of a host."""
        distance = self._distance(end, family)
        if router not in distance:
            return False
        nearer = [beyond for _, (beyond, _) in self._hops(router, family) if distance[beyond] < distance[router]]
        return len(nearer) > 1

    def _beyond(self, end: PathEnd) -> str:
        """Return the node at the other end of an interface's link."""
        ends = self._links[end[1]].ends
        return ends[ends[0] == end[0]]

    def _find_segment(self, begin: PathEnd, family: Family) -> _Segment:
        if not self.topology.carries(self._links[begin[1]], family):
            return _Segment({}, ())
        other, beside = self._beyond(begin), self._beside[family]
        if self._kinds[other] != "switch":
            return _Segment({}, ((other, begin[1]),) if self._kinds[other] == "router" else ())
        reached = search(
            [other], lambda here: ((far, name) for name, far in beside.get(here, ()) if self._kinds[far] == "switch")
        )
        ends = ((far, name) for here in reached for name, far in beside.get(here, ()) if self._kinds[far] == "router")
        return _Segment(count_steps(reached), tuple(end for end in ends if end != begin))

    def _cross(self, begin: PathEnd, end: PathEnd, family: Family) -> Iterator[Crossing]:
        """Yield the crossings on the shortest ways between two interfaces of a segment.

        The rules of an Open vSwitch may choose any way.
        """
        if begin[1] == end[1]:
            yield begin[1], begin[0], end[0]
            return
        counts = self._segment(begin, family).switches
        beside = self._beside[family]
        yield end[1], self._beyond(end), end[0]
        if not self.topology.switches.keys().isdisjoint(counts):
            yield begin[1], begin[0], self._beyond(begin)
            yield from ((name, here, far) for here in counts for name, far in beside.get(here, ()) if far in counts)
            return
        waiting = {self._beyond(end): None}
        while waiting:
            nearer: dict[str, None] = {}
            for here in waiting:
                if not counts[here]:
                    yield begin[1], begin[0], here
                for name, before in beside.get(here, ()):
                    if counts.get(before) == counts[here] - 1:
                        yield name, before, here
                        nearer[before] = None
            waiting = nearer

    def _hops(self, router: str, family: Family) -> Iterator[tuple[PathEnd, PathEnd]]:
        """Yield each interface of a router with each interface of another router that it reaches."""
        for link in self.topology.links_at(router):
            for end in self._segment((router, link.name), family).routers:
                if end[0] != router:
                    yield (router, link.name), end

    def _count_routers(self, begin: PathEnd, family: Family) -> Mapping[str, int]:
        """Return the number of routers between an interface of a host and each router."""
        starts = [router for router, _ in self._segment(begin, family).routers]
        return count_steps(search(starts, lambda here: ((far, None) for _, (far, _) in self._hops(here, family))))


class FlowPaths(Frozen):
    """The flows of an experiment on a topology, and the paths and links that they may use, which several checks ask."""

    ways: Ways
    experiment: ExperimentSpec

    @property
    def topology(self) -> TopologySpec:
        return self.ways.topology

    @cached_property
    def named(self) -> Mapping[HostPair, tuple[NamedPath, ...]]:
        """The paths between the hosts of each flow."""
        return name_paths(self.topology, [(flow.source, flow.destination) for flow in self.experiment.traffic])

    def of(self, flow: Flow) -> tuple[NamedPath, ...]:
        """Return the paths that a flow can use, starting with the path of its first subflow."""
        return usable_paths(flow, self.named[flow.source, flow.destination])

    @cached_property
    def crossings(self) -> Sequence[tuple[Flow, frozenset[Crossing]]]:
        """Each flow with the directions of links that its packets from source to destination may cross."""
        return [
            (flow, self.ways.of(flow.source, flow.destination, flow, used_paths(flow.protocol, self.of(flow))))
            for flow in self.experiment.traffic
        ]

    @cached_property
    def used_links(self) -> Sequence[tuple[Flow, frozenset[str]]]:
        """Each flow with the names of the links that its packets may cross."""
        return [(flow, frozenset(link for link, _, _ in crossings)) for flow, crossings in self.crossings]

    def find_joining_links(self, names: Container[str] | None = None) -> frozenset[str]:
        """Return the names of the links on all paths, or those with some names, between the hosts of flows."""
        return frozenset(
            link
            for (source, destination), paths in self.named.items()
            for path in paths
            if names is None or path.name in names
            for link, _, _ in self.ways.between((source, path.first_link), (destination, path.last_link), path.family)
        )
