# SPDX-License-Identifier: Apache-2.0
"""The content of a figure as values in base units. `mprun.report.chart` paints it.

`mprun.report.timeline` makes the figures of a run, and `mprun.report.matrix` makes the figures of a sweep. The data of
a figure as CSV comes from here. It is complete, even if the painted figure leaves out points.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from mprun.model.metric import SUFFIXES

# line: points joined; step: a value from its point to the next; stack: steps on top of each other; points: alone;
# cdf: the share of the values up to each; bar, box: a position for each category; heat: a row for each series.
Form = Literal["line", "step", "stack", "points", "cdf", "bar", "box", "heat"]
Scale = Literal["linear", "log"]

# More points than this in one line are thinned where they are painted.
MOST_POINTS = 1200


@dataclass(frozen=True)
class Axis:
    """What it measures and its base unit (bit/s, s, byte, share, packets; 1 for a number).

    categories: the names of the positions 0, 1, 2 ...; none: numbers.
    """

    label: str
    unit: str = "1"
    scale: Scale = "linear"
    categories: tuple[str, ...] = ()

    @property
    def column(self) -> str:
        """Its name in a table, with the unit."""
        name = re.sub(r"\W+", "_", self.label.lower()).strip("_")
        suffix = "" if self.categories else SUFFIXES.get(self.unit, f"_{self.unit}")
        return name if f"_{name}".endswith(suffix) else name + suffix


# From time zero of a run.
TIME = Axis("time", "s")


@dataclass(frozen=True)
class Series:
    """Values of equal length; NaN: not known, which interrupts a line.

    tone: its colour, a key of `palette.TONES`; dash: which of the line styles. low, high: an interval at each
    point, or none. samples: of a box plot, the values at each position.
    """

    label: str
    tone: str
    x: Sequence[float] = ()
    y: Sequence[float] = ()
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    dash: int = 0
    samples: Sequence[Sequence[float]] = ()

    def along(self, form: Form) -> Sequence[float]:
        """The values that the x axis shows: a distribution has there what other forms have on the y axis."""
        return self.y if form == "cdf" else self.x


@dataclass(frozen=True)
class Panel:
    """One of the plots of a figure, beside others on the same axes."""

    title: str
    series: tuple[Series, ...]


@dataclass(frozen=True)
class Mark:
    """A moment on the x axis at which something happened."""

    at: float
    text: str


@dataclass(frozen=True)
class Chart:
    """A figure. name: of its files. value: what the colours of a heat map mean. until: where an axis of time ends, so
    that all figures of a run have the same; None: with the last value."""

    name: str
    title: str
    caption: str
    form: Form
    x: Axis
    y: Axis
    panels: tuple[Panel, ...]
    marks: tuple[Mark, ...] = ()
    value: Axis | None = None
    until: float | None = None

    @property
    def end(self) -> float:
        """The end of the x axis, or the last value along it."""
        if self.until is not None:
            return self.until
        return max((x for panel in self.panels for series in panel.series for x in series.x), default=0.0)


def to_csv(chart: Chart) -> str:
    """All its values, a row each (RFC 4180)."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerows(_rows(chart))
    return text.getvalue()


def _rows(chart: Chart) -> Iterator[list[object]]:
    has_panels = len(chart.panels) > 1
    value = chart.value or chart.y
    has_interval = any(series.low for panel in chart.panels for series in panel.series)
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
                position = chart.x.categories[int(x)] if chart.x.categories else _number(x)
                if chart.form == "box":
                    for sample in series.samples[n]:
                        yield [*head, series.label, position, _number(sample)]
                    continue
                interval = [_number(series.low[n]), _number(series.high[n])] if series.low else []
                yield [*head, series.label, position, _number(series.y[n]), *interval]


def _number(value: float) -> object:
    """The shortest text that reads back as the same; nothing for what is not known."""
    if math.isnan(value):
        return ""
    return int(value) if value == int(value) and abs(value) < 1e15 else repr(float(value))


def thin(x: Sequence[float], y: Sequence[float], most: int = MOST_POINTS) -> tuple[list[float], list[float]]:
    """Fewer points with the same outline: of each of `most`/2 equal parts the lowest and the highest, in their order.

    A part with a value that is not known keeps it, so that the line is interrupted there.
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


def average(values: Sequence[float], most: int = MOST_POINTS) -> list[float]:
    """Means over `most` equal parts, which keep the area below a stack of rates."""
    if len(values) <= most:
        return list(values)
    parts = [values[len(values) * n // most : len(values) * (n + 1) // most] for n in range(most)]
    return [math.fsum(part) / len(part) for part in parts]


def cumulate(values: Iterable[float]) -> tuple[list[float], list[float]]:
    """The empirical distribution: each value in ascending order, and the share of values up to it."""
    ordered = sorted(values)
    return ordered, [(n + 1) / len(ordered) for n in range(len(ordered))]
