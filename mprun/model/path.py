# SPDX-License-Identifier: Apache-2.0
"""The paths between two hosts and their names, known before anything has an address.

Expectations and measurements name paths, and both ask here. A path has the name of the interface that it leaves by.
If it could arrive at several interfaces, the name of the interface of arrival follows. If IPv4 and IPv6 join the same
two interfaces, each is a path, as each can have a subflow, and the name of the family follows.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

from mprun.model.frozen import Frozen
from mprun.model.grouping import gather
from mprun.model.spec import FAMILIES, Family, Flow, Mptcp, NodeKind, TopologySpec

NodeT = TypeVar("NodeT", bound=Hashable)
StepT = TypeVar("StepT")
PathT = TypeVar("PathT")
# The nodes that `search` reaches: the node before each, and the step from there; None for a start.
Reached = dict[NodeT, tuple[NodeT, StepT] | None]

HostPair = tuple[str, str]
# (host, name of its link) identifies an interface, as no link joins a host to itself.
PathEnd = tuple[str, str]


class NamedPath(Frozen):
    """A path by the links at its two ends and the addresses there."""

    name: str
    first_link: str
    last_link: str
    family: Family

    @property
    def ends(self) -> tuple[str, str]:
        """The links at both ends."""
        return self.first_link, self.last_link


def used_paths(protocol: str, paths: Sequence[PathT]) -> Sequence[PathT]:
    """Return the paths that a flow may use: TCP and UDP take the first. SCTP uses one at a time, and may choose it."""
    return paths[:1] if protocol in ("tcp", "udp") else paths


class Components:
    """Disjoint sets (union-find). Each item is a set of its own until it is joined to another."""

    def __init__(self) -> None:
        self._parent: dict[Hashable, Hashable] = {}

    def find(self, item: Hashable) -> Hashable:
        """The representative of the item's set."""
        while (parent := self._parent.setdefault(item, item)) != item:
            self._parent[item] = self._parent[parent]
            item = parent
        return item

    def join(self, a: Hashable, b: Hashable) -> None:
        self._parent[self.find(a)] = self.find(b)


def number_segments(kinds: Mapping[str, NodeKind], links: Sequence[tuple[str, str]]) -> list[int]:
    """Return the broadcast domain of each link, numbered in their order. links: the ends of each."""
    joined = Components()
    first_at: dict[str, int] = {}
    for i, ends in enumerate(links):
        for end in ends:
            if kinds[end] == "switch":
                joined.join(i, first_at.setdefault(end, i))
    numbers: dict[Hashable, int] = {}
    return [numbers.setdefault(joined.find(i), len(numbers)) for i in range(len(links))]


def search(starts: Iterable[NodeT], onward: Callable[[NodeT], Iterable[tuple[NodeT, StepT]]]) -> Reached[NodeT, StepT]:
    """Return every node that can be reached from some nodes, the nearest first (breadth-first search).

    onward: returns the neighbours of a node, each with the step to it. Of each node, the result has the node before it
    and the step from there; None for a start.
    """
    reached: Reached[NodeT, StepT] = dict.fromkeys(starts)
    waiting = list(reached)
    for here in waiting:
        for there, step in onward(here):
            if there not in reached:
                reached[there] = (here, step)
                waiting.append(there)
    return reached


def steps_to(end: NodeT, reached: Reached[NodeT, StepT]) -> list[StepT]:
    """Return the steps of a shortest way to a node that `search` has reached."""
    steps = []
    while (before := reached[end]) is not None:
        end, step = before
        steps.append(step)
    return steps[::-1]


def count_steps(reached: Reached[NodeT, StepT]) -> dict[NodeT, int]:
    """Return the number of steps to each node that `search` has reached."""
    counts: dict[NodeT, int] = {}
    for node, before in reached.items():
        counts[node] = 0 if before is None else counts[before[0]] + 1
    return counts


class _Path(Protocol):
    """A path of one family, with the links at both ends."""

    @property
    def family(self) -> Family: ...

    @property
    def ends(self) -> tuple[str, str]: ...


AnyPath = TypeVar("AnyPath", bound=_Path)


def usable_paths(flow: Flow, paths: Sequence[AnyPath]) -> tuple[AnyPath, ...]:
    """The paths between a flow's hosts that its connection can use, starting with the path of its first subflow.

    An IPv6 socket of MPTCP has subflows of both families. An IPv4 socket has only IPv4 subflows
    (mptcp_pm_addr_families_match() in net/mptcp/pm.c). Without a chosen family IPv6 comes first, as in RFC 8305.
    """
    family = flow.family or ("ipv6" if any(path.family == "ipv6" for path in paths) else "ipv4")
    first = tuple(path for path in paths if path.family == family)
    if flow.protocol != "mptcp" or family == "ipv4":
        return first
    return first + tuple(path for path in paths if path.family != family)


def take_in_order(paths: Sequence[AnyPath]) -> list[AnyPath]:
    """The paths between two hosts from the n-th end of the source to the n-th end of the destination.

    Each family is counted by itself.
    """
    taken = []
    for family in dict.fromkeys(path.family for path in paths):
        alike = [path for path in paths if path.family == family]
        sources, destinations = (list(dict.fromkeys(path.ends[n] for path in alike)) for n in range(2))
        wanted = set(zip(sources, destinations, strict=False))
        taken += [path for path in alike if path.ends in wanted]
    return taken


def are_side_by_side(paths: Sequence[AnyPath], family: Family) -> bool:
    """Return True if a family has several paths and no two of them share an end."""
    alike = [path.ends for path in paths if path.family == family]
    return len(alike) > 1 and all(len(set(side)) == len(alike) for side in zip(*alike, strict=True))


def pairs_of(client: Mptcp, paths: Sequence[AnyPath]) -> Sequence[AnyPath]:
    """The paths between whose addresses a client's path manager opens subflows, the path of the first subflow first."""
    if client.path_manager == "in-order":
        return take_in_order(paths)
    return paths[:1] if client.path_manager == "ndiffports" else paths


def count_subflows(client: Mptcp, server: Mptcp, paths: Sequence[AnyPath]) -> int:
    """Count the subflows of a connection over these paths after the path managers of both hosts are done."""

    def arrives(path: AnyPath) -> tuple[str, Family]:
        return path.ends[1], path.family

    if client.path_manager == "default":
        # from each to the address that the connection was opened to; to announced ones as well if their limit allows
        opening = {one.link for one in client.endpoints if not {"subflow", "fullmesh"}.isdisjoint(one.flags)}
        near = [path for path in paths if arrives(path) == arrives(paths[0])]
        pairs: Sequence[AnyPath] = [path for path in near if path is paths[0] or path.ends[0] in opening]
    else:
        pairs = pairs_of(client, paths)
    if server.path_manager == "default":
        # nothing is announced: only the address that the connection was opened to is known
        pairs = [path for path in pairs if arrives(path) == arrives(pairs[0])]
    wanted = len(pairs) * client.subflows_per_pair
    return wanted if client.subflows is None else min(wanted, 1 + client.subflows)


def find_areas(topology: TopologySpec, family: Family) -> dict[PathEnd, Hashable]:
    """The area of each interface of a host. Two interfaces reach each other in a family if they have the same area.

    An area is a chain of routers and switches, or one link between two hosts. Hosts do not forward.
    """
    forwarding = Components()
    for link in topology.links:
        a, b = link.ends
        if "host" not in (topology.nodes[a], topology.nodes[b]) and topology.carries(link, family):
            forwarding.join(a, b)
    areas: dict[PathEnd, Hashable] = {}
    for link in topology.links:
        for end, other in (link.ends, link.ends[::-1]):
            if topology.nodes[end] == "host" and topology.carries(link, family):
                areas[end, link.name] = (link.name,) if topology.nodes[other] == "host" else forwarding.find(other)
    return areas


def name_ends(topology: TopologySpec) -> dict[PathEnd, str]:
    """The interfaces of hosts, named after the link that matters.

    This is the interface's own link. If that link is unshaped and leads to a switch with only one other link, the
    other link matters to the user. The first host behind it gets its name. Further hosts share it and are named after
    their own link.
    """
    inner = [link for link in topology.links if "host" not in map(topology.nodes.get, link.ends)]
    between = gather((end, link) for link in inner for end in link.ends)
    names: dict[PathEnd, str] = {}
    taken: set[str] = set()
    for host, kind in topology.nodes.items():
        for link in topology.links_at(host) if kind == "host" else ():
            beyond = link.ends[link.ends[0] == host]
            names[host, link.name] = link.name
            if topology.nodes[beyond] == "switch" and not link.is_shaped:
                onward = between.get(beyond, ())
                if len(onward) == 1 and onward[0].name not in taken:
                    names[host, link.name] = onward[0].name
                    taken.add(onward[0].name)
    return names


def name_paths(topology: TopologySpec, pairs: Iterable[HostPair]) -> Mapping[HostPair, tuple[NamedPath, ...]]:
    """The paths from the first host to the second of each pair. No name is used twice.

    If an earlier pair has the name, the interface of arrival is added.
    """
    areas, ends = {family: find_areas(topology, family) for family in FAMILIES}, name_ends(topology)
    at = gather((end[0], end) for end in ends if any(end in areas[family] for family in FAMILIES))
    taken: dict[str, frozenset[PathEnd]] = {}
    found: dict[HostPair, tuple[NamedPath, ...]] = {}
    for source, destination in dict.fromkeys(pairs):
        paths = []
        for first in at.get(source, ()):
            reached = {}
            for last in at.get(destination, ()):
                # the families whose areas join both interfaces
                if families := [f for f, of in areas.items() if first in of and of[first] == of.get(last)]:
                    reached[last] = families
            for last, families in reached.items():
                joined = frozenset((first, last))
                name = ends[first]
                if len(reached) > 1 or taken.get(name, joined) != joined:
                    name = f"{name}-{ends[last]}"
                taken.setdefault(name, joined)
                for family in families:
                    suffix = f"-{family}" if len(families) > 1 else ""
                    paths.append(NamedPath(name + suffix, first[1], last[1], family))
        found[source, destination] = tuple(paths)
    return found
