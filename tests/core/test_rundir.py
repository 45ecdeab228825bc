# SPDX-License-Identifier: Apache-2.0
"""Files of runs and sweeps are written completely or not at all, and columns have one type."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, BinaryIO

import polars
import pytest
from click.testing import CliRunner

from mprun.cli.runs import command as runs_command
from mprun.machine.scratch import scratch
from mprun.runs.run_directory import RunDirectory, make_frame


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ([1, 1.5, None], [1.0, 1.5, None]),
        ([1, "1.5", None], ["1", "1.5", None]),
        ([True, 1], ["True", "1"]),
        ([True, None], [True, None]),
        ([None, None], [None, None]),
        ([2**40, None], [2**40, None]),
    ],
)
def test_a_column_has_one_type(values: list[Any], found: list[Any]) -> None:
    assert [(type(one), one) for one in make_frame({"a": values})["a"].to_list()] == [(type(one), one) for one in found]


def test_a_table_that_cannot_be_written_leaves_the_one_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = RunDirectory(tmp_path)
    run.write_tables({"a": {"x": [1, 2]}})

    def fail(_: polars.DataFrame, file: BinaryIO) -> None:
        file.write(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(polars.DataFrame, "write_parquet", fail)
    with pytest.raises(OSError, match="disk full"):
        run.write_tables({"a": {"x": [3, 4]}})
    assert [path.name for path in (tmp_path / "tables").iterdir()] == ["a.parquet"]
    assert polars.read_parquet(tmp_path / "tables" / "a.parquet")["x"].to_list() == [1, 2]


def summary_text(status: str, complete: bool) -> str:
    """Return a summary that is valid for a run and for a sweep."""
    lists: dict[str, list[str]] = {
        name: [] for name in ("expectations", "errors", "failures", "warnings", "cells", "statements")
    }
    runs = {"passed": 1, "failed": 0, "error": 0}
    return json.dumps({"status": status, "complete": complete, "seed": 1, "metrics": {}, "runs": runs, **lists})


@pytest.mark.parametrize(
    ("summary", "status"),
    [
        (None, "incomplete"),
        (summary_text("passed", True), "passed"),
        (summary_text("error", False), "incomplete"),
        ('{"status": "pas', "damaged"),
        ('{"complete": true}', "damaged"),
        ("[]", "damaged"),
    ],
)
def test_a_damaged_run_keeps_no_other_from_being_listed(tmp_path: Path, summary: str | None, status: str) -> None:
    for n, text in enumerate((summary_text("failed", True), summary)):
        for name in (f"20260101-00000{n}-a-b-0123456{n}", f"20260101-00000{n}-a-b-0123456{n}-sweep"):
            (tmp_path / name).mkdir()
            (tmp_path / name / "sweep.json").write_text("{}")
            if text is not None:
                (tmp_path / name / "summary.json").write_text(text)
    done = CliRunner().invoke(runs_command, ["list", "-o", str(tmp_path), "--json"])
    assert done.exit_code == 0, done.output
    assert [row["status"] for row in json.loads(done.output)] == ["failed", "failed", status, status]


def test_what_killed_processes_left_goes_with_the_next_of_its_kind(tmp_path: Path) -> None:
    for name in ("mprun-job-left", "mprun-other-left"):
        (tmp_path / name).mkdir()
    with scratch("mprun-job-", tmp_path) as first, scratch("mprun-job-", tmp_path) as second:
        # files in use by another process stay
        assert sorted(tmp_path.iterdir()) == sorted((first, second, tmp_path / "mprun-other-left"))
    assert [path.name for path in tmp_path.iterdir()] == ["mprun-other-left"]
