# SPDX-License-Identifier: Apache-2.0
"""Tables in a terminal: what is too wide for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mprun.cli.output import cut_middle
from mprun.cli.show_kernel import show_cost, show_counters, show_trace
from mprun.cli.show_sweep import show_sweep
from mprun.errors import MprunError
from mprun.model.sweep_files import StatementResult
from mprun.storage.run_directory import RunDirectory
from mprun.storage.sweep_directory import SweepDirectory
from mprun.sweeps.sweep_summary import write_summary
from tests.hostile import make_sweep


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
