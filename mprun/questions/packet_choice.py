# SPDX-License-Identifier: Apache-2.0
"""The packets of a run that can have a fault: where each first arrives, its path, way and kind. Pure.

A packet is counted at the first host or router that it reaches, among all packets that arrive there over the same link.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

from mprun.captures import quic_packet
from mprun.model.frozen import Frozen
from mprun.model.grouping import gather
from mprun.model.intent import Intent
from mprun.model.network import walk
from mprun.model.spec import Capture, ExperimentSpec, FaultAction, PacketFault

# The bytes of each packet that the captures keep: all headers and options, also over IPv6. Of QUIC whole datagrams,
# because a datagram has several packets.
SNAPLEN, WHOLE = 128, 0
FORWARD, REVERSE = "forward", "reverse"
# Errors and control, which do not count.
UNCOUNTED = ("icmp", "icmpv6")
# MPTCP options that name a packet which is no SYN, the most telling first.
_OPTIONS = ("MP_FASTCLOSE", "MP_FAIL", "ADD_ADDR", "REMOVE_ADDR", "MP_PRIO", "DATA_FIN", "MP_CAPABLE", "MP_JOIN")
# Chunks of SCTP that accompany others.
_ACCOMPANYING = ("SACK", "DATA", "I-DATA")
# Kinds of packets of a handshake, apart from those whose name has an option of MPTCP before it.
_OPENING = (
    "SYN",
    "SYN,ACK",
    "ADD_ADDR",
    "first data",
    "first datagram",
    "INIT",
    "INIT_ACK",
    "COOKIE_ECHO",
    "COOKIE_ACK",
)


class Arrival(Frozen):
    """A node and the link over which packets arrive there."""

    node: str
    link: str


class Packet(Frozen):
    """A packet of the run without faults.

    - number: its place among all packets that can have a fault, in order of time, from 1.
    - index: its number among the packets of its arrival, as `faults` of an experiment counts them.
    - at_ns: its arrival, from time zero.
    - way: the direction, as seen from the flow's source.
    - options: the MPTCP options of a TCP packet.
    - also: another packet that has the same fault in the same run.
    """

    number: int
    arrival: Arrival
    index: int
    at_ns: int
    way: str
    path: str
    kind: str
    payload_bytes: int
    options: str = ""
    also: Packet | None = None

    @property
    def name(self) -> str:
        """The value of the axis `fault` in the study's sweep."""
        own = f"{self.arrival.node}.{self.arrival.link}.{self.index}"
        return own if self.also is None else f"{own}+{self.also.name}"

    @property
    def facts(self) -> dict[str, Any]:
        """The packet's columns in the table of faults, and its keys in JSON."""
        return {
            **{"packet": self.number, "time_ns": self.at_ns, "node": self.arrival.node, "link": self.arrival.link},
            **{"arrival": self.index, "way": self.way, "path": self.path, "kind": self.kind},
        }

    @property
    def label(self) -> str:
        return str(self.number) if self.also is None else f"{self.number} and {self.also.number}"


class Fault(Frozen):
    """A fault of a packet. by_ns: of a delay, or until a duplicate. option: the kind of a TCP option."""

    action: FaultAction = "drop"
    by_ns: int = 0
    option: int = 0

    def of(self, packet: Packet) -> tuple[PacketFault, ...]:
        """Return the faults of a packet and of the one with it, as an experiment has them."""
        arrival = packet.arrival
        own = PacketFault(arrival.node, arrival.link, packet.index, self.action, self.by_ns, self.option)
        return (own,) if packet.also is None else (own, *self.of(packet.also))


class Heading(Frozen):
    """The path and the direction of packets between two addresses, and their first arrival."""

    arrival: Arrival
    path: str
    way: str


def find_headings(intent: Intent) -> dict[tuple[str, str], Heading]:
    """Return the heading of packets by their source and destination address."""
    found: dict[tuple[str, str], Heading] = {}
    for flow in intent.traffic:
        for path in flow.paths:
            there = _first_arrival(intent, flow.source, path.links)
            back = _first_arrival(intent, flow.destination, path.links[::-1])
            if there is not None and back is not None:
                found.setdefault((path.source, path.destination), Heading(there, path.name, FORWARD))
                found.setdefault((path.destination, path.seen_from), Heading(back, path.name, REVERSE))
    return found


def _first_arrival(intent: Intent, node: str, links: Sequence[str]) -> Arrival | None:
    """Return the first host or router after `node`. A switch does not count packets."""
    kinds = {one.name: one.kind for one in intent.nodes}
    arrivals = (Arrival(one.receiver.node, one.link.name) for one in walk(intent.links, node, links))
    return next((one for one in arrivals if kinds[one.node] in ("host", "router")), None)


def watch(experiment: ExperimentSpec, arrivals: Iterable[Arrival]) -> ExperimentSpec:
    """Return the experiment with a capture at each arrival."""
    nodes = dict.fromkeys(one.node for one in arrivals)
    kept = tuple(one for one in experiment.captures if one.link is not None or one.node not in nodes)
    snaplen = WHOLE if any(flow.protocol == "quic" for flow in experiment.traffic) else SNAPLEN
    return replace(experiment, captures=(*kept, *(Capture(node, snaplen) for node in nodes)))


def list_packets(rows: Iterable[Mapping[str, Any]], headings: Mapping[tuple[str, str], Heading]) -> list[Packet]:
    """Return the packets that can have a fault, in order of time. rows: of `packets` of a run as of `watch`."""
    arrivals = {heading.arrival for heading in headings.values()}
    counts = dict.fromkeys(arrivals, 0)
    began: set[tuple[object, ...]] = set()
    found: list[Packet] = []
    for row in rows:
        arrival = Arrival(row["capture"], row["link"])
        counted = row["source"] is not None and row["protocol"] not in UNCOUNTED
        if row["direction"] != "in" or arrival not in counts or not counted:
            continue
        counts[arrival] += 1
        heading = headings.get((row["source"], row["destination"]))
        if heading is None or heading.arrival != arrival:
            continue
        stream = tuple(row[name] for name in ("source", "source_port", "destination", "destination_port"))
        has_payload = bool(row["payload_bytes"])
        kind = tell_kind(row, has_payload and stream not in began)
        if has_payload:
            began.add(stream)
        index, payload_bytes, options = counts[arrival], row["payload_bytes"] or 0, row["options"] or ""
        way, path = heading.way, heading.path
        found.append(Packet(0, arrival, index, row["time_ns"], way, path, kind, payload_bytes, options))
    # packets of one node at one time stay in the order of its capture
    found.sort(key=lambda one: (one.at_ns, one.arrival.node))
    return [replace(one, number=number) for number, one in enumerate(found, 1)]


class SeenPacket(Frozen):
    """A packet in the captures of a run. row: its row in the table. where: its path and way, or else its addresses."""

    at_ns: int
    row: int
    where: str
    kind: str


def list_seen(rows: Iterable[Mapping[str, Any]], headings: Mapping[tuple[str, str], Heading]) -> list[SeenPacket]:
    """Return the packets in any captures of a run, in order of time.

    The packets of a stream are those of the place that sees the stream first. rows: of the table `packets`.
    """
    streams: dict[tuple[object, ...], dict[tuple[object, ...], list[SeenPacket]]] = {}
    began: set[tuple[object, ...]] = set()
    for number, row in enumerate(rows):
        source, destination, protocol = row["source"], row["destination"], row["protocol"]
        if source is None:
            continue
        stream = (protocol, source, row["source_port"], destination, row["destination_port"])
        place = (row["capture"], row["link"], row["direction"])
        is_first = bool(row["payload_bytes"]) and (stream, place) not in began
        if is_first:
            began.add((stream, place))
        heading = headings.get((source, destination))
        where = f"{source} > {destination}" if heading is None else f"{heading.path} {heading.way}"
        kind = protocol if protocol in UNCOUNTED else tell_kind(row, is_first)
        streams.setdefault(stream, {}).setdefault(place, []).append(SeenPacket(row["time_ns"], number, where, kind))
    first = (min(places.values(), key=lambda seen: seen[0].at_ns) for places in streams.values())
    return sorted((one for seen in first for one in seen), key=lambda one: (one.at_ns, one.row))


def tell_kind(row: Mapping[str, Any], is_first: bool) -> str:
    """Return the kind of a packet, by a row of the table `packets`. is_first: it is the first with payload."""
    flags = (row["flags"] or "").split(",")
    if row["protocol"] == "tcp":
        return _tell_tcp(flags, (row["options"] or "").split(","), row, is_first)
    if row["protocol"] == "sctp":
        telling = [flag for flag in flags if flag and flag not in _ACCOMPANYING]
        if telling:
            return telling[0]
        if not row["payload_bytes"]:
            return "SACK"
        return row["repeat"] or ("first data" if is_first else "data")
    # of QUIC, the packets in the datagram
    if row["protocol"] == "udp" and row["flags"]:
        return str(row["flags"])
    return "first datagram" if is_first else "datagram"


def _tell_tcp(flags: Sequence[str], options: Sequence[str], row: Mapping[str, Any], is_first: bool) -> str:
    if "SYN" in flags:
        kind = "SYN,ACK" if "ACK" in flags else "SYN"
        handshake = next((option for option in ("MP_CAPABLE", "MP_JOIN") if option in options), None)
        return f"{handshake} {kind}" if handshake else kind
    if "RST" in flags:
        return "RST"
    if "FIN" in flags:
        return "FIN"
    if row["repeat"]:
        return str(row["repeat"])
    telling = next((option for option in _OPTIONS if option in options), None)
    if telling in ("MP_CAPABLE", "MP_JOIN"):
        telling = None if row["payload_bytes"] else f"{telling} ACK"
    if telling:
        return telling
    if not row["payload_bytes"]:
        return "ACK"
    return "first data" if is_first else "data"


def pair(packets: Sequence[Packet]) -> list[Packet]:
    """Return all pairs of the packets that open a connection or a path, each as its first packet."""
    opening = [one for one in packets if is_opening(one.kind)]
    return [replace(one, kind=f"{one.kind} and {other.kind}", also=other) for one, other in combinations(opening, 2)]


def is_opening(kind: str) -> bool:
    """Return whether packets of a kind open a connection or a path."""
    return kind in _OPENING or kind.startswith(quic_packet.OPENING) or kind.endswith((" SYN", " SYN,ACK", " ACK"))


def sample(packets: Sequence[Packet], budget: int) -> list[Packet]:
    """Return at most `budget` packets, as evenly as possible from each direction, path and kind, in order of time.

    Of each such group, the packets are evenly spaced, with the first one among them. If there are more groups than
    the budget, the groups that begin first count.
    """
    groups = gather(((packet.way, packet.path, packet.kind), packet) for packet in packets)
    # in order of their first packets, which a handshake begins
    first = list(groups.values())[:budget]
    chosen: list[Packet] = []
    left = sorted(first, key=lambda group: (len(group), group[0].number))
    for n, group in enumerate(left):
        chosen += _space(group, (budget - len(chosen)) // (len(left) - n))
    return sorted(chosen, key=lambda one: one.number)


def _space(packets: Sequence[Packet], number: int) -> Iterator[Packet]:
    number = min(number, len(packets))
    return (packets[len(packets) * n // number] for n in range(number))
