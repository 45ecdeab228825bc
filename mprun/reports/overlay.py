# SPDX-License-Identifier: Apache-2.0
"""Figures of several runs in one: a curve for each run, and a plot for each path or flow. Pure.

The curves are those of the runs' own figures (`mprun.reports.run_figures`).
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy

from mprun.model.frozen import Frozen
from mprun.model.grouping import gather
from mprun.model.plot_form import SERIES
from mprun.model.spec import SeriesName
from mprun.reports.figure import Chart, ChartForm, Mark, Panel, Series
from mprun.reports.run_data import RunData
from mprun.reports.run_figures import FIGURES, MOST_FLOWS, find_goodput

MOST_PANELS = 9
# A beginning with few colours that differ most.
TONES = ("f0", "f4", "f2", "f3", "f1", "f5")
# Figures of the whole run, and figures of each flow with a plot for each path.
_OF_RUN: Sequence[SeriesName] = ("delay", "completion", "buffer", "quality", "queue")
_OF_FLOW: Sequence[SeriesName] = ("rate", "rtt", "cwnd")
# The title and the caption of each.
_WORDS = {
    "rate": ("Rate", "Acknowledged payload, mean of each sampling interval"),
    "goodput": ("Goodput", "Payload that the receivers got, mean of each interval of their programs"),
    "rtt": ("Round-trip time", "Smoothed round-trip time of the sender, sampled"),
    "cwnd": ("Congestion window", "Congestion window of the sender, sampled"),
    "queue": ("Queues", "Packets that wait in the queues of the links, sampled"),
    "buffer": ("Buffer", "The part of the video that is fetched and not yet played"),
    "quality": ("Quality", "Bit rate of each chunk of the video"),
    "delay": ("Delay", "The share of all values up to each delay"),
    "completion": ("Completion time", "The share of all values up to each completion time"),
}


class OverlaidRun(Frozen):
    """A run of a comparison, with the name of its curves."""

    name: str
    evidence: RunData

    @property
    def flows(self) -> list[str]:
        """The flows and groups in the foreground, or else all."""
        named = [flow for flow in self.evidence.flows if flow not in self.evidence.background] or self.evidence.flows
        return list(dict.fromkeys(self.evidence.groups.get(flow, flow) for flow in named))


def overlay(subjects: Sequence[OverlaidRun]) -> Iterator[Chart]:
    """Yield the figures of several runs, with one end of time: first the rate, then what at least two of them have."""
    charts = [chart for chart in _draw(subjects) if chart is not None]
    until = max((chart.end for chart in charts if chart.is_over_time), default=0.0)
    marks = tuple(mark for mark in _join_marks(subjects) if 0 < mark.at < until)
    for chart in charts:
        yield replace(chart, until=until, marks=marks) if chart.is_over_time else chart


def _draw(subjects: Sequence[OverlaidRun]) -> Iterator[Chart | None]:
    yield _draw_total(subjects)
    shared = [flow for flow in subjects[0].flows if sum(flow in one.flows for one in subjects) > 1][:MOST_FLOWS]
    if len(shared) > 1:
        yield _draw_flows(subjects, shared)
    for flow in shared:
        for source in _OF_FLOW:
            drawn = [_draw_kind(one, source, flow) for one in subjects]
            labels = {_path_of(series.label) for chart in drawn if chart for series in chart.panels[0].series}
            # on a single path, the rate of a flow is that of the first figures
            if source != "rate" or len(labels) > 1:
                title, caption = _WORDS[source]
                of = f"{title} of {flow} by path" if len(labels) > 1 else f"{title} of {flow}"
                yield _merge(subjects, drawn, f"{source}-{flow}-by-run", of, caption, _path_of)
    for source in _OF_RUN:
        drawn = [_draw_kind(one, source, None) for one in subjects]
        yield _merge(subjects, drawn, f"{source}-by-run", *_WORDS[source], lambda label: label)


def _draw_kind(subject: OverlaidRun, source: SeriesName, flow: str | None) -> Chart | None:
    form: ChartForm = "step" if source == "rate" else SERIES[source].forms[0]
    if flow is not None:
        members = [one for one in subject.evidence.members(flow) if one in subject.evidence.flows]
        # the subflows of many flows would not be legible
        return FIGURES[source].draw(subject.evidence, members[0], form) if len(members) == 1 else None
    return FIGURES[source].draw(subject.evidence, None, form)


def _draw_total(subjects: Sequence[OverlaidRun]) -> Chart | None:
    """Return the figure of the rate of all flows in the foreground: from sockets, or else as the programs report it."""
    sources: tuple[SeriesName, ...] = ("rate", "goodput")
    both = ([_sum_of(one, source, one.flows) for one in subjects] for source in sources)
    drawn = max(both, key=lambda found: sum(chart is not None for chart in found))
    flows = list(dict.fromkeys(flow for one in subjects for flow in one.flows))
    title = f"Rate of {flows[0]}" if len(flows) == 1 else "Rate of all flows"
    measured = next((chart.name for chart in drawn if chart is not None), "rate")
    caption = _WORDS[measured][1] + (", the sum over all flows" if len(flows) > 1 else "")
    return _merge(subjects, drawn, "rate-by-run", title, caption, lambda _: "")


def _draw_flows(subjects: Sequence[OverlaidRun], flows: Sequence[str]) -> Chart | None:
    """Return the figure of the rate of each flow that runs share: a plot for each flow."""
    drawn = []
    for one in subjects:
        found = [(flow, _sum_of(one, "rate", [flow]) or _sum_of(one, "goodput", [flow])) for flow in flows]
        series = [replace(chart.panels[0].series[0], label=flow) for flow, chart in found if chart is not None]
        chart = next((chart for _, chart in found if chart is not None), None)
        drawn.append(None if chart is None else replace(chart, panels=(Panel("", tuple(series)),)))
    caption = "Payload of each flow, mean of each interval"
    return _merge(subjects, drawn, "rate-by-flow", "Rate of each flow", caption, lambda label: label)


def _sum_of(subject: OverlaidRun, source: SeriesName, flows: Sequence[str]) -> Chart | None:
    """Return a figure with one curve: the sum over flows. None if a flow has no rate over time."""
    members = [member for flow in flows for member in subject.evidence.members(flow)]
    charts = [FIGURES[source].draw(subject.evidence, member, "step") for member in members]
    found = [chart for chart in charts if chart is not None]
    if not found or len(found) < len(charts):
        return None
    series = [one for chart in found for one in chart.panels[0].series]
    if source == "goodput":
        # the goodput of a bidirectional flow is that of what its client sends; a figure has not all of many streams
        of_flows = [find_goodput(subject.evidence, member) for member in members]
        series = [one for some in of_flows for one in [each for each in some if not each.dash] or some]
    return replace(found[0], name=source, panels=(Panel("", (sum_steps(series),)),)) if series else None


def sum_steps(series: Sequence[Series]) -> Series:
    """Return the sum of curves of steps. A curve is zero before its first and after its last point."""
    if len(series) == 1:
        return series[0]
    moments = sorted({x for one in series for x in one.x})
    total = [math.fsum(_value_at(one, moment) for one in series) for moment in moments[:-1]]
    return replace(series[0], x=moments, y=[*total, *total[-1:]])


def average_steps(series: Series, interval_s: float) -> Series:
    """Return the means of a curve of steps over equal intervals from time zero, which the curve covers.

    A curve that is shorter than an interval, or is not known everywhere, is returned as it is.
    """
    if not len(series.x) or any(map(math.isnan, series.y)):
        return series
    moments, values = numpy.asarray(series.x, float), numpy.asarray(series.y, float)
    sums = numpy.concatenate(([0.0], numpy.cumsum(values[:-1] * numpy.diff(moments))))
    first, last = math.ceil(moments[0] / interval_s), math.floor(moments[-1] / interval_s)
    if last <= first:
        return series
    edges = numpy.arange(first, last + 1) * interval_s
    means = numpy.diff(numpy.interp(edges, moments, sums)) / interval_s
    return replace(series, x=edges.tolist(), y=[*means.tolist(), float(means[-1])])


def _value_at(series: Series, moment: float) -> float:
    index = bisect_right(series.x, moment) - 1
    return float(series.y[index]) if 0 <= index < len(series.x) - 1 else 0.0


def _merge(
    subjects: Sequence[OverlaidRun],
    drawn: Sequence[Chart | None],
    name: str,
    title: str,
    caption: str,
    panel_of: Callable[[str], str],
) -> Chart | None:
    """Return one figure of the runs' own; None if fewer than two have it. panel_of: the plot of a curve's label."""
    without = [subject.name for subject, chart in zip(subjects, drawn, strict=True) if chart is None]
    # the window of TCP is in packets, and the window of QUIC in bytes
    units = [chart.y.unit for chart in drawn if chart is not None]
    usual = max(units, key=units.count, default=None)
    unlike = [one.name for one, chart in zip(subjects, drawn, strict=True) if chart and chart.y.unit != usual]
    drawn = [chart if chart is not None and chart.y.unit == usual else None for chart in drawn]
    first = next((chart for chart in drawn if chart is not None), None)
    if first is None or sum(chart is not None for chart in drawn) < 2:
        return None
    panels: dict[str, list[Series]] = {}
    for n, (subject, chart) in enumerate(zip(subjects, drawn, strict=True)):
        counts: dict[str, int] = {}
        for series in chart.panels[0].series if chart is not None else ():
            panel = panel_of(series.label)
            count = counts[panel] = counts.get(panel, 0) + 1
            label = subject.name if count == 1 else f"{subject.name} ({count})"
            look = replace(series, label=label, tone=TONES[n % len(TONES)], dash=n + count - 1)
            panels.setdefault(panel, []).append(look)
    kept = list(panels.items())[:MOST_PANELS]
    caption += "."
    if len(kept) < len(panels):
        caption += f" The first {len(kept)} of {len(panels)} plots."
    if without:
        caption += f" Without such data: {', '.join(without)}."
    if unlike:
        caption += f" In another unit, and not drawn: {', '.join(unlike)}."
    shown = tuple(Panel(panel if len(kept) > 1 else "", tuple(series)) for panel, series in kept)
    axes = [chart.x for chart in drawn if chart is not None]
    # the axis of a distribution is logarithmic if it is for one of the runs
    x = next((axis for axis in axes if axis.scale == "log"), first.x)
    return replace(first, name=name, title=title, caption=caption, x=x, panels=shown, marks=())


def _path_of(label: str) -> str:
    return label.partition(", port ")[0]


def _join_marks(subjects: Sequence[OverlaidRun]) -> list[Mark]:
    """Return the changes of links of all runs. A change that not all runs have names its runs."""
    owners = gather((mark, one.name) for one in subjects for mark in one.evidence.marks)
    found = [
        mark if len(names) == len(subjects) else Mark(mark.at, f"{', '.join(names)}: {mark.text}")
        for mark, names in owners.items()
    ]
    return sorted(found, key=lambda mark: mark.at)
