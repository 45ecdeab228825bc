# SPDX-License-Identifier: Apache-2.0
"""Lengths of UDP packets. The default fills an IP packet of the smallest MTU along the path. A longer length gives a
warning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from mprun.model.grouping import gather
from mprun.model.path import FlowPaths, NamedPath
from mprun.model.problem import Notes
from mprun.model.spec import Family, Flow, TopologySpec
from mprun.workloads.tool import LENGTH, tool_of

_UDP_HEADER_BYTES = 8
# RFC 791, RFC 8200.
_IP_HEADER_BYTES: Mapping[Family, int] = {"ipv4": 20, "ipv6": 40}
# The least MTU without fragments of a protocol over IPv4. Linux sends TCP segments of 48 bytes (TCP_MIN_SND_MSS) after
# headers of 40 bytes; a QUIC handshake has datagrams of 1200 bytes (RFC 9000, section 14).
_LEAST_MTU: Mapping[str, int] = {"tcp": 88, "mptcp": 88, "quic": 1228}
# The names of a packet's payload: in a flow's options, and in a file.
_NAMES = {LENGTH: "length", "message_bytes": "message"}
# For each node: the other end and the MTU of each link.
_Neighbours = Mapping[str, Sequence[tuple[str, int]]]


def fill_lengths(paths: FlowPaths, flows: Sequence[Flow]) -> tuple[Flow, ...]:
    """Return flows with a packet length for each flow of UDP. The hosts of each flow are joined. paths: as they are."""
    filled = []
    for flow in flows:
        lacks = flow.protocol == "udp" and LENGTH in tool_of(flow).Entry.model_fields and LENGTH not in flow.options
        filled.append(replace(flow, options={**flow.options, LENGTH: _most_bytes(paths, flow)}) if lacks else flow)
    return tuple(filled)


def check_lengths(paths: FlowPaths, notes: Notes) -> None:
    """Warn of flows whose packets are longer than what their path carries in one piece."""
    smallest = min((link.mtu for link in paths.topology.links), default=0)
    for n, flow in enumerate(paths.experiment.traffic):
        least = _LEAST_MTU.get(flow.protocol, 0)
        for path in paths.of(flow) if least > smallest else ():
            if (mtu := _find_mtu(paths.topology, flow.source, flow.destination, path)) < least:
                message = f"has packets of {least} bytes, and the MTU of '{path.name}' is {mtu}: each is sent in"
                notes.warn(("traffic", n, "protocol"), f"{message} fragments, write 'mtu: {least}' or more")
                break
        given = next((option for option in _NAMES if option in flow.options), None)
        if flow.protocol != "udp" or given is None or not paths.of(flow):
            continue
        most, length = _most_bytes(paths, flow), flow.options[given]
        if isinstance(length, int) and length > most:
            message = (
                f"is {length} bytes, and the MTU of the path carries {most} in one packet: each is sent in fragments"
            )
            notes.warn(("traffic", n, _NAMES[given]), f"{message}, write '{most}bytes' or less")


def _most_bytes(paths: FlowPaths, flow: Flow) -> int:
    """The payload of the longest packet that the path of a flow of UDP carries in one piece."""
    path = paths.of(flow)[0]
    mtu = _find_mtu(paths.topology, flow.source, flow.destination, path)
    return mtu - _IP_HEADER_BYTES[path.family] - _UDP_HEADER_BYTES


def _find_mtu(topology: TopologySpec, source: str, destination: str, path: NamedPath) -> int:
    """The smallest MTU along a path. If several ways have the fewest routers, the MTU is the smallest of all of them,
    as a hash or the turns of subnets choose the way.
    """
    mtus = {link.mtu for link in topology.links}
    if len(mtus) == 1:
        return mtus.pop()
    beside = _find_neighbours(topology, source, destination, path)

    def cross(node: str) -> Iterable[tuple[str, int]]:
        return _cross_segment(topology, beside, node, max(mtus)).items()

    # the number of rounds is the number of routers on the way
    return next(mtus[destination] for mtus in _go_round(source, max(mtus), cross) if destination in mtus)


def _go_round(
    start: str, widest: int, onward: Callable[[str], Iterable[tuple[str, int]]]
) -> Iterator[Mapping[str, int]]:
    """Yield for each round the nodes that it reaches first, with the smallest MTU on all shortest ways to the node."""
    reached, known = {start: widest}, {start}
    while reached:
        further: dict[str, int] = {}
        for node, so_far in reached.items():
            for other, mtu in onward(node):
                if other not in known:
                    further[other] = min(further.get(other, widest), mtu, so_far)
        known |= further.keys()
        yield further
        reached = further


def _find_neighbours(topology: TopologySpec, source: str, destination: str, path: NamedPath) -> _Neighbours:
    """The neighbours of each node over the links that a path may take.

    The two hosts of the path have the neighbours at its ends. Other hosts have none, as hosts do not forward.
    """
    at_ends = {source: path.first_link, destination: path.last_link}
    usable = [
        link
        for link in topology.links
        if topology.carries(link, path.family)
        and all(at_ends.get(end) == link.name for end in link.ends if topology.nodes[end] == "host")
    ]
    return gather((end, (other, link.mtu)) for link in usable for end, other in (link.ends, link.ends[::-1]))


def _cross_segment(topology: TopologySpec, beside: _Neighbours, node: str, widest: int) -> dict[str, int]:
    """The smallest MTU to each router or host that a node reaches over links and switches, by the fewest links."""

    def onward(end: str) -> Sequence[tuple[str, int]]:
        return beside.get(end, ()) if end == node or topology.nodes[end] == "switch" else ()

    rounds = _go_round(node, widest, onward)
    return {end: mtu for mtus in rounds for end, mtu in mtus.items() if topology.nodes[end] != "switch"}
