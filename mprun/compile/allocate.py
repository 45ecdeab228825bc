# SPDX-License-Identifier: Apache-2.0
"""Spec -> Network: interface names, addresses, routes, neighbours, queues.

Host prefixes only are routed: the addresses of links between routers are reachable from their
neighbours and nobody else needs them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from ipaddress import IPv4Interface, IPv4Network

from mprun.compile.network import (
    FRAME_BYTES,
    Impairment,
    Interface,
    Link,
    Neighbour,
    Network,
    Node,
    Path,
    Route,
    Rule,
)
from mprun.compile.routing import Routing, number_segments
from mprun.errors import SpecError
from mprun.spec.spec import Direction, LinkSpec, Queue, Spec, TopologySpec

DEFAULT_QUEUE_PACKETS = 20
INTERFACE_NAME_BYTES = 15
# On larger segments neighbours are learnt by ARP: n members would take n * n static entries.
STATIC_NEIGHBOURS = 32

_Built = list[tuple[LinkSpec, Interface, Interface]]


def allocate(spec: Spec) -> Network:
    """Decide all that the topology leaves open. Raises SpecError where it cannot be built."""
    topology = spec.topology
    built = _name_interfaces(topology)
    routing = Routing(topology.nodes, built)
    pairs = list(dict.fromkeys((flow.source, flow.destination) for flow in spec.experiment.traffic))
    paths = {pair: tuple(_paths(routing, *pair)) for pair in pairs}
    longest = _longest_rtt(routing, topology)
    links = []
    wires = 0
    for link, a, b in built:
        shaped = link.forward.is_shaped or link.reverse.is_shaped
        links.append(
            Link(
                name=link.name,
                ends=(a, b),
                forward=_impair(link.forward, longest.get(link.name, 0)),
                reverse=_impair(link.reverse, longest.get(link.name, 0)),
                wire=wires if shaped else None,
            )
        )
        wires += shaped
    nodes = {
        name: Node(
            name=name,
            kind=kind,
            interfaces=tuple(routing.interfaces[name]),
            routes=tuple(_routes(name, topology, routing)),
            rules=tuple(_rules(name, topology, routing)),
            neighbours=tuple(_neighbours(name, routing)),
        )
        for name, kind in topology.nodes.items()
    }
    return Network(nodes=nodes, links=tuple(links), paths=paths)


def _name_interfaces(topology: TopologySpec) -> _Built:
    segments = number_segments(topology.nodes, topology.links)
    subnets = _subnets(topology, segments)
    used = {IPv4Interface(address).ip for link in topology.links for address in link.addresses if address}
    hosts = {segment: iter(subnet.hosts()) for segment, subnet in subnets.items()}
    count: dict[str, int] = {}
    built: _Built = []
    for i, link in enumerate(topology.links):
        ends = []
        for side in (0, 1):
            node = link.ends[side]
            nth = count[node] = count.get(node, -1) + 1
            address = None
            if topology.nodes[node] != "switch":
                given = link.addresses[side]
                if given:
                    address = IPv4Interface(given)
                else:
                    free = next((ip for ip in hosts[segments[i]] if ip not in used), None)
                    if free is None:
                        raise SpecError(f"link '{link.name}': more addresses than {subnets[segments[i]]} holds")
                    used.add(free)
                    address = IPv4Interface((free, subnets[segments[i]].prefixlen))
            ends.append(
                Interface(
                    name=_interface_name(node, nth),
                    node=node,
                    link=link.name,
                    mac=f"02:00:{i >> 16 & 255:02x}:{i >> 8 & 255:02x}:{i & 255:02x}:{side + 1:02x}",
                    address=address,
                    backup=link.backup,
                    segment=segments[i],
                )
            )
        built.append((link, ends[0], ends[1]))
    return built


def _interface_name(node: str, nth: int) -> str:
    """`client-eth0`; without the node where that is longer than the kernel allows."""
    name = f"{node}-eth{nth}"
    return name if len(name) <= INTERFACE_NAME_BYTES else f"eth{nth}"


def _subnets(topology: TopologySpec, segments: Sequence[int]) -> dict[int, IPv4Network]:
    """The subnet of each segment: that of a given address on it, else the next free 10.x.y.0/24."""
    subnets: dict[int, IPv4Network] = {}
    for link, segment in zip(topology.links, segments, strict=True):
        for address in link.addresses:
            if address:
                subnets.setdefault(segment, IPv4Interface(address).network)
    given = list(subnets.values())
    free = (
        subnet
        for subnet in IPv4Network("10.0.0.0/8").subnets(new_prefix=24)
        if not any(subnet.overlaps(other) for other in given)
    )
    for segment in dict.fromkeys(segments):
        if segment not in subnets:
            subnets[segment] = next(free)
    return subnets


def _routes(name: str, topology: TopologySpec, routing: Routing) -> Iterator[Route]:
    kind = topology.nodes[name]
    interfaces = routing.interfaces[name]
    if kind == "router":
        own = {interface.segment for interface in interfaces}
        for segment in _host_segments(topology, routing):
            hop = routing.hops_to(segment).get(name)
            if segment not in own and hop and hop.gateway and hop.gateway.address:
                yield Route(_network_of(routing, segment), hop.gateway.address.ip, hop.out.name)
    elif kind == "host":
        several = len(interfaces) > 1
        default_given = False
        for table, interface in enumerate(interfaces, start=1):
            gateway = routing.gateway_of(interface.segment)
            via = gateway.address.ip if gateway and gateway.address else None
            if several and interface.address:
                yield Route(interface.address.network, None, interface.name, table)
                if via:
                    yield Route(None, via, interface.name, table)
            if via and not default_given:
                default_given = True
                yield Route(None, via, interface.name)


def _rules(name: str, topology: TopologySpec, routing: Routing) -> Iterator[Rule]:
    """A table of its own for each address of a host with several (RFC 3484's source choice is not
    enough: without them a reply leaves by the default route, whatever its source address)."""
    interfaces = routing.interfaces[name]
    if topology.nodes[name] == "host" and len(interfaces) > 1:
        for table, interface in enumerate(interfaces, start=1):
            if interface.address:
                yield Rule(interface.address.ip, table)


def _neighbours(name: str, routing: Routing) -> Iterator[Neighbour]:
    for interface in routing.interfaces[name]:
        members = routing.members.get(interface.segment, [])
        if not interface.address or len(members) > STATIC_NEIGHBOURS:
            continue
        for member in members:
            if member is not interface and member.address:
                yield Neighbour(member.address.ip, member.mac, interface.name)


def _host_segments(topology: TopologySpec, routing: Routing) -> Iterable[int]:
    """Segments with a host on them, in file order."""
    return dict.fromkeys(
        interface.segment
        for name, kind in topology.nodes.items()
        if kind == "host"
        for interface in routing.interfaces[name]
    )


def _network_of(routing: Routing, segment: int) -> IPv4Network:
    address = routing.members[segment][0].address
    assert address is not None
    return address.network


def _paths(routing: Routing, source: str, destination: str) -> Iterator[Path]:
    starts = [i for i in routing.interfaces[source] if i.address]
    ends = [i for i in routing.interfaces[destination] if i.address]
    for start in starts:
        for end in ends:
            crossed = routing.trace(start, end)
            if crossed is None:
                continue
            both = len(ends) > 1 and end.link != start.link
            yield Path(
                name=f"{start.link}-{end.link}" if both else start.link,
                source=start,
                destination=end,
                links=tuple(link.name for link, _ in crossed),
                rtt_ns=_rtt_ns(crossed),
                backup=start.backup or end.backup,
            )


def _rtt_ns(crossed: Iterable[tuple[LinkSpec, bool]]) -> int:
    return sum(link.forward.delay_ns + link.reverse.delay_ns for link, _ in crossed)


def _longest_rtt(routing: Routing, topology: TopologySpec) -> dict[str, int]:
    """For each link whose queue is a BDP, the longest round trip between hosts that crosses it, ns.

    A link that joins no two hosts counts its own delay.
    """
    wanted = {
        link.name: link.forward.delay_ns + link.reverse.delay_ns
        for link in topology.links
        if any(d.rate_bit_per_s and (d.queue is None or d.queue.unit == "bdp") for d in (link.forward, link.reverse))
    }
    if not wanted:
        return wanted
    ends = [i for name, kind in topology.nodes.items() if kind == "host" for i in routing.interfaces[name]]
    for n, start in enumerate(ends):
        for end in ends[n + 1 :]:
            if start.node == end.node:
                continue
            crossed = routing.trace(start, end)
            if crossed is None:
                continue
            rtt_ns = _rtt_ns(crossed)
            for link, _ in crossed:
                if link.name in wanted:
                    wanted[link.name] = max(wanted[link.name], rtt_ns)
    return wanted


def _impair(direction: Direction, rtt_ns: int) -> Impairment:
    """Resolve a direction's queue: one BDP of the path by default, at least 20 packets."""
    impairment = Impairment(delay_ns=direction.delay_ns, loss=direction.loss, rate_bit_per_s=direction.rate_bit_per_s)
    if direction.rate_bit_per_s is None:
        return impairment
    bdp_packets = direction.rate_bit_per_s * rtt_ns / 1e9 / 8 / FRAME_BYTES
    queue = direction.queue
    if queue is None:
        return replace(impairment, queue_packets=max(DEFAULT_QUEUE_PACKETS, math.ceil(bdp_packets)))
    return _with_queue(impairment, queue, bdp_packets, direction.rate_bit_per_s)


def _with_queue(impairment: Impairment, queue: Queue, bdp_packets: float, rate: int) -> Impairment:
    if queue.unit == "packets":
        return replace(impairment, queue_packets=int(queue.amount))
    if queue.unit == "bdp":
        return replace(impairment, queue_packets=max(1, math.ceil(queue.amount * bdp_packets)))
    in_bytes = queue.amount if queue.unit == "bytes" else queue.amount * rate / 8e9
    return replace(impairment, queue_bytes=max(FRAME_BYTES, math.ceil(in_bytes)))
