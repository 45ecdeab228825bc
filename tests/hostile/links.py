# SPDX-License-Identifier: Apache-2.0
"""Symbolic links in a stranger's run directory, and in a folder with a sweep."""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

from mprun.safety.folder import UnsafeError
from mprun.storage.sweep_directory import SweepDirectory
from tests.hostile import Finding, call_verb, copy_run, files_of, first_line, make_sweep

WORD = "zwieback"
SECRET = f"-----BEGIN KEY-----{WORD}-----END KEY-----\n"


def link_page(run: Path, secret: Path) -> None:
    (run / "report.html").symlink_to(secret)


def link_input(run: Path, secret: Path) -> None:
    (run / "inputs" / "aa.yaml").symlink_to(secret)


def link_partials(run: Path, secret: Path) -> None:
    """Make links with the names that files have while they are written."""
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
    """Make links to a folder with copies, so that only written files differ."""
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


IN_RUN: dict[str, Callable[[Path, Path], None]] = {
    "page": link_page,
    "input": link_input,
    "partial files": link_partials,
    "tables": link_tables,
    "folders": link_folders,
    "plan and record": link_json,
}


def content_of(folder: Path) -> dict[str, bytes]:
    """Return the files below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in files_of(folder)}


def attempt_run(case: str, verb: str, folder: Path) -> Finding:
    """Put links to a secret into a run, and call a command on the run."""
    (folder / "home").mkdir()
    (folder / "runs").mkdir()
    secret = folder / "home" / "secret"
    secret.write_text(SECRET)
    run = copy_run(folder / "runs")
    IN_RUN[case](run, secret)
    before = content_of(folder / "home")
    called = call_verb(verb, run)
    if content_of(folder / "home") != before:
        return Finding(first_line(called), "a file outside the run was written")
    if WORD in called.text or any(WORD.encode() in path.read_bytes() for path in files_of(folder / "runs")):
        return Finding(first_line(called), "a file outside the run was read")
    for archive in (folder / "runs").glob("*.zip"):
        with zipfile.ZipFile(archive) as members:
            if any(WORD.encode() in members.read(name) for name in members.namelist()):
                return Finding(first_line(called), "a file outside the run is in the bundle")
    return Finding(first_line(called))


def link_cell(sweep: Path, victim: Path) -> None:
    """Make a link in place of the folder of a cell."""
    shutil.rmtree(sweep / "runs" / "cc=reno")
    (sweep / "runs" / "cc=reno").symlink_to(victim)


def link_partial(sweep: Path, victim: Path) -> None:
    """Make a link in place of the folder for runs in progress."""
    (sweep / "partial").symlink_to(victim)


IN_SWEEP: dict[str, Callable[[Path, Path], None]] = {"cell": link_cell, "folder under way": link_partial}


def attempt_sweep(case: str, folder: Path) -> Finding:
    """Put a link to a folder with a file into a sweep, and resume the sweep as `mprun sweep` does."""
    victim = folder / "victim"
    (victim / "1").mkdir(parents=True)
    (victim / "1" / "thesis").write_text(SECRET)
    sweep = SweepDirectory(make_sweep(folder))
    IN_SWEEP[case](sweep.path, victim)
    sweep.path.joinpath("linked").symlink_to(victim)
    said = []
    kept = [str(kept.run.path.relative_to(sweep.path)) for kept in sweep.runs()]
    for act in (
        lambda: sweep.finish(sweep.begin("cc=reno/1"), "cc=reno/1"),
        lambda: sweep.folder.remove_tree("runs/cc=reno/1"),
        sweep.tidy,
    ):
        try:
            act()
        except UnsafeError as error:
            said.append(str(error))
    if content_of(victim) != {"1/thesis": SECRET.encode()}:
        return Finding("", "a folder outside the sweep was changed")
    if case == "cell" and "runs/cc=reno/1" in kept:
        return Finding("", "a run outside the sweep counts")
    return Finding(said[0] if said else "the link was removed")
