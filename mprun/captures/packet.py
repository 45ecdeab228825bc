# SPDX-License-Identifier: Apache-2.0
"""Convert tshark's lines to a table of packets with typed columns. Pure.

`mprun.captures.tcp_connection` finds the role of a packet in its connection.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mprun.captures.sctp_association import spell_chunks, user_bytes
from mprun.captures.tcp_connection import ADDED, spell_flags, spell_options
from mprun.captures.tshark import FIELDS
from mprun.model.frozen import Frozen

if TYPE_CHECKING:
    import polars

# Fields of which all values of a packet count.
_LISTED = ("subtype", "announced_ipv4", "announced_ipv6", "chunks", "chunk_lengths", "tsns", "own_ipv4", "own_ipv6")
# Fields with unsigned numbers of up to 64 bits.
_KEYS = ("sender_key", "receiver_key", "data_ack", "dsn")
_TEXTS = (
    *("time", "interface", "mac", "ipv4_source", "ipv4_destination", "ipv6_source", "ipv6_destination"),
    *("flags", "tag", "initiate_tag", "backup", "echo", "data_fin", "cut", *_LISTED),
)
# The type of outgoing packets (packet(7), PACKET_OUTGOING).
_OUTGOING = 4
_UDP_HEADER_BYTES = 8
# Fields of TCP, UDP and SCTP. An ICMP error has those of the packet that it quotes.
_TRANSPORT = list(FIELDS)[list(FIELDS).index("tcp_source_port") :]
# IANA's numbers of the protocols that occur in runs.
PROTOCOLS = {1: "icmp", 6: "tcp", 17: "udp", 58: "icmpv6", 132: "sctp"}


class ObservationPoint(Frozen):
    """The place of a capture.

    - links: the link of each interface, by the interface's name.
    - macs: the MAC address of each interface. Interfaces of switches are missing, since a switch forwards frames with
        the addresses of other nodes.
    """

    links: Mapping[str, str]
    macs: Mapping[str, str]


def read_packets(text: bytes, point: ObservationPoint, zero_epoch_ns: int) -> polars.DataFrame:
    """Return the packets of a portion of tshark's lines. zero_epoch_ns: time zero in the clock of the capture.

    Incomplete lines are left out. The fields of TCP and MPTCP have the values of the packet.
    """
    import polars as pl

    kinds = dict.fromkeys(FIELDS, pl.String)
    table = pl.read_csv(io.BytesIO(text), has_header=False, separator="\t", quote_char=None, schema=kinds)
    several = [name for name in FIELDS if name not in _LISTED and table[name].str.contains(",", literal=True).any()]
    # if a packet contains another packet, the outer one counts
    table = table.with_columns(pl.col(name).str.split(",").list.first() for name in several)
    numbers = [name for name in FIELDS if name not in _TEXTS]
    outer = name_values(pl.coalesce("ipv4_protocol", "ipv6_protocol"), PROTOCOLS)
    quoted = outer.is_in(["icmp", "icmpv6"]).fill_null(False)
    table = table.with_columns(pl.when(~quoted).then(pl.col(name)).alias(name) for name in _TRANSPORT)
    lengths = table.select("chunks", "chunk_lengths").unique().drop_nulls()
    known = {f"{chunks}|{sizes}": user_bytes(chunks, sizes) for chunks, sizes in lengths.iter_rows()}
    carried = pl.concat_str("chunks", "chunk_lengths", separator="|").replace_strict(
        known, default=None, return_dtype=pl.Int64
    )
    is_out = pl.coalesce(
        pl.col("packet_type") == _OUTGOING, pl.col("mac") == name_values(pl.col("interface"), point.macs)
    )
    return (
        table.with_columns(
            *(pl.col(name).cast(pl.UInt64 if name in _KEYS else pl.Int64, strict=False) for name in numbers),
            pl.col("time").str.replace(".", "", literal=True).cast(pl.Int64, strict=False) - zero_epoch_ns,
            pl.col("flags", "tag", "initiate_tag").str.strip_prefix("0x").str.to_integer(base=16, strict=False),
            pl.col("cut").str.contains("TCP truncated|SCTP truncated").fill_null(False),
            *(pl.col(name).is_in(["1", "True"]) for name in ("backup", "echo", "data_fin")),
        )
        .filter(pl.col("time").is_not_null())
        .with_columns(
            link=name_values(pl.col("interface"), point.links),
            direction=pl.when(is_out).then(pl.lit("out")).when(~is_out).then(pl.lit("in")),
            # SCTP in UDP counts as SCTP (RFC 6951), but a packet quoted in an ICMP error does not
            protocol=pl.when(outer.is_in(["sctp", "udp"]) & pl.col("tag").is_not_null())
            .then(pl.lit("sctp"))
            .otherwise(outer),
            source=pl.coalesce("ipv4_source", "ipv6_source"),
            source_port=pl.coalesce("tcp_source_port", "sctp_source_port", "udp_source_port"),
            destination=pl.coalesce("ipv4_destination", "ipv6_destination"),
            destination_port=pl.coalesce("tcp_destination_port", "sctp_destination_port", "udp_destination_port"),
            payload_bytes=pl.coalesce("tcp_payload", carried, pl.col("udp_length") - _UDP_HEADER_BYTES),
            seq=pl.coalesce("seq", pl.col("tsns").str.split(",").list.first().cast(pl.Int64, strict=False)),
            ack=pl.coalesce("ack", "cumulative_tsn"),
            quic=pl.lit(None, pl.String),
        )
        .rename({"time": "time_ns"})
    )


def name_values(column: polars.Expr, names: Mapping[Any, str]) -> polars.Expr:
    """Return the name of each value; null for a value without a name."""
    import polars as pl

    return column.replace_strict(names, default=None, return_dtype=pl.String)


def name_quic(packets: polars.DataFrame, kinds: Sequence[str | None] | None) -> polars.DataFrame:
    """Return packets with the kinds of QUIC in each datagram. kinds: None if the run has no flow of QUIC."""
    import polars as pl

    return packets if kinds is None else packets.with_columns(pl.Series("quic", kinds[: len(packets)], pl.String))


# The columns of the table of packets: `capture`, `number`, columns of read_packets, and the columns of a trace.
PACKET_COLUMNS: dict[str, type] = {
    **{"capture": str, "number": int, "time_ns": int, "interface": str, "link": str, "direction": str},
    **{"protocol": str, "source": str, "source_port": int, "destination": str, "destination_port": int},
    **{"length_bytes": int, "payload_bytes": int, "flags": str, "seq": int, "ack": int, "options": str},
    **ADDED,
}


def shape_packets(packets: polars.DataFrame, capture: str, first: int) -> polars.DataFrame:
    """Return packets that a trace has followed, with the columns of the table.

    first: the number of the first packet.
    """
    import polars as pl

    def spelled(column: str, spell: Callable[[Any], str]) -> polars.Expr:
        return name_values(pl.col(column), {value: spell(value) for value in packets[column].unique().drop_nulls()})

    data_fin = pl.when("data_fin").then(pl.lit(",DATA_FIN")).otherwise(pl.lit(""))
    return packets.with_columns(
        capture=pl.lit(capture),
        number=pl.int_range(first, first + pl.len(), dtype=pl.Int64),
        flags=pl.coalesce(spelled("flags", spell_flags), spelled("chunks", spell_chunks), "quic"),
        options=pl.concat_str(spelled("subtype", spell_options), data_fin),
    ).select(*PACKET_COLUMNS)
