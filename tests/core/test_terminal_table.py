# SPDX-License-Identifier: Apache-2.0
"""Tables in a terminal: what is too wide for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mprun.cli.output import cut_middle
from mprun.cli.show_kernel import show_cost, show_counters, show_trace
from mprun.cli.show_sweep import show_sweep
from mprun.errors import MprunError
from mprun.model.intent.intent_file import digest_of
from mprun.model.sweep_files import CellVerdict, RunCounts, Sides, StatementResult, Statistic, SweepSummary
from mprun.reports.metrics import ExpectationRow, list_verdicts
from mprun.storage.run_directory import RunDirectory
from mprun.storage.sweep_directory import SweepDirectory
from mprun.sweeps.sweep_summary import tell_outcome, write_summary
from tests.hostile import make_sweep
from tests.summaries import CELL


@pytest.mark.parametrize(
    ("text", "most", "shown"),
    [("short", 5, "short"), ("20261125-topo-xp.1", 11, "20261…-xp.1"), ("abcdef", 4, "a…ef")],
)
def test_a_long_text_loses_its_middle(text: str, most: int, shown: str) -> None:
    assert cut_middle(text, most) == shown
    assert len(cut_middle(text, most)) <= most


def test_a_sweep_that_failed_by_a_statement_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sweep = SweepDirectory(make_sweep(tmp_path))
    write_summary(sweep)
    statements = (StatementResult("cells[cc=cubic].asks.requests > 1", False), StatementResult("1 > 2", None))
    show_sweep(sweep.summary()._replace(status="failed", statements=statements), sweep)
    assert "FAILED  2 passed, 1 statement about cells not held  " in capsys.readouterr().out


def test_a_sweep_has_one_list_of_verdicts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The page had other words for them, and showed the cells of an expectation as further metrics."""
    verdicts = [CellVerdict("asks.rate", 10.0, None, None, held, 5) for held in (5, 3)]
    cells = tuple(
        CELL._replace(values={"cc": name}, expectations=(one,)) for name, one in zip(("a", "b"), verdicts, strict=True)
    )
    sides = Sides(2e6, ">", 1e6, "bit/s")
    statements = (StatementResult("x > y", True, "2e6 > 1e6", (sides,)), StatementResult("1 > 2", None, "no value"))
    summary = SweepSummary("incomplete", False, RunCounts(8, 2, 1), cells, statements, ())
    sweep = SweepDirectory(make_sweep(tmp_path))
    assert list(list_verdicts(summary, sweep)) == [
        ExpectationRow("asks.rate", "≥ 10", "held in 8 of 10 runs", False),
        ExpectationRow("cc=b", "", "held in 3 of 5 runs", False, is_part=True),
        ExpectationRow("x > y", "", "2.00 Mbit/s > 1.00 Mbit/s", True),
        ExpectationRow("1 > 2", "", "no value", None),
    ]
    assert tell_outcome(summary) == "10 of 10 runs, 2 of 2 cells whole (8 passed, 2 failed, 1 in error)"
    show_sweep(summary, sweep)
    assert capsys.readouterr().out.splitlines()[-8:-1] == [
        "",
        "  ✗ asks.rate ≥ 10: held in 8 of 10 runs",
        "      cc=b: held in 3 of 5 runs",
        "  ✓ x > y",
        "      2.00 Mbit/s > 1.00 Mbit/s",
        "  ? 1 > 2",
        "      no value",
    ]


def test_a_bound_of_an_own_metric_that_no_run_measured_has_its_unit(tmp_path: Path) -> None:
    """`done ≥ 0.014`, because only the metrics of tools were known."""
    sweep = SweepDirectory(make_sweep(tmp_path))
    for path in sweep.path.glob("runs/cc=reno/1/plan.json"):
        plan = json.loads(path.read_text())
        entry = {"name": "done", "regex": "a", "unit": "ms", "take": "last"}
        flow = plan["intent"]["traffic"][0]
        flow |= {"tool": "exec", "options": {**flow["options"], "metrics": [entry], "command": ["x"]}}
        path.write_text(json.dumps({**plan, "digest": digest_of(plan["intent"])}))
    verdicts = [
        CellVerdict("bulk.done", 0.014, None, None, 0, 5),
        CellVerdict("bulk.goodput", 14e6, None, None, 0, 5),
        CellVerdict("path0.rtt", 0.014, None, None, 0, 5),
    ]
    cells = (CELL, CELL._replace(expectations=tuple(verdicts)))
    summary = SweepSummary("failed", True, RunCounts(0, 5, 0), cells, (), ())
    assert [one.expected for one in list_verdicts(summary, sweep)] == ["≥ 14.000 ms", "≥ 14.00 Mbit/s", "≥ 14.000 ms"]


@pytest.mark.parametrize(("columns", "shown"), [(80, 2), (150, 4), (246, 8), (245, 7), (20, 1)])
def test_a_table_of_a_sweep_is_as_wide_as_the_terminal(
    columns: int, shown: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nine flows with long names had lines of 240 columns."""
    monkeypatch.setenv("COLUMNS", str(columns))
    names = [f"long-name-{n}.goodput" for n in range(8)]
    values = {name: Statistic("bit/s", 5, 2e6, 2e6) for name in names}
    sweep = SweepDirectory(make_sweep(tmp_path))
    path = sweep.path / "sweep.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "show": names}))
    sweep = SweepDirectory(sweep.path)
    summary = SweepSummary("passed", True, RunCounts(5, 0, 0), (CELL._replace(metrics=values),), (), ())
    show_sweep(summary, sweep)
    head, row, *more = capsys.readouterr().out.splitlines()[1:]
    assert [len(head.split("  ")) - 2, len(row.split())] == [shown, shown + 1]
    assert max(len(head), len(row)) <= max(columns, 36)
    rest = [f"  {8 - shown} more: mprun export --markdown {sweep.path}"] if shown < 8 else []
    assert more[: len(rest) + 1] == [*rest, ""]
    show_sweep(summary, sweep, names)
    head = capsys.readouterr().out.splitlines()[1]
    assert [name for name in names if name not in head] == []


def test_a_counter_of_a_stranger_without_a_number_is_a_dash(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = RunDirectory(tmp_path)
    columns: dict[str, list[Any]] = {"host": ["a", "b"], "name": ["x", "y"], "value": [1, 2]}
    columns |= {"before": [None, 1000], "after": ["c", "d"]}
    run.write_tables({"counters": columns})
    show_counters(run, "*", as_json=False)
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["counter", "host", "before", "after", "growth"],
        ["x", "a", "-", "-", "1"],
        ["y", "b", "1,000", "-", "2"],
    ]


@pytest.mark.parametrize("columns", [{"time_ns": [None, 3], "host": ["a", "b"]}, {"host": ["a"]}])
def test_an_event_of_a_stranger_without_a_time_is_damage(tmp_path: Path, columns: dict[str, list[Any]]) -> None:
    run = RunDirectory(tmp_path)
    run.write_tables({"trace-tcp-tcp_probe": columns})
    with pytest.raises(MprunError, match="tables: damaged: "):
        show_trace(run, "*", as_json=False)


def test_stops_of_a_stranger_may_all_be_zero(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "stops.json").write_text('[{"program": "iperf3", "call": "read", "count": 0}]')
    show_cost(RunDirectory(tmp_path), as_json=False)
    assert capsys.readouterr().out.splitlines()[-1].split() == ["0", "0.0%", "read", "iperf3"]
