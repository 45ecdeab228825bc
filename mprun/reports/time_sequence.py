# SPDX-License-Identifier: Apache-2.0
"""The figures of a run's captures, from the tables that `mprun packets` makes. Pure.

- `draw_sequence`: the time-sequence graph of a flow, with the place of each packet's payload in the data of its
  connection, by path.
- `draw_one_way_delay`: the delay of each packet between captures at two nodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import polars as pl

from mprun.reports.figure import Chart, ChartAxis, ChartForm, Panel, Series
from mprun.reports.palette import FLOW_TONES
from mprun.reports.run_data import MOST_LINES, NS, RunData, over_time

# A connection with more packets does not fit a picture, and its table would be too large.
MOST_PACKETS = 100_000
_ENDS = ("source", "source_port", "destination", "destination_port")
_WAYS = ("forward", "reverse")
_SOCKET = ("local", "local_port", "remote", "remote_port")
# The words for a packet that was sent again, by the value in the tables.
_AGAIN = {None: "", "retransmission": ", sent again", "reinjection": ", reinjected"}


def draw_sequence(evidence: RunData, flow: str, form: ChartForm) -> Chart | None:
    """Return the figure of the flow's connection that carried most, from its sender's capture if there is one."""
    found = _find(evidence, flow)
    if found is None:
        return None
    capture, connection, way, others = found
    table = evidence.tables["packets"].filter(
        pl.col("capture") == capture,
        pl.col("connection") == connection,
        pl.col("way") == way,
        pl.col("payload_bytes") > 0,
        # for a router, the tables count packets that come in
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
    return over_time(evidence, (f"sequence-{flow}", f"Sequence of {flow}", "data", "byte"), caption, series, form)


def _find(evidence: RunData, flow: str) -> tuple[str, int, str, int] | None:
    """Return the capture, the connection, the direction that carried more, and the number of other connections."""
    if "subflows" not in evidence.tables or "packets" not in evidence.tables:
        return None
    table = evidence.tables["subflows"]
    found = _by_sockets(evidence, flow, table) or _by_ports(evidence, flow, table)
    if found is None:
        return None
    mine, senders = found
    forward, reverse = (f"{way}_payload_bytes" for way in _WAYS)
    totals = mine.group_by("capture", "connection").agg(pl.col(forward, reverse).sum()).collect()
    if not totals.height:
        return None
    way = pl.when(pl.col(forward) >= pl.col(reverse)).then(pl.lit(_WAYS[0])).otherwise(pl.lit(_WAYS[1]))
    sender = way.replace_strict(senders, return_dtype=pl.String)
    node = pl.col("capture").replace_strict(evidence.captures, default="", return_dtype=pl.String)
    ordered = totals.with_columns(way=way, is_sender=node == sender, most=pl.max_horizontal(forward, reverse))
    best = ordered.sort("is_sender", "most", "capture", "connection", descending=True).row(0, named=True)
    others = totals.filter(pl.col("capture") == best["capture"]).height - 1
    return best["capture"], best["connection"], best["way"], others


def _by_sockets(evidence: RunData, flow: str, subflows: pl.LazyFrame) -> tuple[pl.LazyFrame, dict[str, str]] | None:
    """Return the subflows of TCP whose sockets the kernel reported, and the sender of each direction.

    The sender is the host that has had most bytes acknowledged.
    """
    sockets = evidence.read("sockets", "host", *_SOCKET, "bytes_acked", flow=flow)
    if sockets.is_empty():
        return None
    ends = sockets.select(_SOCKET).unique().rename(dict(zip(_SOCKET, _ENDS, strict=True)))
    turned = dict(zip(ends.columns, (*ends.columns[2:], *ends.columns[:2]), strict=True))
    ends = pl.concat([ends, ends.rename(turned).select(ends.columns)]).unique()
    sender = sockets.sort("bytes_acked", descending=True)["host"][0]
    return subflows.join(ends.lazy(), on=_ENDS, how="semi"), dict.fromkeys(_WAYS, sender)


def _by_ports(evidence: RunData, flow: str, subflows: pl.LazyFrame) -> tuple[pl.LazyFrame, dict[str, str]] | None:
    """Return the paths of an association of SCTP, and the sender of each direction."""
    association = evidence.associations.get(flow)
    if association is None or "connections" not in evidence.tables:
        return None
    servers = pl.LazyFrame(sorted(association.servers), ["destination", "destination_port"], orient="row")
    sctp = evidence.tables["connections"].filter(protocol="sctp").select("capture", "connection")
    mine = subflows.join(servers, on=servers.collect_schema().names(), how="semi")
    senders = dict(zip(_WAYS, (association.source, association.destination), strict=True))
    return mine.join(sctp, on=("capture", "connection"), how="semi"), senders


def _series(evidence: RunData, rows: pl.DataFrame, capture: str, connection: int) -> Iterator[Series]:
    """Yield the new data of each path, then the data that was sent again, with another mark."""
    subflows = evidence.tables["subflows"].filter(pl.col("capture") == capture, pl.col("connection") == connection)
    label = pl.coalesce("path", pl.col("source") + " to " + pl.col("destination"))
    ways = dict(subflows.select("subflow", label).collect().iter_rows())
    named = rows.with_columns(pl.col("subflow").replace_strict(ways, default="", return_dtype=pl.String).alias("way"))
    order = [*evidence.paths, *sorted(set(ways.values()) - set(evidence.paths))]
    for dash, (repeat, words) in enumerate(_AGAIN.items()):
        for way in order:
            part = named.filter(pl.col("way") == way, pl.col("repeat").eq_missing(repeat))
            if part.height:
                tone = evidence.tones.get(way, FLOW_TONES[0])
                times = [time_ns / NS for time_ns in part["time_ns"]]
                yield Series(f"{way}{words}", tone, times, [float(at) for at in part["at"]], dash=dash)


_RECEIVED, _LOST, _UNKNOWN = "received", "lost", "unknown"
_KEYS = ("from", "to", "path", "link")
# More plots do not fit a figure.
MOST_PANELS = 6
_STEM, _TITLE = "one-way-delay", "One-way delay"


def draw_one_way_delay(evidence: RunData, flow: str | None, form: ChartForm) -> Chart | None:
    """Return the figure of the delay of each packet, by direction and path; None without. Lost ones are marked at 0."""
    found = evidence.read("one_way_delays", "sent_ns", "delay_ns", "state", "flow", *_KEYS, flow=flow)
    # the pings of idle paths are before time zero
    rows = found.filter(pl.col("sent_ns") >= 0)
    if rows.is_empty():
        return None
    stem = _STEM if flow is None else f"{_STEM}-{flow}"
    lost, unknown = (rows.filter(pl.col("state") == state).height for state in (_LOST, _UNKNOWN))
    panels = list(_panels(evidence, rows, form))
    shown = [replace(panel, series=panel.series[:MOST_LINES]) for panel in panels[:MOST_PANELS]]
    series = [each for panel in shown for each in panel.series]
    dropped = f" Without {unknown} packets that may have arrived or not." if unknown else ""
    dropped += f" The first {len(shown)} of {len(panels)} directions." if len(panels) > len(shown) else ""
    if any(len(panel.series) > MOST_LINES for panel in panels):
        dropped += f" The first {MOST_LINES} series of a direction."
    if form == "cdf":
        caption = "Share of the packets whose time from one node to the other was no longer than that."
        caption += f" Without the {lost} lost packets.{dropped}" if lost else dropped
        return Chart(stem, _TITLE, caption, form, ChartAxis("delay", "s"), ChartAxis("share", "share"), tuple(shown))
    caption = "Time of each packet from one node to the other, at the moment when it left."
    caption += f" The {lost} lost packets are marked at 0.{dropped}" if lost else dropped
    chart = over_time(evidence, (f"{stem}-time", f"{_TITLE} over time", "delay", "s"), caption, series, form)
    return None if chart is None else replace(chart, panels=tuple(shown))


def _panels(evidence: RunData, rows: pl.DataFrame, form: ChartForm) -> Iterator[Panel]:
    """Yield a plot for each direction, with a series for each path and, over time, for the losses of the path."""
    kept = pl.col("state") == _RECEIVED if form == "cdf" else pl.col("delay_ns").is_not_null()
    for (sender, receiver), part in rows.group_by("from", "to", maintain_order=True):
        series = list(_delay_series(evidence, part.filter(kept), ""))
        if form != "cdf":
            series += _delay_series(evidence, part.filter(pl.col("state") == _LOST), ", lost")
        if series:
            yield Panel(f"{sender} → {receiver}", tuple(series))


def _delay_series(evidence: RunData, rows: pl.DataFrame, words: str) -> Iterator[Series]:
    """Yield the delays of each path. words: the addition to the label, for lost packets, which have another mark."""
    label = pl.coalesce("path", "link", pl.lit("other"))
    named = rows.with_columns(label.alias("place"), pl.col("delay_ns").fill_null(0))
    for (where,), part in named.sort("place", maintain_order=True).group_by("place", maintain_order=True):
        name = str(where)
        tone = evidence.tones.get(name) or evidence.tone_of_link(name) or FLOW_TONES[0]
        times, delays = ([value / NS for value in part[column]] for column in ("sent_ns", "delay_ns"))
        yield Series(f"{name}{words}", tone, times, delays, dash=2 * bool(words), is_lost=bool(words))
