# SPDX-License-Identifier: Apache-2.0
"""The layout of a sweep directory; the only reader and writer of it.

runs/<time>-<topology>-<experiment>-<digest8>-sweep/
    sweep.json            what was asked: cells, repetitions, places
    inputs/               the files as they were
    runs/<cell>/<number>/ a run directory each (see `mprun.rundir`); what is there is whole
    runs/<cell>/<number>/.made  a mark by which its user's mprun knows it as its own
    partial/              runs under way; what is left of them after a kill is removed by whoever goes on
    tables/cells.parquet  a row for each run: its values, seed, status and metrics
    summary.json          statistics of each cell, expectations, verdict; until the end of the sweep there is none, and
                          no table (see `mprun.sweep.summary`)
    report.html           made when somebody asks, with figures/ beside it
    wall.json             real seconds of each run: never repeats
    command.json          the command that makes it and where that was called: of this machine, and in no bundle
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shlex
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mprun import invoker, rundir
from mprun.errors import MprunError, RunError, SpecError
from mprun.folder import Folder, UnsafeError
from mprun.form import OF_SWEEP, anything
from mprun.model.scalar import spell_values
from mprun.rundir import RunDirectory, make_frame, point, read_json, read_table, read_texts, write_page
from mprun.sweep import signature
from mprun.table import pack

if TYPE_CHECKING:
    import polars

FORMAT = 1
LATEST = "latest-sweep"
# A directory that is being made takes its name within this time, unless who made it was killed.
STALE_S = 3600
# The folder of a repetition.
NUMBER = re.compile("[1-9][0-9]{0,8}")
_NAME = re.compile(r"^\d{8}-\d{6}-(.*)-([0-9a-f]{8})(\.\d+)?-sweep$")


@dataclass(frozen=True)
class Kept:
    """A run of a sweep: the cell's number in `sweep.json`, the repetition, its directory and summary."""

    cell: int
    number: int
    run: RunDirectory
    summary: Mapping[str, Any]


class SweepDirectory:
    """One sweep's directory. Its files, and those of its runs, are opened by `folder` only."""

    def __init__(self, path: Path) -> None:
        self.folder = Folder(path)
        self.path = path

    @classmethod
    def create(cls, parent: Path, title: str, record: Mapping[str, Any], inputs: Mapping[str, str]) -> SweepDirectory:
        """Make a new one under `parent`, whole or not at all. record: what `sweep.json` says, with a `digest`."""
        invoker.make_folder(parent)
        for stale in parent.glob(".sweep-*"):
            if time.time() - stale.stat().st_mtime > STALE_S:
                shutil.rmtree(stale, ignore_errors=True)
        made = Path(tempfile.mkdtemp(prefix=".sweep-", dir=parent))
        made.chmod(0o777 & ~_umask())
        folder = Folder(made)
        folder.make("inputs")
        for name, text in inputs.items():
            folder.write_text(f"inputs/{name}", text)
        folder.make("runs")
        folder.write_json("sweep.json", {"format": FORMAT, "title": title, **record})
        stem = f"{time.strftime('%Y%m%d-%H%M%S')}-{title}-{record['digest'][:8]}"
        number = 0
        while True:
            path = parent / (f"{stem}-sweep" if number == 0 else f"{stem}.{number}-sweep")
            try:
                made.rename(path)
                break
            except OSError:
                if not path.exists():
                    raise
                number += 1
        sweep = cls(path)
        sweep.become_latest()
        return sweep

    def become_latest(self) -> None:
        """Point `latest-sweep` at this one."""
        point(self.path.parent / LATEST, self.name)

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def record(self) -> dict[str, Any]:
        """What `sweep.json` says, the values of cells in the order of the axes. Raises MprunError."""
        value = self.read("sweep.json")
        if value.get("format") != FORMAT:
            raise MprunError(f"{self.path}: a sweep of format {value.get('format')}; this mprun reads {FORMAT}")
        return {**value, "cells": [in_order(cell, value.get("axes", [])) for cell in value["cells"]]}

    @property
    def has_summary(self) -> bool:
        """Whether it has come to an end, and nobody goes on with it."""
        return self.folder.has("summary.json")

    def forget(self) -> None:
        """Remove summary, table and report, which are of what was there when they were made."""
        for name in ("summary.json", "tables/cells.parquet", "report.html"):
            self.folder.remove(name)

    def has(self, name: str) -> bool:
        """Return whether a file of this name exists."""
        return self.folder.has(name)

    def note_command(self, words: Sequence[str]) -> None:
        """How mprun was called, which is how whoever wants to goes on with it."""
        # that one would make another sweep
        self.write("command.json", {"folder": os.getcwd(), "words": [word for word in words if word != "--new"]})

    @property
    def command(self) -> str:
        """The command that makes it, and from where if that is not here; empty where that is not known."""
        with contextlib.suppress(MprunError, KeyError, TypeError):
            told = self.read("command.json")
            line = shlex.join(["mprun", *told["words"]])
            return line if told["folder"] == os.getcwd() else f"cd {shlex.quote(told['folder'])} && {line}"
        return ""

    @property
    def is_held(self) -> bool:
        """Whether a process works on it now."""
        try:
            with self.folder.locked(".lock", fcntl.LOCK_SH | fcntl.LOCK_NB, create=False):
                return False
        except BlockingIOError:
            return True
        except (OSError, UnsafeError):
            return False

    def tell_incomplete(self, called: object, progress: str) -> str:
        """That it has not all its runs, and how to go on. called: by what name."""
        return "; ".join(filter(None, (f"{called} is incomplete: {progress}", self.tell_how_to_go_on())))

    def tell_how_to_go_on(self) -> str:
        """Of one that is incomplete: that it is running, or the command; empty where neither is known."""
        if self.is_held:
            return "it is running now"
        return f"to resume: {self.command}" if self.command else ""

    def read(self, name: str) -> Any:
        """A JSON file of the layout, its text printable. Raises MprunError where it is missing or not whole."""
        return read_json(self.folder, name, "sweep", OF_SWEEP.get(name, anything))

    def write(self, name: str, value: object) -> None:
        """Write a JSON file of the layout, whole or not at all."""
        self.folder.write_json(name, value)

    def inputs(self) -> dict[str, str]:
        """The files as they were, by name."""
        return read_texts(self.folder, "inputs")

    def write_report(self, page: str, figures: Mapping[str, bytes]) -> Path:
        """As `RunDirectory.write_report`."""
        return write_page(self.folder, page, figures)

    def table(self) -> polars.DataFrame:
        """`tables/cells.parquet`. Raises MprunError."""
        try:
            return read_table(self.folder, "tables/cells.parquet").collect()
        except FileNotFoundError:
            raise MprunError(f"{self.path}: no tables/cells.parquet: the sweep did not get so far") from None

    def write_table(self, columns: Mapping[str, list[Any]]) -> None:
        """`tables/cells.parquet`, whole or not at all: columns of equal length, None where there is no value."""
        self.folder.make("tables")
        self.folder.write_bytes("tables/cells.parquet", pack(make_frame(columns)))

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """While this process works on it. Raises RunError if another does."""
        with contextlib.ExitStack() as holding:
            try:
                holding.enter_context(self.folder.locked(".lock", fcntl.LOCK_EX | fcntl.LOCK_NB))
            except BlockingIOError:
                raise RunError(f"{self.path}: another mprun is running this sweep") from None
            yield

    def tidy(self) -> None:
        """Remove what runs that were killed have left, and files that were not whole yet."""
        self.folder.remove_tree("partial")
        for name in (*self.folder.find(".*.partial"), *self.folder.find("tables/.*.partial")):
            self.folder.remove(name)

    def begin(self, name: str) -> Path:
        """An empty directory for a run that is under way. Raises UnsafeError where a link would lead elsewhere."""
        made = f"partial/{name.replace('/', '.')}-{os.urandom(8).hex()}"
        return self.folder.make(made).path

    def finish(self, partial: Path, name: str) -> RunDirectory:
        """A run that ended takes its place, in one step, with the mark of who made it."""
        source, target = str(partial.relative_to(self.path)), f"runs/{name}"
        self.folder.make(target.rpartition("/")[0])
        self.folder.remove_tree(target)
        signature.sign(self.folder.below(source))
        self.folder.move(source, target)
        return RunDirectory(self.folder.below(target))

    def strange(self) -> list[str]:
        """Names of runs that have ended and that this user's mprun did not make, as far as is known."""
        ended = (f"{kept.run.path.relative_to(self.path / 'runs')}" for kept in self.runs())
        return [name for name in ended if not signature.is_ours(self.folder.below(f"runs/{name}"))]

    def drop(self, name: str) -> None:
        """Remove a run, as it will be made again."""
        self.folder.remove_tree(f"runs/{name}")

    def count(self) -> int:
        """Its runs that need not be made again."""
        return sum(kept.summary["status"] != "error" for kept in self.runs())

    def runs(self) -> Iterator[Kept]:
        """The runs that have ended, by cell and number; one whose summary is not whole has not."""
        for n, cell in enumerate(self.record["cells"]):
            folder = self.folder.below(f"runs/{cell['folder']}")
            for number in sorted(int(name) for name in folder.find_folders("*") if NUMBER.fullmatch(name)):
                run = RunDirectory(folder.below(str(number)))
                with contextlib.suppress(MprunError):
                    yield Kept(n, number, run, run.read("summary.json"))


def find(parent: Path, name: str) -> SweepDirectory:
    """A sweep by path, by name, by the beginning of its name or digest, or `latest-sweep`. Raises SpecError."""
    for candidate in (Path(name), parent / name):
        if is_sweep(candidate):
            return SweepDirectory(candidate.resolve())
    matches = [s for s in list_sweeps(parent) if s.name.startswith(name) or _digest_of(s.name) == name]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise SpecError(f"'{name}' means several sweeps: {', '.join(one.name for one in matches[:5])}")
    raise SpecError(f"no sweep '{name}' here or in {parent}")


def find_either(parent: Path, name: str) -> RunDirectory | SweepDirectory:
    """A sweep or a run, by what names either. Raises SpecError."""
    try:
        return find(parent, name)
    except SpecError:
        return rundir.find(parent, name)


def is_sweep(path: Path) -> bool:
    try:
        return Folder(path).has("sweep.json")
    except (OSError, ValueError):
        return False


def list_sweeps(parent: Path) -> list[SweepDirectory]:
    """The sweeps under `parent`, oldest first."""
    if not parent.is_dir():
        return []
    paths = [path for path in parent.iterdir() if _NAME.match(path.name) and not path.is_symlink() and is_sweep(path)]
    return [SweepDirectory(path) for path in sorted(paths)]


def remove(sweep: SweepDirectory) -> None:
    """Delete a sweep with all its runs; `latest-sweep` moves to the newest that is left. Raises RunError while somebody
    works on it."""
    with sweep.held():
        shutil.rmtree(sweep.path)
    link = sweep.path.parent / LATEST
    if link.is_symlink() and os.readlink(link) == sweep.name:
        link.unlink()
        left = list_sweeps(sweep.path.parent)
        if left:
            point(link, left[-1].name)


def _digest_of(name: str) -> str:
    match = _NAME.match(name)
    return match[2] if match else ""


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def in_order(cell: Mapping[str, Any], axes: Sequence[str]) -> dict[str, Any]:
    """The values as the matrix has them: folders are named in that order, and a JSON file has its keys in another."""
    values = cell["values"]
    return {**cell, "values": {**{name: values[name] for name in axes if name in values}, **values}}


def title_of(run: RunDirectory) -> str:
    """What a run is called: its own title, or of one of a sweep that of the sweep, its cell and its number."""
    path = run.path.resolve()
    sweep = SweepDirectory(path.parents[min(2, len(path.parents) - 1)])
    if not sweep.has("sweep.json"):
        return run.title
    record = sweep.record
    cells = [spell_values(cell["values"]) for cell in record["cells"] if cell["folder"] == path.parent.name]
    return f"{record['title']}: {', '.join(filter(None, [*cells, f'run {path.name}']))}"
