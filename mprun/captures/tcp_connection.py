# SPDX-License-Identifier: Apache-2.0
"""Group the packets of a capture into connections and subflows, and describe the role of each packet. Pure.

This module follows TCP's sequence numbers and MPTCP's mappings (RFC 8684). It decides which bytes of the data are new,
which repeat bytes of the same subflow (retransmission) or of another subflow (reinjection), and how far the data is
complete without a gap. It keeps only the state that later packets are compared with, so a capture may have any length.
`mprun.captures.sctp_association` handles SCTP.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from mprun.captures.sctp_association import Associations, SctpPacket
from mprun.captures.stream import (
    DATA_SPACE,
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

if TYPE_CHECKING:
    import polars

FIN, SYN, RST, ACK = 1, 2, 4, 16
_FLAGS = ((SYN, "SYN"), (FIN, "FIN"), (RST, "RST"), (8, "PSH"), (ACK, "ACK"), (32, "URG"), (64, "ECE"), (128, "CWR"))
# Subtypes of the MPTCP option (RFC 8684 8.2).
SUBTYPES = (
    *("MP_CAPABLE", "MP_JOIN", "DSS", "ADD_ADDR", "REMOVE_ADDR", "MP_PRIO"),
    *("MP_FAIL", "MP_FASTCLOSE", "MP_TCPRST"),
)
_TCP = 1 << 32

# The columns that `follow` adds to each packet.
ADDED: dict[str, type] = {
    **{"connection": int, "subflow": int, "way": str, "subflow_offset_bytes": int, "data_offset_bytes": int},
    **{"new_bytes": int, "in_order_bytes": int, "data_acked_bytes": int, "repeat": str},
}
_ENDS = {"source": str, "source_port": int, "destination": str, "destination_port": int}
# The columns of the tables.
CONNECTION_COLUMNS: dict[str, type] = {
    **{"capture": str, "connection": int, **_ENDS, "protocol": str, "fallback": str},
    **{"token": int, "subflows": int, "opened_ns": int, "last_ns": int},
    **{"announced": str, "ended_by": str},
    **{f"{way}_{name}": int for way in WAYS for name in ("bytes", "gap_ns", "gap_began_ns")},
    **{f"{way}_bit_per_s": float for way in WAYS},
    **{f"{way}_{name}": int for way in WAYS for name in ("retransmissions", "reinjections")},
}
SUBFLOW_COLUMNS: dict[str, type] = {
    **{"capture": str, "connection": int, "subflow": int, "kind": str, "path": str, **_ENDS},
    **{"address_id": int, "backup": bool, "priorities": int},
    **{"opened_ns": int, "established_ns": int, "closed_ns": int, "closed_by": str},
    **{f"{way}_{name}": int for way in WAYS for name in ("packets", "payload_bytes", "new_bytes")},
    **{f"{way}_{name}": int for way in WAYS for name in ("retransmissions", "reinjections")},
}


class TcpPacket(NamedTuple):
    """The columns of a packet of TCP that `follow` reads."""

    time_ns: int
    source: str
    source_port: int
    destination: str
    destination_port: int
    flags: int
    seq: int
    payload_bytes: int
    subtype: str | None
    sender_key: int | None
    receiver_key: int | None
    token: int | None
    address_id: int | None
    backup: bool | None
    data_ack: int | None
    dsn: int | None
    ssn: int | None
    mapping_bytes: int | None
    announced_ipv4: str | None
    announced_ipv6: str | None
    echo: bool | None
    cut: bool


class CaptureConnections:
    """The connections of one capture.

    - cut_packets: the number of TCP packets whose options are not all in the capture.
    - cut_chunks: the number of SCTP packets whose chunks are not all in the capture.
    - paths: the names of paths by their two addresses.
    - forwards: the node forwards packets, so the capture contains each packet twice. Outgoing packets are then ignored.
    - inside, outside: the inside links of a NAT, and its addresses outside. A packet that it translates counts inside.
    - servers: the addresses and ports of servers, which open no connection.
    """

    def __init__(
        self,
        paths: Mapping[tuple[str, str], str],
        forwards: bool = False,
        inside: Collection[str] = (),
        outside: Collection[str] = (),
        servers: Collection[tuple[str, int]] = (),
    ) -> None:
        self._paths = paths
        self._forwards = forwards
        self._inside, self._outside = inside, outside
        self._servers = servers
        self._ways: dict[Addresses, Way] = {}
        # token -> the connection, and the direction of an MP_JOIN with this token
        self._tokens: dict[int, tuple[CapturedConnection, int]] = {}
        self._found = CapturedStreams()
        self._associations = Associations(self._found)
        self.cut_packets = 0

    @property
    def cut_chunks(self) -> int:
        return self._associations.cut_packets

    def follow(self, packets: polars.DataFrame) -> polars.DataFrame:
        """Return the packets with the columns `ADDED`. Call it for the portions of a capture in order of time."""
        import polars as pl

        followed = pl.col("source").is_not_null() & (
            ((pl.col("protocol") == "tcp") & pl.col("seq").is_not_null() & pl.col("flags").is_not_null())
            | ((pl.col("protocol") == "sctp") & pl.col("tag").is_not_null())
        )
        if self._forwards:
            is_first = (pl.col("direction") != "out").fill_null(True)
            is_translated = pl.col("destination").is_in(list(self._outside))
            followed &= pl.col("link").is_in(list(self._inside)).fill_null(False) | (is_first & ~is_translated)
        rows = packets.with_row_index("row").filter(followed)
        is_sctp = rows["protocol"] == "sctp"
        columns = [rows[name].to_list() for name in TcpPacket._fields]
        chunks = zip(*(rows.filter(is_sctp)[name].to_list() for name in SctpPacket._fields), strict=True)
        found = [
            self._associations.packet(SctpPacket(*next(chunks))) if sctp else self._packet(TcpPacket(*values))
            for sctp, *values in zip(is_sctp.to_list(), *columns, strict=True)
        ]
        added = pl.DataFrame(found, schema=ADDED, orient="row") if found else pl.DataFrame(schema=ADDED)
        added = added.with_columns(row=rows["row"])
        return packets.with_row_index("row").join(added, on="row", how="left", maintain_order="left").drop("row")

    def _packet(self, packet: TcpPacket) -> tuple[Any, ...]:
        flags, at_ns = packet.flags, packet.time_ns
        addresses = (packet.source, packet.source_port, packet.destination, packet.destination_port)
        kinds = () if packet.subtype is None else tuple(int(kind) for kind in packet.subtype.split(","))
        way = self._ways.get(addresses)
        is_opening = flags & (SYN | ACK) == SYN
        if way is None or (is_opening and way.start is not None and (packet.seq + 1) % _TCP != way.start):
            way = self._open(packet, addresses, kinds)
        subflow = way.subflow
        connection = subflow.connection
        connection.last_ns = at_ns
        way.packets += 1
        if packet.cut:
            self.cut_packets += 1
            # the first packet with a complete MPTCP option shows that the connection is MPTCP
            connection.is_mptcp |= bool(kinds)
        if flags & SYN:
            way.start = (packet.seq + 1) % _TCP
        elif subflow.established_ns is None and flags & (ACK | RST) == ACK and way is subflow.ways[0]:
            subflow.established_ns = None if subflow.kind == LATE else at_ns
        if kinds:
            self._options(way, packet, kinds)
            if 3 in kinds and not packet.echo and (announced := packet.announced_ipv4 or packet.announced_ipv6):
                connection.announced.append(announced)
        elif flags & SYN and flags & ACK and connection.is_mptcp and subflow.kind == "initial" and not packet.cut:
            connection.is_mptcp, connection.fallback = False, "no MP_CAPABLE in the answer"
        if flags & (FIN | RST):
            subflow.closed_ns = at_ns
            subflow.closed_by = "RST" if flags & RST else subflow.closed_by or "FIN"
        acked = None
        if packet.data_ack is not None and connection.is_mptcp:
            acked = self._acknowledge(connection.streams[1 - way.index], packet.data_ack)
        if not packet.payload_bytes:
            return connection.number, subflow.number, WAYS[way.index], None, None, None, None, acked, None
        return self._data(way, packet, kinds, acked)

    def _open(self, packet: TcpPacket, addresses: Addresses, kinds: tuple[int, ...]) -> Way:
        """Open a subflow that begins, or that began before the capture. Return the way of this packet."""
        flags, token, at_ns = packet.flags, packet.token, packet.time_ns
        is_answer = bool(flags & ACK) if flags & SYN else addresses[:2] in self._servers
        if is_answer:
            addresses = turned(addresses)
        is_join = 1 in kinds and token is not None
        if is_join and token in self._tokens:
            joined, index = self._tokens[token]
        else:
            joined, index = self._found.open(addresses, at_ns), 0
            joined.is_mptcp = bool(kinds)
            if is_join and token is not None:
                # the connection began before the capture
                joined.token = token
                self._tokens[token] = joined, index
        kind = "additional" if is_join else "initial" if flags & SYN else LATE
        subflow = self._found.join(joined, addresses, kind, at_ns, index)
        if is_join:
            subflow.address_id, subflow.backup = packet.address_id, bool(packet.backup)
        elif joined.is_mptcp:
            subflow.address_id = 0
        one, other = subflow.ways
        self._ways[addresses] = one
        self._ways[turned(addresses)] = other
        return other if is_answer else one

    def _options(self, way: Way, packet: TcpPacket, kinds: tuple[int, ...]) -> None:
        connection = way.subflow.connection
        if 0 in kinds:
            for index, key in ((way.index, packet.sender_key), (1 - way.index, packet.receiver_key)):
                stream = connection.streams[index]
                if key is not None and stream.token is None:
                    # an MP_JOIN has the token of the end that receives it
                    self._tokens[stream.set_key(key)] = connection, 1 - index
            connection.token = connection.token or connection.streams[1].token
        if 1 in kinds and packet.flags & SYN and packet.flags & ACK and packet.backup:
            way.subflow.backup = True
        if 5 in kinds:
            way.subflow.backup = bool(packet.backup)
            way.subflow.priorities += 1
        if 6 in kinds:
            connection.fallback = connection.fallback or "MP_FAIL"
        if 7 in kinds:
            connection.ended_by = "MP_FASTCLOSE"

    def _acknowledge(self, stream: Stream, data_ack: int) -> int | None:
        """Return how many bytes of the data are acknowledged; None if the first sequence number is not known.

        A data ACK of 32 bits stands for the nearest value to the previous data ACK.
        """
        if stream.base is None:
            return None
        if data_ack < _TCP:
            expected = (stream.base + stream.acked_bytes) % DATA_SPACE
            step = (data_ack - expected + _TCP // 2) % _TCP - _TCP // 2
            acked = stream.acked_bytes + step
        else:
            acked = signed(data_ack - stream.base, DATA_SPACE)
        if stream.seen.is_whole and acked == stream.seen.front + 1:
            # a DATA_FIN is acknowledged too, and is no payload
            acked -= 1
        stream.acked_bytes = max(stream.acked_bytes, acked)
        # of a connection that began before the capture, the first data seen may be acknowledged later
        return acked if acked >= 0 else None

    def _data(self, way: Way, packet: TcpPacket, kinds: tuple[int, ...], acked: int | None) -> tuple[Any, ...]:
        """Follow a packet with payload. Return the values of the columns `ADDED`."""
        payload, dsn, ssn, mapped = packet.payload_bytes, packet.dsn, packet.ssn, packet.mapping_bytes
        # data of a SYN follows the number of the SYN (RFC 7413)
        seq = packet.seq + bool(packet.flags & SYN)
        subflow, stream = way.subflow, way.stream
        connection = subflow.connection
        if way.start is None:
            # the subflow began before the capture: its mapping gives the offset, else count from this packet
            way.start = (seq + 1 - ssn) % _TCP if ssn else seq
            way.seen.front = signed(seq - way.start, _TCP)
            way.last = way.seen.front
        # a sequence number of 32 bits stands for the nearest offset to the last one
        offset = way.last + signed(seq - way.start - way.last, _TCP)
        way.last = max(way.last, offset)
        here = way.seen.add(offset, offset + payload)
        if connection.is_mptcp and connection.fallback is None:
            if dsn is not None and ssn is not None and mapped:
                way.mapping = (dsn, ssn - 1, mapped)
                if stream.base is None:
                    stream.base = dsn
                    stream.seen.front = 0
            elif 0 in kinds and stream.base is not None:
                # the first data comes in the packet of MP_CAPABLE (RFC 8684 3.1)
                way.mapping = (stream.base, 0, mapped or payload)
            elif dsn is not None and mapped == 0:
                connection.fallback = "infinite mapping"
            elif way.mapping is None and subflow.kind == "initial" and not kinds and not packet.cut:
                connection.fallback = "data without DSS"
        begin = offset
        if connection.is_mptcp and connection.fallback is None:
            if way.mapping is None or stream.base is None or (packet.cut and dsn is None):
                repeat = None if here else RETRANSMISSION
                way.count(payload, 0, repeat)
                return connection.number, subflow.number, WAYS[way.index], offset, None, None, None, acked, repeat
            begin += signed(way.mapping[0] - stream.base, DATA_SPACE) - way.mapping[1]
        new, whole = stream.take(begin, begin + payload, packet.time_ns)
        if new:
            repeat = None if here else RETRANSMISSION
            stream.carriers.add(begin, begin + payload, subflow.number)
        else:
            # after a subflow has closed, MPTCP sends all pending data again, also that of the remaining subflow
            is_own = not here or stream.carriers.find(begin) == subflow.number
            repeat = RETRANSMISSION if is_own else REINJECTION
        way.count(payload, new, repeat)
        return connection.number, subflow.number, WAYS[way.index], offset, begin, new, whole, acked, repeat

    def tell_connections(self) -> list[dict[str, Any]]:
        """Return a row for each connection, in the order in which they began."""
        rows = []
        for one in self._found.connections:
            row: dict[str, Any] = {"connection": one.number, **_ends(one.addresses)}
            row |= {"protocol": "mptcp" if one.is_mptcp else one.transport, "fallback": one.fallback}
            row |= {"token": one.token, "subflows": len(one.subflows)}
            row |= {"opened_ns": one.opened_ns, "last_ns": one.last_ns}
            row |= {"announced": ",".join(dict.fromkeys(one.announced)) or None, "ended_by": one.ended_by}
            for index, (name, stream) in enumerate(zip(WAYS, one.streams, strict=True)):
                lasted = None if stream.first_ns is None or stream.last_ns is None else stream.last_ns - stream.first_ns
                row[f"{name}_bytes"] = stream.new_bytes
                row[f"{name}_bit_per_s"] = stream.new_bytes * 8e9 / lasted if lasted else None
                # if the capture lacks a part of the data, gaps in the data's arrival are not known
                row[f"{name}_gap_ns"] = stream.gap_ns if stream.gap_ns and stream.seen.is_whole else None
                row[f"{name}_gap_began_ns"] = stream.gap_began_ns if stream.seen.is_whole else None
                ways = [way for subflow in one.subflows for way in subflow.ways if way.index == index]
                row[f"{name}_retransmissions"] = sum(way.retransmissions for way in ways)
                row[f"{name}_reinjections"] = sum(way.reinjections for way in ways)
            rows.append(row)
        return rows

    def tell_subflows(self) -> list[dict[str, Any]]:
        """Return a row for each subflow, in the order in which they began."""
        rows = []
        for one in self._found.subflows:
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
    """Return the names of TCP flags, separated by commas, such as `SYN,ACK`."""
    return ",".join(name for bit, name in _FLAGS if flags & bit)


def spell_options(subtype: str) -> str:
    """Return the names of MPTCP options as in RFC 8684, separated by commas."""
    names = (int(kind) for kind in subtype.split(","))
    return ",".join(SUBTYPES[kind] if kind < len(SUBTYPES) else f"option {kind}" for kind in names)


def _ends(addresses: Addresses) -> dict[str, Any]:
    return dict(zip(_ENDS, addresses, strict=True))
