# SPDX-License-Identifier: Apache-2.0
"""A run directory, a sweep, or a program in the engine from a stranger cannot do harm."""

from __future__ import annotations

import io
import json
import os
import zipfile
from contextlib import closing
from pathlib import Path

import pytest

from mprun.engines import agent_process
from mprun.safety.folder import Folder, UnsafeError
from mprun.storage import signature
from mprun.storage.run_directory import RunDirectory
from mprun.storage.sweep_directory import SweepDirectory
from mprun.sweeps.execution import tell_strange
from tests.hostile import DRAWING, RUN, VERBS, bombs, call, call_verb, copy_run, links, make_sweep, texts
from tests.hostile.links import SECRET

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("painted_once")]

# `bundle` makes the report, which takes a second.
QUICK = [verb for verb in VERBS if verb not in DRAWING]


@pytest.mark.parametrize("verb", [*QUICK, "bundle"])
@pytest.mark.parametrize("case", links.IN_RUN)
def test_links_in_a_run_lead_nowhere(case: str, verb: str, tmp_path: Path) -> None:
    """Before, `report` wrote its page through a link into ~/.ssh/authorized_keys, and put keys into the file."""
    assert links.attempt_run(case, verb, tmp_path).harm == ""


@pytest.mark.parametrize("verb", [*QUICK, "bundle"])
def test_no_pipe_is_waited_for(verb: str, tmp_path: Path) -> None:
    run = copy_run(tmp_path)
    for name in (".summary.json.partial", "wall.json.partial", "report.html", "inputs/zz.yaml", "logs/x.log"):
        os.mkfifo(run / name)
    for name in ("steps.jsonl", "logs/bulk.out", "tables/queues.parquet", "record.gz"):
        (run / name).unlink()
        os.mkfifo(run / name)
    call_verb(verb, run)


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "a/../../secret", "a\0b", "", "."])
def test_no_name_leads_out_of_a_folder(name: str, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(SECRET)
    folder = Folder(tmp_path / "run")
    folder.path.mkdir()
    for use in (folder.open, folder.create, folder.remove_tree, lambda name: folder.write_text(name, "x")):
        with pytest.raises(UnsafeError):
            use(name)
    assert (tmp_path / "secret").read_text() == SECRET
    assert not folder.has(name)


def test_files_of_the_kernel_are_not_regular() -> None:
    with pytest.raises(UnsafeError, match=r"is a file of the kernel \(proc\)"):
        Folder(Path("/proc")).open("version")


def test_a_folder_is_removed_and_not_what_links_in_it_lead_to(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis").write_text(SECRET)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "tables").mkdir()
    (tmp_path / "run" / "tables" / "link").symlink_to(tmp_path / "home")
    (tmp_path / "run" / "whole").symlink_to(tmp_path / "home")
    folder = Folder(tmp_path / "run")
    folder.remove_tree("tables")
    folder.remove_tree("whole")
    assert list((tmp_path / "run").iterdir()) == []
    assert (tmp_path / "home" / "thesis").read_text() == SECRET
    with pytest.raises(UnsafeError):
        Folder(tmp_path / "run").below("x").remove_tree("../../home")


# A program in the engine that writes into the directory of its run.


def test_what_a_guest_puts_in_the_way_is_replaced(tmp_path: Path) -> None:
    """Before, the summary was written through a link of the guest, over a file of the host."""
    victim = tmp_path / "victim"
    victim.write_text(SECRET)
    summary = RunDirectory(RUN).summary()
    (tmp_path / "run").mkdir()
    run = RunDirectory.lay_out(tmp_path / "run")
    for name in ("summary.json", "wall.json", "logs/bulk.log", "incomplete", ".summary.json.partial"):
        (run.path / name).unlink(missing_ok=True)
        (run.path / name).symlink_to(victim)
    run.write_summary(summary)
    run.folder.write_json("wall.json", [])
    run.write_accounts({"bulk": "text"})
    run.mark_complete()
    assert victim.read_text() == SECRET
    assert run.summary() == summary
    assert run.is_complete
    (run.path / "tables").symlink_to(tmp_path)
    with pytest.raises(UnsafeError, match=r"tables: is a symbolic link, not a folder: remove it"):
        run.write_tables({"a": {"x": [1]}})


def test_no_report_is_read_from_what_a_guest_puts_in_its_place(tmp_path: Path) -> None:
    """Before, the watchdog opened a pipe and waited for its writer, so it checked nothing else."""
    with closing(agent_process._Report(Folder(tmp_path))) as report:
        assert report.read() == b""
        os.mkfifo(tmp_path / "progress")
        assert report.read() == b""
        (tmp_path / "progress").unlink()
        (tmp_path / "secret").write_text(SECRET)
        (tmp_path / "progress").symlink_to("secret")
        assert report.read() == b""
        (tmp_path / "progress").unlink()
        (tmp_path / "progress").write_text("{}\n")
        assert report.read() == b"{}\n"


# Sweeps


@pytest.mark.parametrize("case", links.IN_SWEEP)
def test_a_sweep_removes_nothing_through_a_link(case: str, tmp_path: Path) -> None:
    """Before, the folder of a run was removed through a link in place of its cell's folder."""
    found = links.attempt_sweep(case, tmp_path)
    assert found.harm == ""
    assert "is a symbolic link, not a folder" in found.gets


def test_runs_of_somebody_else_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before, a stranger's figure of 999 Mbit/s was kept and printed among the results of this machine."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    sweep = SweepDirectory(make_sweep(tmp_path))
    assert sweep.strange() == ["cc=cubic/1", "cc=reno/1"]
    signature.sign(sweep.folder.below("runs/cc=cubic/1"))
    assert sweep.strange() == ["cc=reno/1"]
    assert (tmp_path / "cache" / "mprun" / "key").stat().st_mode & 0o777 == 0o600
    summary = sweep.path / "runs" / "cc=cubic" / "1" / "summary.json"
    summary.write_text(summary.read_text().replace("passed", "failed"))
    assert sweep.strange() == ["cc=cubic/1", "cc=reno/1"]
    assert tell_strange(sweep.strange()).startswith("warning: 2 of them were not made by your mprun, and count: cc=cub")


@pytest.mark.parametrize("folder", ["../..", "/", "..", "a/../../..", "*"])
def test_no_cell_of_a_record_leads_out_of_its_sweep(folder: str, tmp_path: Path) -> None:
    sweep = make_sweep(tmp_path)
    record = json.loads((sweep / "sweep.json").read_text())
    record["cells"][0]["folder"] = folder
    (sweep / "sweep.json").write_text(json.dumps(record))
    for verb in ("show", "report", "compare", "bundle", "export"):
        assert call_verb(verb, sweep).status in (0, 1, 2)


# Text that a terminal or a browser would interpret.

# Cases with a whole run, for the commands that draw, which take a second.
WHOLE = ("warnings", "environment", "engine", "agent", "sockets", "interfaces", "requests", "queues", "inputs", "log")


@pytest.mark.parametrize(
    ("cases", "verb"),
    [
        *(((case,), verb) for case in texts.CASES for verb in QUICK),
        (WHOLE, "report"),
        (WHOLE, "bundle"),
        (("table's name", "capture's name", "resolved"), "report"),
    ],
)
def test_no_text_of_a_stranger_is_obeyed(cases: tuple[str, ...], verb: str, tmp_path: Path) -> None:
    assert texts.attempt(cases, verb, tmp_path).harm == ""


@pytest.mark.parametrize("verb", texts.INPUT_VERBS)
@pytest.mark.parametrize("case", texts.INPUTS)
def test_no_text_of_an_input_is_obeyed(case: str, verb: str, tmp_path: Path) -> None:
    """Before, `plan` and `graph` printed descriptions, filters and commands without escapes."""
    assert texts.attempt_input(case, verb, tmp_path).harm == ""


def test_an_archive_of_a_stranger_says_nothing_that_is_obeyed(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("artifacts.json", json.dumps({"kind": "run", "name": "r", "runs": {texts.EVIL: {}}}))
    (tmp_path / "a.zip").write_bytes(buffer.getvalue())
    called = call("verify", str(tmp_path / "a.zip"), "-o", str(tmp_path / "runs"))
    assert called.status == 2
    assert texts.OBEYED.search(called.text) is None


# The other cases take seconds to make. `make hostile` tries them.
QUICK_BOMBS = (
    "matrix: a billion cells",
    "matrix: exclusions",
    "YAML: aliases of aliases",
    "YAML: deep lists",
    "YAML: a chain of flows",
    "YAML: contradictions",
    "YAML: thousands of problems",
    "YAML: flows over one link",
    "YAML: repetitions",
    "schedule: many rows",
    "trace: many intervals",
    "YAML: pairs",
)


@pytest.mark.parametrize("case", QUICK_BOMBS)
def test_a_bomb_takes_little(case: str, tmp_path: Path) -> None:
    assert bombs.attempt(case, tmp_path).cpu_s < 5
