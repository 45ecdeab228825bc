# SPDX-License-Identifier: Apache-2.0
"""The entries of `plots`: the figures of a report."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from mprun.inputs.keys.field import Name, Width
from mprun.inputs.keys.file_model import FileModel, KeyProblem
from mprun.model.metric import PASSED
from mprun.model.plot_form import METRIC_FORMS, SERIES, TABLE_FORMS
from mprun.model.spec import PlotForm, SeriesName

_OF_METRICS = ("over", "by", "facet", "log")
# A text in a figure, on one line.
DisplayName = Annotated[str, Field(min_length=1, max_length=60)]


class PlotEntry(FileModel):
    """A figure of the report: a `series` or a column of a `table` over a run's time, or a `metric` over the cells of a
    sweep.
    """

    series: SeriesName | None = Field(None, examples=["rate"])
    """The series to plot over the run's time. `rate`, `rtt`, `cwnd`: of each subflow, and of each path of a QUIC flow
    with `qlog`. `in_flight`: of each path of such a flow. `goodput`: of each flow. `queue`, `interfaces`: if `sample`
    names them. `link_rate`: of links whose rate changes. `delay`: of requests, datagrams and pings. `completion`: of
    short flows. `buffer`, `quality`: of videos. `sequence`: the position of each packet in the data, and
    `one_way_delay`: the delay of each packet from one host to another, after `mprun packets` has read the captures. A
    QUIC flow with `qlog` needs no captures for `sequence`."""
    table: Name | None = Field(None, examples=["delays"])
    """The table to plot over the run's time: of an `exec` entry's `tables`, or of a trace event, such as
    `trace-tcp-tcp_probe` for `tcp:tcp_probe`."""
    column: str | None = Field(None, min_length=1, max_length=100, examples=["delay"])
    """With `table`: the column to plot, named as in the CSV file, or the field of the event."""
    flow: Name | None = Field(None, examples=["bulk"])
    """With `series` or `table`: plot only this flow. Default: all flows."""
    metric: str | None = Field(None, examples=["bulk.goodput"])
    """The metric to plot, as the mean over each cell's runs."""
    over: str | None = None
    """With `metric`: the axis of the matrix on the horizontal axis of the figure."""
    by: str | None = None
    """With `metric`: the axis of the matrix whose values get a line or colour each."""
    facet: str | None = None
    """With `metric`: the axis of the matrix whose values get a plot each."""
    form: PlotForm | None = None
    """The form of the figure. For `rate`: stack or step. For `delay` and `completion`: cdf, or points over time. For
    `one_way_delay`: points over time, or cdf. For `table`: line, points or step. For `metric`: line, bar, box, or heat
    (a map of `over` and `by`). Default: the first form that fits."""
    log: Annotated[list[Literal["x", "y"]], Field(max_length=2)] = Field([], examples=[["x"]])
    """With `metric`: the axes of the figure with a logarithmic scale."""
    title: str = ""
    """The title of the figure. Default: a title from the data."""
    x_title: str = Field("", max_length=100, examples=["time after the start"])
    """The title of the horizontal axis. The unit follows. Default: a title from the data."""
    y_title: str = Field("", max_length=100, examples=["throughput"])
    """The title of the vertical axis. The unit follows. Default: a title from the data."""
    names: Annotated[dict[str, DisplayName], Field(max_length=50)] = Field(
        {}, examples=[{"path0": "Wi-Fi", "path1": "LTE"}]
    )
    """Texts to show in place of names: of paths, flows, metrics, axes or values."""
    width_um: Width | None = Field(None, alias="width", examples=["178mm"])
    """The width of the figure's PDF. Default: 85mm, the width of a paper's column."""

    def find_conflicts(self) -> Iterator[KeyProblem]:
        kinds = [kind for kind in ("series", "table", "metric") if getattr(self, kind) is not None]
        if len(kinds) != 1:
            what = "shows two things" if kinds else "shows nothing"
            yield (), f"{what}: write 'series' or 'table' (over a run's time) or 'metric' (over a sweep's cells)"
            return
        if "" in self.names:
            yield "names", "has an empty name: write one, as in 'path0: Wi-Fi'"
        if (self.column is None) == (self.table is not None):
            missing = "name a column of the CSV file" if self.table else "write 'table' too, or remove it"
            yield "column", f"{'is missing' if self.table else 'needs a table'}: {missing}"
        if self.metric is None:
            for key in _OF_METRICS:
                if getattr(self, key):
                    yield key, f"is for 'metric', not for '{kinds[0]}': remove it"
        else:
            if self.flow is not None:
                yield "flow", "is not for 'metric', which names its flow: remove it"
            if self.over is None:
                yield "over", "is missing: name an axis of the matrix"
            if self.form == "heat" and self.by is None:
                yield "by", "is missing: a heat map has two axes of the matrix"
            if self.form == "heat" and self.log:
                yield "log", "a heat map has no logarithmic axes: remove it"
            elif self.form in ("bar", "box") and "x" in self.log:
                yield "log", f"each value has a place of its own along '{self.form}': remove 'x', or write 'line'"
            elif len(set(self.log)) < len(self.log):
                yield "log", "has an entry twice: remove one"
        fitting = SERIES[self.series].forms if self.series else TABLE_FORMS if self.table else METRIC_FORMS
        if self.metric == PASSED:
            # a cell has one share, and no values of its runs
            fitting = tuple(form for form in fitting if form != "box")
        if self.form is not None and self.form not in fitting:
            yield "form", f"'{self.form}' does not fit here: write {' or '.join(fitting)}"
