# SPDX-License-Identifier: Apache-2.0
"""Progress lines in a log."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from rich.progress import Progress

from mprun.cli.progress import Bar, passing
from mprun.engines.agent_process import _show


def test_a_log_is_told_now_and_then_and_not_flooded(capsys: pytest.CaptureFixture[str]) -> None:
    """97 runs of 37 s each, polled twice a second, print about forty lines in an hour, each with the time left."""
    now_s = 0.0
    with Bar(clock=lambda: now_s) as bar:
        for n in range(97 * 37 * 2):
            now_s = n / 2
            done = int(now_s // 37)
            bar.show("running", done / 97, f"{done} of 97 runs")
    first, second, *others = capsys.readouterr().err.splitlines()
    # before a run has ended, the time is unknown
    assert (first, second) == ("running ...", "running: 0 of 97 runs")
    assert 30 <= len(others) <= 40
    # after 47.5 s one of 97 runs has ended: the other 96 take 76 min
    assert others[1] == "running: 1 of 97 runs, about 76 min left"
    # in the last two minutes, four runs are left
    assert others[-1].startswith("running: 9")
    assert others[-1].endswith(" s left")


def test_work_beyond_its_estimate_has_no_time_below_zero(capsys: pytest.CaptureFixture[str]) -> None:
    now_s = 0.0
    with Bar(clock=lambda: now_s) as bar:
        bar.show("running", 0.0)
        now_s = 600.0
        bar.show("running", 1.0 + 1e-9)
    assert capsys.readouterr().err.splitlines()[-1] == "running: 100%, about 0 s left"


def test_phases_that_pass_are_a_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    with Bar(clock=lambda: 0.0) as bar:
        for text, done in (("building", 0.0), ("building", 0.1), ("running", 0.2), ("running", 0.9)):
            bar.show(text, done)
    assert capsys.readouterr().err == "building ...\nrunning ...\n"


def test_work_that_takes_less_than_a_second_has_no_bar(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    now_s = 0.0
    with Bar(clock=lambda: now_s) as bar:
        bar.show("building", 0.1)
        now_s = 0.9
        bar.show("running", 0.5)
        assert capsys.readouterr().err == ""
        now_s = 1.1
        bar.show("running", 0.6)
    assert "running" in capsys.readouterr().err


def test_a_passing_line_is_on_a_terminal_only_and_leaves_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        # nothing is written, as it could fail on a full disk
        patched.setattr("mprun.cli.progress.sys.stderr", SimpleNamespace(isatty=lambda: False))
        with passing("reading topo"):
            pass
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with passing("reading \x1btopo"):
        # a name of a file cannot control the terminal
        line = capsys.readouterr().err
        assert line.isprintable()
    assert capsys.readouterr().err == f"\r{' ' * len(line)}\r"


def test_the_progress_of_a_run_never_falls() -> None:
    said: list[tuple[str, float, str]] = []
    done = 0.0
    for text, done_ns in (("building", 0), ("bulk", 85), ("bulk", 100), ("waiting for packets under way", 0)):
        state = {"text": text, "done_ns": done_ns * 10**8, "end_ns": 10**10}
        done = _show(json.dumps(state).encode(), lambda *shown: said.append(shown), done)
    assert [share for _, share, _ in said] == [0, 0.85, 1, 1]


def test_an_end_that_has_passed_is_not_told() -> None:
    said: list[str] = []
    for done_ns in (5, 15):
        state = {"text": "bulk", "done_ns": done_ns * 10**8, "end_ns": 10**9}
        _show(json.dumps(state).encode(), lambda *shown: said.append(shown[2]), 0)
    assert said == ["0.5 of 1 s", "1.5 s"]


def test_a_bar_begins_with_what_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    added: list[bool] = []
    kept = Progress.add_task

    def add(self: Progress, text: str, **given: Any) -> Any:
        added.append(given.get("visible", True))
        return kept(self, text, **given)

    monkeypatch.setattr(Progress, "add_task", add)
    now_s = 0.0
    with Bar(clock=lambda: now_s) as bar:
        now_s = 2.0
        bar.show("bulk", 0.85)
        assert bar._progress is not None
        (task,) = bar._progress.tasks
    # no moment in which the bar shows 0 %
    assert added == [False]
    assert (task.visible, task.completed) == (True, 0.85)


def test_a_bar_without_a_share_has_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    now_s = 0.0
    with Bar(clock=lambda: now_s) as bar:
        now_s = 2.0
        bar.show("downloading", 0.0, "3 MB")
        assert bar._progress is not None
        (task,) = bar._progress.tasks
        # rich moves a bar without an end to and fro
        assert (task.visible, task.total) == (True, None)
        bar.show("long-h0, long-h4, long-h8, long-h12, short-h1", 0.5)
        assert task.description == "long-h0, long-h4, long-h8, …"
        bar.show("building", 0.5)
        assert (task.total, task.percentage) == (1.0, 50)
