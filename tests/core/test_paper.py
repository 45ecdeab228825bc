# SPDX-License-Identifier: Apache-2.0
"""Tables for papers: units, intervals, and texts that LaTeX and Markdown would read as something else."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from mprun.model.intent.intent_file import digest_of
from mprun.model.run_summary import MetricValue, Symbol
from mprun.model.sweep_files import CellVerdict, RunCounts, Statistic, SweepSummary
from mprun.reports import paper
from mprun.reports.metrics import choose_columns, choose_metrics, find_own
from mprun.safety.cell import Number
from mprun.storage.sweep_directory import SweepDirectory
from mprun.sweeps.sweep_summary import read_summary
from tests.hostile import make_sweep
from tests.summaries import CELL, PASSED


def metric(mean: float, unit: Symbol, low: float | None = None, high: float | None = None) -> Statistic:
    interval = None if low is None or high is None else (low, high)
    return Statistic(unit, 5, mean, mean, t95=interval, t99=interval)


CELLS = (
    CELL._replace(values={"cc": "a_b", "loss": "1%"}, metrics={"x.goodput": metric(17.04e6, "bit/s", 13.9e6, 20.1e6)}),
    CELL._replace(
        values={"cc": "c|d", "loss": "2%"},
        metrics={"x.goodput": metric(980e3, "bit/s", 900e3, 1060e3), "x.n": metric(2, "1")},
    ),
)
SWEEP = SweepSummary("passed", True, RunCounts(10, 0, 0), CELLS, (), ())


def test_the_unit_of_a_column_is_that_of_its_largest_mean() -> None:
    table = paper.of_sweep(SWEEP, ["x.goodput", "x.n"], 0.95)
    assert table.head == ("cc", "loss", "runs", "x.goodput (Mbit/s)", "x.n")
    assert table.rows == (
        ("a_b", "1%", Number("5"), Number("17.0", "3.1"), "--"),
        ("c|d", "2%", Number("5"), Number("0.980", "0.080"), Number("2")),
    )
    assert table.names == 2


def test_the_runs_of_a_row_are_those_of_its_means() -> None:
    """Two of five runs ended with an error, and only one of the others has the second metric."""
    three, one = (replace(metric(2, "1"), count=count) for count in (3, 1))
    cell = CELL._replace(values={"cc": "reno"}, runs=RunCounts(3, 0, 2), metrics={"x.a": three, "x.b": one})
    sweep = SWEEP._replace(cells=(cell,))
    assert paper.of_sweep(sweep, ["x.a"], 0.95).rows == (("reno", Number("3"), Number("2")),)
    assert paper.of_sweep(sweep, ["x.a", "x.b"], 0.95).rows[0][1] == Number("1 to 3")


def test_latex() -> None:
    text = paper.write(paper.of_sweep(SWEEP, ["x.goodput"], 0.99), "latex")
    assert text.splitlines() == [
        r"\begin{tabular}{llrr}",
        r"\toprule",
        r"cc & loss & runs & x.goodput (Mbit/s) \\",
        r"\midrule",
        r"a\_b & 1\% & 5 & $17.0 \pm 3.1$ \\",
        r"c|d & 2\% & 5 & $0.980 \pm 0.080$ \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]


def test_markdown_of_a_run() -> None:
    summary = PASSED._replace(metrics={"x.delay": MetricValue(0.0125, "s"), "x.n": MetricValue(2, "1")})
    assert paper.write(paper.of_run(summary, ["x.n", "x.delay"]), "markdown").splitlines() == [
        "| metric  | unit |  value |",
        "| ------- | ---- | -----: |",
        "| x.n     |      |      2 |",
        "| x.delay | ms   | 12.500 |",
    ]
    table = paper.of_sweep(SWEEP, [], 0.95)
    assert r"| c\|d | 2%   |    5 |" in paper.write(table, "markdown")


def test_the_metrics_that_an_experiment_asks_for() -> None:
    verdict = CellVerdict("x.goodput", 1.0, None, None, 5, 5)
    cells = [one._replace(expectations=(verdict,)) for one in CELLS]
    assert choose_metrics(cells) == ["x.goodput"]
    assert choose_metrics(cells, ["x.n", "x.never"]) == ["x.n"]
    assert choose_metrics(cells, ["x.never"]) == ["x.goodput"]


def test_metrics_of_own_programs_come_before_others() -> None:
    """The table of a sweep left them out. The table for a paper had all metrics, the one in the terminal three."""
    names = ("wifi.rtt", "lte.rtt", "app.time", "app.p95", "app.done")
    cells = [CELL._replace(metrics={name: metric(1, "s") for name in names})]
    own = ["app.done", "app.p95", "app.never"]
    assert choose_columns(cells, [], own) == ["app.done", "app.p95"]
    assert choose_columns(cells, ["lte.rtt"], own) == ["lte.rtt"]
    assert choose_columns(cells, [], []) == ["wifi.rtt", "lte.rtt", "app.time"]
    assert choose_columns(cells, names, []) == list(names)


def test_metrics_of_own_programs_are_found_in_later_cells(tmp_path: Path) -> None:
    """Only metrics of the first run were known."""
    sweep = SweepDirectory(make_sweep(tmp_path))
    path = sweep.path / "runs" / "cc=reno" / "1"
    plan, summary = (json.loads((path / name).read_text()) for name in ("plan.json", "summary.json"))
    entry = {"name": "done", "regex": "a", "unit": "count", "take": "last"}
    plan["intent"]["traffic"][0]["options"]["metrics"] = [entry]
    summary["metrics"]["bulk.done"] = {"value": 3, "unit": "1"}
    (path / "plan.json").write_text(json.dumps({**plan, "digest": digest_of(plan["intent"])}))
    (path / "summary.json").write_text(json.dumps(summary))
    cells = read_summary(sweep).cells
    assert find_own(sweep, cells) == ["bulk.done"]
    assert find_own(sweep, cells[:1]) == []
