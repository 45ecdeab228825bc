# SPDX-License-Identifier: Apache-2.0
"""A page with the values of baselines over the commits of a repository. Pure but for the drawing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from mprun.model.frozen import Frozen
from mprun.reports.chart import COLUMN, WIDE, paint
from mprun.reports.figure import Chart, ChartAxis, Panel, Series
from mprun.reports.page import HistoryPage, HistoryRow, Picture, render
from mprun.safety.text import plain

# More figures than this are not drawn, and of more commits the newest are.
MOST_FIGURES = 100
MOST_COMMITS = 60


class HistoryLine(Frozen):
    """A value of a baseline in each commit. commits: short ids. values: NaN where it is missing."""

    baseline: str
    name: str
    unit: str
    commits: Sequence[str]
    values: Sequence[float]

    @property
    def is_constant(self) -> bool:
        return len({value for value in self.values if not math.isnan(value)}) <= 1


def make_page(title: str, lines: Sequence[HistoryLine], rows: Sequence[HistoryRow]) -> str:
    """Return the page. rows: the changes, newest first."""
    drawn = [line for line in lines if not line.is_constant]
    notes = []
    if constant := len(lines) - len(drawn):
        notes.append(f"{constant} of {len(lines)} values never changed, and are not drawn.")
    if len(drawn) > MOST_FIGURES:
        notes.append(f"{len(drawn) - MOST_FIGURES} more values changed, and are not drawn.")
    if (longest := max((len(line.commits) for line in drawn), default=0)) > MOST_COMMITS:
        notes.append(f"A figure has the newest {MOST_COMMITS} commits of its baseline, of up to {longest}.")
    pictures = [_picture(number, line) for number, line in enumerate(drawn[:MOST_FIGURES], 1)]
    baselines = len({line.baseline for line in lines})
    description = f"{len(lines)} values of {baselines} baseline{'s' if baselines > 1 else ''}, each over its commits"
    return render(HistoryPage(plain(title), description, pictures, notes, rows))


def _picture(number: int, line: HistoryLine) -> Picture:
    commits, values = line.commits[-MOST_COMMITS:], line.values[-MOST_COMMITS:]
    axis = ChartAxis("commit", categories=tuple(map(plain, commits)))
    series = Series(line.name, "p0", [float(position) for position in range(len(commits))], values)
    title = f"{plain(line.name)}, {plain(line.baseline)}"
    caption = "Commits that changed this baseline, oldest first."
    what = ChartAxis(plain(line.name), line.unit)
    chart = Chart(f"value-{number}", title, caption, "step", axis, what, (Panel("", (series,)),))
    wide, column = paint(chart, WIDE, ("svg",)), paint(replace(chart, form="points"), COLUMN, ("svg",))
    return Picture(chart.name, title, caption, wide["svg"].decode(), column["svg"].decode())
