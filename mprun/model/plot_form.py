# SPDX-License-Identifier: Apache-2.0
"""The forms of figures, and what each series of a run needs: samples, captures or metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mprun.model.axis import read_axis
from mprun.model.frozen import Frozen
from mprun.model.scalar import Scalar
from mprun.model.spec import Plot, PlotForm, SampleKind, SeriesName


class SeriesTraits(Frozen):
    """The forms of a series, the default first, and its needs: one of the metrics, samples besides those of sockets,
    the number of nodes with captures, and for a QUIC flow a qlog.
    """

    forms: tuple[PlotForm, ...]
    metrics: tuple[str, ...] = ()
    sample: SampleKind | None = None
    captures: int = 0
    qlog: bool = False


SERIES: Mapping[SeriesName, SeriesTraits] = {
    "rate": SeriesTraits(("stack", "step"), qlog=True),
    "goodput": SeriesTraits(("step",), metrics=("goodput",)),
    "rtt": SeriesTraits(("line",), qlog=True),
    "cwnd": SeriesTraits(("line",), qlog=True),
    "in_flight": SeriesTraits(("line",), qlog=True),
    "queue": SeriesTraits(("line",), sample="queues"),
    "interfaces": SeriesTraits(("step",), sample="interfaces"),
    "link_rate": SeriesTraits(("step",)),
    "delay": SeriesTraits(("cdf", "points"), metrics=("delay.mean", "rtt")),
    "completion": SeriesTraits(("cdf", "points"), metrics=("completion.mean",)),
    "buffer": SeriesTraits(("line",), metrics=("chunks",)),
    "quality": SeriesTraits(("step",), metrics=("chunks",)),
    "sequence": SeriesTraits(("points",), captures=1),
    "one_way_delay": SeriesTraits(("points", "cdf"), captures=2),
}
# The forms of a metric over cells. By default numbers make lines, and names make bars.
METRIC_FORMS: tuple[PlotForm, ...] = ("line", "bar", "box", "heat")
# The forms of a column of a user's own table.
TABLE_FORMS: tuple[PlotForm, ...] = ("line", "points", "step")


def choose_form(plot: Plot, values: Sequence[Scalar]) -> PlotForm:
    """The form of a plot of a metric without `form`. values: the values of the axis `over`."""
    if read_axis(values) is None:
        return "bar"
    # two points make a line only on a logarithmic scale
    return "line" if len(values) > 2 or "x" in plot.log else "bar"
