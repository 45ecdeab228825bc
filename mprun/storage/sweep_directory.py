# SPDX-License-Identifier: Apache-2.0
"""The layout of a sweep directory. This module is its only reader and writer.

Files and folders of a sweep:

    runs/<time>-<topology>-<experiment>-<digest8>-sweep/
        sweep.json            the request: cells, repetitions, places
        inputs/               the files as they were
        runs/<cell>/<number>/ a run directory for each run (see `mprun.storage.run_directory`); each is complete
        runs/<cell>/<number>/.made  a mark that shows that this user's mprun made the run
        partial/              runs in progress; after a kill, the next resume removes what is left
        tables/cells.parquet  a row for each run: its values, seed, status and metrics
        tables/faults.parquet  for `mprun faults`: a row for each lost packet
        faults.svg            for `mprun faults`: its figure
        summary.json          statistics of each cell, expectations, verdict; like the table, it exists only after
                              the end of the sweep (see `mprun.sweeps.sweep_summary`)
        report.html           made on request, with figures/ beside it
        wall.json             real seconds of each run: never repeats
        command.json          the command that makes the sweep, and its working directory; never in a bundle
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shlex
import shutil
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from mprun.errors import MprunError
from mprun.model.cell_run import CellRun
from mprun.model.codec import PLAIN
from mprun.model.scalar import spell_values
from mprun.safety.folder import Folder, UnsafeError
from mprun.storage import signature
from mprun.storage.output_directory import OutputDirectory, making_in, point, second_of, take_name
from mprun.storage.run_directory import RunDirectory

if TYPE_CHECKING:
    import polars

    from mprun.model.spec import Attachment
    from mprun.model.sweep_files import Session, SweepRecord, SweepSummary

LATEST = "latest-sweep"
# A directory that is being made gets its final name within this time, unless its maker was killed.
STALE_S = 3600
# The folder of a repetition.
NUMBER = re.compile("[1-9][0-9]{0,8}")


class Kept(CellRun):
    """A run of a sweep, with its run directory."""

    run: RunDirectory


class _Command(NamedTuple):
    """The command that makes a sweep, and its working directory."""

    folder: str
    words: tuple[str, ...]


class SweepDirectory(OutputDirectory):
    """The directory of a sweep. The files of its runs, too, are opened only through `folder`."""

    NAME = re.compile(r"^\d{8}-\d{6}-(?P<title>.*)-(?P<digest>[0-9a-f]{8})(\.\d+)?-sweep$")
    RECORD = "sweep.json"
    LOCK = ".lock"

    def __init__(self, folder: Path | Folder) -> None:
        super().__init__(folder)
        # the first file of each content that runs share, by its SHA-256
        self._shared: dict[str, str] = {}

    @classmethod
    def create(cls, parent: Path, record: SweepRecord, inputs: Mapping[str, str]) -> SweepDirectory:
        """Create a sweep under `parent`. It appears complete or not at all."""
        made = parent / f".sweep-{os.urandom(8).hex()}"
        with making_in(parent, LATEST):
            made.mkdir()
        for stale in parent.glob(".sweep-*"):
            if time.time() - stale.stat().st_mtime > STALE_S:
                shutil.rmtree(stale, ignore_errors=True)
        folder = Folder(made)
        folder.make("inputs")
        for name, text in inputs.items():
            folder.write_text(f"inputs/{name}", text)
        folder.make("runs")
        folder.write_json("sweep.json", record.to_json())
        stem = f"{time.strftime('%Y%m%d-%H%M%S')}-{record.title}-{record.digest[:8]}"
        sweep = cls(take_name(parent, stem, "-sweep", made.rename))
        sweep.become_latest()
        return sweep

    @property
    def recorded_ns(self) -> int:
        """The time at which the sweep began."""
        return self.folder.stat(self.RECORD).st_mtime_ns

    def become_latest(self) -> None:
        point(self.path.parent / LATEST, self.name)

    @property
    def record(self) -> SweepRecord:
        """The content of `sweep.json`, with the values of cells in the order of the axes. Raises MprunError."""
        # a command that reads no sweep does not wait for the types of one
        from mprun.model.sweep_files import FORMAT, SweepRecord

        record = self.read("sweep.json", SweepRecord)
        if record.format != FORMAT:
            raise MprunError(f"{self.path}: a sweep of format {record.format}; this mprun reads {FORMAT}")
        return record.in_order()

    def change_record(self, record: SweepRecord) -> None:
        """Replace `sweep.json`, completely or not at all."""
        self.folder.write_json("sweep.json", record.to_json())

    def summary(self) -> SweepSummary:
        """Return the summary of a sweep that has ended. Raises MprunError if it is missing or damaged."""
        from mprun.model.sweep_files import SweepSummary

        return self.read("summary.json", SweepSummary)

    def sessions(self) -> tuple[Session, ...]:
        """Return the calls that worked on the sweep. Raises MprunError if the file is damaged."""
        from mprun.model.sweep_files import Session

        if not self.folder.has("wall.json"):
            return ()
        return self.read("wall.json", tuple[Session, ...])

    def wall_s(self) -> float:
        """Return the real time in which the sweep was run, in seconds, with all its sessions."""
        return sum(session.wall_s for session in self.sessions())

    def add_session(self, session: Session) -> None:
        """Record the real times of a call. They never repeat, so they are in a file of their own."""
        self.folder.write_json("wall.json", PLAIN.encode((*self.sessions(), session)))

    def forget(self) -> None:
        """Remove summary, table and report. They describe the runs that existed when they were made."""
        for name in ("summary.json", "tables/cells.parquet", "report.html"):
            self.folder.remove(name)

    def note_command(self, words: Sequence[str]) -> None:
        """Record the command line of mprun, which also resumes the sweep."""
        # with --new it would create another sweep
        told = _Command(os.getcwd(), tuple(word for word in words if word != "--new"))
        self.folder.write_json("command.json", PLAIN.encode(told))

    @property
    def command(self) -> str:
        """The command that makes the sweep, with a `cd` if it was called elsewhere; empty if it is not known."""
        with contextlib.suppress(MprunError):
            told = self.read("command.json", _Command)
            line = shlex.join(["mprun", *told.words])
            return line if told.folder == os.getcwd() else f"cd {shlex.quote(told.folder)} && {line}"
        return ""

    def tell_incomplete(self, called: object, progress: str) -> str:
        """Return a text that says that runs are missing and how to resume. called: the sweep's name in the text."""
        return "; ".join(filter(None, (f"{called} is incomplete: {progress}", self.tell_how_to_go_on())))

    def tell_how_to_go_on(self) -> str:
        """Return that an incomplete sweep is running, or the command that resumes it; empty if neither is known."""
        if self.is_held:
            return "it is running now"
        return f"to resume: {self.command}" if self.command else ""

    def table(self) -> polars.DataFrame:
        cells = self.find_table("cells")
        if cells is None:
            raise self.tell_missing("tables/cells.parquet")
        return cells.collect()

    def tidy(self) -> None:
        """Remove what killed runs have left, and files that were not complete."""
        self.folder.remove_tree("partial")
        for name in (*self.folder.find(".*.partial"), *self.folder.find("tables/.*.partial")):
            self.folder.remove(name)

    def begin(self, name: str) -> Path:
        """Make an empty directory for a run in progress. Raises UnsafeError if a link would lead elsewhere."""
        made = f"partial/{name.replace('/', '.')}-{os.urandom(8).hex()}"
        return self.folder.make(made).path

    def finish(self, partial: Path, name: str, attachments: Iterable[Attachment] = ()) -> RunDirectory:
        """Move a run that ended to its place, in one step, with the mark of its maker.

        attachments: files of the run that other runs of the sweep have too. They are stored once.
        """
        source, target = str(partial.relative_to(self.path)), f"runs/{name}"
        self.folder.make(target.rpartition("/")[0])
        self.folder.remove_tree(target)
        signature.sign(self.folder.below(source))
        self.folder.move(source, target)
        for attachment in attachments:
            self._share(f"{target}/inputs/{attachment.path}", attachment.sha256)
        return RunDirectory(self.folder.below(target))

    def _share(self, name: str, sha256: str) -> None:
        """Make a file of a run that ended another name of the same file of the first run with it.

        While a run is under way, its programs can write to its directory, so its files are its own until it ends. A
        file with another content stays. On a disk without hard links, each run keeps its copy.
        """
        with contextlib.suppress(OSError, UnsafeError):
            with self.folder.open(name) as file:
                if hashlib.file_digest(file, "sha256").hexdigest() != sha256:
                    return
            first = self._shared.setdefault(sha256, name)
            if first != name:
                self.folder.link(first, name)

    def strange(self) -> list[str]:
        """Return the names of finished runs that this user's mprun did not make, as far as is known."""
        return [kept.directory.removeprefix("runs/") for kept in self.runs() if not signature.is_ours(kept.run.folder)]

    def remove(self) -> None:
        """Delete the sweep with all its runs. Raises RunError if a process is working on it."""
        with self.held():
            self._remove(LATEST, list_sweeps)

    def count(self) -> int:
        """Return the number of runs that need not be made again."""
        return sum(kept.summary.status != "error" for kept in self.runs())

    def runs(self, cells: Collection[int] | None = None) -> Iterator[Kept]:
        """Yield the runs that have ended, by cell and number. A run counts as ended if its summary is complete.

        cells: the numbers of the cells whose runs are read. Default: of all.
        """
        for n, cell in enumerate(self.record.cells):
            if cells is not None and n not in cells:
                continue
            folder = self.folder.below(f"runs/{cell.folder}")
            for number in sorted(int(name) for name in folder.find("*", folders=True) if NUMBER.fullmatch(name)):
                run = RunDirectory(folder.below(str(number)))
                with contextlib.suppress(MprunError):
                    yield Kept(n, number, f"runs/{cell.folder}/{number}", run.summary(), run)


# A run or a sweep.
ResultDirectory = RunDirectory | SweepDirectory
# The place of a run that belongs to no sweep.
ALONE = "."


def runs_by_place(source: ResultDirectory) -> dict[str, RunDirectory]:
    """Return a run, or the runs of a sweep that have ended, by their places below the directory."""
    return {ALONE: source} if isinstance(source, RunDirectory) else {kept.directory: kept.run for kept in source.runs()}


def list_sweeps(parent: Path) -> list[SweepDirectory]:
    """Return the sweeps under `parent`, oldest first."""
    if not parent.is_dir():
        return []
    found = [SweepDirectory(path) for path in filter(SweepDirectory.is_at, parent.iterdir())]
    return sorted(found, key=lambda one: (second_of(one.name, one.recorded_ns), one.name))


def title_of(run: RunDirectory) -> str:
    """Return the run's title. For a run of a sweep: the sweep's title, the cell, and the run's number."""
    path = run.path.resolve()
    sweep = SweepDirectory(path.parents[min(2, len(path.parents) - 1)])
    if not sweep.has("sweep.json"):
        return run.title
    record = sweep.record
    cells = [spell_values(cell.values) for cell in record.cells if cell.folder == path.parent.name]
    return f"{record.title}: {', '.join(filter(None, [*cells, f'run {path.name}']))}"
