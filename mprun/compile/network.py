# SPDX-License-Identifier: Apache-2.0
"""Network: the topology with every name, address, route and queue decided.

Values only; `allocate.py` makes them from a Spec, `impairment.py` and its neighbours turn them
into commands.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Interface, IPv4Network

from mprun.spec.spec import NodeKind

# An Ethernet frame of the default MTU without its checksum: what tc and a capture count.
FRAME_BYTES = 1514


@dataclass(frozen=True)
class Interface:
    """One end of a link. `address` is None on a switch; `segment` is the broadcast domain's number."""

    name: str
    node: str
    link: str
    mac: str
    address: IPv4Interface | None
    backup: bool
    segment: int


@dataclass(frozen=True)
class Impairment:
    """What one direction of a link does: delay and loss first, then rate and queue.

    queue_packets or queue_bytes bounds what waits for the rate; both None without a rate.
    """

    delay_ns: int = 0
    loss: float = 0.0
    rate_bit_per_s: int | None = None
    queue_packets: int | None = None
    queue_bytes: int | None = None


@dataclass(frozen=True)
class Link:
    """A link; `wire` is its number among the shaped ones, None if its ends are joined directly."""

    name: str
    ends: tuple[Interface, Interface]
    forward: Impairment
    reverse: Impairment
    wire: int | None


@dataclass(frozen=True)
class Route:
    """`destination` None is the default route, `gateway` None a connected one, `table` None main."""

    destination: IPv4Network | None
    gateway: IPv4Address | None
    interface: str
    table: int | None = None


@dataclass(frozen=True)
class Rule:
    """Packets from `source` look up `table` (ip-rule(8))."""

    source: IPv4Address
    table: int


@dataclass(frozen=True)
class Neighbour:
    """A static ARP entry."""

    address: IPv4Address
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
    """A pair of addresses that joins two hosts. rtt_ns: what the delays of its links add up to.

    links: names in the order in which a packet from the source meets them.
    """

    name: str
    source: Interface
    destination: Interface
    links: tuple[str, ...]
    rtt_ns: int
    backup: bool


@dataclass(frozen=True)
class Network:
    """All nodes and links, and the paths between each pair of hosts that the experiment joins."""

    nodes: Mapping[str, Node]
    links: tuple[Link, ...]
    paths: Mapping[tuple[str, str], tuple[Path, ...]]
