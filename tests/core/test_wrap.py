# SPDX-License-Identifier: Apache-2.0
"""Lines of prose in the terminal."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from mprun.cli import group, prose
from mprun.cli.show_run import show_summary
from mprun.metrics.summary import order_metrics
from mprun.storage.run_directory import RunDirectory
from tests.hostile import RUN

# the order of the metrics of iperf3
READING_ORDER = ["bulk.goodput", "bulk.bytes", "bulk.retransmits"]


@pytest.mark.parametrize("value", ["61.124 ms", "5 Mbit/s", "3 %", "12 kB"])
def test_a_value_stays_on_the_line_of_its_unit(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    number = value.split()[0]
    text = f"{'x' * (40 - 2 - 1 - len(number))} {value} and more"
    assert prose.wrap(text, "  ").splitlines()[1] == f"  {value} and more"


def test_a_number_and_a_word_may_be_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    assert prose.wrap(f"{'x' * 35} 12 sent", "  ").splitlines() == [f"  {'x' * 35} 12", "  sent"]


def test_a_text_in_a_pipe_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """`grep` finds all of it."""
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setattr("sys.__stdout__", None)
    assert prose.wrap("word " * 50 + "end", "  ", "    ") == "  " + "word " * 50 + "end"
    monkeypatch.setenv("COLUMNS", "200")
    assert {len(line) <= 100 for line in prose.wrap("word " * 50, "").splitlines()} == {True}


def test_the_file_of_a_run_has_its_metrics_in_reading_order(tmp_path: Path) -> None:
    ran = RunDirectory(RUN)
    summary, intent = ran.summary(), ran.plan().intent
    backwards = dict(sorted(summary.metrics.items(), reverse=True))
    ordered = order_metrics(backwards, intent)
    assert [name for name in ordered if name.startswith("bulk.")][:3] == READING_ORDER
    assert len(ordered) == len(backwards)
    RunDirectory(tmp_path).write_summary(summary._replace(metrics=ordered))
    assert list(RunDirectory(tmp_path).summary().metrics) == list(ordered)


def test_the_metrics_of_an_earlier_version_are_shown_in_reading_order(capsys: pytest.CaptureFixture[str]) -> None:
    """The names were sorted there."""
    run = RunDirectory(RUN)
    summary = run.summary()
    assert [*summary.metrics] == sorted(summary.metrics)
    show_summary(summary, run, True)
    shown = [line.split()[0] for line in capsys.readouterr().out.splitlines() if line.startswith("  bulk.")]
    assert shown[:3] == READING_ORDER


def test_a_table_of_an_earlier_version_has_reading_order() -> None:
    """The metrics had the order of the alphabet."""
    made = CliRunner().invoke(group, ["export", "--latex", str(RUN)], catch_exceptions=False)
    rows = [line.split(" & ")[0] for line in made.stdout.splitlines() if " & " in line]
    assert [name for name in rows if name.startswith("bulk.")][:2] == ["bulk.goodput", "bulk.retransmits"]
    assert rows[-1] == "asks.delay.mean"


def test_the_lines_of_a_compiler_stay(capsys: pytest.CaptureFixture[str]) -> None:
    run = RunDirectory(RUN)
    show_summary(run.summary()._replace(errors=("bad:\na.c:1: error:\n    4 | x",)), run, True)
    assert "  error: bad:\n    a.c:1: error:\n        4 | x\n" in capsys.readouterr().out


def test_a_middlebox_in_an_error_is_not_told_again(capsys: pytest.CaptureFixture[str]) -> None:
    boxes = ("middlebox 'a' refused 11 packets", "middlebox 'b' refused 1 packet")
    summary = RunDirectory(RUN).summary()._replace(errors=(f"get: was stopped; {boxes[0]}",), middleboxes=boxes)
    show_summary(summary, RunDirectory(RUN), True)
    shown = capsys.readouterr().out
    assert [shown.count(one) for one in boxes] == [1, 1]
