# SPDX-License-Identifier: Apache-2.0
"""The figure of a column's mean by bins of another column, such as the completion time of flows by their size. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mprun.metrics.statistics import t_interval
from mprun.model.metric import SYMBOLS
from mprun.reports.figure import Chart, ChartAxis, Panel, Series
from mprun.reports.palette import FLOW_TONES
from mprun.statements.claim import column_unit

# The confidence of the intervals, as in publications with intervals of single flows.
CONFIDENCE = 0.99

BinnedColumns = Mapping[str, Sequence[float | None]]


@dataclass(frozen=True)
class Binning:
    """The columns of a table: `of` in bins of `over`. bins: the number of bins of equal width."""

    table: str
    over: str
    of: str
    bins: int


def draw_binned(name: str, title: str, binning: Binning, runs: Mapping[str, BinnedColumns]) -> Chart | None:
    """Return a line for each run with the mean of each bin and its interval of 99 %; None without rows.

    runs: the columns `over` and `of` of each run, by its name. All runs have the same bins. Rows without a value do
    not count, and a bin needs two rows.
    """
    pairs = {run: _pairs(binning, columns) for run, columns in runs.items()}
    positions = [x for rows in pairs.values() for x, _ in rows]
    if not positions:
        return None
    low, width = min(positions), (max(positions) - min(positions)) / binning.bins or 1.0
    series = []
    for n, (run, rows) in enumerate(pairs.items()):
        bins: list[list[float]] = [[] for _ in range(binning.bins)]
        for x, y in rows:
            bins[min(int((x - low) / width), binning.bins - 1)].append(y)
        kept = [(low + (position + 0.5) * width, values) for position, values in enumerate(bins) if len(values) > 1]
        ends = [t_interval(values, CONFIDENCE) for _, values in kept]
        series.append(
            Series(
                run,
                FLOW_TONES[n % len(FLOW_TONES)],
                [x for x, _ in kept],
                [statistics.fmean(values) for _, values in kept],
                [end.low for end in ends],
                [end.high for end in ends],
                dash=n,
            )
        )
    caption = f"Means of {binning.bins} bins of equal width, with t intervals of {CONFIDENCE:.0%} of single rows."
    axes = [ChartAxis(_say(column), SYMBOLS[column_unit(column)[0]]) for column in (binning.over, binning.of)]
    return Chart(name, title, caption, "line", axes[0], axes[1], (Panel("", tuple(series)),))


def _pairs(binning: Binning, columns: BinnedColumns) -> list[tuple[float, float]]:
    """Return the rows with both values, in base units."""
    factors = [column_unit(column)[1] for column in (binning.over, binning.of)]
    rows = zip(columns[binning.over], columns[binning.of], strict=True)
    known = [(x, y) for x, y in rows if x is not None and y is not None]
    return [(x * factors[0], y * factors[1]) for x, y in known if math.isfinite(x) and math.isfinite(y)]


def _say(column: str) -> str:
    """Return the name of a column without its unit: `completion` for `completion_ns`."""
    return column.rpartition("_")[0] or column
