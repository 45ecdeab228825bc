# SPDX-License-Identifier: Apache-2.0
"""Lines of prose in the terminal."""

from __future__ import annotations

import pytest

from mprun.cli import prose
from mprun.cli.show_run import show_summary
from mprun.storage.run_directory import RunDirectory
from tests.hostile import RUN


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


def test_the_order_of_metrics_and_the_lines_of_a_compiler_stay(capsys: pytest.CaptureFixture[str]) -> None:
    run = RunDirectory(RUN)
    summary = run.summary()._replace(errors=("bad:\na.c:1: error:\n    4 | x",))
    backwards = summary._replace(metrics=dict(reversed([*summary.metrics.items()])))
    show_summary(summary, run, True)
    shown = capsys.readouterr().out
    # the end of a run has the metrics as they were measured, and `mprun show` those of the file
    show_summary(backwards, run, True)
    assert capsys.readouterr().out == shown
    assert "  error: bad:\n    a.c:1: error:\n        4 | x\n" in shown


def test_a_middlebox_in_an_error_is_not_told_again(capsys: pytest.CaptureFixture[str]) -> None:
    boxes = ("middlebox 'a' refused 11 packets", "middlebox 'b' refused 1 packet")
    summary = RunDirectory(RUN).summary()._replace(errors=(f"get: was stopped; {boxes[0]}",), middleboxes=boxes)
    show_summary(summary, RunDirectory(RUN), True)
    shown = capsys.readouterr().out
    assert [shown.count(one) for one in boxes] == [1, 1]
