# SPDX-License-Identifier: Apache-2.0
"""Figures of a QUIC connection over time, from the tables of its qlog. Pure.

They have the names and the colours of the figures of MPTCP. Events of paths are marked: the end of validation, and
frames of the multipath extension that declare a path a backup, available, or abandoned.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import polars as pl

from mprun.model.sequence_space import Seen
from mprun.reports.figure import Chart, ChartForm, Mark, Series
from mprun.reports.palette import FLOW_TONES
from mprun.reports.run_data import NS, FigureWords, RunData, over_time, over_time_of

# The length of an interval of the figure of rates.
INTERVAL_NS = 100_000_000
# A state that does not change for this time is drawn as a horizontal line.
HELD_NS = 10_000_000
# A connection with more frames does not fit a picture.
MOST_FRAMES = 100_000
# The name for packets whose path the qlog does not have.
ALL = "all paths"
# Frames that change a path -> the words for it.
_CHANGES = {
    "path_abandon": "abandoned",
    "path_status_backup": "backup",
    "path_status_available": "available",
}
_AGAIN = ("", ", sent again", ", reinjected")


def draw_rtt(evidence: RunData, flow: str, form: ChartForm) -> Chart | None:
    caption = f"Smoothed round-trip time that the sender of {flow} has of each path, from its qlog."
    words = ("rtt", "Round-trip time", "round-trip time", "s")
    return _draw_state(evidence, flow, ("srtt_ns", 1 / NS), words, caption, form)


def draw_cwnd(evidence: RunData, flow: str, form: ChartForm) -> Chart | None:
    caption = f"Congestion window of each path at the sender of {flow}, from its qlog."
    words = ("cwnd", "Congestion window", "congestion window", "byte")
    return _draw_state(evidence, flow, ("cwnd_bytes", 1.0), words, caption, form)


def draw_in_flight(evidence: RunData, flow: str, form: ChartForm) -> Chart | None:
    caption = f"Bytes that the sender of {flow} has sent on each path and that are neither acknowledged nor considered "
    words = ("in_flight", "Bytes in flight", "in flight", "byte")
    return _draw_state(evidence, flow, ("in_flight_bytes", 1.0), words, f"{caption}lost, from its qlog.", form)


def _draw_state(
    evidence: RunData, flow: str, column: tuple[str, float], words: FigureWords, caption: str, form: ChartForm
) -> Chart | None:
    """Return the figure of a state of the sender, from a column with its factor; None if some states have no path."""
    name, factor = column
    rows = evidence.read("qlog_recovery", "flow", "time_ns", "end", "path", name, flow=flow)
    if rows["path"].null_count():
        return None
    series = []
    for path, part in _by_path(evidence, rows.filter(pl.col("end") == _sender(evidence, flow)).drop_nulls(name)):
        times, values = _hold(part["time_ns"].to_list(), part[name].to_list())
        scaled = [value * factor for value in values]
        series.append(Series(path, _tone(evidence, path), [time_ns / NS for time_ns in times], scaled))
    return _mark(evidence, flow, over_time_of(evidence, flow, words, caption, series, form))


def _hold(times_ns: Sequence[int], values: Sequence[float]) -> tuple[list[int], list[float]]:
    """Return the points of a state that keeps its value until it changes, where it kept it for long."""
    held_ns: list[int] = []
    held: list[float] = []
    for time_ns, value in zip(times_ns, values, strict=True):
        if held and time_ns - held_ns[-1] > HELD_NS:
            held_ns.append(time_ns)
            held.append(held[-1])
        held_ns.append(time_ns)
        held.append(value)
    return held_ns, held


def draw_rate(evidence: RunData, flow: str, form: ChartForm) -> Chart | None:
    sender = _sender(evidence, flow)
    columns = ("flow", "time_ns", "end", "event", "path", "payload_bytes")
    rows = evidence.read("qlog_packets", *columns, flow=flow)
    got = rows.filter(pl.col("end") != sender, pl.col("event") == "received", pl.col("time_ns") >= 0)
    if not sender or not got.height:
        return None
    bins = got.with_columns(bin=pl.col("time_ns") // INTERVAL_NS)
    last = bins["bin"].max()
    assert isinstance(last, int)
    moments = [number * INTERVAL_NS / NS for number in range(last + 2)]
    series = []
    for path, part in _by_path(evidence, bins):
        sums = dict(part.group_by("bin").agg(pl.col("payload_bytes").sum()).iter_rows())
        rates = [sums.get(number, 0) * 8 * NS / INTERVAL_NS for number in range(last + 1)]
        series.append(Series(path, _tone(evidence, path), moments, [*rates, rates[-1]]))
    caption = f"Payload of STREAM frames that the receiver of {flow} got on each path, mean of each 0.1 s"
    caption += ", stacked." if form == "stack" else "."
    title = f"Rate of {flow} by path"
    return _mark(evidence, flow, over_time(evidence, (f"rate-{flow}", title, "rate", "bit/s"), caption, series, form))


def draw_offsets(evidence: RunData, flow: str, form: ChartForm) -> Chart | None:
    """Return the figure of the place of each sent STREAM frame in its stream, by path."""
    columns = ("flow", "time_ns", "end", "event", "path", "frame", "stream", "offset_bytes", "length_bytes")
    rows = evidence.read("qlog_frames", *columns, flow=flow)
    is_sent = (pl.col("end") == _sender(evidence, flow)) & (pl.col("event") == "sent") & (pl.col("frame") == "stream")
    sent = rows.filter(is_sent).drop_nulls("offset_bytes")
    series = list(_offsets(evidence, sent.head(MOST_FRAMES)))
    caption = f"Place in its stream of each STREAM frame that the sender of {flow} sent, by path."
    if sent.height > MOST_FRAMES:
        caption += f" The first {MOST_FRAMES} frames."
    words = ("sequence", "Sequence", "data", "byte")
    return _mark(evidence, flow, over_time_of(evidence, flow, words, caption, series, form))


def _offsets(evidence: RunData, sent: pl.DataFrame) -> Iterator[Series]:
    """Yield the new data of each path, then the data that was sent before on the same path, then on another."""
    seen: dict[int, Seen] = {}
    carriers: dict[tuple[int, int], str] = {}
    points: dict[tuple[int, str], list[tuple[float, float]]] = {}
    for time_ns, path, stream, offset, length in sent.select(
        "time_ns", pl.col("path").fill_null(ALL), "stream", "offset_bytes", "length_bytes"
    ).iter_rows():
        is_new = seen.setdefault(stream, Seen()).add(offset, offset + length) or not length
        before = carriers.setdefault((stream, offset), path)
        again = 0 if is_new else 1 if before == path else 2
        points.setdefault((again, path), []).append((time_ns / NS, float(offset)))
    order = [*evidence.paths, ALL]
    for again, path in sorted(points, key=lambda key: (key[0], order.index(key[1]))):
        times, offsets = zip(*points[again, path], strict=True)
        yield Series(f"{path}{_AGAIN[again]}", _tone(evidence, path), times, offsets, dash=again)


def _sender(evidence: RunData, flow: str) -> str:
    """Return the end that sent more payload; empty without a qlog of the flow."""
    rows = evidence.read("qlog_packets", "flow", "end", "event", "payload_bytes", flow=flow)
    sent = rows.filter(pl.col("event") == "sent").group_by("end").agg(pl.col("payload_bytes").sum())
    return str(sent.sort("payload_bytes", "end", descending=True)["end"][0]) if sent.height else ""


def _by_path(evidence: RunData, rows: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    named = rows.with_columns(pl.col("path").cast(pl.String).fill_null(ALL))
    for path in [*evidence.paths, ALL]:
        part = named.filter(pl.col("path") == path)
        if part.height:
            yield path, part


def _tone(evidence: RunData, path: str) -> str:
    return evidence.tones.get(path, FLOW_TONES[0])


def _mark(evidence: RunData, flow: str, chart: Chart | None) -> Chart | None:
    """Add the events of paths to a figure."""
    if chart is None:
        return None
    marks = sorted((*chart.marks, *_find_marks(evidence, flow)), key=lambda mark: mark.at)
    return replace(chart, marks=tuple(marks))


def _find_marks(evidence: RunData, flow: str) -> Iterator[Mark]:
    columns = ("flow", "time_ns", "end", "event", "path", "frame", "about")
    rows = evidence.read("qlog_frames", *columns, flow=flow)
    validated: Mapping[str, int] = {}
    answers = rows.filter(pl.col("end") == "client", pl.col("event") == "received", pl.col("frame") == "path_response")
    if answers.height:
        first = answers.drop_nulls("path").group_by("path", maintain_order=True).agg(pl.col("time_ns").min())
        validated = dict(first.iter_rows())
    for path, time_ns in validated.items():
        yield Mark(time_ns / NS, f"{path} validated")
    changes = rows.filter(pl.col("event") == "sent", pl.col("frame").is_in(list(_CHANGES)))
    told = set()
    for time_ns, path, frame in changes.select("time_ns", "about", "frame").drop_nulls().iter_rows():
        # a frame that was lost is sent again, and the other end abandons a path too
        if (path, frame) not in told:
            told.add((path, frame))
            yield Mark(time_ns / NS, f"{path} {_CHANGES[frame]}")
