# SPDX-License-Identifier: Apache-2.0
"""Figures over the cells of a sweep."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from mprun.model.spec import Plot
from mprun.model.sweep_files import RunCounts, Statistic, SweepSummary
from mprun.reports.chart import COLUMN, _Painting, paint
from mprun.reports.sweep_figures import Study, choose, draw, draw_sweep, lacking
from mprun.reports.sweep_page import _tiles
from tests.summaries import CELL

pytestmark = pytest.mark.slow

AXES: dict[str, list[Any]] = {
    "cc": ["cubic", "reno"],
    "path0.rate": ["5mbit", "20mbit", "10mbit"],
    "loss": ["0%", "1%"],
}


def study(axes: Mapping[str, list[Any]], runs: int = 3) -> Study:
    """Return a study whose bulk.goodput is the rate, less a tenth for reno and half for loss."""
    cells, samples = [], []
    for values in product(*axes.values()):
        chosen = dict(zip(axes, values, strict=True))
        rate = float(str(chosen["path0.rate"]).removesuffix("mbit")) * 1e6
        mean = rate * (0.9 if chosen.get("cc") == "reno" else 1.0) * (0.5 if chosen.get("loss") == "1%" else 1.0)
        metric = Statistic("bit/s", runs, mean, mean)
        if runs > 1:
            metric = replace(metric, t95=(mean - 1e5, mean + 1e5), t99=(mean - 2e5, mean + 2e5))
        cells.append(CELL._replace(values=chosen, metrics={"bulk.goodput": metric}))
        samples.append({"bulk.goodput": [mean] * runs})
    return Study(cells, samples, axes)


def test_numbers_are_placed_where_they_are() -> None:
    chart = draw(study(AXES), Plot(metric="bulk.goodput", over="path0.rate", by="cc", facet="loss"), 0)
    assert chart is not None
    assert (chart.form, chart.x.unit, chart.y.unit) == ("line", "bit/s", "bit/s")
    assert [panel.title for panel in chart.panels] == ["loss 0%", "loss 1%"]
    reno = chart.panels[1].series[1]
    assert (reno.label, list(reno.x)) == ("reno", [5e6, 10e6, 20e6])
    assert list(reno.y) == pytest.approx([2.25e6, 4.5e6, 9e6])
    assert list(reno.low) == pytest.approx([2.15e6, 4.4e6, 8.9e6])
    assert "t interval of 95 %" in chart.caption
    chart = draw(replace(study(AXES), confidence=0.99), Plot(metric="bulk.goodput", over="path0.rate"), 0)
    assert chart is not None
    assert chart.panels[0].series[0].low[0] == pytest.approx(chart.panels[0].series[0].y[0] - 2e5)
    assert "t interval of 99 %" in chart.caption


def test_axes_that_are_not_named_are_never_mixed() -> None:
    chart = draw(study(AXES), Plot(metric="bulk.goodput", over="path0.rate", by="cc"), 0)
    assert chart is not None
    (panel,) = chart.panels
    assert [series.label for series in panel.series] == [
        "cubic, loss 0%",
        "cubic, loss 1%",
        "reno, loss 0%",
        "reno, loss 1%",
    ]


def test_names_make_bars_and_one_run_has_no_interval() -> None:
    chart = draw(study(AXES, 1), Plot(metric="bulk.goodput", over="cc", by="loss", facet="path0.rate"), 0)
    assert chart is not None
    assert (chart.form, chart.x.categories) == ("bar", ("cubic", "reno"))
    assert all(not series.low for panel in chart.panels for series in panel.series)
    assert "no interval" in chart.caption


def test_a_logarithmic_scale_is_drawn_and_says_what_it_has_no_place_for() -> None:
    """Two numbers are drawn as lines then too. By default they are bars."""
    axes = {"path0.rate": ["5mbit", "20mbit"], "cc": ["cubic", "reno"]}
    found = study(axes)
    usual = draw(found, Plot(metric="bulk.goodput", over="path0.rate"), 0)
    chart = draw(found, Plot(metric="bulk.goodput", over="path0.rate", log=("x", "y")), 0)
    assert usual is not None
    assert chart is not None
    assert (usual.form, chart.form, chart.x.scale, chart.y.scale) == ("bar", "line", "log", "log")
    assert "logarithmic" not in chart.caption
    first, *others = found.cells
    nothing = {"bulk.goodput": replace(first.metrics["bulk.goodput"], mean=0.0)}
    found = replace(found, cells=[first._replace(metrics=nothing), *others])
    chart = draw(found, Plot(metric="bulk.goodput", over="path0.rate", log=("y",)), 0)
    assert chart is not None
    assert "1 of its values are not above zero" in chart.caption


def test_a_value_without_a_place_on_a_logarithmic_axis_is_told() -> None:
    """The values are on an axis of the matrix, or are those of the runs in a box."""
    found = study({"path0.rate": ["5mbit"], "loss": ["0%", "1%", "2%"]})
    line = draw(found, Plot(metric="bulk.goodput", over="loss", log=("x",)), 0)
    samples = [{"bulk.goodput": [0.0, 1e6]}, *found.samples[1:]]
    box = draw(replace(found, samples=samples), Plot(metric="bulk.goodput", over="loss", form="box", log=("y",)), 0)
    assert line is not None
    assert box is not None
    assert "1 of its values are not above zero" in line.caption
    assert "1 of its values are not above zero" in box.caption


def test_a_cell_that_is_not_there_is_empty_in_a_map() -> None:
    whole = study({"cc": ["cubic", "reno"], "path0.rate": ["5mbit", "10mbit"]})
    cut = Study(whole.cells[:-1], whole.samples[:-1], whole.axes)
    chart = draw(cut, Plot(metric="bulk.goodput", over="path0.rate", by="cc", form="heat"), 0)
    assert chart is not None
    rows = chart.panels[0].series
    assert chart.y.categories == ("cubic", "reno")
    assert rows[0].y == pytest.approx([5e6, 10e6])
    assert rows[1].y[0] == pytest.approx(4.5e6)
    assert math.isnan(rows[1].y[1])
    assert paint(chart, COLUMN, ("svg",))["svg"]


@pytest.mark.parametrize("form", ["line", "bar", "box", "heat"])
def test_panels_share_axes_that_hold_all_of_them(form: Any) -> None:
    """The second panel's values are half of the first panel's values: neither panel is cut off."""
    plot = Plot(metric="bulk.goodput", over="path0.rate", by="cc", facet="loss", form=form)
    chart = draw(study(AXES), plot, 0)
    assert chart is not None
    turned = type(chart)(**{**vars(chart), "panels": chart.panels[::-1]})
    ticks = [set(_texts(paint(one, COLUMN, ("svg",))["svg"].decode())) for one in (chart, turned)]
    assert ticks[0] == ticks[1]


def _texts(svg: str) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg)


def test_usual_figure_has_numbers_along_it() -> None:
    chosen = choose(study(AXES), "bulk.goodput")
    assert chosen == Plot(metric="bulk.goodput", over="path0.rate", by="loss", facet="cc")
    assert choose(Study([], [], {}), "bulk.goodput") is None


def test_metric_that_no_run_has_is_named() -> None:
    plots = [Plot(metric="bulk.loss", over="cc")]
    assert list(draw_sweep(study(AXES), plots, [])) == []
    assert list(lacking(study(AXES), plots)) == ["no figure of bulk.loss: no run has it"]


def test_figures_of_a_run_are_named_in_the_report_of_a_sweep() -> None:
    plots = [Plot(series="rate"), Plot(table="answers", column="delay")]
    (note,) = lacking(study(AXES), plots)
    assert note == "no figure of 'rate', 'delay' here: over time it is a figure of a run, `mprun report RUN`"


def test_the_share_of_runs_that_passed_is_a_map() -> None:
    """A cell without any passed run is a zero, and a cell that was left out is empty."""
    plain = study({"cc": AXES["cc"], "path0.rate": AXES["path0.rate"]}, 1)
    counts = [cell.runs._replace(passed=n != 1, failed=n == 1, error=0) for n, cell in enumerate(plain.cells)]
    cells = [cell._replace(runs=runs) for cell, runs in zip(plain.cells, counts, strict=True)][:-1]
    plot = Plot(metric="passed", over="path0.rate", by="cc", form="heat")
    found = replace(plain, cells=cells)
    [chart] = draw_sweep(found, [plot], ())
    rows = {series.label: list(series.y) for series in chart.panels[0].series}
    assert rows["cubic"] == [1, 0, 1]
    assert rows["reno"][:2] == [1, 1]
    assert math.isnan(rows["reno"][2])
    assert list(lacking(found, [plot])) == []


def test_an_interval_below_zero_does_not_move_the_axis() -> None:
    """The mean of three delays of 10, 20 and 300 ms has an interval from -300 to 520 ms."""
    cell = CELL._replace(values={"cc": "cubic"}, metrics={"d": Statistic("s", 3, 0.11, 0.02, t95=(-0.3, 0.52))})
    for delay, lowest in ((0.11, 0.0), (-0.11, None)):
        one = cell._replace(metrics={"d": replace(cell.metrics["d"], mean=delay)})
        chart = draw(Study([one], [{"d": [delay]}], {"cc": ["cubic"]}), Plot(metric="d", over="cc"), 0)
        assert chart is not None
        bottom = _Painting(chart, COLUMN).figure.axes[0].get_ylim()[0]
        assert bottom == lowest if lowest is not None else bottom < 0


def test_only_crossed_axes_are_shown_as_a_product() -> None:
    whole = study({"cc": AXES["cc"], "path0.rate": AXES["path0.rate"]})
    summary = SweepSummary("passed", True, RunCounts(18, 0, 0), tuple(whole.cells), (), ())
    zipped = replace(whole, cells=whole.cells[:3])
    found = [next(_tiles(one, summary)) for one in (whole, zipped)]
    assert [(one.value, one.note) for one in found] == [("6", "2 cc × 3 path0.rate"), ("3", "2 cc, 3 path0.rate")]
