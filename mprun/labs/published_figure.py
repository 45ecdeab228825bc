# SPDX-License-Identifier: Apache-2.0
"""The figures of a study. Pure.

- `draw_pairs`: published and measured values beside each other.
- `draw_binned`: the mean of a column by bins of another column, such as the completion time of flows by their size.
- `draw_classes`: the time-sequence graphs of one short flow of each class. The classes are those of table `flows`, and
  the packets are those of the sender's capture.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from textwrap import fill

import polars as pl

from mprun.inputs.keys.lab_definition import BinnedEntry
from mprun.labs.study_figure import Drawn
from mprun.metrics.statistics import t_interval
from mprun.model.metric import SYMBOLS
from mprun.reports.figure import Chart, ChartAxis, Panel, Series
from mprun.reports.palette import FLOW_TONES
from mprun.reports.run_data import NS
from mprun.statements.claim import column_unit

# The confidence of the intervals, as in publications with intervals of single flows.
CONFIDENCE = 0.99

BinnedColumns = Mapping[str, Sequence[float | None]]


def draw_binned(name: str, title: str, binned: BinnedEntry, runs: Mapping[str, BinnedColumns]) -> Chart | None:
    """Return a line for each run with the mean of each bin and its interval of 99 %; None without rows.

    runs: the columns `over` and `of` of each run, by its name. All runs have the same bins. Rows without a value do
    not count, and a bin needs two rows.
    """
    pairs = {run: _pairs(binned, columns) for run, columns in runs.items()}
    positions = [x for rows in pairs.values() for x, _ in rows]
    if not positions:
        return None
    low, width = min(positions), (max(positions) - min(positions)) / binned.bins or 1.0
    series = []
    for n, (run, rows) in enumerate(pairs.items()):
        bins: list[list[float]] = [[] for _ in range(binned.bins)]
        for x, y in rows:
            bins[min(int((x - low) / width), binned.bins - 1)].append(y)
        kept = [(low + (position + 0.5) * width, values) for position, values in enumerate(bins) if len(values) > 1]
        ends = [t_interval(values, CONFIDENCE) for _, values in kept]
        low_ends, high_ends = [end.low for end in ends], [end.high for end in ends]
        at, means = [x for x, _ in kept], [statistics.fmean(values) for _, values in kept]
        series.append(Series(run, FLOW_TONES[n % len(FLOW_TONES)], at, means, low_ends, high_ends, dash=n))
    caption = f"Means of {binned.bins} bins of equal width, with t intervals of {CONFIDENCE:.0%} of single rows."
    axes = [ChartAxis(_say(column), SYMBOLS[column_unit(column)[0]]) for column in (binned.over, binned.of)]
    return Chart(name, title, caption, "line", axes[0], axes[1], (Panel("", tuple(series)),))


def _pairs(binned: BinnedEntry, columns: BinnedColumns) -> list[tuple[float, float]]:
    """Return the rows with both values, in base units."""
    scales = [column_unit(column)[1] for column in (binned.over, binned.of)]
    rows = zip(columns[binned.over], columns[binned.of], strict=True)
    known = [(x, y) for x, y in rows if x is not None and y is not None]
    return [(x / scales[0], y / scales[1]) for x, y in known if math.isfinite(x) and math.isfinite(y)]


def _say(column: str) -> str:
    """Return the name of a column without its unit: `completion` for `completion_ns`."""
    return column.rpartition("_")[0] or column


# The letters in a line below a bar, for a whole figure.
LETTERS = 72


def draw_pairs(name: str, title: str, quantity: str, pairs: Sequence[Drawn]) -> Chart | None:
    """Return a figure with two bars for each value, published and here; None if no value is known."""
    width = max(8, LETTERS // max(len(pairs), 1))
    names = tuple(fill(pair.label, width, break_long_words=False) for pair in pairs)
    sides = (
        ("published", "f4", [pair.published for pair in pairs]),
        ("here", "f0", [pair.here for pair in pairs]),
    )
    units = [value.unit for _, _, values in sides for value in values if value]
    if not units:
        return None
    series = [
        Series(label, tone, range(len(pairs)), [value.amount if value else math.nan for value in values])
        for label, tone, values in sides
        if any(values)
    ]
    axes = ChartAxis("", categories=names), ChartAxis(quantity, SYMBOLS[units[0]])
    return Chart(name, title, "", "bar", *axes, (Panel("", tuple(series)),))


# The words of a series, for data that is sent for the first time and data that is sent again.
_FIRST, _AGAIN = "sent", "sent again"
# The program's time is from before its call, and the capture's from the packet. A flow takes much longer.
_SAME_NS = 1_000_000


def draw_classes(
    name: str, title: str, tables: Mapping[str, pl.LazyFrame], flow: str, classes: Sequence[str]
) -> Chart | None:
    """Return a plot for each class: the first flow of the class, from its first packet. None if no class has a flow.

    - tables: `flows`, and `connections` and `packets` of the captures.
    - flow: its name in table `flows`.
    """
    flows = tables["flows"].filter(flow=flow).sort("start_ns").collect()
    panels = []
    for kind in classes:
        for row in flows.filter(pl.col("class") == kind).iter_rows(named=True):
            series = _draw_flow(tables, row["local_port"], row["start_ns"])
            if series:
                panels.append(Panel(_say_class(kind, row["completion_ns"]), series))
                break
    if not panels:
        return None
    caption = "Place of each packet with payload in the data of its flow, from the start of the flow."
    return Chart(name, title, caption, "points", ChartAxis("time", "s"), ChartAxis("data", "byte"), tuple(panels))


def _draw_flow(tables: Mapping[str, pl.LazyFrame], port: int, start_ns: int) -> tuple[Series, ...]:
    """Return the packets of a flow; none if the captures do not have its connection."""
    opened = tables["connections"].filter(
        pl.col("source_port") == port, (pl.col("opened_ns") - start_ns).abs() <= _SAME_NS
    )
    mine = tables["packets"].join(opened, on=("capture", "connection"), how="semi")
    rows = mine.filter(pl.col("way") == "forward", pl.col("payload_bytes") > 0, pl.col("new_bytes").is_not_null())
    found = rows.select("time_ns", "repeat", "subflow_offset_bytes").drop_nulls("subflow_offset_bytes").collect()
    parts = ((_FIRST, found.filter(pl.col("repeat").is_null())), (_AGAIN, found.filter(pl.col("repeat").is_not_null())))
    series = []
    for n, (label, part) in enumerate(parts):
        if part.height:
            times, offsets = (part["time_ns"] - start_ns) / NS, part["subflow_offset_bytes"]
            series.append(Series(label, FLOW_TONES[n], times.to_list(), offsets.to_list(), dash=n))
    return tuple(series)


def _say_class(kind: str, completion_ns: int | None) -> str:
    time = "not complete" if completion_ns is None else f"{completion_ns / 1e6:.0f} ms"
    return f"{kind.replace('_', ' ')}: {time}"
