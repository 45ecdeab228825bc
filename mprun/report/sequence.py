# SPDX-License-Identifier: Apache-2.0
"""The time-sequence graph of a flow, from the tables of its captures: where each packet's payload is in the data of
its connection, by path. Pure."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from mprun.report.evidence import NS, Evidence, over_time
from mprun.report.figure import Chart, Form, Series
from mprun.report.palette import FLOW_TONES

# More packets than this of one connection are no picture, and too many for its table.
MOST_PACKETS = 100_000
_ENDS = ("source", "source_port", "destination", "destination_port")
_SOCKET = ("local", "local_port", "remote", "remote_port")
# What a packet is that was sent again, in words; by what the tables say.
_AGAIN = {None: "", "retransmission": ", sent again", "reinjection": ", reinjected"}


def draw_sequence(evidence: Evidence, flow: str | None, form: Form) -> Chart | None:
    """Of the connection of the flow that carried most, in the capture of its sender if there is one."""
    found = _find(evidence, flow) if flow is not None else None
    if found is None:
        return None
    capture, connection, way, others = found
    table = evidence.tables["packets"].filter(
        pl.col("capture") == capture,
        pl.col("connection") == connection,
        pl.col("way") == way,
        pl.col("payload_bytes") > 0,
        # of what a router forwards the tables count what comes in
        pl.col("new_bytes").is_not_null(),
    )
    at = pl.coalesce("data_offset_bytes", "subflow_offset_bytes").alias("at")
    rows = table.select("time_ns", "subflow", "repeat", at).drop_nulls("at").head(MOST_PACKETS + 1).collect()
    series = list(_series(evidence, rows.head(MOST_PACKETS), capture, connection))
    caption = f"Place in the connection's data of each packet with payload that {capture} captured, by path."
    if others:
        caption += f" Of the connection of {flow} that carried most, of {others + 1}."
    if rows.height > MOST_PACKETS:
        caption += f" The first {MOST_PACKETS} packets."
    return over_time(evidence, f"sequence-{flow}", f"Sequence of {flow}", caption, "data", "byte", series, form)


def _find(evidence: Evidence, flow: str) -> tuple[str, int, str, int] | None:
    """Capture, connection, the way that carried more, and how many further connections it has."""
    sockets = evidence.read("sockets", "host", *_SOCKET, "bytes_acked", flow=flow)
    subflows = evidence.tables.get("subflows")
    if sockets is None or subflows is None or "packets" not in evidence.tables:
        return None
    ends = sockets.select(_SOCKET).unique().rename(dict(zip(_SOCKET, _ENDS, strict=True)))
    turned = dict(zip(ends.columns, (*ends.columns[2:], *ends.columns[:2]), strict=True))
    ends = pl.concat([ends, ends.rename(turned).select(ends.columns)]).unique()
    carried = ("forward_payload_bytes", "reverse_payload_bytes")
    mine = subflows.select("capture", "connection", *_ENDS, *carried).collect().join(ends, on=_ENDS, how="semi")
    if not mine.height:
        return None
    totals = mine.group_by("capture", "connection").agg(pl.col(carried).sum())
    sender = sockets.sort("bytes_acked", descending=True)["host"][0]
    is_sender = pl.col("capture").replace_strict(evidence.captures, default="", return_dtype=pl.String) == sender
    best = totals.sort(is_sender, pl.max_horizontal(carried), "capture", "connection", descending=True).row(0)
    capture, connection, forward, reverse = best
    others = totals.filter(pl.col("capture") == capture).height - 1
    return capture, connection, "forward" if forward >= reverse else "reverse", others


def _series(evidence: Evidence, rows: pl.DataFrame, capture: str, connection: int) -> Iterator[Series]:
    """Of each path what was new; then what was sent again, with another mark."""
    subflows = evidence.tables["subflows"].filter(pl.col("capture") == capture, pl.col("connection") == connection)
    place = pl.coalesce("path", pl.col("source") + " to " + pl.col("destination"))
    ways = dict(subflows.select("subflow", place).collect().iter_rows())
    named = rows.with_columns(pl.col("subflow").replace_strict(ways, default="", return_dtype=pl.String).alias("way"))
    order = [*evidence.paths, *sorted(set(ways.values()) - set(evidence.paths))]
    for dash, (repeat, words) in enumerate(_AGAIN.items()):
        for way in order:
            part = named.filter(pl.col("way") == way, pl.col("repeat").eq_missing(repeat))
            if part.height:
                tone = evidence.tones.get(way, FLOW_TONES[0])
                times = [time_ns / NS for time_ns in part["time_ns"]]
                yield Series(f"{way}{words}", tone, times, [float(at) for at in part["at"]], dash=dash)
