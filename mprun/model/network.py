# SPDX-License-Identifier: Apache-2.0
"""Network: the topology with every name, address, route and queue decided.

`mprun.compile.allocate` makes these values from a Spec, and the other modules of `mprun.compile` make commands of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from typing import Literal

from mprun.model.address import Address, InterfaceAddress, Subnet, family_of
from mprun.model.frozen import Frozen
from mprun.model.path import HostPair, usable_paths
from mprun.model.spec import HEADER_BYTES, Change, Controller, Direction, Family, Flow, Forwarding, NodeKind


class Interface(Frozen):
    """An end of a link.

    - segment: the number of the broadcast domain.
    - addresses: one for each address family of the link, IPv4 first; none on a switch.
    """

    name: str
    node: str
    link: str
    mac: str
    addresses: tuple[InterfaceAddress, ...]
    backup: bool
    segment: int

    def address(self, family: Family) -> InterfaceAddress | None:
        return next((address for address in self.addresses if family_of(address) == family), None)


class LinkWay(Frozen):
    """A direction of a link, with the end that sends and the end that receives. way: its properties at the start."""

    link: Link
    direction: Literal["forward", "reverse"]
    way: Direction
    sender: Interface
    receiver: Interface


class Link(Frozen):
    """A link. A direction with a rate has a queue, sized in packets or bytes.

    wire: the number among the shaped links; None if the ends are joined directly.
    """

    name: str
    ends: tuple[Interface, Interface]
    forward: Direction
    reverse: Direction
    mtu: int
    wire: int | None

    @property
    def ports(self) -> tuple[str, ...]:
        """The names of the wire's inner ports, towards the link's first end and its second; none without a wire."""
        return () if self.wire is None else (f"w{self.wire}a", f"w{self.wire}b")

    @property
    def ways(self) -> tuple[LinkWay, LinkWay]:
        """Both directions, forward first."""
        a, b = self.ends
        return LinkWay(self, "forward", self.forward, a, b), LinkWay(self, "reverse", self.reverse, b, a)

    @property
    def frame_bytes(self) -> int:
        """Return the size of a full Ethernet frame without its checksum, as tc and captures count it."""
        return self.mtu + HEADER_BYTES


def walk(links: Iterable[Link], node: str, names: Iterable[str]) -> Iterator[LinkWay]:
    """Yield the directions in which a packet crosses links, from a node on. names: those of the links in order.

    A link that does not begin at the last node, as those of a second way do, is crossed in reverse.
    """
    known = {link.name: link for link in links}
    for name in names:
        way = known[name].ways[known[name].ends[0].node != node]
        node = way.receiver.node
        yield way


class Route(Frozen):
    """A route, or one way of a route with several.

    Neighbouring routes to one destination in one table are the ways of one route. A hash of the flow chooses a way.

    - destination: None for the default route.
    - gateway: None for a subnet that is directly connected.
    - table: None for the main table.
    """

    destination: Subnet | None
    gateway: Address | None
    interface: str
    table: int | None = None

    @property
    def family(self) -> Family:
        """Return the address family of the destination, or of the gateway for a default route."""
        to = self.destination or self.gateway
        assert to is not None
        return family_of(to)


class Rule(Frozen):
    """A rule that packets from `source` use the routing table `table` (ip-rule(8))."""

    source: Address
    table: int


class Neighbour(Frozen):
    """A static entry for ARP, or for neighbour discovery in IPv6."""

    address: Address
    mac: str
    interface: str


class Node(Frozen):
    """A host, router or switch with the content of its namespace."""

    name: str
    kind: NodeKind
    interfaces: tuple[Interface, ...]
    routes: tuple[Route, ...] = ()
    rules: tuple[Rule, ...] = ()
    neighbours: tuple[Neighbour, ...] = ()


class Path(Frozen):
    """A pair of addresses of one family that joins two hosts.

    - links: names in the order in which a packet from the source meets them. With several ways, the links of the first
        way come first, then the further links of the other ways.
    - ways: the number of ways that packets may go. Each flow takes one.
    - rtt_ns, least_rtt_ns: the sum of the links' delays in both directions, on the slowest and on the fastest way.
    """

    name: str
    family: Family
    source: Interface
    destination: Interface
    links: tuple[str, ...]
    rtt_ns: int
    backup: bool
    ways: int
    least_rtt_ns: int

    @property
    def ends(self) -> tuple[str, str]:
        """The links at both ends."""
        return self.source.link, self.destination.link

    @property
    def source_address(self) -> Address:
        return _address_of(self.source, self.family)

    @property
    def destination_address(self) -> Address:
        return _address_of(self.destination, self.family)


def _address_of(end: Interface, family: Family) -> Address:
    """Return the address of an end of a path, which has one in this family."""
    address = end.address(family)
    assert address is not None
    return address.ip


class Switch(Frozen):
    """An Open vSwitch.

    - bridge: the name of its bridge.
    - ports: its interfaces, numbered from 1.
    - flows, groups: all its flows and groups, in the syntax of ovs-ofctl(8).
    """

    bridge: str
    ports: tuple[str, ...]
    mode: Forwarding
    flows: tuple[str, ...]
    groups: tuple[str, ...]
    controller: Controller | None


class Network(Frozen):
    """All nodes and links, the paths between each pair of hosts with traffic, and the changes during the run.

    switches: the nodes that are an Open vSwitch.
    """

    nodes: Mapping[str, Node]
    links: tuple[Link, ...]
    paths: Mapping[HostPair, tuple[Path, ...]]
    changes: tuple[Change, ...] = ()
    switches: Mapping[str, Switch] = field(default_factory=dict)

    def paths_of(self, flow: Flow) -> tuple[Path, ...]:
        """Return the paths that a flow can use, starting with the path of its first subflow."""
        return usable_paths(flow, self.paths[flow.source, flow.destination])
