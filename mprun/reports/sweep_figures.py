# SPDX-License-Identifier: Apache-2.0
"""Figures over the cells of a sweep: a metric against the axes of the matrix. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from mprun.metrics.metric_table import interval_of
from mprun.metrics.statistics import CONFIDENCE
from mprun.model.axis import read_axis, read_number
from mprun.model.frozen import Frozen
from mprun.model.metric import PASSED, SYMBOLS
from mprun.model.plot_form import choose_form
from mprun.model.scalar import spell_scalar
from mprun.model.spec import Plot
from mprun.model.sweep_files import CellSummary, Statistic
from mprun.reports.figure import Chart, ChartAxis, ChartForm, Panel, Series, dress
from mprun.reports.palette import FLOW_TONES, PATH_TONES

# The most lines or colours that a reader can distinguish in a plot, and the most plots in a figure.
MOST_SERIES, MOST_PANELS = 12, 9
TONES = (*PATH_TONES, *FLOW_TONES)


class Study(Frozen):
    """The cells of a sweep with the statistics of their metrics, as in its summary.

    - samples: for each cell, the values of its runs by metric.
    - axes: of the matrix, each with its values in order.
    - confidence: of the intervals in figures.
    """

    cells: Sequence[CellSummary]
    samples: Sequence[Mapping[str, Sequence[float]]]
    axes: Mapping[str, Sequence[Any]]
    confidence: float = CONFIDENCE

    def having(self, metric: str) -> list[int]:
        return [n for n, cell in enumerate(self.cells) if metric in cell.metrics]


def draw_sweep(study: Study, plots: Sequence[Plot], usual: Sequence[str]) -> Iterator[Chart]:
    """Yield the requested figures, or the usual figures of some metrics."""
    wanted = [plot for plot in plots if plot.metric is not None]
    if any(plot.metric == PASSED for plot in wanted):
        study = replace(study, cells=[_with_passed(cell) for cell in study.cells])
    for number, plot in enumerate(wanted or [plot for metric in usual if (plot := choose(study, metric))]):
        chart = draw(study, plot, number)
        if chart is not None:
            yield dress(chart, plot)


def _with_passed(cell: CellSummary) -> CellSummary:
    """Return a cell with the share of its runs that passed as a metric."""
    share = cell.runs.passed / cell.runs.total if cell.runs.total else 0.0
    passed = Statistic(SYMBOLS["ratio"], cell.runs.total, share, share)
    return cell._replace(metrics={**cell.metrics, PASSED: passed})


def lacking(study: Study, plots: Sequence[Plot]) -> Iterator[str]:
    """Yield a note for each requested plot that cannot be drawn."""
    for plot in plots:
        if plot.metric not in (None, PASSED) and not study.having(plot.metric):
            yield f"no figure of {plot.metric}: no run has it"
    yield from tell_figures_of_runs(plots)


def tell_figures_of_runs(plots: Sequence[Plot]) -> Iterator[str]:
    """Yield a note if requested plots are figures of a run."""
    if names := dict.fromkeys(f"'{plot.series or plot.column}'" for plot in plots if plot.metric is None):
        yield f"no figure of {', '.join(names)} here: over time it is a figure of a run, `mprun report RUN`"


def choose(study: Study, metric: str) -> Plot | None:
    """Return a sensible plot of a metric; None without axes.

    The x axis is the axis with the most numbers, or else with the most values. The next axis gives the colours.
    """
    if not study.axes:
        return None
    order = sorted(study.axes, key=lambda name: (read_axis(study.axes[name]) is None, -len(study.axes[name])))
    over, *rest = order
    by = next((name for name in rest if len(study.axes[name]) > 1), None)
    facet = next((name for name in rest if name != by and 1 < len(study.axes[name]) <= MOST_PANELS), None)
    return Plot(metric=metric, over=over, by=by, facet=facet)


def draw(study: Study, plot: Plot, number: int) -> Chart | None:
    """Return a figure; None if no cell has the metric. number: its number in the report.

    Axes that the plot does not name give separate series, because different cells are never mixed.
    """
    metric, over = plot.metric, plot.over
    assert metric is not None
    assert over is not None
    having = study.having(metric)
    if not having:
        return None
    form: ChartForm = plot.form or choose_form(plot, study.axes[over])
    names = tuple(map(spell_scalar, study.axes[over]))
    positions, along = {name: float(n) for n, name in enumerate(names)}, ChartAxis(over, "1", "linear", names)
    if form == "line" and (numbers := read_axis(study.axes[over])):
        positions, along = dict(numbers[0]), ChartAxis(over, numbers[1], "log" if "x" in plot.log else "linear")
    unit = study.cells[having[0]].metrics[metric].unit
    others = [n for n in study.axes if n not in (over, plot.facet) and len(study.axes[n]) > 1]
    panels = []
    left_out = 0
    keys = dict.fromkeys(tuple(study.cells[n].values.get(name) for name in others) for n in having)
    facets = study.axes[plot.facet] if plot.facet else [None]
    for facet in facets[:MOST_PANELS]:
        inside = [n for n in having if plot.facet is None or study.cells[n].values.get(plot.facet) == facet]
        series = []
        for m, key in enumerate(keys):
            own = [n for n in inside if tuple(study.cells[n].values.get(name) for name in others) == key]
            own.sort(key=lambda n: positions[spell_scalar(study.cells[n].values.get(over))])
            if own:
                label = ", ".join(_say(name, value) for name, value in zip(others, key, strict=True)) or metric
                x = [positions[spell_scalar(study.cells[n].values.get(over))] for n in own]
                series.append(_fill(Series(label, TONES[m % len(TONES)], x, dash=m), study, own, metric, form))
        left_out += max(0, len(series) - MOST_SERIES)
        panels.append(Panel("" if plot.facet is None else _say(plot.facet, facet), tuple(series[:MOST_SERIES])))
    left_out += len(facets) - len(panels)
    up = ChartAxis(metric, unit, "log" if "y" in plot.log else "linear")
    caption = _caption(study, having, metric, form)
    is_log = ("x" in plot.log and not along.categories, "y" in plot.log)
    shown = (one for panel in panels for one in panel.series)
    pairs = (pair for one in shown for pair in zip(one.x, one.samples or [[y] for y in one.y], strict=True))
    if below := sum((is_log[0] and x <= 0) or (is_log[1] and y <= 0) for x, values in pairs for y in values):
        caption += f" {below} of its values are not above zero, where a logarithmic axis has no place."
    if left_out:
        caption += f" Not shown for lack of room: {left_out} more series or plots; name fewer axes, or exclude values."
    by = [*others, *([plot.facet] if plot.facet else [])]
    title = plot.title or f"{metric} over {over}" + (f", by {' and '.join(by)}" if by else "")
    name = f"{metric}-over-{over}" + (f"-{number}" if number else "")
    chart = Chart(name, title, caption, form, along, up, tuple(panels))
    return _heat(chart, plot.by or "") if form == "heat" else chart


def _fill(empty: Series, study: Study, own: Sequence[int], metric: str, form: ChartForm) -> Series:
    """Return a series with a metric of these cells: all values of each, or the means, with intervals if any exist."""
    if form == "box":
        return replace(empty, samples=[study.samples[n].get(metric, ()) for n in own])
    found = [study.cells[n].metrics[metric] for n in own]
    means = [one.mean for one in found]
    intervals = [interval_of(one, study.confidence) for one in found]
    if form == "heat" or not any(intervals):
        return replace(empty, y=means)
    ends = [one or (math.nan, math.nan) for one in intervals]
    return replace(empty, y=means, low=[low for low, _ in ends], high=[high for _, high in ends])


def _heat(chart: Chart, by: str) -> Chart:
    """Return a heat map: a row for each series, a column for each value along x. A missing cell is empty."""
    rows = tuple(dict.fromkeys(series.label for series in chart.series))
    positions = [float(n) for n in range(len(chart.x.categories))]
    filled = []
    for panel in chart.panels:
        known = {series.label: dict(zip(series.x, series.y, strict=True)) for series in panel.series}
        grid = {row: [known.get(row, {}).get(position, math.nan) for position in positions] for row in rows}
        filled.append(Panel(panel.title, tuple(Series(row, "p0", positions, y) for row, y in grid.items())))
    up = ChartAxis(by, categories=tuple(row.removeprefix(f"{by} ") for row in rows))
    return replace(chart, y=up, panels=tuple(filled), value=chart.y)


def _caption(study: Study, having: Sequence[int], metric: str, form: ChartForm) -> str:
    counts = sorted({study.cells[n].metrics[metric].count for n in having})
    runs = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    each = f"{runs} {'run' if counts[-1] == 1 else 'runs'} of each cell"
    if form == "box":
        return (
            f"{metric} of {each}: median, quartiles, whiskers to the last value within 1.5 of their distance, others."
        )
    if counts[-1] == 1:
        return f"{metric} of one run of each cell: no interval."
    if form == "heat":
        return f"{metric}, mean of {each}."
    return f"{metric}, mean of {each} with its t interval of {study.confidence * 100:.0f} %."


def _say(name: str, value: Any) -> str:
    """Return the value as text, with the name of its axis if it is a number."""
    return f"{name} {value}" if read_number(value) is not None else spell_scalar(value)
