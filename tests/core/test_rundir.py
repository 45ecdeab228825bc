# SPDX-License-Identifier: Apache-2.0
"""Files of runs and sweeps are written completely or not at all, and columns have one type."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import shutil
from pathlib import Path
from typing import Any, BinaryIO

import polars
import pytest
from click.testing import CliRunner

from mprun.cli.runs import command as runs_command
from mprun.cli.sweep import tell_left
from mprun.errors import MachineError, RunError
from mprun.machine.scratch import scratch
from mprun.model.problem import list_names
from mprun.runs.difference import first_difference
from mprun.storage.run_directory import RunDirectory
from mprun.storage.sweep_directory import SweepDirectory
from mprun.storage.table import make_frame
from mprun.sweeps.sweep_summary import write_summary
from tests.hostile import call, call_verb, copy_run, make_sweep

# The kernel's folder in which nobody can make another.
PROC = Path("/proc/x")


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


@pytest.mark.parametrize("is_folder", [True, False])
def test_no_run_begins_where_a_link_cannot_be_made(tmp_path: Path, is_folder: bool) -> None:
    """A copy without links, as of a USB stick, has a folder in place of a link."""
    record = SweepDirectory(make_sweep(tmp_path)).record
    runs = tmp_path / "runs"
    runs.mkdir()
    for path in (runs / "latest", runs / "latest-sweep"):
        if is_folder:
            path.mkdir()
        else:
            path.write_text("kept")
    with pytest.raises(MachineError, match=r"/latest: is a .*: rename or remove it"):
        RunDirectory.create(runs, "a-b", "0" * 64)
    with pytest.raises(MachineError, match=r"/latest-sweep: is a .*: rename or remove it"):
        SweepDirectory.create(runs, record, {})
    assert sorted(path.name for path in runs.iterdir()) == ["latest", "latest-sweep"]


def test_a_new_sweep_names_the_unfinished_one_of_the_same_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = SweepDirectory(make_sweep(tmp_path / "whole"))
    first, second = (SweepDirectory.create(tmp_path / "runs", whole.record, {}) for _ in range(2))
    for sweep, words in ((first, ["sweep", "-x", "a"]), (second, ["sweep", "-x", "b"])):
        sweep.note_command(words)
    tell_left(tmp_path / "runs", second)
    assert capsys.readouterr().err == ""
    second.note_command(["sweep", "-x", "a"])
    tell_left(tmp_path / "runs", second)
    assert f"note: {first.name}, of the same command, is not finished" in capsys.readouterr().err
    shutil.copytree(whole.path / "runs", first.path / "runs", dirs_exist_ok=True)
    write_summary(first)
    tell_left(tmp_path / "runs", second)
    assert capsys.readouterr().err == ""


def test_compare_without_operands_names_the_axes_of_the_newest_sweep(tmp_path: Path) -> None:
    """Also where only one side is given, and for the one run that exists."""
    advice = "the parts of a sweep with `mprun compare latest-sweep --by cc`"
    sweep = SweepDirectory(make_sweep(tmp_path / "runs"))
    assert advice not in call("compare", "-o", str(tmp_path / "none")).text
    sweep.become_latest()
    parent = str(tmp_path / "runs")
    assert f"has 0 runs with results: {advice}" in call("compare", "-o", parent).text
    assert advice in call("compare", "latest-sweep", "-o", parent).text
    assert call("compare", "latest-sweep", "--by", "cc", "-o", parent).status == 0
    copy_run(tmp_path / "runs")
    assert f"has 1 run with results: {advice}" in call("compare", "-o", parent).text


def test_a_link_without_a_file_names_the_files_that_exist(tmp_path: Path) -> None:
    run = RunDirectory(copy_run(tmp_path))
    there = sorted(path.name for path in (run.path / "logs").iterdir())
    _, ((name, reason),) = run.link_into(tmp_path, {"a.log": "logs/zzzzzzzzzzzzzzzz"})
    assert name == "a.log"
    assert reason == f"this run has no logs/zzzzzzzzzzzzzzzz{list_names([f'logs/{one}' for one in there], 'it has')}"


def test_a_link_to_a_capture_that_no_run_has_names_the_key_of_captures(tmp_path: Path) -> None:
    run = RunDirectory(copy_run(tmp_path))
    for one in run.path.glob("pcap/*"):
        one.unlink()
    _, ((_, removed), (_, missing)) = run.link_into(tmp_path, {"a.pcap": "pcap/a.pcap", "b": "none/b"})
    assert removed == f"this run has no pcap/a.pcap: {run._explain_no_captures()}"
    assert "capture" in removed
    assert missing == "this run has no none/b"


def test_a_folder_that_takes_no_results_is_named(tmp_path: Path) -> None:
    record = SweepDirectory(make_sweep(tmp_path)).record
    for make in (lambda: RunDirectory.create(PROC, "a-b", "0" * 64), lambda: SweepDirectory.create(PROC, record, {})):
        with pytest.raises(MachineError, match="no directory '/proc/x' can be made there: give another with -o"):
            make()


def test_what_killed_processes_left_goes_with_the_next_of_its_kind(tmp_path: Path) -> None:
    for name in ("mprun-job-left", "mprun-other-left"):
        (tmp_path / name).mkdir()
    with scratch("mprun-job-", tmp_path) as first, scratch("mprun-job-", tmp_path) as second:
        # files in use by another process stay
        assert sorted(tmp_path.iterdir()) == sorted((first, second, tmp_path / "mprun-other-left"))
    assert [path.name for path in tmp_path.iterdir()] == ["mprun-other-left"]


@pytest.mark.parametrize("name", ["inputs", "logs", "agent.json", "steps.jsonl", "environment.json"])
@pytest.mark.parametrize("verb", ["show", "compare", "export", "packets"])
def test_a_file_that_was_removed_is_called_missing(verb: str, name: str, tmp_path: Path) -> None:
    run = copy_run(tmp_path)
    _remove(run / name)
    called = call_verb(verb, run)
    assert called.error is None or f"no {name}: the file is missing" in str(called.error)
    assert "did not get so far" not in called.text


@pytest.mark.parametrize(("summary", "named"), [("{", "summary.json: damaged"), (None, "no summary.json: the file is")])
def test_a_damaged_summary_is_named_before_the_run_is_repeated(tmp_path: Path, summary: str | None, named: str) -> None:
    run = copy_run(tmp_path)
    (run / "summary.json").unlink()
    if summary is not None:
        (run / "summary.json").write_text(summary)
    # this run has no engine that could repeat it
    (run / "environment.json").unlink()
    assert named in str(call("verify", str(run)).error)


def test_removed_inputs_are_no_difference_of_two_runs(tmp_path: Path) -> None:
    runs = [copy_run(tmp_path / name) for name in ("one", "two")]
    _remove(runs[1] / "inputs")
    text = call("compare", *map(str, runs)).text
    assert re.search(r"inputs: complete .*missing", text)
    assert "scheduler" not in text


def test_captures_that_were_removed_are_called_removed(tmp_path: Path) -> None:
    run = copy_run(tmp_path)
    _remove(run / "pcap")
    assert "no captures: its captures were removed: `mprun verify --keep" in str(call_verb("packets", run).error)


def test_a_run_without_its_inputs_is_shown_but_has_no_report(tmp_path: Path) -> None:
    run = copy_run(tmp_path)
    _remove(run / "inputs")
    assert call("show", str(run)).status == 0
    assert str(call("report", str(run)).error).endswith("no inputs/resolved-topology.yaml: the file is missing")
    upstream = str(call("export", "--upstream", str(run)).error)
    assert upstream.endswith("no inputs/resolved-topology.yaml: the file is missing")


@pytest.mark.parametrize(
    ("name", "lost"),
    [
        ("agent.json", "agent.json"),
        ("record.gz", "record.gz"),
        ("steps.jsonl", "steps.jsonl"),
        ("logs", "logs/probe.path0.err and 6 more"),
    ],
)
def test_tables_are_not_made_again_from_a_part_of_the_output(name: str, lost: str, tmp_path: Path) -> None:
    run = copy_run(tmp_path)
    for one in ("tables", name):
        _remove(run / one)
    exported = call("export", "--csv", str(run))
    assert exported.status == 1
    assert str(exported.error) == f"{run}: has no {lost}, from which its tables are made"
    assert not (run / "tables").exists()
    for option in ("--counters", "--trace"):
        assert str(call("show", str(run), option).error) == str(exported.error)
    shown = call("show", str(run))
    assert shown.status == 0
    assert f"has no {lost}, from which its tables are made" in shown.text


def test_a_sweep_without_its_record_is_no_run(tmp_path: Path) -> None:
    sweep = make_sweep(tmp_path)
    write_summary(SweepDirectory(sweep))
    (sweep / "inputs").mkdir(exist_ok=True)
    _remove(sweep / "sweep.json")
    assert str(call("show", str(sweep)).error).startswith(f"{sweep}/sweep.json: damaged: the file is missing")


def test_a_run_of_a_newer_mprun_is_not_shown(tmp_path: Path) -> None:
    run = copy_run(tmp_path)
    plan = json.loads((run / "plan.json").read_text())
    (run / "plan.json").write_text(json.dumps(plan | {"format": 99}))
    for verb in ("show", "compare"):
        assert str(call_verb(verb, run).error).startswith(f"{run}/plan.json: a plan of format 99; this mprun reads")


def test_a_run_in_progress_is_not_removed(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path, "topo-xp", "0" * 64)
    words = ["rm", "-o", str(tmp_path), "--yes", run.name]
    with run.held():
        refused = CliRunner().invoke(runs_command, words)
        assert isinstance(refused.exception, RunError)
        assert "is running now: end it first" in str(refused.exception)
    # a killed run has no lock
    run.folder.write_text("plan.json", "{}")
    assert CliRunner().invoke(runs_command, words).exit_code == 0
    assert not run.path.exists()


def test_a_run_does_not_need_a_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system may have no locks. One on NFS gives an exclusive lock only for a file that is open for writing."""
    run = RunDirectory.create(tmp_path, "topo-xp", "0" * 64)
    locked = []

    def lock_as_nfs_does(handle: int, operation: int) -> None:
        if operation & fcntl.LOCK_EX and fcntl.fcntl(handle, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        locked.append(operation)

    monkeypatch.setattr(fcntl, "flock", lock_as_nfs_does)
    with run.held():
        assert locked == [fcntl.LOCK_EX | fcntl.LOCK_NB]

    def have_no_lock(number: int) -> None:
        raise OSError(number, os.strerror(number))

    for number in (errno.EBADF, errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP):
        monkeypatch.setattr(fcntl, "flock", lambda *_, number=number: have_no_lock(number))
        with run.held():
            assert not run.is_held
    monkeypatch.setattr(fcntl, "flock", lambda *_: have_no_lock(errno.EIO))
    with pytest.raises(OSError, match="Input/output error"), run.held():
        pass


def test_a_run_is_held_once(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path, "topo-xp", "0" * 64)
    with run.held(), pytest.raises(RunError, match="another mprun is running this run"), run.held():
        pass


def test_nobody_can_answer_without_a_terminal(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path, "topo-xp", "0" * 64)
    run.folder.write_text("plan.json", "{}")
    refused = CliRunner().invoke(runs_command, ["rm", "-o", str(tmp_path), run.name], input="")
    assert str(refused.exception) == "no terminal to ask: add -y, which does not ask"
    assert run.path.exists()


def test_a_table_of_a_sweep_that_was_removed_is_called_missing(tmp_path: Path) -> None:
    sweep = make_sweep(tmp_path)
    write_summary(SweepDirectory(sweep))
    _remove(sweep / "tables")
    assert str(call("export", "--csv", str(sweep)).error).endswith("no tables/cells.parquet: the file is missing")


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


def test_captures_that_a_run_did_not_keep_are_not_compared(tmp_path: Path) -> None:
    kept, again = (RunDirectory(copy_run(tmp_path, name)) for name in ("kept", "again"))
    first, *_ = again.captures().values()
    shutil.copy(again.path / first, again.path / "pcap" / "another.pcap")
    assert first_difference(kept, again) is None
    assert first_difference(again, kept) == f"pcap/another.pcap is only in {again.path}"


def test_the_order_of_the_keys_of_a_summary_is_not_compared(tmp_path: Path) -> None:
    """Earlier versions sorted them, and all their runs were different."""
    old, again = (RunDirectory(copy_run(tmp_path, name)) for name in ("old", "again"))
    again.write_summary(again.summary())
    assert old.folder.read_bytes("summary.json") != again.folder.read_bytes("summary.json")
    assert first_difference(old, again) is None
    assert first_difference(again, old) is None
    summary = again.summary()
    goodput = summary.metrics["bulk.goodput"]
    again.write_summary(summary._replace(metrics={**summary.metrics, "bulk.goodput": goodput._replace(value=1)}))
    assert str(first_difference(old, again)).startswith("summary.json differs from byte ")
