# SPDX-License-Identifier: Apache-2.0
"""Messages of many runs as one, with the ranges of their numbers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from mprun.cli import group
from mprun.reports.messages import join_texts
from tests.hostile import make_sweep


def test_messages_that_differ_in_numbers_are_one() -> None:
    runs = [
        ["queue of link a--b was full for 12 % of the time"],
        [],
        ["queue of link a--b was full for 31.5 % of the time", "no route"],
        ["queue of link a--b was full for 9 % of the time"],
    ]
    assert join_texts(runs) == [
        ([0, 2, 3], "queue of link a--b was full for 9 to 31.5 % of the time"),
        ([2], "no route"),
    ]


def test_a_run_counts_once() -> None:
    assert join_texts([["late by 3 ms", "late by 5 ms"], ["late by 4 ms"]]) == [([0, 1], "late by 3 to 5 ms")]


def test_names_addresses_versions_and_units_keep_messages_apart() -> None:
    texts = [
        "path0 lost 1 packet",
        "path1 lost 1 packet",
        "10.0.0.1 is away",
        "10.0.0.2 is away",
        "Linux 6.12-a is old",
    ]
    texts += ["Linux 6.13-a is old", "2 ms late", "2 s late", "at 10:20", "at 10:30"]
    assert join_texts([[text] for text in texts]) == [([n], text) for n, text in enumerate(texts)]


def test_numbers_in_quotes_stay() -> None:
    texts = ["'wait 5' failed", "'wait 7' failed", 'no "a 5"', 'no "a 7"', "write `-p n 5`", "write `-p n 7`"]
    assert join_texts([[text] for text in texts]) == [([n], text) for n, text in enumerate(texts)]
    # an apostrophe is no quote
    late = [[f"'a 1': the host's clock was late by {ms} ms and its paths' by 2 ms"] for ms in (3, 5)]
    assert join_texts(late) == [([0, 1], late[0][0].replace("by 3 ms", "by 3 to 5 ms"))]


def test_equal_numbers_are_no_range() -> None:
    assert join_texts([["3 of 10 came"], ["4 of 10 came"]]) == [([0, 1], "3 to 4 of 10 came")]
    assert join_texts([["x 1.0 y."], ["x 1 y."]]) == [([0, 1], "x 1.0 y.")]


@pytest.mark.slow
@pytest.mark.usefixtures("painted_once")
def test_the_report_of_a_sweep_has_the_messages_of_its_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    sweep = make_sweep(tmp_path / "runs")
    for value, share in (("cubic", 12), ("reno", 31)):
        path = sweep / "runs" / f"cc={value}" / "1" / "summary.json"
        summary = json.loads(path.read_text())
        summary["warnings"] = [f"queue of link a--b was full for {share} % of the time"]
        summary["failures"] = [f"{value} fell back"]
        path.write_text(json.dumps(summary))
    made = CliRunner().invoke(group, ["report", sweep.name], catch_exceptions=False)
    text = Path(made.stdout.strip()).read_text()
    assert "<b>warning</b> <span>2 of 2 runs: queue of link a--b was full for 12 to 31 % of the time</span>" in text
    # not in all cells, so that the message names its own
    assert "<b>failed</b> <span>1 of 2 runs (cc=reno): reno fell back</span>" in text


def test_show_has_the_messages_of_a_sweep_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    sweep = make_sweep(tmp_path / "runs")
    for value, share in (("cubic", 76), ("reno", 78)):
        path = sweep / "runs" / f"cc={value}" / "1" / "summary.json"
        summary = json.loads(path.read_text())
        summary["warnings"] = [f"queue of link a--b was full for {share}.0 % of the time"]
        path.write_text(json.dumps(summary))
    shown = CliRunner().invoke(group, ["show", sweep.name], catch_exceptions=False).stdout
    assert " ".join(shown.split()).count("warning: ") == 1
    assert "warning: 2 of 2 runs: queue of link a--b was full for 76.0 to 78.0 % of the time" in " ".join(shown.split())
