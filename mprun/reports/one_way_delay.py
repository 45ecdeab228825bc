# SPDX-License-Identifier: Apache-2.0
"""The figure of one-way delays, from the table that `mprun packets` makes of captures at two nodes. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import polars as pl

from mprun.reports.figure import Chart, ChartAxis, ChartForm, Panel, Series
from mprun.reports.palette import FLOW_TONES
from mprun.reports.run_data import MOST_LINES, NS, RunData, over_time

_RECEIVED, _LOST = "received", "lost"
_KEYS = ("from", "to", "path", "link")
# More plots do not fit a figure.
MOST_PANELS = 6
_STEM, _TITLE = "one-way-delay", "One-way delay"


def draw_one_way_delay(evidence: RunData, flow: str | None, form: ChartForm) -> Chart | None:
    """Return the figure of the delay of each packet from time zero on, by direction and path; None without packets.

    Over time, lost packets are marked at 0.
    """
    rows = evidence.read("one_way_delays", "sent_ns", "delay_ns", "state", "flow", *_KEYS, flow=flow)
    if rows is None:
        return None
    # the pings of idle paths are before time zero
    rows = rows.filter(pl.col("sent_ns") >= 0)
    if rows.is_empty():
        return None
    stem = _STEM if flow is None else f"{_STEM}-{flow}"
    lost = rows.filter(pl.col("state") == _LOST).height
    panels = list(_panels(evidence, rows, form))
    series = [each for panel in panels for each in panel.series]
    shown = panels[:MOST_PANELS]
    dropped = f" The first {len(shown)} of {len(panels)} directions." if len(panels) > len(shown) else ""
    if form == "cdf":
        caption = "Share of the packets whose time from one node to the other was no longer than that."
        caption += f" Without the {lost} lost packets.{dropped}" if lost else dropped
        return Chart(stem, _TITLE, caption, form, ChartAxis("delay", "s"), ChartAxis("share", "share"), tuple(shown))
    caption = "Time of each packet from one node to the other, at the moment when it left."
    caption += f" The {lost} lost packets are marked at 0.{dropped}" if lost else dropped
    chart = over_time(evidence, f"{stem}-time", f"{_TITLE} over time", caption, "delay", "s", series, form)
    return None if chart is None else replace(chart, panels=tuple(shown))


def _panels(evidence: RunData, rows: pl.DataFrame, form: ChartForm) -> Iterator[Panel]:
    """Yield a plot for each direction, with a series for each path and, over time, for the losses of the path."""
    kept = pl.col("state") == _RECEIVED if form == "cdf" else pl.col("delay_ns").is_not_null()
    for (sender, receiver), part in rows.group_by("from", "to", maintain_order=True):
        series = list(_series(evidence, part.filter(kept), ""))
        if form != "cdf":
            series += _series(evidence, part.filter(pl.col("state") == _LOST), ", lost")
        if series:
            yield Panel(f"{sender} → {receiver}", tuple(series[:MOST_LINES]))


def _series(evidence: RunData, rows: pl.DataFrame, words: str) -> Iterator[Series]:
    """Yield the delays of each path. words: the addition to the label, for lost packets, which have another mark."""
    label = pl.coalesce("path", "link", pl.lit("other"))
    named = rows.with_columns(label.alias("place"), pl.col("delay_ns").fill_null(0))
    for (where,), part in named.sort("place", maintain_order=True).group_by("place", maintain_order=True):
        name = str(where)
        tone = evidence.tones.get(name) or evidence.tone_of_link(name) or FLOW_TONES[0]
        times, delays = ([value / NS for value in part[column]] for column in ("sent_ns", "delay_ns"))
        yield Series(f"{name}{words}", tone, times, delays, dash=2 * bool(words))
