# SPDX-License-Identifier: Apache-2.0
"""Tables for papers: units, intervals, and texts that LaTeX and Markdown would read as something else."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from mprun.metrics.metric_table import MOST_COLUMNS, choose_metrics, table_of_run, table_of_sweep
from mprun.model.intent.intent_file import digest_of
from mprun.model.run_summary import ExpectationVerdict, MetricValue, Symbol
from mprun.model.sweep_files import CellVerdict, RunCounts, Statistic
from mprun.reports.metrics import find_own, list_known
from mprun.reports.paper import write
from mprun.safety.cell import MISSING, Number
from mprun.storage.run_directory import RunDirectory
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


def test_the_unit_of_a_column_is_that_of_its_largest_mean() -> None:
    table = table_of_sweep(CELLS, ["x.goodput", "x.n"], 0.95)
    assert table.head == ("cc", "loss", "runs", "x.goodput (Mbit/s)", "x.n")
    assert table.rows == (
        ("a_b", "1%", Number("5"), Number("17.0", "3.1"), MISSING),
        ("c|d", "2%", Number("5"), Number("0.980", "0.080"), Number("2")),
    )
    assert table.names == 2


def test_a_value_keeps_its_digits_in_the_unit_of_its_column() -> None:
    """A table for a paper rounded each to four digits: a count of 12345 became 12340, and 40.123 ms became 40.12."""
    metrics = {"x.count": metric(12345, "1"), "x.delay": metric(0.040123, "s"), "x.rate": metric(2e9, "bit/s")}
    cells = [CELL._replace(metrics=one) for one in (metrics, {**metrics, "x.rate": metric(1_234_560, "bit/s")})]
    table = table_of_sweep(cells, list(metrics), 0.95)
    assert table.head == ("runs", "x.count", "x.delay (ms)", "x.rate (Gbit/s)")
    assert [tuple(map(str, row)) for row in table.rows] == [
        ("5", "12345", "40.123", "2.00"),
        ("5", "12345", "40.123", "0.001235"),
    ]
    assert not table.has_intervals


@pytest.mark.parametrize(
    ("value", "unit", "largest", "half", "shown"),
    [
        # 0.000 ± 0 before
        (123.4e-9, "s", 0.02, 0.0, "0.0001234 ± 0"),
        (123.4e-9, "s", 123.4e-9, None, "0.0001234"),
        (0.0001189, "share", 0.0001189, None, "0.01189"),
        (0.00865033, "share", 0.00865033, None, "0.8650"),
        # 0.0 ± <0.001 before
        (7.3e-9, "share", 0.01, 3.2e-9, "0.00000073 ± 0.00000032"),
        (8.3e-6, "share", 0.01, 2.7e-6, "0.00083 ± 0.00027"),
        (9.8592e6, "bit/s", 9.8592e6, None, "9.859"),
        # these digits are exact
        (0.57, "share", 0.57, None, "57.0"),
        (2e6, "bit/s", 2e9, None, "0.00200"),
        (512, "byte", 512, None, "512"),
        (-5.25, "1", 3, None, "-5.25"),
        (0, "s", 0, 0.0, "0.000 ± 0"),
    ],
)
def test_a_value_has_four_digits_whatever_the_unit_of_its_column(
    value: float, unit: Symbol, largest: float, half: float | None, shown: str
) -> None:
    own = metric(value, unit) if half is None else metric(value, unit, value - half, value + half)
    cells = [CELL._replace(metrics={"x.v": one}) for one in (own, metric(largest, unit))]
    assert str(table_of_sweep(cells, ["x.v"], 0.95).rows[0][-1]) == shown
    if half is None and value == largest:
        table = table_of_run(PASSED._replace(metrics={"x.v": MetricValue(value, unit)}), ["x.v"])
        assert str(table.rows[0][-1]) == shown


def test_units_of_different_kinds_are_in_the_cells() -> None:
    """The head was that of the largest mean, `x.v (Gbit/s)`, and 5000 s were 0.000005000000 there."""
    means = (metric(5000, "s"), metric(5e12, "bit/s"), metric(5e6, "1"), metric(0.5, "share", 0.49, 0.51))
    cells = [CELL._replace(metrics={"x.v": one, "x.n": metric(2e6, "bit/s")}) for one in means]
    table = table_of_sweep(cells, ["x.v", "x.n"], 0.95)
    assert table.head == ("runs", "x.v", "x.n (Mbit/s)")
    assert [str(row[1]) for row in table.rows] == ["5000.000 s", "5000.00 Gbit/s", "5000000", "50.0 ± 1.0 %"]
    assert r"5 & $50.0 \pm 1.0$ \% & 2.00 \\" in write(table, "latex")


@pytest.mark.parametrize(
    ("counts", "shown"),
    [((5, 0, 0), "5"), ((4, 1, 0), "5 (4 passed)"), ((3, 0, 0), "3 of 5"), ((3, 1, 1), "4 of 5 (3 passed)")],
)
def test_the_runs_of_a_row_are_those_of_its_means(counts: tuple[int, int, int], shown: str) -> None:
    """The terminal had `3/5` for the third, `5 (3 passed)` for the fourth, and the page of both `5`, or `3 of 5`."""
    cell = CELL._replace(runs=RunCounts(*counts))
    assert [str(cell) for cell in table_of_sweep([cell], [], 0.95).rows[0]] == [shown]


def test_a_mean_of_some_runs_has_their_number() -> None:
    """Two of five runs ended with an error, and only one of the others has the second metric."""
    three, one = (replace(metric(2, "1", 1, 3), count=count) for count in (3, 1))
    cell = CELL._replace(runs=RunCounts(3, 0, 2), metrics={"x.a": three, "x.b": replace(one, t95=None)})
    table = table_of_sweep([cell], ["x.a", "x.b"], 0.95)
    assert [str(cell) for cell in table.rows[0]] == ["3 of 5", "2.0 ± 1.0", "2 (1 of 3 runs)"]
    wide = replace(three, count=2)
    latex = write(table_of_sweep([cell._replace(metrics={"x.a": wide})], ["x.a", "x.b"], 0.95), "latex")
    assert r"3 of 5 & $2.0 \pm 1.0$ (2 of 3 runs) & -- \\" in latex


def test_latex() -> None:
    text = write(table_of_sweep(CELLS, ["x.goodput"], 0.99), "latex")
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
    assert write(table_of_run(summary, ["x.n", "x.delay"]), "markdown").splitlines() == [
        "| metric  | unit |  value |",
        "| ------- | ---- | -----: |",
        "| x.n     |      |      2 |",
        "| x.delay | ms   | 12.500 |",
    ]
    table = table_of_sweep(CELLS, [], 0.95)
    assert r"| c\|d | 2%   |    5 |" in write(table, "markdown")


def test_flows_of_a_group_have_no_rows(tmp_path: Path) -> None:
    """A table for a paper had each flow of a group, where `mprun show` had the group."""
    names = ("a.goodput", "b.goodput", "web.goodput", "b.bytes")
    verdict = ExpectationVerdict("b.goodput", minimum=1.0, maximum=None, equals=None, value=1.0, held=True)
    summary = PASSED._replace(
        metrics={name: MetricValue(1.0, "bit/s") for name in names}, groups={"web": ("a", "b")}, expectations=(verdict,)
    )
    assert list_known(summary, RunDirectory(tmp_path)) == ["b.goodput", "web.goodput", "b.bytes"]


def test_the_metrics_that_an_experiment_asks_for() -> None:
    verdict = CellVerdict("x.goodput", 1.0, None, None, 5, 5)
    cells = [one._replace(expectations=(verdict,)) for one in CELLS]
    assert choose_metrics(cells) == ["x.goodput"]
    assert choose_metrics(cells, ["x.n", "x.never"]) == ["x.n"]
    assert choose_metrics(cells, ["x.never"]) == ["x.goodput"]


def test_metrics_of_own_programs_come_before_others() -> None:
    """The table in the terminal left them out. It had three metrics, the page four, and a paper all of them."""
    names = ("wifi.rtt", "lte.rtt", "app.time", "app.p95", "app.done", "app.jitter", "app.loss")
    cells = [CELL._replace(metrics={name: metric(1, "s") for name in names})]
    own = ["app.done", "app.p95", "app.never"]
    assert choose_metrics(cells, [], own) == ["app.done", "app.p95"]
    assert choose_metrics(cells, ["lte.rtt"], own) == ["lte.rtt"]
    assert choose_metrics(cells) == list(names[:MOST_COLUMNS])
    assert choose_metrics(cells, names) == list(names)


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


def test_goodputs_fill_up_a_table() -> None:
    """With a hundred flows, the table of a paper had a hundred columns."""
    names = [f"flow{n}.goodput" for n in range(100)]
    cell = CELL._replace(metrics={name: metric(1, "bit/s") for name in [*names, "x.n"]})
    assert choose_metrics([cell], [], ["x.n"]) == ["x.n", *names[: MOST_COLUMNS - 1]]
