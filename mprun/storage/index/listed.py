# SPDX-License-Identifier: Apache-2.0
"""The directories of runs and sweeps in a folder, and what a list shows of each."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Literal, TypeVar

from mprun.errors import MprunError
from mprun.model.frozen import Frozen
from mprun.model.run_summary import MetricValue, Summary
from mprun.model.scalar import Scalar
from mprun.model.sweep_files import SweepSummary
from mprun.safety.folder import Folder
from mprun.safety.text import plain
from mprun.storage.output_directory import INCOMPLETE
from mprun.storage.run_directory import COMPARISON_PREFIX, PAGE_PREFIX, RunDirectory
from mprun.storage.sweep_directory import NUMBER, SweepDirectory

S = TypeVar("S", Summary, SweepSummary)

# The beginning of the name of a run or a sweep, in a name without a suffix.
_TIME = re.compile(r"\d{8}-\d{6}-[^.]*$")
DAMAGED = "damaged"
# A run directly in the folder, a sweep, or a run of a sweep.
DirectoryKind = Literal["run", "sweep", "run of sweep"]


class FoundDirectory(Frozen):
    """A directory of a run or a sweep.

    - name: the path below the folder, with `/`.
    - mark: a text that changes when the directory or its `summary.json` changes.
    - changed_ns: the time of the last change, as far as the file system records it.
    """

    name: str
    kind: DirectoryKind
    mark: str
    changed_ns: int


class Scan(Frozen):
    """The content of a folder. strange: the names in it that are no run, no sweep and no page.

    Of the files in it, only those with a name as of a run are strange.
    """

    found: tuple[FoundDirectory, ...] = ()
    strange: tuple[str, ...] = ()


class ListedEntry(Frozen):
    """A run or a sweep, as far as a list shows it.

    - seed: None for a sweep, and for a run without a summary.
    - planned_ns: the time of `plan.json`, which orders runs of the same second, or of `sweep.json`; 0 if it does not
      exist.
    - has_report: whether `report.html` exists.
    - damage: why a file could not be read; empty if all could be.
    """

    name: str
    kind: DirectoryKind
    status: str
    engine: str = ""
    seed: int | None = None
    planned_ns: int = 0
    has_report: bool = False
    damage: str = ""
    parameters: Mapping[str, Scalar] = field(default_factory=dict)
    metrics: Mapping[str, MetricValue] = field(default_factory=dict)


def scan(parent: Path, is_deep: bool = False) -> Scan:
    """Return the runs and sweeps in a folder, unordered, without links and hidden ones. is_deep: runs of sweeps too."""
    found: list[FoundDirectory] = []
    strange: list[str] = []
    try:
        entries = list(os.scandir(parent))
    except (FileNotFoundError, NotADirectoryError):
        return Scan()
    for entry in entries:
        if _TIME.match(entry.name) and entry.is_file(follow_symlinks=False):
            strange.append(plain(entry.name))
        if entry.name.startswith(".") or not entry.is_dir(follow_symlinks=False):
            continue
        folder = Folder(parent / entry.name)
        kind = _kind_of(folder)
        if kind is None:
            if not entry.name.startswith((PAGE_PREFIX, COMPARISON_PREFIX)):
                strange.append(plain(entry.name))
            continue
        found.append(_mark(entry.name, kind, entry.stat(follow_symlinks=False), folder))
        if kind == "sweep" and is_deep:
            found += _runs_of(entry.name, folder)
    return Scan(tuple(found), tuple(sorted(strange)))


def _kind_of(folder: Folder) -> DirectoryKind | None:
    if RunDirectory.is_at(folder.path):
        return "run"
    return "sweep" if SweepDirectory.is_at(folder.path) else None


def _runs_of(sweep: str, folder: Folder) -> list[FoundDirectory]:
    names = [name for name in folder.find("runs/*/*", folders=True) if NUMBER.fullmatch(name.rpartition("/")[2])]
    return [
        _mark(f"{sweep}/{name}", "run of sweep", folder.stat(name), folder.below(name))
        for name in names
        if name.isprintable()
    ]


def _mark(name: str, kind: DirectoryKind, status: os.stat_result, folder: Folder) -> FoundDirectory:
    """Return a directory with its mark. A change of a file in place changes the file's times, and not the folder's."""
    try:
        result = folder.stat("summary.json")
    except OSError:
        return FoundDirectory(name, kind, f"{status.st_mtime_ns}.{status.st_ctime_ns}", status.st_ctime_ns)
    parts = (status.st_mtime_ns, status.st_ctime_ns, result.st_size, result.st_mtime_ns, result.st_ctime_ns)
    return FoundDirectory(name, kind, ".".join(map(str, parts)), max(status.st_ctime_ns, result.st_ctime_ns))


def read(parent: Path, found: FoundDirectory) -> ListedEntry:
    """Read the files of a run or a sweep. A damaged file is named in the entry, and is no error."""
    try:
        if found.kind == "sweep":
            entry = _read_sweep(found, SweepDirectory(parent / found.name))
        else:
            entry = _read_run(found, RunDirectory(Folder(parent).below(found.name)))
    except OSError as error:
        entry = ListedEntry(found.name, found.kind, DAMAGED, damage=f"{parent / found.name}: {error.strerror}")
    # the index may be asked from another working directory
    return replace(entry, damage=plain(entry.damage.removeprefix(f"{parent}/")))


def _read_sweep(found: FoundDirectory, sweep: SweepDirectory) -> ListedEntry:
    status, _, problem = _read_status(sweep.has("summary.json"), sweep.summary)
    has_report, recorded_ns = sweep.has("report.html"), sweep.recorded_ns
    return ListedEntry(found.name, "sweep", status, "sweep", None, recorded_ns, has_report, problem)


def _read_run(found: FoundDirectory, run: RunDirectory) -> ListedEntry:
    status, summary, problem = _read_status(run.has("summary.json"), run.summary)
    parameters: Mapping[str, Scalar] = {}
    if run.has("environment.json"):
        try:
            parameters = run.environment().parameters
        except MprunError as error:
            problem = problem or str(error)
    return ListedEntry(
        name=found.name,
        kind=found.kind,
        status=INCOMPLETE if run.has(INCOMPLETE) else status,
        engine=summary.engine if summary else "",
        seed=summary.seed if summary else None,
        planned_ns=run.folder.stat("plan.json").st_mtime_ns if run.has("plan.json") else 0,
        has_report=run.has("report.html"),
        damage=problem,
        parameters=parameters,
        metrics=summary.metrics if summary else {},
    )


def _read_status(is_there: bool, read: Callable[[], S]) -> tuple[str, S | None, str]:
    """Return the status, the summary if it can be read, and the problem of a damaged one."""
    if not is_there:
        return INCOMPLETE, None, ""
    try:
        summary = read()
    except MprunError as error:
        return DAMAGED, None, str(error)
    return summary.status if summary.complete else INCOMPLETE, summary, ""
