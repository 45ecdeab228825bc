# SPDX-License-Identifier: Apache-2.0
"""Turn a Spec into a Network: interface names, routes, neighbours and queues.

`allocate` makes the Network, and `resolve` writes the derived values into the Spec.

`mprun.compile.numbering` decides addresses. Routes are decided separately for each address family, by the same rules.
Routes exist only to the subnets of hosts. Addresses of links between routers are reachable from their neighbours, and
no other node needs them.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, count

from mprun.compile.middlebox import speakers
from mprun.compile.numbering import Numbering
from mprun.compile.openflow import INTERFACE_NAME_BYTES, label, make_switches
from mprun.compile.routing import Routing
from mprun.errors import SpecError
from mprun.model.address import Subnet
from mprun.model.grouping import gather
from mprun.model.network import Interface, Link, Neighbour, Network, Node, Path, Route, Rule
from mprun.model.path import NamedPath, name_paths, number_segments
from mprun.model.spec import (
    FAMILIES,
    HEADER_BYTES,
    ONE_BDP,
    Change,
    Direction,
    Family,
    LinkChange,
    LinkSpec,
    Spec,
    TopologySpec,
)
from mprun.model.units import MOST_QUEUE_BYTES, RATE, render_queue

DEFAULT_QUEUE_PACKETS = 20
# On larger segments, nodes have static entries only for the neighbours that they need: n members would need n * n
# entries.
STATIC_NEIGHBOURS = 32

_Built = list[tuple[LinkSpec, Interface, Interface]]
_Routings = Mapping[Family, Routing]


def allocate(spec: Spec) -> Network:
    """Return the network with all that the topology leaves open. Raises SpecError if it cannot be built."""
    topology = spec.topology
    built = _name_interfaces(topology)
    in_use = {family for link in topology.links for family in topology.families_of(link)}
    speaking = speakers(topology.middleboxes)
    routings = {
        family: Routing(topology.nodes, built, family, topology.ecmp, speaking)
        for family in FAMILIES
        if family in in_use
    }
    pairs = list(dict.fromkeys((flow.source, flow.destination) for flow in spec.experiment.traffic))
    paths = {pair: tuple(_paths(routings, *pair, named)) for pair, named in name_paths(topology, pairs).items()}
    longest = _longest_rtt(routings.values(), topology)
    changing = {change.link for change in topology.changes if isinstance(change, LinkChange)}
    wires = count()
    links = tuple(
        Link(
            name=link.name,
            ends=(a, b),
            forward=_size_queue(link.forward, longest.get(link.name, 0), link.mtu),
            reverse=_size_queue(link.reverse, longest.get(link.name, 0), link.mtu),
            mtu=link.mtu,
            wire=next(wires) if link.is_shaped or link.name in changing else None,
        )
        for link, a, b in built
    )
    unflooded = {
        end.segment
        for _, *ends in built
        for end in ends
        if end.node in topology.switches and not topology.switches[end.node].is_flooding
    }
    peers = gather(ends for pair in pairs for ends in (pair, pair[::-1]))
    routers = frozenset(name for name, kind in topology.nodes.items() if kind == "router")
    interfaces = gather((end.node, end) for _, *ends in built for end in ends)
    nodes = {}
    for name, kind in topology.nodes.items():
        known = None if kind == "router" else routers.union(peers.get(name, ()))
        nodes[name] = Node(
            name=name,
            kind=kind,
            interfaces=tuple(interfaces.get(name, ())),
            routes=tuple(route for one in routings.values() for route in _routes(name, topology, one)),
            rules=tuple(rule for one in routings.values() for rule in _rules(name, topology, one)),
            neighbours=tuple(entry for one in routings.values() for entry in _neighbours(name, one, unflooded, known)),
        )
    changes = tuple(_size_queues_of(topology, links, longest))
    switches = make_switches(topology, built)
    return Network(nodes=nodes, links=links, paths=paths, changes=changes, switches=switches)


def resolve(spec: Spec, network: Network) -> Spec:
    """Return the spec with the addresses of all links and the queues of all rates, as `allocate` decided them.

    The result compiles to the same network, even if a later version derives other values.
    """
    links = tuple(
        replace(
            link,
            forward=built.forward,
            reverse=built.reverse,
            addresses=(_spell_addresses(built.ends[0]), _spell_addresses(built.ends[1])),
        )
        for link, built in zip(spec.topology.links, network.links, strict=True)
    )
    return replace(spec, topology=replace(spec.topology, links=links, changes=network.changes))


def _spell_addresses(end: Interface) -> tuple[str, ...]:
    return tuple(map(str, end.addresses))


def _size_queues_of(topology: TopologySpec, links: Sequence[Link], longest: Mapping[str, int]) -> Iterator[Change]:
    """Yield the changes with every queue sized. A queue keeps the size that it has when the user gives it.

    A queue in BDPs counts with the delays that the link has then, and with those of other links at time zero.
    """
    given = {link.name: link for link in topology.links}
    # What a change does not name is the same object as before it.
    sized = {
        (link.name, side, id(before.queue)): now.queue
        for link in links
        for side, (before, now) in enumerate(zip(_ways(given[link.name]), _ways(link), strict=True))
    }
    for change in topology.changes:
        if isinstance(change, LinkChange):
            link, ways = given[change.link], _ways(change)
            longer_ns = sum(after.delay_ns - before.delay_ns for before, after in zip(_ways(link), ways, strict=True))
            rtt_ns = max(0, longest.get(link.name, 0) + longer_ns)
            for side, way in enumerate(ways):
                if (key := (link.name, side, id(way.queue))) not in sized:
                    sized[key] = _size_queue(way, rtt_ns, link.mtu).queue
            forward, reverse = (
                replace(way, queue=sized[link.name, side, id(way.queue)]) for side, way in enumerate(ways)
            )
            yield replace(change, forward=forward, reverse=reverse)
        else:
            yield change


def _ways(link: LinkSpec | Link | LinkChange) -> tuple[Direction, Direction]:
    return link.forward, link.reverse


def _name_interfaces(topology: TopologySpec) -> _Built:
    segments = number_segments(topology.nodes, [link.ends for link in topology.links])
    numbering = Numbering(topology, segments)
    count: dict[str, int] = {}
    labels = {node: label(topology, node) for node in topology.switches}
    built: _Built = []
    for i, link in enumerate(topology.links):
        ends = []
        for side in (0, 1):
            node = link.ends[side]
            nth = count[node] = count.get(node, -1) + 1
            name = f"{labels.get(node, node)}-eth{nth}"
            ends.append(
                Interface(
                    # the kernel allows no longer name
                    name=name if len(name) <= INTERFACE_NAME_BYTES else f"eth{nth}",
                    node=node,
                    link=link.name,
                    mac=f"02:00:{i >> 16 & 255:02x}:{i >> 8 & 255:02x}:{i & 255:02x}:{side + 1:02x}",
                    addresses=numbering.addresses(link, side, segments[i]),
                    backup=link.backup,
                    segment=segments[i],
                )
            )
        built.append((link, ends[0], ends[1]))
    return built


def _routes(name: str, topology: TopologySpec, routing: Routing) -> Iterator[Route]:
    kind = topology.nodes[name]
    interfaces = routing.interfaces[name]
    family = routing.family
    if kind == "router":
        own = {interface.segment for interface in interfaces}
        for segment in routing.host_segments:
            for hop in () if segment in own else routing.hops_to(segment).get(name, ()):
                gateway = hop.gateway.address(family) if hop.gateway else None
                if gateway:
                    yield Route(_network_of(routing, segment), gateway.ip, hop.out.name)
    elif kind == "host":
        several = sum(interface.address(family) is not None for interface in interfaces) > 1
        default_given = False
        for table, interface in enumerate(interfaces, start=1):
            own_address = interface.address(family)
            if own_address is None:
                continue
            router = routing.gateway_of(interface.segment)
            gateway = router.address(family) if router else None
            if several:
                yield Route(own_address.network, None, interface.name, table)
                if gateway:
                    yield Route(None, gateway.ip, interface.name, table)
            if gateway and not default_given:
                default_given = True
                yield Route(None, gateway.ip, interface.name)


def _rules(name: str, topology: TopologySpec, routing: Routing) -> Iterator[Rule]:
    """Yield a rule with a routing table of its own for each address of a host with several.

    Without the rules, a reply would leave by the default route, whatever its source address is. The choice of source
    addresses (RFC 3484) is not enough.
    """
    addresses = [interface.address(routing.family) for interface in routing.interfaces[name]]
    if topology.nodes[name] == "host" and len(addresses) - addresses.count(None) > 1:
        for table, address in enumerate(addresses, start=1):
            if address:
                yield Rule(address.ip, table)


def _neighbours(
    name: str, routing: Routing, unflooded: Collection[int], known: Collection[str] | None
) -> Iterator[Neighbour]:
    """Yield static entries for the other nodes on a node's segments.

    On a large segment, only nodes in `known` have an entry (None: all nodes), and others are learnt with ARP. If the
    segment's switches flood nothing, ARP cannot work, so all nodes have an entry.
    """
    for interface in routing.interfaces[name]:
        members = routing.members.get(interface.segment, [])
        is_large = len(members) > STATIC_NEIGHBOURS and interface.segment not in unflooded
        if not interface.address(routing.family):
            continue
        for member in members:
            address = member.address(routing.family)
            if is_large and known is not None and member.node not in known:
                continue
            if member is not interface and address:
                yield Neighbour(address.ip, member.mac, interface.name)


def _network_of(routing: Routing, segment: int) -> Subnet:
    address = routing.members[segment][0].address(routing.family)
    assert address is not None
    return address.network


def _paths(routings: _Routings, source: str, destination: str, named: Iterable[NamedPath]) -> Iterator[Path]:
    for path in named:
        routing = routings[path.family]
        starts = {interface.link: interface for interface in routing.interfaces[source]}
        ends = {interface.link: interface for interface in routing.interfaces[destination]}
        start, end = starts[path.first_link], ends[path.last_link]
        there, back = routing.trace(start, end), routing.trace(end, start)
        yield Path(
            name=path.name,
            family=path.family,
            source=start,
            destination=end,
            links=tuple(link.name for link, _ in there.crossed),
            rtt_ns=there.most_ns + back.most_ns,
            backup=start.backup or end.backup,
            ways=there.ways,
            least_rtt_ns=there.least_ns + back.least_ns,
        )


def _longest_rtt(routings: Iterable[Routing], topology: TopologySpec) -> dict[str, int]:
    """Return the longest round-trip time (ns) of paths between hosts over each link that ever has a queue in BDPs.

    For a link on no such path, it is the round-trip time of the link itself.
    """
    changed = gather(
        (change.link, way)
        for change in topology.changes
        if isinstance(change, LinkChange)
        for way in (change.forward, change.reverse)
    )
    wanted = {
        link.name: link.forward.delay_ns + link.reverse.delay_ns
        for link in topology.links
        if any(
            way.rate_bit_per_s and (way.queue is None or way.queue.unit == "bdp")
            for way in (link.forward, link.reverse, *changed.get(link.name, ()))
        )
    }
    if not wanted:
        return wanted
    for routing in routings:
        ends = [i for name, kind in topology.nodes.items() if kind == "host" for i in routing.interfaces[name]]
        for start, end in combinations(ends, 2):
            if start.node == end.node or not routing.reaches(start, end):
                continue
            there, back = routing.trace(start, end), routing.trace(end, start)
            rtt_ns = there.most_ns + back.most_ns
            for link, _ in there.crossed + back.crossed:
                if wanted.get(link.name, rtt_ns) < rtt_ns:
                    wanted[link.name] = rtt_ns
    return wanted


def _size_queue(direction: Direction, rtt_ns: int, mtu: int) -> Direction:
    """Return a direction with its queue in the unit of its discipline, packets or bytes.

    The default size is one BDP of the longest path, and at least 20 packets.
    """
    rate = direction.rate_bit_per_s
    if rate is None:
        return direction
    frame = mtu + HEADER_BYTES
    queue = direction.queue or ONE_BDP
    if queue.unit == "packets" and not queue.counts_bytes:
        return direction
    least = frame if direction.queue else DEFAULT_QUEUE_PACKETS * frame
    sizes = {"packets": frame, "bytes": 1, "time": rate / 8e9, "bdp": rate * rtt_ns / 8e9}
    wanted = max(least, queue.amount * sizes[queue.unit])
    if queue.counts_bytes:
        if wanted > MOST_QUEUE_BYTES:
            text = f"a queue of {render_queue(queue, 'people')} at {RATE.render(rate, 'people')}"
            raise SpecError(f"{text} holds {wanted:.0f} bytes, and Linux counts 4 GB at most: write it in packets")
        return replace(direction, queue=replace(queue, amount=math.ceil(wanted), unit="bytes"))
    return replace(direction, queue=replace(queue, amount=math.ceil(wanted / frame), unit="packets"))
