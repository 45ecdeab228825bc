# SPDX-License-Identifier: Apache-2.0
"""The content of a figure as values in base units. `chart` paints it.

`run_figures`, `time_sequence`, `playback` and `sweep_figures` decide what a figure shows. The CSV of a figure comes
from here and has all of its values, also those that painting leaves out.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Literal

from mprun.model.frozen import Frozen
from mprun.model.metric import SUFFIXES
from mprun.model.spec import Plot
from mprun.safety.cell import write_rows
from mprun.safety.text import slug

# line: points joined; step: a value from its point to the next; stack: steps on top of each other; points: separate
# points; cdf: the share of the values up to each; bar, box: a position for each category; heat: a row for each series;
# effect: a row for each category, with a change along the x axis.
ChartForm = Literal["line", "step", "stack", "points", "cdf", "bar", "box", "heat", "effect"]
Scale = Literal["linear", "log"]

# A line with more points than this is thinned when it is painted.
MOST_POINTS = 1200
# Up to this number, marks are numbered at the top. More marks are ticks without numbers.
MOST_NUMBERS = 12


class ChartAxis(Frozen):
    """The quantity of an axis and its base unit (bit/s, s, byte, share, packets; 1 for a number).

    categories: the names of the positions 0, 1, 2 ...; empty for numbers. title: shown in place of the label, which is
    the name of the column in the CSV all the same.
    """

    label: str
    unit: str = "1"
    scale: Scale = "linear"
    categories: tuple[str, ...] = ()
    title: str = ""

    @property
    def column(self) -> str:
        """The name of the axis in a table, with the unit."""
        name = re.sub(r"\W+", "_", self.label.lower()).strip("_")
        suffix = "" if self.categories else SUFFIXES.get(self.unit, f"_{self.unit}")
        return name if f"_{name}".endswith(suffix) else name + suffix


# Time from time zero of a run.
TIME = ChartAxis("time", "s")


class Series(Frozen):
    """Values of equal length. NaN means not known and interrupts a line.

    - tone: the colour, a key of `palette.TONES`.
    - dash: the number of the line style.
    - low, high: an interval at each point, or empty.
    - samples: for a box plot, the values at each position.
    - is_lost: its points mark lost packets, and their values say nothing.
    """

    label: str
    tone: str
    x: Sequence[float] = ()
    y: Sequence[float] = ()
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    dash: int = 0
    samples: Sequence[Sequence[float]] = ()
    is_lost: bool = False

    def along(self, form: ChartForm) -> Sequence[float]:
        """Return the values on the x axis: of a distribution, those that other forms have on the y axis."""
        return self.y if form == "cdf" else self.x


class Panel(Frozen):
    """A plot of a figure, beside other plots on the same axes."""

    title: str
    series: tuple[Series, ...]


class Mark(Frozen):
    """A point on the x axis at which something happened."""

    at: float
    text: str


class Chart(Frozen):
    """A figure.

    - name: of its files, and the beginning of the ids in its picture; made a slug.
    - value: the quantity that the colours of a heat map show.
    - until: the end of a time axis, the same in all figures of a run; None for the last value.
    - width_um: of the PDF; None for a paper's column.
    """

    name: str
    title: str
    caption: str
    form: ChartForm
    x: ChartAxis
    y: ChartAxis
    panels: tuple[Panel, ...]
    marks: tuple[Mark, ...] = ()
    value: ChartAxis | None = None
    until: float | None = None
    width_um: int | None = None

    def __post_init__(self) -> None:
        # a name may contain a metric, or a column of a user's own table
        object.__setattr__(self, "name", slug(self.name))

    @property
    def is_over_time(self) -> bool:
        return (self.x.label, self.x.unit) == (TIME.label, TIME.unit)

    @property
    def series(self) -> list[Series]:
        return [series for panel in self.panels for series in panel.series]

    @property
    def end(self) -> float:
        """The end of the x axis, or the last value along it."""
        if self.until is not None:
            return self.until
        return max((x for series in self.series for x in series.x), default=0.0)


def dress(chart: Chart, plot: Plot) -> Chart:
    """Return the figure with the title, the titles of axes, the display names and the width of a plot."""
    shown = [(name, text) for name, text in plot.names]

    def say(text: str) -> str:
        return _replace_names(text, shown) if shown else text

    def title(axis: ChartAxis, own: str) -> ChartAxis:
        called = say(axis.title or axis.label)
        return replace(
            axis,
            title=own or (called if called != axis.label else axis.title),
            categories=tuple(map(say, axis.categories)),
        )

    panels = tuple(
        Panel(say(panel.title), tuple(replace(series, label=say(series.label)) for series in panel.series))
        for panel in chart.panels
    )
    return replace(
        chart,
        title=plot.title or say(chart.title),
        caption=say(chart.caption),
        x=title(chart.x, plot.x_title),
        y=title(chart.y, plot.y_title),
        panels=panels,
        marks=tuple(replace(mark, text=say(mark.text)) for mark in chart.marks),
        width_um=plot.width_um,
    )


def _replace_names(text: str, names: Sequence[tuple[str, str]]) -> str:
    """Return the text with each whole name replaced: `path0`, but not a part of `path01` or `my-path0`."""
    texts = dict(names)
    # the longest first, so that a name within another does not take its place
    known = "|".join(re.escape(name) for name in sorted(texts, key=len, reverse=True))
    return re.sub(rf"(?<![\w.-])(?:{known})(?![\w-]|\.\w)", lambda found: texts[found[0]], text)


def to_csv(chart: Chart) -> str:
    """Return all values of a figure as CSV, one per row (RFC 4180)."""
    return write_rows(_rows(chart))


def _rows(chart: Chart) -> Iterator[list[object]]:
    has_panels = len(chart.panels) > 1
    value = chart.value or chart.y
    has_interval = any(series.low for series in chart.series)
    first = ["panel"] if has_panels else []
    named = chart.y.column if chart.form == "heat" else "series"
    yield [*first, named, chart.x.column, value.column, *(["low", "high"] if has_interval else [])]
    for panel in chart.panels:
        head = [panel.title] if has_panels else []
        for series in panel.series:
            if chart.form == "cdf":
                for most, share in zip(*cumulate(series.y), strict=True):
                    yield [*head, series.label, _number(most), _number(share)]
                continue
            for n, x in enumerate(series.x):
                # a name may have several lines in a picture
                position = " ".join(chart.x.categories[int(x)].split("\n")) if chart.x.categories else _number(x)
                if chart.form == "effect":
                    ends = [_number(series.low[n]), _number(series.high[n])] if series.low else ["", ""]
                    metric = chart.y.categories[int(series.y[n])]
                    yield [*head, series.label, position, metric, *(ends if has_interval else [])]
                    continue
                if chart.form == "box":
                    for sample in series.samples[n]:
                        yield [*head, series.label, position, _number(sample)]
                    continue
                interval = [_number(series.low[n]), _number(series.high[n])] if series.low else []
                yield [*head, series.label, position, _number(series.y[n]), *interval]


def _number(value: float) -> float:
    """Return a value as a whole number if it is one, which is shorter."""
    return int(value) if not math.isnan(value) and value == int(value) and abs(value) < 1e15 else float(value)


def thin(x: Sequence[float], y: Sequence[float], most: int = MOST_POINTS) -> tuple[list[float], list[float]]:
    """Return fewer points with the same outline: the lowest and the highest of each of `most`/2 equal parts, in order.

    If a part has an unknown value, the value is kept, so that the line is interrupted there.
    """
    if len(x) <= most:
        return list(x), list(y)
    kept: list[int] = []
    parts = most // 2
    for part in range(parts):
        indices = range(len(x) * part // parts, len(x) * (part + 1) // parts)
        known = [n for n in indices if not math.isnan(y[n])]
        chosen = {min(known, key=y.__getitem__), max(known, key=y.__getitem__)} if known else set()
        chosen |= set([n for n in indices if math.isnan(y[n])][:1])
        kept += sorted(chosen)
    return [x[n] for n in kept], [y[n] for n in kept]


def average(values: Sequence[float]) -> list[float]:
    """Return means over MOST_POINTS equal parts. They preserve the area of a stack of rates."""
    if len(values) <= MOST_POINTS:
        return list(values)
    parts = [values[len(values) * n // MOST_POINTS : len(values) * (n + 1) // MOST_POINTS] for n in range(MOST_POINTS)]
    return [math.fsum(part) / len(part) for part in parts]


def cumulate(values: Iterable[float]) -> tuple[list[float], list[float]]:
    """Return the empirical distribution: the values in ascending order, and the share of values up to each."""
    ordered = sorted(values)
    return ordered, [(n + 1) / len(ordered) for n in range(len(ordered))]
