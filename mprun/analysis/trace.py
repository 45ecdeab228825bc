# SPDX-License-Identifier: Apache-2.0
"""The packets of a capture, one after the other -> connections and subflows, and what each packet is to them. Pure.

Follows TCP's sequence numbers and MPTCP's mappings (RFC 8684): which bytes of the data are new, which came before
on the same subflow (retransmission) or on another one (reinjection), and how far the data is whole. Keeps of a
connection only what is still to be compared, so that a capture may be of any length.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mprun.analysis.sequence import Seen

if TYPE_CHECKING:
    import polars

FIN, SYN, RST, ACK = 1, 2, 4, 16
_FLAGS = ((SYN, "SYN"), (FIN, "FIN"), (RST, "RST"), (8, "PSH"), (ACK, "ACK"), (32, "URG"), (64, "ECE"), (128, "CWR"))
# Subtypes of MPTCP's option (RFC 8684 8.2).
SUBTYPES = (
    *("MP_CAPABLE", "MP_JOIN", "DSS", "ADD_ADDR", "REMOVE_ADDR", "MP_PRIO"),
    *("MP_FAIL", "MP_FASTCLOSE", "MP_TCPRST"),
)
RETRANSMISSION, REINJECTION = "retransmission", "reinjection"
# The two ways through a connection, by who opened it.
WAYS = ("forward", "reverse")
_TCP, _DATA = 1 << 32, 1 << 64

Addresses = tuple[str, int, str, int]

# What `follow` reads of each packet, and what it adds to it.
READ = (
    *("time_ns", "source", "source_port", "destination", "destination_port", "flags", "seq", "payload_bytes"),
    *("subtype", "sender_key", "receiver_key", "token", "address_id", "backup", "data_ack", "dsn", "ssn"),
    *("mapping_bytes", "announced_ipv4", "announced_ipv6", "echo", "cut"),
)
ADDED = (
    *("connection", "subflow", "way", "subflow_offset_bytes", "data_offset_bytes", "new_bytes", "in_order_bytes"),
    *("data_acked_bytes", "repeat"),
)
_ENDS = {"source": "String", "source_port": "Int64", "destination": "String", "destination_port": "Int64"}
# The columns of the tables, with the names of their types in polars.
CONNECTION_COLUMNS: Mapping[str, str] = {
    **{"capture": "String", "connection": "Int64", **_ENDS, "protocol": "String", "fallback": "String"},
    **{"token": "Int64", "subflows": "Int64", "opened_ns": "Int64", "last_ns": "Int64"},
    **{"announced": "String", "ended_by": "String"},
    **{f"{way}_{name}": "Int64" for way in WAYS for name in ("bytes", "gap_ns", "gap_began_ns")},
    **{f"{way}_bit_per_s": "Float64" for way in WAYS},
    **{f"{way}_{name}": "Int64" for way in WAYS for name in ("retransmissions", "reinjections")},
}
SUBFLOW_COLUMNS: Mapping[str, str] = {
    **{"capture": "String", "connection": "Int64", "subflow": "Int64", "kind": "String", "path": "String", **_ENDS},
    **{"address_id": "Int64", "backup": "Boolean", "priorities": "Int64"},
    **{"opened_ns": "Int64", "established_ns": "Int64", "closed_ns": "Int64", "closed_by": "String"},
    **{f"{way}_{name}": "Int64" for way in WAYS for name in ("packets", "payload_bytes", "new_bytes")},
    **{f"{way}_{name}": "Int64" for way in WAYS for name in ("retransmissions", "reinjections")},
}


@dataclass
class Stream:
    """The data of a connection in one way. key: its sender's; base: the data sequence number of its first byte."""

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
        self.base = (_hash(key) + 1) % _DATA

    def take(self, begin: int, end: int, at_ns: int) -> tuple[int, int | None]:
        """Bytes of the data that pass: how many are new, and up to where it is now whole, if that is farther."""
        before = self.seen.front
        new = self.seen.add(begin, end)
        self.new_bytes += new
        if new:
            self.first_ns = at_ns if self.first_ns is None else self.first_ns
            self.last_ns = at_ns
        if self.seen.front == before:
            return new, None
        if self.whole_ns is not None and at_ns - self.whole_ns > self.gap_ns:
            self.gap_ns, self.gap_began_ns = at_ns - self.whole_ns, self.whole_ns
        self.whole_ns = at_ns
        return new, self.seen.front


@dataclass
class Connection:
    """One connection. streams: forward and reverse, by who opened it."""

    number: int
    addresses: Addresses
    opened_ns: int
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
    """One subflow, or a connection of plain TCP. addresses: those of its opener first."""

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


class Trace:
    """The connections of one capture.

    cut_packets: those whose options are not all in the capture.
    paths: by their two addresses their name. forwards: whether the node forwards, so that each packet is there twice:
    then those that leave are not looked at.
    """

    def __init__(self, paths: Mapping[tuple[str, str], str], forwards: bool = False) -> None:
        self._paths = paths
        self._forwards = forwards
        self._ways: dict[Addresses, Way] = {}
        # a connection, and in which way through it a join goes that bears the token
        self._tokens: dict[int, tuple[Connection, int]] = {}
        self.connections: list[Connection] = []
        self.subflows: list[Subflow] = []
        self.cut_packets = 0

    def follow(self, packets: polars.DataFrame) -> polars.DataFrame:
        """The packets with the columns that `ADDED` names; times from the first portion to the last."""
        import polars as pl

        tcp = pl.col("seq").is_not_null() & pl.col("source").is_not_null()
        if self._forwards:
            tcp &= (pl.col("direction") != "out").fill_null(True)
        rows = packets.with_row_index("row").filter(tcp)
        columns = [rows[name].to_list() for name in READ]
        found = [self._packet(*values) for values in zip(*columns, strict=True)]
        kinds = dict.fromkeys(ADDED, pl.Int64) | {"way": pl.String, "repeat": pl.String}
        added = pl.DataFrame(found, schema=kinds, orient="row") if found else pl.DataFrame(schema=kinds)
        added = added.with_columns(row=rows["row"])
        return packets.with_row_index("row").join(added, on="row", how="left", maintain_order="left").drop("row")

    def _packet(
        self,
        at_ns: int,
        source: str,
        source_port: int,
        destination: str,
        destination_port: int,
        flags: int,
        seq: int,
        payload: int,
        subtype: str | None,
        sender_key: int | None,
        receiver_key: int | None,
        token: int | None,
        address_id: int | None,
        backup: bool | None,
        data_ack: int | None,
        dsn: int | None,
        ssn: int | None,
        mapped: int | None,
        announced_ipv4: str | None,
        announced_ipv6: str | None,
        echo: bool | None,
        cut: bool,
    ) -> tuple[Any, ...]:
        addresses = (source, source_port, destination, destination_port)
        kinds = () if subtype is None else tuple(int(kind) for kind in subtype.split(","))
        way = self._ways.get(addresses)
        is_opening = flags & (SYN | ACK) == SYN
        if way is None or (is_opening and way.start is not None and (seq + 1) % _TCP != way.start):
            way = self._open(addresses, at_ns, flags, kinds, token, address_id, backup)
        subflow, stream = way.subflow, way.stream
        connection = subflow.connection
        connection.last_ns = at_ns
        way.packets += 1
        if cut:
            self.cut_packets += 1
            # whether it is MPTCP an option tells, of the first packet that has one whole
            connection.is_mptcp |= bool(kinds)
        if flags & SYN:
            way.start = (seq + 1) % _TCP
        elif subflow.established_ns is None and flags & ACK and way is subflow.ways[0]:
            subflow.established_ns = at_ns
        if kinds:
            self._options(way, flags, kinds, sender_key, receiver_key, backup)
            if 3 in kinds and not echo and (announced := announced_ipv4 or announced_ipv6):
                connection.announced.append(announced)
        elif flags & SYN and flags & ACK and connection.is_mptcp and subflow.kind == "initial" and not cut:
            connection.is_mptcp, connection.fallback = False, "no MP_CAPABLE in the answer"
        if flags & (FIN | RST):
            subflow.closed_ns = at_ns
            subflow.closed_by = "RST" if flags & RST else subflow.closed_by or "FIN"
        acked = None
        if data_ack is not None and connection.is_mptcp:
            acked = self._acknowledge(connection.streams[1 - way.index], data_ack)
        if not payload:
            return connection.number, subflow.number, WAYS[way.index], None, None, None, None, acked, None
        return self._data(way, stream, at_ns, seq, payload, kinds, dsn, ssn, mapped, cut, acked)

    def _open(
        self,
        addresses: Addresses,
        at_ns: int,
        flags: int,
        kinds: tuple[int, ...],
        token: int | None,
        address_id: int | None,
        backup: bool | None,
    ) -> Way:
        """A subflow that begins, or that the capture finds under way."""
        is_answer = bool(flags & SYN and flags & ACK)
        if is_answer:
            addresses = (addresses[2], addresses[3], addresses[0], addresses[1])
        is_join = 1 in kinds and token is not None
        if is_join and token in self._tokens:
            joined, index = self._tokens[token]
        else:
            joined, index = Connection(len(self.connections), addresses, at_ns, is_mptcp=bool(kinds)), 0
            self.connections.append(joined)
            if is_join and token is not None:
                # to a connection that began before the capture did
                joined.token = token
                self._tokens[token] = joined, index
        kind = "additional" if is_join else "initial" if flags & SYN else "under way"
        subflow = Subflow(len(self.subflows), joined, addresses, kind, at_ns)
        if is_join:
            subflow.address_id, subflow.backup = address_id, bool(backup)
        elif joined.is_mptcp:
            subflow.address_id = 0
        one = Way(subflow, index, joined.streams[index])
        other = Way(subflow, 1 - index, joined.streams[1 - index])
        subflow.ways = (one, other)
        joined.subflows.append(subflow)
        self.subflows.append(subflow)
        self._ways[addresses] = one
        self._ways[addresses[2], addresses[3], addresses[0], addresses[1]] = other
        return other if is_answer else one

    def _options(
        self,
        way: Way,
        flags: int,
        kinds: tuple[int, ...],
        sender_key: int | None,
        receiver_key: int | None,
        backup: bool | None,
    ) -> None:
        connection = way.subflow.connection
        if 0 in kinds:
            for stream, key in ((way.stream, sender_key), (connection.streams[1 - way.index], receiver_key)):
                if key is not None and stream.key is None:
                    stream.set_key(key)
            for index, stream in enumerate(connection.streams):
                if stream.key is not None and stream.token is None:
                    # a join bears the token of the end that it goes to
                    stream.token = token_of(stream.key)
                    self._tokens[stream.token] = connection, 1 - index
            connection.token = connection.token or connection.streams[1].token
        if 1 in kinds and flags & SYN and flags & ACK and backup:
            way.subflow.backup = True
        if 5 in kinds:
            way.subflow.backup = bool(backup)
            way.subflow.priorities += 1
        if 6 in kinds:
            connection.fallback = connection.fallback or "MP_FAIL"
        if 7 in kinds:
            connection.ended_by = "MP_FASTCLOSE"

    def _acknowledge(self, stream: Stream, data_ack: int) -> int | None:
        """How much of the data is acknowledged; one of 32 bits is the nearest to the one before."""
        if stream.base is None:
            return None
        if data_ack < _TCP:
            expected = (stream.base + stream.acked_bytes) % _DATA
            step = (data_ack - expected + _TCP // 2) % _TCP - _TCP // 2
            acked = stream.acked_bytes + step
        else:
            acked = _signed(data_ack - stream.base, _DATA)
        stream.acked_bytes = max(stream.acked_bytes, acked)
        return acked

    def _data(
        self,
        way: Way,
        stream: Stream,
        at_ns: int,
        seq: int,
        payload: int,
        kinds: tuple[int, ...],
        dsn: int | None,
        ssn: int | None,
        mapped: int | None,
        cut: bool,
        acked: int | None,
    ) -> tuple[Any, ...]:
        """A packet with payload."""
        subflow = way.subflow
        connection = subflow.connection
        if way.start is None:
            # under way: its mapping tells where the subflow is, else it begins here
            way.start = (seq + 1 - ssn) % _TCP if ssn else seq
            way.seen.front = _signed(seq - way.start, _TCP)
            way.last = way.seen.front
        # sequence numbers of 32 bits, as the nearest to the last one
        offset = way.last + _signed(seq - way.start - way.last, _TCP)
        way.last = max(way.last, offset)
        way.payload_bytes += payload
        here = way.seen.add(offset, offset + payload)
        if connection.is_mptcp and connection.fallback is None:
            if dsn is not None and ssn is not None and mapped:
                way.mapping = (dsn, ssn - 1, mapped)
                if stream.base is None:
                    stream.base = dsn
                    stream.seen.front = 0
            elif 0 in kinds and stream.base is not None:
                # the first data beside MP_CAPABLE (RFC 8684 3.1)
                way.mapping = (stream.base, 0, mapped or payload)
            elif dsn is not None and mapped == 0:
                connection.fallback = "infinite mapping"
            elif way.mapping is None and subflow.kind == "initial" and not kinds and not cut:
                connection.fallback = "data without DSS"
        begin = offset
        if connection.is_mptcp and connection.fallback is None:
            if way.mapping is None or stream.base is None or (cut and dsn is None):
                repeat = None if here else RETRANSMISSION
                way.retransmissions += repeat is not None
                return connection.number, subflow.number, WAYS[way.index], offset, None, None, None, acked, repeat
            begin += _signed(way.mapping[0] - stream.base, _DATA) - way.mapping[1]
        new, whole = stream.take(begin, begin + payload, at_ns)
        repeat = None
        if not here:
            repeat = RETRANSMISSION
            way.retransmissions += 1
        elif not new:
            repeat = REINJECTION
            way.reinjections += 1
        way.new_bytes += new
        return connection.number, subflow.number, WAYS[way.index], offset, begin, new, whole, acked, repeat

    def tell_connections(self) -> list[dict[str, Any]]:
        """A row for each connection, in the order in which they began."""
        rows = []
        for one in self.connections:
            row: dict[str, Any] = {"connection": one.number, **_ends(one.addresses)}
            row |= {"protocol": "mptcp" if one.is_mptcp else "tcp", "fallback": one.fallback}
            row |= {"token": one.token, "subflows": len(one.subflows)}
            row |= {"opened_ns": one.opened_ns, "last_ns": one.last_ns}
            row |= {"announced": ",".join(dict.fromkeys(one.announced)) or None, "ended_by": one.ended_by}
            for name, stream in zip(WAYS, one.streams, strict=True):
                lasted = None if stream.first_ns is None or stream.last_ns is None else stream.last_ns - stream.first_ns
                row[f"{name}_bytes"] = stream.new_bytes
                row[f"{name}_bit_per_s"] = stream.new_bytes * 8e9 / lasted if lasted else None
                # of data that the capture has only in parts, nobody knows when it was whole
                row[f"{name}_gap_ns"] = stream.gap_ns if stream.gap_ns and stream.seen.is_whole else None
                row[f"{name}_gap_began_ns"] = stream.gap_began_ns if stream.seen.is_whole else None
            for name, index in zip(WAYS, (0, 1), strict=True):
                ways = [way for subflow in one.subflows for way in subflow.ways if way.index == index]
                row[f"{name}_retransmissions"] = sum(way.retransmissions for way in ways)
                row[f"{name}_reinjections"] = sum(way.reinjections for way in ways)
            rows.append(row)
        return rows

    def tell_subflows(self) -> list[dict[str, Any]]:
        """A row for each subflow, in the order in which they began."""
        rows = []
        for one in self.subflows:
            row: dict[str, Any] = {"connection": one.connection.number, "subflow": one.number, "kind": one.kind}
            row |= {"path": self._path_of(one.addresses), **_ends(one.addresses)}
            row |= {"address_id": one.address_id, "backup": one.backup, "priorities": one.priorities}
            row |= {"opened_ns": one.opened_ns, "established_ns": one.established_ns}
            row |= {"closed_ns": one.closed_ns, "closed_by": one.closed_by}
            for way in sorted(one.ways, key=lambda way: way.index):
                name = WAYS[way.index]
                row |= {f"{name}_packets": way.packets, f"{name}_payload_bytes": way.payload_bytes}
                row |= {f"{name}_new_bytes": way.new_bytes, f"{name}_retransmissions": way.retransmissions}
                row[f"{name}_reinjections"] = way.reinjections
            rows.append(row)
        return rows

    def _path_of(self, addresses: Addresses) -> str | None:
        here, _, there, _ = addresses
        return self._paths.get((here, there)) or self._paths.get((there, here))


def spell_flags(flags: int) -> str:
    """TCP's flags as tcpdump's manual names them: `SYN,ACK`."""
    return ",".join(name for bit, name in _FLAGS if flags & bit)


def spell_options(subtype: str) -> str:
    """MPTCP's options by their names in RFC 8684."""
    names = (int(kind) for kind in subtype.split(","))
    return ",".join(SUBTYPES[kind] if kind < len(SUBTYPES) else f"option {kind}" for kind in names)


def token_of(key: int) -> int:
    """RFC 8684 3.2: the first 32 bits of the key's SHA-256."""
    return int.from_bytes(hashlib.sha256(key.to_bytes(8, "big")).digest()[:4], "big")


def _hash(key: int) -> int:
    """RFC 8684 3.2: the last 64 bits of the key's SHA-256 are the initial data sequence number."""
    return int.from_bytes(hashlib.sha256(key.to_bytes(8, "big")).digest()[-8:], "big")


def _signed(difference: int, modulus: int) -> int:
    """A difference of two numbers of a circle, the short way round."""
    return (difference + modulus // 2) % modulus - modulus // 2


def _ends(addresses: Addresses) -> dict[str, Any]:
    return dict(zip(_ENDS, addresses, strict=True))
