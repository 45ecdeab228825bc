# SPDX-License-Identifier: Apache-2.0
"""What a capture has of a connection: its data in both ways, its subflows or paths, and what each carried."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from mprun.packets.sequence import Seen

RETRANSMISSION, REINJECTION = "retransmission", "reinjection"
# The two ways through a connection, by who opened it.
WAYS = ("forward", "reverse")
# How many data sequence numbers MPTCP has.
DATA_SPACE = 1 << 64

# Address and port of one end, then of the other.
Addresses = tuple[str, int, str, int]


@dataclass
class Stream:
    """The data of a connection in one way.

    key: its sender's; base: the data sequence number of its first byte. seen: of bytes; of an association of TSNs.
    """

    key: int | None = None
    token: int | None = None
    base: int | None = None
    seen: Seen = field(default_factory=Seen)
    acked_bytes: int = 0
    new_bytes: int = 0
    # when the first and the last new data passed, and when the data was last whole up to a later byte
    first_ns: int | None = None
    last_ns: int | None = None
    whole_ns: int | None = None
    gap_ns: int = 0
    gap_began_ns: int | None = None

    def set_key(self, key: int) -> None:
        """Token and first data sequence number follow from the key (RFC 8684 3.2)."""
        self.key = key
        self.base = (_hash(key) + 1) % DATA_SPACE

    def take(self, begin: int, end: int, at_ns: int) -> tuple[int, int | None]:
        """Bytes of the data that pass: how many are new, and up to where it is now whole, if that is farther."""
        before = self.seen.front
        new = self.seen.add(begin, end)
        has_grown = self.seen.front > before
        self.note(new, has_grown, at_ns)
        return new, self.seen.front if has_grown else None

    def note(self, new_bytes: int, has_grown: bool, at_ns: int) -> None:
        """Note that new bytes passed, and that the data is whole up to a later one."""
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
class Connection:
    """One connection, or association of SCTP. streams: forward and reverse, by who opened it."""

    number: int
    addresses: Addresses
    opened_ns: int
    transport: str = "tcp"
    is_mptcp: bool = False
    fallback: str | None = None
    token: int | None = None
    streams: tuple[Stream, Stream] = field(default_factory=lambda: (Stream(), Stream()))
    subflows: list[Subflow] = field(default_factory=list)
    last_ns: int = 0
    announced: list[str] = field(default_factory=list)
    ended_by: str | None = None


@dataclass
class Way:
    """One way through a subflow. start: the sequence number of its first byte; None where nobody saw it."""

    subflow: Subflow
    index: int
    stream: Stream
    start: int | None = None
    last: int = 0
    seen: Seen = field(default_factory=Seen)
    # the last mapping: data sequence number, offset in the subflow, bytes
    mapping: tuple[int, int, int] | None = None
    packets: int = 0
    payload_bytes: int = 0
    new_bytes: int = 0
    retransmissions: int = 0
    reinjections: int = 0


@dataclass
class Subflow:
    """One subflow, connection of plain TCP, or path of an association. addresses: those of its opener first."""

    number: int
    connection: Connection
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
class Found:
    """The connections and subflows of a capture, in the order in which they began."""

    connections: list[Connection] = field(default_factory=list)
    subflows: list[Subflow] = field(default_factory=list)

    def open(self, addresses: Addresses, at_ns: int, transport: str = "tcp") -> Connection:
        """A connection that begins. addresses: its opener's first."""
        connection = Connection(len(self.connections), addresses, at_ns, transport)
        self.connections.append(connection)
        return connection

    def join(self, connection: Connection, addresses: Addresses, kind: str, at_ns: int, index: int = 0) -> Subflow:
        """A subflow of a connection that begins. index: the way through the connection of its opener's packets."""
        subflow = Subflow(len(self.subflows), connection, addresses, kind, at_ns)
        one, other = (Way(subflow, way, connection.streams[way]) for way in (index, 1 - index))
        subflow.ways = (one, other)
        connection.subflows.append(subflow)
        self.subflows.append(subflow)
        return subflow


def token_of(key: int) -> int:
    """RFC 8684 3.2: the first 32 bits of the key's SHA-256."""
    return int.from_bytes(hashlib.sha256(key.to_bytes(8, "big")).digest()[:4], "big")


def _hash(key: int) -> int:
    """RFC 8684 3.2: the last 64 bits of the key's SHA-256 are the initial data sequence number."""
    return int.from_bytes(hashlib.sha256(key.to_bytes(8, "big")).digest()[-8:], "big")


def signed(difference: int, modulus: int) -> int:
    """A difference of two numbers of a circle, the short way round."""
    return (difference + modulus // 2) % modulus - modulus // 2
