# SPDX-License-Identifier: Apache-2.0
"""A `Chart` in a few lines of text, for a terminal. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from textwrap import wrap

from mprun.model.units import format_measured
from mprun.reports.figure import MOST_NUMBERS, Chart, ChartAxis, Mark, Series
from mprun.workloads.tool import percentile

LEVELS = "▁▂▃▄▅▆▇█"
BAR, PARTS = "█", " ▏▎▍▌▋▊▉"
MOST_WIDTH = 60
# The quantiles of a distribution that are shown.
SHARES = (0.5, 0.9, 0.99)


def to_text(chart: Chart, width: int, shown: Sequence[Chart] = ()) -> Iterator[str]:
    """Yield the title, the caption of rates, and lines for each series: values over time, quantiles, or bars.

    width: columns of the terminal. shown: all figures that are shown, so that a time has one column in all of them.
    """
    every = [chart, *filter(_is_line, shown)] if _is_line(chart) else [chart]
    drawn = [(one, series) for one in every for series in one.series]
    labels = [series.label for _, series in drawn]
    ends = [_say_ends(series, one) for one, series in drawn]
    # two spaces before each of the three parts
    longest = max(map(len, labels), default=0)
    taken = 6 + longest + max(map(len, ends), default=0)
    room = max(10, min(MOST_WIDTH, width - taken))
    known = [y for series in chart.series for y in series.y if not math.isnan(y)]
    most = max(known, default=0.0)
    is_line = _is_line(chart)
    yield f"{chart.title}, 0 to {_say(chart.end, chart.x)}" if is_line else chart.title
    if chart.y.unit == "bit/s":
        # a rate of samples may exceed that of a link, and its caption says why
        yield from wrap(chart.caption, width, initial_indent="  ", subsequent_indent="  ")
    if is_line and chart.marks:
        yield f"  {'':{longest}}  {_number(chart.marks, chart.end, room)}"
    for panel in chart.panels:
        if panel.title:
            yield f"  {panel.title}"
        for series in panel.series:
            if chart.form == "cdf":
                yield f"  {series.label:{longest}}  {_quantiles(series, chart.x)}"
            elif not is_line:
                yield from _bars(series, chart, most, room)
            else:
                line = spark(_spread(series, chart.end, room, chart.form != "points"), most)
                yield f"  {series.label:{longest}}  {line}  {_say_ends(series, chart)}"


def _is_line(chart: Chart) -> bool:
    return chart.form != "cdf" and not chart.x.categories


def list_marks(charts: Sequence[Chart]) -> Iterator[str]:
    """Yield a line for each mark of figures over time: its number above the lines, its time and its text."""
    marks = next((chart.marks for chart in charts if chart.is_over_time), ())
    for number, mark in enumerate(marks[:MOST_NUMBERS], 1):
        yield f"  {number}  {mark.at:g} s: {mark.text}"
    if len(marks) > MOST_NUMBERS:
        yield f"  {len(marks) - MOST_NUMBERS} more changes: mprun report"


def _number(marks: Sequence[Mark], end: float, room: int) -> str:
    """Return the numbers of marks at their times. A mark without room for its number is a dot, or is left out."""
    places = [" "] * room
    for number, mark in enumerate(marks, 1):
        text = str(number) if number <= MOST_NUMBERS else "·"
        at = min(int(mark.at / end * room), room - len(text))
        if all(place == " " for place in places[max(at - 1, 0) : at + len(text)]):
            places[at : at + len(text)] = text
    return "".join(places).rstrip()


def _say_ends(series: Series, chart: Chart) -> str:
    """Return the lowest and the highest value of a series, or the number of packets if they were lost."""
    if series.is_lost:
        return "1 packet" if len(series.y) == 1 else f"{len(series.y)} packets"
    known = [y for y in series.y if not math.isnan(y)]
    ends = (_say(find(known, default=0.0), chart.y) for find in (min, max))
    return " to ".join(dict.fromkeys(ends))


def spark(values: Sequence[float], most: float) -> str:
    """Return a letter for each value, from zero to the largest; a gap for an unknown value."""
    letters = []
    for value in values:
        if math.isnan(value):
            letters.append(" ")
        else:
            level = round(value / most * (len(LEVELS) - 1)) if most > 0 else 0
            letters.append(LEVELS[max(0, min(level, len(LEVELS) - 1))])
    return "".join(letters)


def bar(value: float, most: float, room: int) -> str:
    """Return a bar as long as the value's share of `most`, in eighths of a letter."""
    eighths = round(value / most * room * 8) if most > 0 and not math.isnan(value) else 0
    return BAR * (eighths // 8) + PARTS[eighths % 8].strip()


def _spread(series: Series, end: float, room: int, is_joined: bool) -> list[float]:
    """Return the mean of each of `room` equal parts of the time from zero to the end.

    is_joined: a part without samples gets the last value before it, up to the last sample.
    """
    parts: list[list[float]] = [[] for _ in range(room)]
    for x, y in zip(series.x, series.y, strict=True):
        if not math.isnan(y):
            share = min(max(x / end, 0.0), 1.0) if end > 0 else 0.0
            parts[min(int(share * room), room - 1)].append(y)
    means = [math.fsum(part) / len(part) if part else math.nan for part in parts]
    known = [n for n, mean in enumerate(means) if not math.isnan(mean)]
    last = math.nan
    for n in range(known[0], known[-1]) if known and is_joined else ():
        last = parts[n][-1] if parts[n] else last
        means[n] = means[n] if parts[n] else last
    return means


def _quantiles(series: Series, axis: ChartAxis) -> str:
    """Return the quantiles as text, or the only value. They follow the same rule as metrics."""
    ordered = sorted(series.y)
    if len(ordered) == 1:
        return _say(ordered[0], axis)
    return "  ".join(f"p{share * 100:.0f} {_say(percentile(ordered, share), axis)}" for share in SHARES)


def _bars(series: Series, chart: Chart, most: float, room: int) -> Iterator[str]:
    names = [chart.x.categories[int(x)] for x in series.x]
    longest = max(map(len, chart.x.categories), default=0)
    yield f"  {series.label}"
    for name, value in zip(names, series.y, strict=True):
        yield f"    {name:{longest}}  {bar(value, most, room)} {_say(value, chart.y)}"


def _say(value: float, axis: ChartAxis) -> str:
    if math.isnan(value):
        return "–"
    if axis.unit != "packets":
        return format_measured(value, axis.unit)
    return "1 packet" if value == 1 else f"{value:g} packets"
