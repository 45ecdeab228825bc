# SPDX-License-Identifier: Apache-2.0
"""A stranger gets nothing who hands on a run directory, a sweep, or a program that runs in the engine."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import polars
import pytest

from mprun.engines import engine
from mprun.folder import Folder, UnsafeError
from mprun.rundir import RunDirectory
from mprun.sweep import signature
from mprun.sweep.conduct import tell_strange
from mprun.sweep.directory import SweepDirectory
from tests.hostile import RUN, VERBS, call, call_verb, copy_run, files_of, make_sweep

SECRET = "-----BEGIN KEY-----zwieback-----END KEY-----\n"


def link_page(run: Path, secret: Path) -> None:
    (run / "report.html").symlink_to(secret)


def link_input(run: Path, secret: Path) -> None:
    (run / "inputs" / "aa.yaml").symlink_to(secret)


def link_partials(run: Path, secret: Path) -> None:
    """Under the names that files had while they were written."""
    names = [path.stem for path in (run / "tables").iterdir()]
    shutil.rmtree(run / "tables")
    (run / "tables").mkdir()
    for name in (*names, "packets", "connections", "subflows"):
        (run / "tables" / f".{name}.parquet.partial").symlink_to(secret)
    for name in (".summary.json.partial", ".report.html.partial", ".wall.json.partial", "pcap/.client.pcap.partial"):
        (run / name).symlink_to(secret)


def link_tables(run: Path, secret: Path) -> None:
    for path in (run / "tables").iterdir():
        path.unlink()
        path.symlink_to(secret)


def link_folders(run: Path, secret: Path) -> None:
    """To a folder that is a copy, so that only what is written shows."""
    for name in ("tables", "logs", "pcap"):
        shutil.copytree(run / name, secret.parent / name)
        shutil.rmtree(run / name)
        (run / name).symlink_to(secret.parent / name)
    (secret.parent / "figures").mkdir()
    (secret.parent / "figures" / "thesis.txt").write_text(SECRET)
    (run / "figures").symlink_to(secret.parent / "figures")


def link_json(run: Path, secret: Path) -> None:
    (secret.parent / "plan.json").write_text((run / "plan.json").read_text())
    (run / "plan.json").unlink()
    (run / "plan.json").symlink_to(secret.parent / "plan.json")
    (run / "record.gz").unlink()
    (run / "record.gz").symlink_to(secret)


LINKS: list[Callable[[Path, Path], None]] = [
    link_page, link_input, link_partials, link_tables, link_folders, link_json
]  # fmt: skip


def content_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in files_of(folder)}


# `bundle` makes the report, which takes a second
QUICK = [verb for verb in VERBS if verb not in ("report", "bundle")]


@pytest.mark.parametrize("verb", [*QUICK, "bundle"])
@pytest.mark.parametrize("plant", LINKS, ids=lambda plant: plant.__name__)
def test_links_in_a_run_lead_nowhere(plant: Callable[[Path, Path], None], verb: str, tmp_path: Path) -> None:
    """Before, `report` wrote its page through a link into ~/.ssh/authorized_keys, and put keys into it."""
    (tmp_path / "home").mkdir()
    (tmp_path / "runs").mkdir()
    secret = tmp_path / "home" / "secret"
    secret.write_text(SECRET)
    run = copy_run(tmp_path / "runs")
    plant(run, secret)
    before = content_of(tmp_path / "home")
    called = call_verb(verb, run)
    assert content_of(tmp_path / "home") == before
    assert "zwieback" not in called.text
    assert not any(b"zwieback" in path.read_bytes() for path in files_of(tmp_path / "runs"))
    for archive in (tmp_path / "runs").glob("*.zip"):
        with zipfile.ZipFile(archive) as members:
            assert not any(b"zwieback" in members.read(name) for name in members.namelist())


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


# A program in the engine, which may write into the directory of its run


def test_what_a_guest_puts_in_the_way_is_replaced(tmp_path: Path) -> None:
    """Before, the summary was written through a link of the guest's, over a file of the host."""
    victim = tmp_path / "victim"
    victim.write_text(SECRET)
    summary = json.loads((RUN / "summary.json").read_text())
    (tmp_path / "run").mkdir()
    run = RunDirectory.lay_out(tmp_path / "run")
    for name in ("summary.json", "wall.json", "logs/bulk.log", "incomplete", ".summary.json.partial"):
        (run.path / name).unlink(missing_ok=True)
        (run.path / name).symlink_to(victim)
    run.write("summary.json", summary)
    run.write("wall.json", [])
    run.write_accounts({"bulk": "text"})
    run.mark_complete()
    assert victim.read_text() == SECRET
    assert run.read("summary.json") == summary
    assert run.is_complete
    (run.path / "tables").symlink_to(tmp_path)
    with pytest.raises(UnsafeError, match=r"tables: is a symbolic link, not a folder: remove it"):
        run.write_tables({"a": {"x": [1]}})


def test_no_report_is_read_from_what_a_guest_puts_in_its_place(tmp_path: Path) -> None:
    """A pipe was waited for, by a watchdog that looked at nothing else."""
    with engine._Report(Folder(tmp_path)) as report:
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


def test_a_sweep_removes_nothing_through_a_link(tmp_path: Path) -> None:
    """Before, the folder of a run was removed through a link that was the folder of its cell."""
    victim = tmp_path / "victim"
    (victim / "1").mkdir(parents=True)
    (victim / "1" / "thesis").write_text(SECRET)
    sweep = SweepDirectory(make_sweep(tmp_path))
    shutil.rmtree(sweep.path / "runs" / "cc=reno")
    (sweep.path / "runs" / "cc=reno").symlink_to(victim)
    assert [str(kept.run.path.relative_to(sweep.path)) for kept in sweep.runs()] == ["runs/cc=cubic/1"]
    made = sweep.begin("cc=reno/1")
    for act in (lambda: sweep.finish(made, "cc=reno/1"), lambda: sweep.drop("cc=reno/1")):
        with pytest.raises(UnsafeError, match="cc=reno: is a symbolic link, not a folder"):
            act()
    (sweep.path / "linked").symlink_to(victim)
    shutil.rmtree(sweep.path / "partial")
    (sweep.path / "partial").symlink_to(victim)
    with pytest.raises(UnsafeError):
        sweep.begin("cc=reno/1")
    sweep.tidy()
    assert (victim / "1" / "thesis").read_text() == SECRET


def test_runs_of_somebody_else_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stranger's figure of 999 Mbit/s was kept, and printed among those of this machine."""
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


# Text that a terminal or a browser would obey

EVIL = "\x1b]0;pwn\x07\x9b2J\u202e<script>alert(1)</script>=cmd|' /C calc'!A0"
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def _json(run: Path, name: str, change: Callable[[dict[str, object]], None]) -> None:
    value = json.loads((run / name).read_text())
    change(value)
    (run / name).write_text(json.dumps(value))


def _table(run: Path, name: str) -> None:
    frame = polars.read_parquet(run / "tables" / f"{name}.parquet")
    texts = [column for column, kind in frame.schema.items() if kind == polars.String]
    changed = frame.with_columns(polars.col(texts) + EVIL)
    changed.write_parquet(run / "tables" / f"{name}.parquet")


def _replace(run: Path, name: str, word: str) -> None:
    path = run / name
    path.write_text(path.read_text().replace(word, json.dumps(word + EVIL)[1:-1]))


TEXTS: dict[str, Callable[[Path], object]] = {
    "warnings": lambda run: _json(run, "summary.json", lambda v: v.update(warnings=[EVIL], failures=[EVIL])),
    "status": lambda run: _json(run, "summary.json", lambda v: v.update(status=EVIL)),
    "metrics": lambda run: _replace(run, "summary.json", "bulk.goodput"),
    "units": lambda run: _replace(run, "summary.json", "bit/s"),
    "environment": lambda run: _replace(run, "environment.json", "iperf 3.12"),
    "engine": lambda run: _json(run, "environment.json", lambda v: v.update(engine_reason=EVIL, python=EVIL)),
    "plan": lambda run: _replace(run, "plan.json", "path0"),
    "nodes": lambda run: _replace(run, "plan.json", "client"),
    "agent": lambda run: _replace(run, "agent.json", "path0"),
    "sockets": lambda run: _table(run, "sockets"),
    "interfaces": lambda run: _table(run, "interfaces"),
    "requests": lambda run: _table(run, "requests"),
    "queues": lambda run: _table(run, "queues"),
    "table's name": lambda run: shutil.copy(run / "tables" / "queues.parquet", run / "tables" / "a\x1b[2J.parquet"),
    "capture's name": lambda run: shutil.copy(run / "pcap" / "client.pcap", run / "pcap" / "a\x1b[2J.pcap"),
    "inputs": lambda run: (run / "inputs" / "evil\x1b[2J.yaml").write_text(EVIL),
    "log": lambda run: (run / "logs" / "bulk.out").write_text(EVIL),
    "resolved": lambda run: _replace(run, "inputs/resolved-experiment.yaml", "one MPTCP transfer"),
    "incomplete json": lambda run: (run / "summary.json").write_text('{"\x1b[2J'),
}


# Cases that leave a run whole, for the verbs that draw, which take a second.
WHOLE = ("warnings", "environment", "engine", "agent", "sockets", "interfaces", "requests", "queues", "inputs", "log")


@pytest.mark.parametrize(
    ("cases", "verb"),
    [
        *(((case,), verb) for case in TEXTS for verb in QUICK),
        (WHOLE, "report"),
        (WHOLE, "bundle"),
        (("table's name", "capture's name", "resolved"), "report"),
    ],
)
def test_no_text_of_a_stranger_is_obeyed(cases: tuple[str, ...], verb: str, tmp_path: Path) -> None:
    run = copy_run(tmp_path)
    for case in cases:
        TEXTS[case](run)
    called = call_verb(verb, run)
    assert OBEYED.search(called.text) is None, OBEYED.sub("#", called.text)
    for page in (run / "report.html", *(run / "figures").glob("*.svg")):
        text = page.read_text() if page.exists() else ""
        assert "<script>alert" not in text
        assert OBEYED.search(text) is None, page
    for page in (*(run / "figures").glob("*.csv"), *(run / "tables").glob("*.csv")):
        assert not re.search(r'(^|,)"?[=+@]', page.read_text(), re.MULTILINE), page


def test_an_archive_of_a_stranger_says_nothing_that_is_obeyed(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("artifacts.json", json.dumps({"kind": "run", "name": "r", "runs": {EVIL: {}}}))
    (tmp_path / "a.zip").write_bytes(buffer.getvalue())
    called = call("reproduce", str(tmp_path / "a.zip"), "-o", str(tmp_path / "runs"))
    assert called.status == 2
    assert OBEYED.search(called.text) is None
