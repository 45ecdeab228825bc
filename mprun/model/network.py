# SPDX-License-Identifier: Apache-2.0
"""Network: the topology with every name, address, route and queue decided.

`mprun.compile.allocate` makes these values from a Spec, and the other modules of `mprun.compile` make commands of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mprun.model.address import Address, InterfaceAddress, Subnet, family_of
from mprun.model.spec import HEADER_BYTES, Change, Controller, Direction, Family, Forwarding, NodeKind


@dataclass(frozen=True)
class Interface:
    """An end of a link. `segment` is the broadcast domain's number.

    addresses: one of each family that the link has, IPv4 first; none on a switch.
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


@dataclass(frozen=True)
class Link:
    """A link; `wire` is its number among the shaped ones, None if its ends are joined directly.

    Queues of its directions are in packets or bytes; a direction with a rate has one.
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
    def frame_bytes(self) -> int:
        """An Ethernet frame of the link's MTU without its checksum: what tc and a capture count."""
        return self.mtu + HEADER_BYTES


@dataclass(frozen=True)
class Route:
    """`destination` None is the default route, `gateway` None a connected one, `table` None main.

    Neighbouring routes to one destination in one table are one with several ways, of which a hash of the
    flow chooses.
    """

    destination: Subnet | None
    gateway: Address | None
    interface: str
    table: int | None = None

    @property
    def family(self) -> Family:
        """A default route has a gateway."""
        to = self.destination or self.gateway
        assert to is not None
        return family_of(to)


@dataclass(frozen=True)
class Rule:
    """Packets from `source` look up `table` (ip-rule(8))."""

    source: Address
    table: int


@dataclass(frozen=True)
class Neighbour:
    """A static entry of ARP, or of neighbour discovery in IPv6."""

    address: Address
    mac: str
    interface: str


@dataclass(frozen=True)
class Node:
    """A host, router or switch with all that its namespace holds."""

    name: str
    kind: NodeKind
    interfaces: tuple[Interface, ...]
    routes: tuple[Route, ...] = ()
    rules: tuple[Rule, ...] = ()
    neighbours: tuple[Neighbour, ...] = ()


@dataclass(frozen=True)
class Path:
    """A pair of addresses of one family that joins two hosts. rtt_ns: what the delays of its links add up to.

    links: names in the order in which a packet from the source meets them.
    ways: the number of ways that packets may go. A flow takes one of them. With several ways, links are those of the
    first and what the others add. Then rtt_ns is that of the slowest.
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


@dataclass(frozen=True)
class Switch:
    """An Open vSwitch. bridge: its name there; ports: its interfaces, numbered from 1.

    flows, groups: all that it shall have, in the words of ovs-ofctl(8).
    """

    bridge: str
    ports: tuple[str, ...]
    mode: Forwarding
    flows: tuple[str, ...]
    groups: tuple[str, ...]
    controller: Controller | None


@dataclass(frozen=True)
class Network:
    """All nodes and links, the paths between each pair of hosts that the experiment joins, and what changes.

    switches: those of the nodes that are an Open vSwitch.
    """

    nodes: Mapping[str, Node]
    links: tuple[Link, ...]
    paths: Mapping[tuple[str, str], tuple[Path, ...]]
    changes: tuple[Change, ...] = ()
    switches: Mapping[str, Switch] = field(default_factory=dict)
