# SPDX-License-Identifier: Apache-2.0
"""Connections of a capture: their data in both directions, their subflows or paths, and the data of each."""

from __future__ import annotations

import hashlib
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field

from mprun.model.sequence_space import Seen

RETRANSMISSION, REINJECTION = "retransmission", "reinjection"
# The kind of a subflow, or of an association's path, that began before the capture.
LATE = "under way"
# The two directions of a connection: from the end that opened it, and to that end.
WAYS = ("forward", "reverse")
# The number of data sequence numbers in MPTCP.
DATA_SPACE = 1 << 64

# The number of ends of parts of the data whose subflows stay known behind the newest part.
_KEPT = 8192

# Address and port of one end, then of the other.
Addresses = tuple[str, int, str, int]


class Carriers:
    """The subflow that first carried each part of the data, by its number. Old parts are not known."""

    def __init__(self) -> None:
        # each part begins at an offset and ends at the next; None where no data was carried yet
        self._begins: list[int] = []
        self._owners: list[int | None] = []

    def add(self, begin: int, end: int, subflow: int) -> None:
        low, high = bisect_left(self._begins, begin), bisect_right(self._begins, end)
        after = self._owners[high - 1] if high else None
        is_continued = low > 0 and self._owners[low - 1] == subflow
        self._begins[low:high] = [end] if is_continued else [begin, end]
        self._owners[low:high] = [after] if is_continued else [subflow, after]
        if len(self._begins) > 2 * _KEPT:
            del self._begins[:_KEPT], self._owners[:_KEPT]

    def find(self, offset: int) -> int | None:
        """Return the subflow that carried a byte first; None if that is not known."""
        part = bisect_right(self._begins, offset)
        return self._owners[part - 1] if part else None


@dataclass
class Stream:
    """The data of a connection in one direction.

    - token: of the MPTCP key of the sender; None until the key is known.
    - base: the data sequence number of the first byte.
    - seen: the bytes seen; for an SCTP association, the TSNs seen.
    - carriers: of the bytes of a TCP or MPTCP connection.
    """

    token: int | None = None
    base: int | None = None
    seen: Seen = field(default_factory=Seen)
    carriers: Carriers = field(default_factory=Carriers)
    acked_bytes: int = 0
    new_bytes: int = 0
    # times of the first and the last new data, and the time at which data last became complete up to a later byte
    first_ns: int | None = None
    last_ns: int | None = None
    whole_ns: int | None = None
    gap_ns: int = 0
    gap_began_ns: int | None = None

    def set_key(self, key: int) -> int:
        """Set what follows from the sender's key: the first data sequence number, and the token. Return the token."""
        self.token = token_of(key)
        self.base = (_hash(key) + 1) % DATA_SPACE
        return self.token

    def take(self, begin: int, end: int, at_ns: int) -> tuple[int, int | None]:
        """Add bytes of the data. Return the number of new bytes, and the new end of the complete data.

        The end is None if it did not move.
        """
        before = self.seen.front
        new = self.seen.add(begin, end)
        has_grown = self.seen.front > before
        self.note(new, has_grown, at_ns)
        return new, self.seen.front if has_grown else None

    def note(self, new_bytes: int, has_grown: bool, at_ns: int) -> None:
        """Count new bytes and gaps in time. has_grown: the data is now complete up to a later byte."""
        self.new_bytes += new_bytes
        if new_bytes:
            self.first_ns = at_ns if self.first_ns is None else self.first_ns
            self.last_ns = at_ns
        if not has_grown:
            return
        if self.whole_ns is not None and at_ns - self.whole_ns > self.gap_ns:
            self.gap_ns, self.gap_began_ns = at_ns - self.whole_ns, self.whole_ns
        self.whole_ns = at_ns


@dataclass
class CapturedConnection:
    """A connection, or an SCTP association. streams: forward (from the end that opened it), then reverse."""

    number: int
    addresses: Addresses
    opened_ns: int
    transport: str = "tcp"
    is_mptcp: bool = False
    fallback: str | None = None
    token: int | None = None
    streams: tuple[Stream, Stream] = field(default_factory=lambda: (Stream(), Stream()))
    subflows: list[CapturedSubflow] = field(default_factory=list)
    last_ns: int = 0
    announced: list[str] = field(default_factory=list)
    ended_by: str | None = None


@dataclass
class Way:
    """A subflow in one direction. start: the sequence number of the first byte; None until it is known."""

    subflow: CapturedSubflow
    index: int
    stream: Stream
    start: int | None = None
    last: int = 0
    seen: Seen = field(default_factory=Seen)
    # the last mapping: data sequence number, offset in the subflow, length in bytes
    mapping: tuple[int, int, int] | None = None
    packets: int = 0
    payload_bytes: int = 0
    new_bytes: int = 0
    retransmissions: int = 0
    reinjections: int = 0

    def count(self, payload_bytes: int, new_bytes: int, repeat: str | None) -> None:
        """Count the payload of a packet or a chunk. repeat: the kind of repetition; None for data sent first."""
        self.payload_bytes += payload_bytes
        self.new_bytes += new_bytes
        self.retransmissions += repeat == RETRANSMISSION
        self.reinjections += repeat == REINJECTION


@dataclass
class CapturedSubflow:
    """A subflow, a plain TCP connection, or a path of an association. addresses: the opener's address first."""

    number: int
    connection: CapturedConnection
    addresses: Addresses
    kind: str
    opened_ns: int
    established_ns: int | None = None
    closed_ns: int | None = None
    closed_by: str | None = None
    address_id: int | None = None
    backup: bool | None = None
    priorities: int = 0
    ways: tuple[Way, Way] = ()  # type: ignore[assignment]


@dataclass
class CapturedStreams:
    """The connections and subflows of a capture, in the order in which they began."""

    connections: list[CapturedConnection] = field(default_factory=list)
    subflows: list[CapturedSubflow] = field(default_factory=list)

    def open(self, addresses: Addresses, at_ns: int, transport: str = "tcp") -> CapturedConnection:
        """Add a new connection and return it. addresses: the opener's address first."""
        connection = CapturedConnection(len(self.connections), addresses, at_ns, transport)
        self.connections.append(connection)
        return connection

    def join(
        self, connection: CapturedConnection, addresses: Addresses, kind: str, at_ns: int, index: int = 0
    ) -> CapturedSubflow:
        """Add a new subflow to a connection and return it.

        index: the direction in the connection of packets from the subflow's opener (0: forward, 1: reverse).
        """
        subflow = CapturedSubflow(len(self.subflows), connection, addresses, kind, at_ns)
        one, other = (Way(subflow, way, connection.streams[way]) for way in (index, 1 - index))
        subflow.ways = (one, other)
        connection.subflows.append(subflow)
        self.subflows.append(subflow)
        return subflow


def token_of(key: int) -> int:
    """Return the token of a key: the first 32 bits of its SHA-256 (RFC 8684 3.2)."""
    return int.from_bytes(hashlib.sha256(key.to_bytes(8, "big")).digest()[:4], "big")


def _hash(key: int) -> int:
    """Return the initial data sequence number of a key: the last 64 bits of its SHA-256 (RFC 8684 3.2)."""
    return int.from_bytes(hashlib.sha256(key.to_bytes(8, "big")).digest()[-8:], "big")


def turned(addresses: Addresses) -> Addresses:
    """Return the addresses as packets in the other direction have them."""
    return *addresses[2:], *addresses[:2]


def signed(difference: int, modulus: int) -> int:
    """Return a difference of two numbers modulo `modulus` as the value nearest to 0."""
    return (difference + modulus // 2) % modulus - modulus // 2
