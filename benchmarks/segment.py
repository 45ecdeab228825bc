# SPDX-License-Identifier: Apache-2.0
"""Count the packets of a capture by sequence numbers, with a reader of pcapng, IP, UDP and TCP headers of its own.

`benchmarks/physics.py` compares mprun's counts with these. This module therefore uses neither mprun nor a dissector
that mprun uses. A few lines of struct follow the documents: draft-ietf-opsawg-pcapng, RFC 791, 8200, 768, 9293, and
LINKTYPE_LINUX_SLL2.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from pathlib import Path

INTERFACE_BLOCK, ENHANCED_BLOCK = 1, 6
COOKED = 276
COOKED_BYTES = 20
OUTGOING, INCOMING = 4, 0
IPV4, IPV6 = 0x0800, 0x86DD
TCP, UDP = 6, 17
FIN, SYN = 1, 2
# RFC 8684 3.3: the option's kind; the flags of the subtype DSS for a mapping, and for fields of 8 octets.
MPTCP, DSS = 30, 2
ACK_PRESENT, ACK_LONG, MAP_PRESENT, MAP_LONG = 1, 2, 4, 8
TIMESTAMP_RESOLUTION = 9
_COOKED = struct.Struct(">HHIHBB")
_PORTS = struct.Struct(">HH")
_TCP = struct.Struct(">HHIIBB")


@dataclass(frozen=True, slots=True)
class Packet:
    """A packet as one host saw it. direction: OUTGOING or INCOMING. Ports are 0 if the packet has none."""

    time_ns: int
    interface: int
    direction: int
    protocol: int
    source: tuple[bytes, int]
    destination: tuple[bytes, int]
    sequence: int
    flags: int
    payload_bytes: int
    # the data sequence number and the subflow sequence number of a DSS mapping
    mapping: tuple[int, int] | None = None


def packets(path: Path) -> Iterator[Packet]:
    """Yield each IP packet of a capture of all interfaces of a host, with times in ns of the capture's clock.

    Raises ValueError if the file is of another kind.
    """
    data = path.read_bytes()
    place = 0
    while place < len(data):
        kind, length = struct.unpack_from("<II", data, place)
        if kind == INTERFACE_BLOCK:
            _check_interface(data, place, length)
        elif kind == ENHANCED_BLOCK:
            interface, high, low, captured = struct.unpack_from("<IIII", data, place + 8)
            found = _read(data, place + 28, captured, (high << 32) | low, interface)
            if found:
                yield found
        place += length


def _check_interface(data: bytes, place: int, length: int) -> None:
    (link,) = struct.unpack_from("<H", data, place + 8)
    if link != COOKED:
        raise ValueError(f"link type {link} is not that of captures of all interfaces ({COOKED})")
    option, end = place + 16, place + length - 4
    while option < end:
        code, size = struct.unpack_from("<HH", data, option)
        if code == TIMESTAMP_RESOLUTION and data[option + 4] != 9:
            raise ValueError("times are not in nanoseconds")
        option += 4 + (size + 3) // 4 * 4


def _read(data: bytes, place: int, captured: int, time_ns: int, interface: int) -> Packet | None:
    ethertype, _, _, _, direction, _ = _COOKED.unpack_from(data, place)
    ip, end = place + COOKED_BYTES, place + captured
    if ethertype == IPV4:
        head, protocol = (data[ip] & 15) * 4, data[ip + 9]
        total = struct.unpack_from(">H", data, ip + 2)[0]
        addresses = data[ip + 12 : ip + 16], data[ip + 16 : ip + 20]
    elif ethertype == IPV6:
        head, protocol = 40, data[ip + 6]
        total = 40 + struct.unpack_from(">H", data, ip + 4)[0]
        addresses = data[ip + 8 : ip + 24], data[ip + 24 : ip + 40]
    else:
        return None
    ports, sequence, flags, header = (0, 0), 0, 0, 0
    mapping = None
    if protocol == UDP and ip + head + 8 <= end:
        ports, header = _PORTS.unpack_from(data, ip + head), 8
    elif protocol == TCP and ip + head + 20 <= end:
        source, destination, sequence, _, offset, flags = _TCP.unpack_from(data, ip + head)
        ports, header = (source, destination), (offset >> 4) * 4
        mapping = _read_mapping(data, ip + head + 20, min(ip + head + header, end))
    return Packet(
        time_ns,
        interface,
        direction,
        protocol,
        (addresses[0], ports[0]),
        (addresses[1], ports[1]),
        sequence,
        flags,
        total - head - header,
        mapping,
    )


def _read_mapping(data: bytes, option: int, end: int) -> tuple[int, int] | None:
    """Return the data and subflow sequence numbers of a DSS option among a segment's options.

    None without a mapping.
    """
    while option < end:
        kind = data[option]
        if kind == 0:
            return None
        length = 1 if kind == 1 else data[option + 1]
        if kind == MPTCP and data[option + 2] >> 4 == DSS and data[option + 3] & MAP_PRESENT:
            flags, field_at = data[option + 3], option + 4
            if flags & ACK_PRESENT:
                field_at += 8 if flags & ACK_LONG else 4
            form = ">QI" if flags & MAP_LONG else ">II"
            data_sequence, subflow_sequence = struct.unpack_from(form, data, field_at)
            return data_sequence, subflow_sequence
        option += length
    return None


@dataclass
class Order:
    """Octets that arrive in pieces: the end of those that are complete, and the times when it grew."""

    in_order: int = 0
    # a heap of (first, end) of pieces that arrived early
    beyond: list[tuple[int, int]] = field(default_factory=list)
    # (time, in_order) whenever in_order grew
    progress: list[tuple[int, int]] = field(default_factory=list)

    def take(self, time_ns: int, offset: int, length: int) -> None:
        """Add the octets from `offset` on, and the early pieces that then continue what is in order."""
        before = self.in_order
        heappush(self.beyond, (offset, offset + length))
        while self.beyond and self.beyond[0][0] <= self.in_order:
            self.in_order = max(self.in_order, heappop(self.beyond)[1])
        if self.in_order > before:
            self.progress.append((time_ns, self.in_order))

    def between(self, start_ns: int, end_ns: int) -> int:
        """Return the growth between two times."""
        places = [bisect_right(self.progress, moment_ns, key=lambda one: one[0]) for moment_ns in (start_ns, end_ns)]
        low, high = (self.progress[place - 1][1] if place else 0 for place in places)
        return high - low


@dataclass
class Stream:
    """A direction of a TCP connection, followed by sequence numbers at one end."""

    first_ns: int
    # the sequence number of the SYN, from which offsets are counted
    start: int
    # the times of segments that had been sent before
    sent_again_ns: list[int] = field(default_factory=list)
    highest: int = 0
    order: Order = field(default_factory=Order)
    first_payload_ns: int = 0
    last_payload_ns: int = 0
    has_fin: bool = False
    # (time, data sequence number, octets) of each segment that MPTCP maps
    mapped: list[tuple[int, int, int]] = field(default_factory=list)

    def take(self, packet: Packet) -> None:
        """Follow one more segment. SYN and FIN take a place in the sequence space, as octets do."""
        taken = packet.payload_bytes + bool(packet.flags & SYN) + bool(packet.flags & FIN)
        if not taken:
            return
        # within half of the sequence space of the highest number (RFC 9293 3.4)
        offset = self.highest + (packet.sequence - self.start - self.highest + (1 << 31)) % (1 << 32) - (1 << 31)
        if offset < self.highest:
            self.sent_again_ns.append(packet.time_ns)
        self.highest = max(self.highest, offset + taken)
        self.has_fin |= bool(packet.flags & FIN)
        if packet.payload_bytes:
            self.first_payload_ns = self.first_payload_ns or packet.time_ns
        if packet.payload_bytes and offset + taken > self.order.in_order:
            self.last_payload_ns = packet.time_ns
        self.order.take(packet.time_ns, offset, taken)
        if packet.payload_bytes and packet.mapping:
            data_sequence, subflow_sequence = packet.mapping
            self.mapped.append((packet.time_ns, data_sequence + offset - subflow_sequence, packet.payload_bytes))

    @property
    def payload_bytes(self) -> int:
        """Return the payload up to the first missing octet."""
        return max(0, self.order.in_order - 1 - self.has_fin)


def follow_data(subflows: Sequence[Stream]) -> Order:
    """Return the data of an MPTCP connection, from the mappings of all its subflows."""
    pieces = sorted(piece for stream in subflows for piece in stream.mapped)
    order = Order()
    for time_ns, data_sequence, length in pieces:
        order.take(time_ns, data_sequence - pieces[0][1], length)
    return order


Ends = tuple[tuple[bytes, int], tuple[bytes, int]]


@dataclass
class Census:
    """The content of a capture of one host: frames by direction, TCP streams by their ends, UDP packets by ports."""

    frames: dict[int, int] = field(default_factory=lambda: {OUTGOING: 0, INCOMING: 0})
    streams: dict[tuple[int, Ends], Stream] = field(default_factory=dict)
    datagrams: dict[tuple[int, int], int] = field(default_factory=dict)

    def towards(self, port: int, direction: int, least_bytes: int) -> list[Stream]:
        """Return the streams to a server's port that carried more than `least_bytes`, in order of their handshakes."""
        found = [
            stream
            for (way, (_, destination)), stream in self.streams.items()
            if way == direction and destination[1] == port and stream.highest > least_bytes
        ]
        return sorted(found, key=lambda stream: stream.first_ns)


def count(path: Path) -> Census:
    """Count the packets of a capture."""
    census = Census()
    for packet in packets(path):
        if packet.source[0] == packet.destination[0]:
            continue
        census.frames[packet.direction] += 1
        if packet.protocol == UDP:
            key = (packet.direction, packet.destination[1])
            census.datagrams[key] = census.datagrams.get(key, 0) + 1
        elif packet.protocol == TCP:
            ends = (packet.direction, (packet.source, packet.destination))
            if packet.flags & SYN and ends not in census.streams:
                census.streams[ends] = Stream(packet.time_ns, packet.sequence)
            if ends in census.streams:
                census.streams[ends].take(packet)
    return census
