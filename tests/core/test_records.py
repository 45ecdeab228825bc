# SPDX-License-Identifier: Apache-2.0
"""The files of a run and a sweep as records: what is written is read, and a stranger's file must fit."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from mprun.model.codec import PLAIN, JsonProblem
from mprun.model.run_files import Build, RunEnvironment, StepRecord
from mprun.model.run_summary import Summary
from mprun.model.spec import Plot, Until
from mprun.model.sweep_files import CellRepeat, Statistic, SweepCell, SweepRecord, SweepSummary
from tests.summaries import CELL

RUN = Path(__file__).parents[1] / "outputs" / "run"
WRITTEN: dict[str, Any] = json.loads((RUN / "summary.json").read_text())
ENVIRONMENT: dict[str, Any] = json.loads((RUN / "environment.json").read_text())


def changed(value: Any, *keys: str | int, of: dict[str, Any] = WRITTEN) -> dict[str, Any]:
    """Return a file with another value at a place."""
    made: dict[str, Any] = copy.deepcopy(of)
    at: Any = made
    for key in keys[:-1]:
        at = at[key]
    at[keys[-1]] = value
    return made


def test_a_summary_is_written_as_it_was_read() -> None:
    assert PLAIN.decode(Summary, WRITTEN).to_json() == WRITTEN


@pytest.mark.parametrize(
    ("value", "keys", "place"),
    [
        ("done", ("status",), ".status"),
        (1, ("complete",), ".complete"),
        (True, ("seed",), ".seed"),
        (1 << 63, ("seed",), ".seed"),
        (float("nan"), ("metrics", "bulk.goodput", "value"), ".metrics.bulk.goodput.value"),
        (10**400, ("metrics", "bulk.goodput", "value"), ".metrics.bulk.goodput.value"),
        ("furlong", ("metrics", "bulk.goodput", "unit"), ".metrics.bulk.goodput.unit"),
        ([], ("metrics", "bulk.goodput"), ".metrics.bulk.goodput"),
        ({}, ("expectations",), ".expectations"),
        ([{}], ("expectations",), ".expectations[0].metric"),
        ([1], ("warnings",), ".warnings[0]"),
        ({"all": "bulk"}, ("groups",), ".groups.all"),
        ({"client": {}}, ("captures",), ".captures.client.node"),
        ([None], ("notes",), ".notes[0]"),
    ],
)
def test_a_fault_of_a_summary_is_told_by_its_place(value: object, keys: tuple[str, ...], place: str) -> None:
    with pytest.raises(JsonProblem) as raised:
        PLAIN.decode(Summary, changed(value, *keys))
    assert str(raised.value) == place


@pytest.mark.parametrize(
    "key", ["status", "complete", "seed", "metrics", "expectations", "errors", "failures", "warnings"]
)
def test_a_summary_needs_each_of_these_keys(key: str) -> None:
    with pytest.raises(JsonProblem, match=rf"^\.{key}$"):
        PLAIN.decode(Summary, {name: value for name, value in WRITTEN.items() if name != key})


def test_an_environment_of_an_older_version_is_read() -> None:
    assert PLAIN.decode(RunEnvironment, ENVIRONMENT).code == ENVIRONMENT["mprun"]
    assert PLAIN.decode(RunEnvironment, changed({"version": "0.0.9"}, "mprun", of=ENVIRONMENT)).code == "0.0.9"
    older = {name: ENVIRONMENT[name] for name in ("engine", "kernel", "versions", "warnings", "python")}
    assert PLAIN.decode(RunEnvironment, older).code == "not recorded"
    with pytest.raises(JsonProblem, match=r"^\.mprun\.version$"):
        PLAIN.decode(RunEnvironment, changed({"version": 9}, "mprun", of=ENVIRONMENT))


def test_a_step_needs_its_word_only() -> None:
    assert PLAIN.decode(StepRecord, {"step": "built", "nodes": 4}) == StepRecord("built")
    with pytest.raises(JsonProblem, match=r"^\.actual_ns$"):
        PLAIN.decode(StepRecord, {"step": "built", "actual_ns": 0.5})


def test_the_record_of_a_sweep_is_written_and_read() -> None:
    repeat = CellRepeat(1, 3, 9, ("starts",), Until("bulk.goodput", 0.95, 0.01))
    cell = SweepCell({"cc": "reno", "n": 1, "share": 0.5, "on": True, "none": None}, "cc=reno", "virtual", "it", repeat)
    plots = (Plot(metric="bulk.goodput", over="cc", log=("y",), names=(("a", "b"),)),)
    kernels = {"it": Build("6.12", "d")}
    record = SweepRecord(1, "topo-xp", "d" * 64, (cell,), ("cells.a.b > 1",), kernels, ("n", "cc"), plots, ("a.b",))
    written = json.loads(json.dumps(record.to_json()))
    assert PLAIN.decode(SweepRecord, written) == record
    assert written["kernels"] == {"it": {"version": "6.12", "digest": "d"}}
    assert list(record.in_order().cells[0].values) == ["n", "cc", "share", "on", "none"]


def test_only_several_runs_have_intervals() -> None:
    one, several = Statistic("s", 1, 2.0, 2.0), Statistic("s", 2, 2.0, 2.0, 0.1, t95=(1.0, 3.0))
    cells = tuple(CELL._replace(metrics={"a.b": statistic}) for statistic in (one, several))
    summary = SweepSummary("passed", True, CELL.runs, cells, (), ())
    written = json.loads(json.dumps(summary.to_json()))
    assert written["cells"][0]["metrics"]["a.b"] == {"unit": "s", "count": 1, "mean": 2.0, "median": 2.0, "stdev": None}
    assert written["cells"][1]["metrics"]["a.b"]["t95"] == [1.0, 3.0]
    assert PLAIN.decode(SweepSummary, written) == summary
    with pytest.raises(JsonProblem, match=r"^\.cells\[1\]\.metrics\.a\.b\.t95$"):
        PLAIN.decode(SweepSummary, changed([1.0], "cells", 1, "metrics", "a.b", "t95", of=written))
