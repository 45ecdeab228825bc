# SPDX-License-Identifier: Apache-2.0
"""Group the SCTP packets of a capture into associations, with their paths as subflows (RFC 9260). Pure.

This module follows transmission sequence numbers (TSN). It decides which DATA chunks are new, which repeat a chunk of
the same path (retransmission) or of another path (reinjection), and how far the data is complete without a gap. A
packet belongs to an association by its verification tag, whatever its addresses are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from mprun.captures.stream import (
    LATE,
    REINJECTION,
    RETRANSMISSION,
    WAYS,
    Addresses,
    CapturedConnection,
    CapturedStreams,
    Stream,
    Way,
    signed,
    turned,
)

# Chunk types (registered with IANA; RFC 9260 3.2, RFC 8260 for I-DATA).
DATA, INIT, INIT_ACK, HEARTBEAT_ACK, ABORT, COOKIE_ACK, SHUTDOWN_COMPLETE, I_DATA = 0, 1, 2, 5, 6, 11, 14, 64
CHUNKS = {
    **{DATA: "DATA", INIT: "INIT", INIT_ACK: "INIT_ACK", 3: "SACK", 4: "HEARTBEAT", HEARTBEAT_ACK: "HEARTBEAT_ACK"},
    **{ABORT: "ABORT", 7: "SHUTDOWN", 8: "SHUTDOWN_ACK", 9: "ERROR", 10: "COOKIE_ECHO", COOKIE_ACK: "COOKIE_ACK"},
    **{12: "ECNE", 13: "CWR", SHUTDOWN_COMPLETE: "SHUTDOWN_COMPLETE", 15: "AUTH", 16: "NR_SACK", I_DATA: "I_DATA"},
    **{128: "ASCONF_ACK", 130: "RE_CONFIG", 132: "PAD", 192: "FORWARD_TSN", 193: "ASCONF", 194: "I_FORWARD_TSN"},
}
# The header sizes of chunks with data. The rest of a chunk is payload.
HEADER_BYTES = {DATA: 16, I_DATA: 20}
_TSNS = 1 << 32
# The number of chunks that stay known behind the newest chunk. Receivers note at most 4096 chunks beyond the first
# missing chunk (usrsctp and Linux). This is twice that number.
_KEPT = 8192

Told = tuple[int, int, str, None, int | None, int | None, int | None, int | None, str | None]


class SctpPacket(NamedTuple):
    """The columns of a packet of SCTP that decide its place in an association."""

    time_ns: int
    source: str
    source_port: int
    destination: str
    destination_port: int
    tag: int
    chunks: str | None
    chunk_lengths: str | None
    tsns: str | None
    cumulative_tsn: int | None
    initiate_tag: int | None
    init_tsn: int | None
    init_ack_tsn: int | None
    own_ipv4: str | None
    own_ipv6: str | None
    cut: bool


@dataclass
class Chunks:
    """The chunks of an association in one direction. Each is known by the offset of its TSN from the first TSN.

    - sizes: payload bytes of the chunks beyond the first missing chunk.
    - ends: for each recent chunk in order, the offset in bytes at which it ends in the data.
    - carriers: the paths of the association that carried a chunk, one bit for each path.
    """

    stream: Stream
    first: int | None = None
    last: int = 0
    whole_bytes: int = 0
    sizes: dict[int, int] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)
    carriers: dict[int, int] = field(default_factory=dict)

    def take(self, tsn: int, size: int, path: int, at_ns: int) -> tuple[int | None, int, str | None]:
        """Take in a chunk of `size` bytes. Return its offset in the data, its new bytes, and the kind of repetition.

        The offset is None if an earlier chunk is missing. path: the number of the path in the association.
        """
        offset = self._offset(tsn)
        seen = self.stream.seen
        front = seen.front
        is_new = bool(seen.add(offset, offset + 1))
        carried = self.carriers.get(offset, 0)
        self.carriers[offset] = carried | 1 << path
        if is_new:
            self.sizes[offset] = size
            # after a gap in the capture itself, no chunk will be in order again
            self.sizes.pop(offset - _KEPT, None)
            self.carriers.pop(offset - 2 * _KEPT, None)
        for at in range(front, seen.front):
            # chunks from before the capture began have no known size
            self.whole_bytes += self.sizes.pop(at, 0)
            self.ends[at] = self.whole_bytes
            self.ends.pop(at - _KEPT, None)
        self.stream.note(size if is_new else 0, seen.front > front, at_ns)
        end = self.ends.get(offset)
        repeat = None if is_new else REINJECTION if carried and not carried >> path & 1 else RETRANSMISSION
        return None if end is None else end - size, size if is_new else 0, repeat

    def acknowledge(self, tsn: int) -> int | None:
        """Return how many bytes of the data are acknowledged; None if this is not known."""
        if self.first is None:
            return None
        acked = self.ends.get(self._offset(tsn))
        if acked is not None:
            self.stream.acked_bytes = max(self.stream.acked_bytes, acked)
        return acked

    def _offset(self, tsn: int) -> int:
        """Return the offset of a TSN from the first TSN. Of equal TSNs modulo 2^32, take the nearest to the last."""
        if self.first is None:
            self.first = tsn
        offset = self.last + signed(tsn - self.first - self.last, _TSNS)
        self.last = max(self.last, offset)
        return offset


@dataclass
class Association:
    """An SCTP association. chunks: forward (from the end that opened it), then reverse."""

    connection: CapturedConnection
    initiate_tag: int | None
    chunks: tuple[Chunks, Chunks]


class Associations:
    """The associations among the connections of one capture.

    cut_packets: the number of packets whose chunks are not all in the capture.
    """

    def __init__(self, found: CapturedStreams) -> None:
        self._found = found
        # association, way and number of the path in the association
        self._ways: dict[Addresses, tuple[Association, Way, int]] = {}
        # (tag, source port, destination port) -> association and direction of the packets with this tag
        self._tags: dict[tuple[int, int, int], tuple[Association, int]] = {}
        self.cut_packets = 0

    def packet(self, packet: SctpPacket) -> Told:
        """Assign a packet to its association. Return the columns `ADDED` of `mprun.captures.tcp_connection`."""
        at_ns, source_port, destination_port = packet.time_ns, packet.source_port, packet.destination_port
        association, way, path = self._way(packet)
        connection, subflow = association.connection, way.subflow
        if packet.tag:
            self._tags.setdefault((packet.tag, source_port, destination_port), (association, way.index))
        connection.last_ns = at_ns
        way.packets += 1
        self.cut_packets += packet.cut
        kinds = _numbers(packet.chunks)
        if packet.initiate_tag is not None:
            self._tags[packet.initiate_tag, destination_port, source_port] = association, 1 - way.index
            tsn = packet.init_tsn if packet.init_tsn is not None else packet.init_ack_tsn
            if association.chunks[way.index].first is None:
                association.chunks[way.index].first = tsn
            announced = [one for text in (packet.own_ipv4, packet.own_ipv6) if text for one in text.split(",")]
            connection.announced += [one for one in announced if one != packet.source]
        # data is sent only to confirmed addresses (RFC 9260 5.4)
        if subflow.established_ns is None and (packet.tsns or HEARTBEAT_ACK in kinds or COOKIE_ACK in kinds):
            subflow.established_ns = at_ns
        if ABORT in kinds or SHUTDOWN_COMPLETE in kinds:
            connection.ended_by = "ABORT" if ABORT in kinds else "SHUTDOWN"
            for one in connection.subflows:
                one.closed_ns, one.closed_by = at_ns, connection.ended_by
        acked = None
        if packet.cumulative_tsn is not None:
            acked = association.chunks[1 - way.index].acknowledge(packet.cumulative_tsn)
        begin = whole = repeat = None
        new = 0
        stream = association.chunks[way.index]
        whole_before = stream.whole_bytes
        for tsn, size in zip(_numbers(packet.tsns), _sizes(packet.chunks, packet.chunk_lengths), strict=False):
            at, taken, again = stream.take(tsn, size, path, at_ns)
            way.count(size, taken, again)
            begin = at if begin is None else begin
            new += taken
            repeat = repeat or again
        if stream.whole_bytes > whole_before:
            whole = stream.whole_bytes
        counted = new if packet.tsns is not None else None
        return connection.number, subflow.number, WAYS[way.index], None, begin, counted, whole, acked, repeat

    def _way(self, packet: SctpPacket) -> tuple[Association, Way, int]:
        """Return the association, the way and the number of the path of a packet; open them if they are new."""
        _, source, source_port, destination, destination_port, tag, *_ = packet
        addresses = (source, source_port, destination, destination_port)
        initiate_tag, at_ns = packet.initiate_tag, packet.time_ns
        # only the packet of an INIT has no tag
        is_opening = not tag
        known = self._ways.get(addresses)
        if known is not None and (not is_opening or initiate_tag in (None, known[0].initiate_tag)):
            return known
        if is_opening:
            # an INIT sent again to another address: packets with its tag go in the opposite direction
            owner = self._tags.get((initiate_tag or 0, destination_port, source_port))
        else:
            owner = self._tags.get((tag, source_port, destination_port))
        if owner is not None:
            association, index, kind = owner[0], 1 - owner[1] if is_opening else owner[1], "additional"
        else:
            connection = self._found.open(addresses, at_ns, "sctp")
            one, other = map(Chunks, connection.streams)
            association = Association(connection, initiate_tag if is_opening else None, (one, other))
            index, kind = 0, "initial" if is_opening else LATE
        path = len(association.connection.subflows)
        opening = turned(addresses) if index else addresses
        ways = self._found.join(association.connection, opening, kind, at_ns).ways
        self._ways[addresses] = association, ways[index], path
        self._ways[turned(addresses)] = association, ways[1 - index], path
        return self._ways[addresses]


def spell_chunks(chunks: str) -> str:
    """Return the chunk types of a packet by their IANA names, each once, separated by commas."""
    return ",".join(dict.fromkeys(CHUNKS.get(kind, f"chunk {kind}") for kind in _numbers(chunks)))


def user_bytes(chunks: str, chunk_lengths: str) -> int:
    """Return the payload bytes of all chunks of a packet."""
    return sum(_sizes(chunks, chunk_lengths))


@lru_cache(maxsize=1024)
def _sizes(chunks: str | None, chunk_lengths: str | None) -> tuple[int, ...]:
    """Return the payload size of each DATA and I-DATA chunk, in bytes."""
    both = zip(_numbers(chunks), _numbers(chunk_lengths), strict=False)
    return tuple(length - HEADER_BYTES[kind] for kind, length in both if kind in HEADER_BYTES)


def _numbers(text: str | None) -> list[int]:
    return [int(word) for word in text.split(",")] if text else []
