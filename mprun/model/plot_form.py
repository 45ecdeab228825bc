# SPDX-License-Identifier: Apache-2.0
"""The forms of figures, and what each series of a run needs: samples, captures or metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mprun.model.axis import read_axis
from mprun.model.scalar import Scalar
from mprun.model.spec import Plot, PlotForm, SampleKind, SeriesName

# The forms of each series. The first is the default.
FORMS: Mapping[SeriesName, tuple[PlotForm, ...]] = {
    "rate": ("stack", "step"),
    "goodput": ("step",),
    "rtt": ("line",),
    "cwnd": ("line",),
    "in_flight": ("line",),
    "queue": ("line",),
    "interfaces": ("step",),
    "link_rate": ("step",),
    "delay": ("cdf", "points"),
    "completion": ("cdf", "points"),
    "buffer": ("line",),
    "quality": ("step",),
    "sequence": ("points",),
    "one_way_delay": ("points", "cdf"),
}
# The samples that a series needs. Sockets are always sampled.
SAMPLES: Mapping[SeriesName, SampleKind] = {"queue": "queues", "interfaces": "interfaces"}
# The series of a QUIC flow that its qlog has.
OF_QLOG: Sequence[SeriesName] = ("rate", "rtt", "cwnd", "in_flight")
# The number of nodes whose captures a series needs.
CAPTURES: Mapping[SeriesName, int] = {"sequence": 1, "one_way_delay": 2}
# The metrics of which flows with such a figure have one.
METRICS_OF: Mapping[SeriesName, tuple[str, ...]] = {
    "goodput": ("goodput",),
    "delay": ("delay.mean", "rtt"),
    "completion": ("completion.mean",),
    "buffer": ("chunks",),
    "quality": ("chunks",),
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
