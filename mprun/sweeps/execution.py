# SPDX-License-Identifier: Apache-2.0
"""Run a sweep to its end, or resume one: choose the next run, record the runs that ended, write the summary.

The state of a sweep is only in its directory. A complete run in it is not run again. A run that ended with an error is.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import platform
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from pathlib import Path

from mprun.engines.registry import ENGINES
from mprun.errors import Interrupted, MprunError, SpecError
from mprun.model.engine_name import EngineChoice, EngineName
from mprun.model.frozen import Frozen
from mprun.model.grouping import gather
from mprun.model.permission import NO_COMMANDS, Consent
from mprun.model.run_files import Build
from mprun.model.sweep_files import FORMAT, Session, SweepCell, SweepRecord, SweepSummary
from mprun.runs import runner
from mprun.runs.place import choose_place, refuse_commands, refuse_machine_kernel
from mprun.safety.text import name_some
from mprun.storage.sweep_directory import SweepDirectory, list_sweeps
from mprun.sweeps import study
from mprun.sweeps.cell_progress import CellProgress, describe_repeat, say_progress
from mprun.sweeps.executor import Executor, run_all
from mprun.sweeps.study import Cell, Task
from mprun.sweeps.sweep_summary import write_summary
from mprun.sweeps.worker import Job, Keep, RunOutcome, settle


class SweepProgress(Frozen):
    """The progress of a sweep.

    - total: the runs that are known to be needed.
    - failed: runs that did not meet an expectation.
    - errors: runs that did not come to their end.
    - left_s: the estimated remaining time; None while the duration of a run is not known.
    """

    done: int
    total: int
    failed: int
    errors: int
    running: tuple[str, ...]
    left_s: float | None


# The largest number of other people's runs that a warning names.
MOST_NAMED = 5

TellProgress = Callable[[SweepProgress], None]
Say = Callable[[str], None]


class PlacedCells(Frozen):
    """Cells, each with its engine, and the kernels that they name, as the record of a sweep has them."""

    cells: tuple[Cell, ...] = ()
    kernels: Mapping[str, Build] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """The digest of the cells and their kernels, which finds their sweep again."""
        slots = [f"{name} {kernel.digest}" for name, kernel in self.kernels.items()]
        if any(ENGINES[cell.runs_in].IS_ON_MACHINE_KERNEL for cell in self.cells):
            slots.append(platform.release())
        return study.identify(self.cells, slots)

    def describe(self, digest: str) -> SweepRecord:
        """Return the record of a sweep. digest: of all that determines its results."""
        first = self.cells[0].spec
        return SweepRecord(
            format=FORMAT,
            title=runner.title_of(first),
            digest=digest,
            kernels=dict(self.kernels),
            axes=tuple(name for name, _ in self.cells[0].values),
            across=first.experiment.across,
            plots=first.experiment.plots,
            show=first.experiment.show,
            cells=tuple(
                SweepCell(dict(one.values), one.folder, one.runs_in, one.kernel, describe_repeat(one.spec.experiment))
                for one in self.cells
            ),
        )

    def slots(self, jobs: int | None) -> int:
        return slots_for({cell.runs_in for cell in self.cells}, jobs)


def place_cells(cells: Sequence[Cell], asked: EngineChoice, consent: Consent) -> PlacedCells:
    """Return the cells, each with its engine, and their kernels.

    asked: the engine on the command line. Raises MachineError, or SpecError for commands without the user's consent.
    """
    placed: list[Cell] = []
    kernels: dict[str, Build] = {}
    for cell in cells:
        refuse_machine_kernel(cell.engine, asked)
        place = choose_place(cell.engine, cell.kernel)
        placed.append(replace(cell, engine=place.name))
        if place.kernel:
            kernels[cell.kernel] = Build(place.kernel.version, place.kernel.digest)
    for engine, specs in gather((cell.runs_in, cell.spec) for cell in placed).items():
        refuse_commands(specs, consent, engine)
    return PlacedCells(tuple(placed), kernels)


def find_or_create(
    parent: Path, placed: PlacedCells, inputs: Mapping[str, str], anew: bool
) -> tuple[SweepDirectory, bool]:
    """Return the sweep to resume, or else a new one; and True if it is new. `anew`: create a new one in any case."""
    found = None if anew else find_sweep(parent, placed, is_finished=False)
    if found is not None:
        update_figures(found, placed)
        # a sweep that was killed while it was created may not have this link
        found.become_latest()
        return found, False
    return SweepDirectory.create(parent, placed.describe(placed.digest), inputs), True


def update_figures(sweep: SweepDirectory, placed: PlacedCells) -> None:
    """Give a sweep the figures and metrics of its files now, no part of its digest. Raises MprunError if it runs."""
    record = placed.describe(placed.digest)
    with sweep.held():
        sweep.change_record(sweep.record._replace(plots=record.plots, show=record.show))


def find_sweep(parent: Path, placed: PlacedCells, is_finished: bool) -> SweepDirectory | None:
    """Return the newest finished or unfinished sweep under `parent` with the same digest; None if there is none."""
    for sweep in find_by_digest(parent, placed.digest):
        # a sweep with a damaged summary cannot be resumed
        with contextlib.suppress(MprunError):
            if (sweep.has("summary.json") and sweep.summary().complete) == is_finished:
                return sweep
    return None


def find_by_digest(parent: Path, digest: str) -> Iterator[SweepDirectory]:
    """Yield the sweeps under `parent` with a digest, newest first. Damaged sweeps are left out."""
    for sweep in reversed(list_sweeps(parent)):
        with contextlib.suppress(MprunError):
            if sweep.record.digest == digest:
                yield sweep


def slots_for(engines: Collection[EngineName], jobs: int | None, cpus: int | None = None) -> int:
    """Return the number of concurrent runs: `jobs`, or else one per CPU. cpus: by default those of this process.

    If a cell runs in real time, only one run at a time is allowed, because runs would disturb each other. Raises
    SpecError if `jobs` is more.
    """
    if all(ENGINES[engine].IS_SIMULATED for engine in engines):
        return jobs or cpus or len(os.sched_getaffinity(0))
    if jobs is not None and jobs > 1:
        raise SpecError("runs in real time go one after the other, as they would disturb each other: leave out --jobs")
    return 1


def tell_strange(names: Sequence[str]) -> str:
    """Return the warning that other people made some of the runs that count."""
    few = name_some(names, MOST_NAMED)
    return f"warning: {len(names)} of them were not made by your mprun, and count: {few}; --new starts without them"


@dataclasses.dataclass
class Execution:
    """A sweep that is being run.

    keep: the captures to keep. retries: the number of further attempts after an error. grows: the cells were added to a
    sweep that this process has begun, so runs that ended with an error are not run again.
    """

    sweep: SweepDirectory
    cells: Sequence[Cell]
    keep: Keep = "pcaps"
    retries: int = 0
    consent: Consent = NO_COMMANDS
    grows: bool = False
    _attempts: Counter[str] = field(default_factory=Counter)
    _running: dict[str, Task] = field(default_factory=dict)
    _queue: list[Task] = field(default_factory=list)
    _block: int = 0
    _walls_s: list[float] = field(default_factory=list)
    _simulations_s: float = 0.0

    def __post_init__(self) -> None:
        self._progress = {cell.folder: CellProgress(describe_repeat(cell.spec.experiment)) for cell in self.cells}

    def run(self, executor: Executor, tell: TellProgress, say: Say) -> SweepSummary:
        """Run until all is done. Return the summary. say: gets a message for each error.

        The executor can be used again after a complete run. Raises Interrupted on Ctrl-C; the runs that have ended are
        kept.
        """
        self.sweep.tidy()
        started = time.monotonic()
        has_ended = False
        try:
            # they describe the runs that existed before; there will be more
            self.sweep.forget()
            self._take_in()
            if not self.grows and any(one.ended for one in self._progress.values()):
                say(f"there are {say_progress(self._progress.values())}")
                if strange := self.sweep.strange():
                    say(tell_strange(strange))
            looks = (lambda: tell(self._state(executor.slots)), partial(self._say_disturbed, say))
            for name, job, outcome in run_all(executor, self._begin, *looks):
                self._end(name, job, outcome, say)
            has_ended = True
        except KeyboardInterrupt:
            raise Interrupted(
                f"interrupted: {say_progress(self._progress.values())}\n"
                f"results so far: mprun show {self.sweep.path}\n"
                f"to resume: {self.sweep.command or 'the same command'}"
            ) from None
        finally:
            self.sweep.add_session(
                Session(
                    runs=len(self._walls_s),
                    places=executor.slots,
                    wall_s=round(time.monotonic() - started, 3),
                    runs_wall_s=round(sum(self._walls_s), 3),
                    simulation_s=round(self._simulations_s, 3),
                )
            )
            if not has_ended:
                executor.close()
            self.sweep.tidy()
        return write_summary(self.sweep)

    def _take_in(self) -> None:
        """Note the runs that exist already. Errors of an earlier session are removed: they are run again."""
        for kept in list(self.sweep.runs()):
            cell = self.cells[kept.cell]
            if kept.summary.status == "error" and not self.grows:
                self.sweep.folder.remove_tree(kept.directory)
            else:
                self._progress[cell.folder].note(kept.number, kept.summary)

    def _next(self) -> Task | None:
        """Return the next run that may begin, in the order of the blocks; None if all must wait or none is left."""
        most = max(cell.spec.experiment.repeat.most for cell in self.cells)
        while True:
            for n, task in enumerate(self._queue):
                if self._progress[task.cell.folder].may_begin(task.number):
                    return self._queue.pop(n)
            self._queue = [task for task in self._queue if not self._progress[task.cell.folder].is_settled(task.number)]
            if self._queue or self._block == most:
                return None
            self._block += 1
            due = [cell for cell in self.cells if not self._progress[cell.folder].is_settled(self._block)]
            self._queue += list(study.order(due, self._block))

    def _begin(self) -> tuple[str, Job] | None:
        """Return the next run as a job; None if none may begin."""
        task = self._next()
        if task is None:
            return None
        cell, directory = task.cell, self.sweep.begin(task.name)
        place = (cell.engine, cell.kernel, directory)
        job = Job(task.spec, cell.warnings, *place, self.keep, self.consent, parameters=cell.parameters)
        self._running[task.name] = task
        return task.name, job

    def _end(self, name: str, job: Job, outcome: RunOutcome, say: Say) -> None:
        task = self._running.pop(name)
        what = _describe(task)
        self._walls_s.append(outcome.wall_s)
        self._simulations_s += outcome.simulation_s
        if outcome.status == "error":
            self._attempts[name] += 1
            again = self._attempts[name] <= self.retries
            say(f"error in {what}: {outcome.error}{'; trying again' if again else ''}")
            if again:
                self._queue.insert(0, task)
                return
        summary = settle(job, outcome)
        self.sweep.finish(job.directory, name, job.spec.experiment.attachments)
        self._progress[task.cell.folder].note(task.number, summary)

    def _say_disturbed(self, say: Say, name: str, path: str) -> None:
        say(f"{_describe(self._running[name])}: {path} of this machine changed meanwhile; making it again")

    def _state(self, slots: int) -> SweepProgress:
        progress = self._progress.values()
        statuses = [status for one in progress for status in one.ended.values()]
        total = sum(one.needed for one in progress)
        left_s = None
        if self._walls_s:
            mean_s = sum(self._walls_s) / len(self._walls_s)
            left_s = max(0.0, (total - len(statuses) - len(self._running) / 2) * mean_s / slots)
        running = tuple(f"{task.cell.label} #{task.number}" for task in self._running.values())
        return SweepProgress(len(statuses), total, statuses.count("failed"), statuses.count("error"), running, left_s)


def _describe(task: Task) -> str:
    return f"{task.cell.label}, run {task.number}"
