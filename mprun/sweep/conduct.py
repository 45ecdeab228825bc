# SPDX-License-Identifier: Apache-2.0
"""Run a sweep to its end, or go on with one: which run comes next, what becomes of one that ended, the sum.

What has been done is what the directory holds; nothing else is kept. A run that is whole there is not run again,
one that ended with an error is.
"""

from __future__ import annotations

import contextlib
import platform
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from mprun import runner
from mprun.analysis.across import judge_across
from mprun.analysis.cells import Row, doubt, sum_up, tabulate
from mprun.analysis.statistics import is_narrow
from mprun.engines import real
from mprun.errors import Interrupted, MprunError, SpecError
from mprun.sweep import study
from mprun.sweep.directory import SweepDirectory, list_sweeps
from mprun.sweep.executor import Executor, run_all
from mprun.sweep.study import Cell, Task
from mprun.sweep.worker import Job, Keep, Outcome, settle


@dataclass(frozen=True)
class State:
    """How far a sweep is. total: runs that are known to be needed; failed: that did not do what was asked;
    errors: that did not come to an end; left_s: None while nothing is known of how long a run takes."""

    done: int
    total: int
    failed: int
    errors: int
    running: tuple[str, ...]
    left_s: float | None


Tell = Callable[[State], None]
Say = Callable[[str], None]


def place_cells(cells: Sequence[Cell]) -> tuple[tuple[Cell, ...], dict[str, Any]]:
    """Cells with the engine that each runs in, and what the record says of the kernels. Raises HostError."""
    placed, kernels = [], {}
    for cell in cells:
        place = runner.choose_place(cell.engine, cell.kernel)  # type: ignore[arg-type]
        placed.append(replace(cell, engine=place.engine))
        if place.kernel:
            kernels[cell.kernel] = {"version": place.kernel.version, "digest": place.kernel.digest}
    return tuple(placed), kernels


def find_or_create(
    parent: Path, cells: Sequence[Cell], kernels: Mapping[str, Any], inputs: Mapping[str, str], anew: bool
) -> tuple[SweepDirectory, bool]:
    """The sweep to go on with, else a new one, and whether it is new. anew: a new one in any case."""
    found = None if anew else find_unfinished(parent, cells, kernels)
    if found is not None:
        return found, False
    record = {
        "digest": _identify(cells, kernels),
        "kernels": dict(kernels),
        "axes": [name for name, _ in cells[0].values],
        "across": list(cells[0].spec.experiment.across),
        "plots": [asdict(plot) for plot in cells[0].spec.experiment.plots],
        "cells": [
            {
                "values": dict(cell.values),
                "folder": cell.folder,
                "engine": cell.engine,
                "kernel": cell.kernel,
                "repeat": study.describe_repeat(cell),
            }
            for cell in cells
        ],
    }
    title = runner.title_of(cells[0].spec)
    return SweepDirectory.create(parent, title, record, inputs), True


def find_unfinished(parent: Path, cells: Sequence[Cell], kernels: Mapping[str, Any]) -> SweepDirectory | None:
    """The newest under `parent` that is the same and has not all its runs."""
    digest = _identify(cells, kernels)
    for sweep in reversed(list_sweeps(parent)):
        # one of another format, or not whole, is none to go on with
        with contextlib.suppress(MprunError):
            if sweep.record["digest"] == digest and not is_finished(sweep):
                return sweep
    return None


def _identify(cells: Sequence[Cell], kernels: Mapping[str, Any]) -> str:
    places = [f"{name} {kernel['digest']}" for name, kernel in kernels.items()]
    return study.identify(cells, [*places, *({platform.release()} if any(_is_real(c) for c in cells) else ())])


def is_finished(sweep: SweepDirectory) -> bool:
    """Whether every run that it asks for has been made, and none ended with an error."""
    return (sweep.path / "summary.json").exists() and bool(sweep.read("summary.json")["complete"])


def _is_real(cell: Cell) -> bool:
    return cell.engine == real.NAME


def places_for(engines: Collection[str], jobs: int | None, cpus: int) -> int:
    """How many runs at one time: as many as asked for, else one a CPU; where any is in real time one in all, as it
    would hear the others. Raises SpecError if more are asked for then."""
    if real.NAME not in engines:
        return jobs or cpus
    if jobs is not None and jobs > 1:
        raise SpecError("runs in real time go one after the other, as they would disturb each other: leave out --jobs")
    return 1


@dataclass
class _Progress:
    """What is known of the runs of one cell. values: of the metric that decides, by the number of the run."""

    ended: dict[int, str] = field(default_factory=dict)
    values: dict[int, float] = field(default_factory=dict)


class Conduct:
    """A sweep under way. keep: which captures stay; retries: how often a run that ended with an error is tried
    again."""

    def __init__(
        self,
        sweep: SweepDirectory,
        cells: Sequence[Cell],
        keep: Keep = "pcaps",
        retries: int = 0,
        allow_exec: bool = False,
    ) -> None:
        self._sweep = sweep
        self._cells = cells
        self._keep: Keep = keep
        self._retries = retries
        self._allow_exec = allow_exec
        self._progress = {cell.folder: _Progress() for cell in cells}
        self._attempts: dict[str, int] = {}
        self._running: dict[str, tuple[Task, Job]] = {}
        self._queue: list[Task] = []
        self._block = 0
        self._walls_s: list[float] = []
        self._simulations_s = 0.0

    def run(self, executor: Executor, tell: Tell, say: Say) -> dict[str, Any]:
        """Until all is done; the summary. say: of runs that end with an error.

        Raises Interrupted on Ctrl-C: what has ended is kept.
        """
        self._sweep.tidy()
        self._take_in()
        started = time.monotonic()
        try:
            for name, outcome in run_all(executor, self._begin, lambda: tell(self._state(executor.places))):
                self._end(name, outcome, say)
        except KeyboardInterrupt:
            raise Interrupted(
                f"interrupted; {self._count()} runs are in {self._sweep.path}, and the same command goes on from there"
            ) from None
        finally:
            self._note_session(executor.places, time.monotonic() - started)
            executor.close()
            self._sweep.tidy()
        return self.sum_up()

    def _take_in(self) -> None:
        """What is there already; what ended with an error is to be done again."""
        for kept in list(self._sweep.runs()):
            cell = self._cells[kept.cell]
            if kept.summary["status"] == "error":
                self._sweep.drop(f"{cell.folder}/{kept.number}")
            else:
                self._note(cell, kept.number, kept.summary)

    def _note(self, cell: Cell, number: int, summary: Mapping[str, Any]) -> None:
        progress, until = self._progress[cell.folder], cell.spec.experiment.repeat.until
        progress.ended[number] = summary["status"]
        if until is not None and summary["status"] != "error" and until.metric in summary["metrics"]:
            progress.values[number] = float(summary["metrics"][until.metric]["value"])

    def _next(self) -> Task | None:
        """The next run that may begin, in the order of the blocks; None if all must wait or nothing is left."""
        most = max(cell.spec.experiment.repeat.most for cell in self._cells)
        while True:
            for n, task in enumerate(self._queue):
                if self._may_begin(task):
                    return self._queue.pop(n)
            self._queue = [task for task in self._queue if not self._is_settled(task.cell, task.number)]
            if self._queue or self._block == most:
                return None
            self._block += 1
            due = [cell for cell in self._cells if not self._is_settled(cell, self._block)]
            self._queue += list(study.order(due, self._block))

    def _is_settled(self, cell: Cell, number: int) -> bool:
        """Whether the run of this number is made, or not needed."""
        repeat, progress = cell.spec.experiment.repeat, self._progress[cell.folder]
        if number in progress.ended or number > repeat.most:
            return True
        if repeat.until is None or number <= repeat.least:
            return False
        # as if runs were made one by one: what decides does not depend on how many are at one time
        return any(self._sufficed(cell, n) for n in range(repeat.least, number))

    def _sufficed(self, cell: Cell, count: int) -> bool:
        """Whether the first `count` runs of a cell were enough."""
        repeat, progress = cell.spec.experiment.repeat, self._progress[cell.folder]
        if repeat.until is None or any(n not in progress.ended for n in range(1, count + 1)):
            return False
        values = [progress.values[n] for n in range(1, count + 1) if n in progress.values]
        return is_narrow(values, repeat.until.confidence, repeat.until.within)

    def _may_begin(self, task: Task) -> bool:
        repeat, progress = task.cell.spec.experiment.repeat, self._progress[task.cell.folder]
        if self._is_settled(task.cell, task.number):
            return False
        return task.number <= repeat.least or all(n in progress.ended for n in range(1, task.number))

    def _begin(self) -> tuple[str, Job] | None:
        """The next run, as a job."""
        task = self._next()
        if task is None:
            return None
        cell, directory = task.cell, self._sweep.begin(task.name)
        job = Job(task.spec, cell.warnings, cell.engine, cell.kernel, directory, self._keep, self._allow_exec)
        self._running[task.name] = (task, job)
        return task.name, job

    def _end(self, name: str, outcome: Outcome, say: Say) -> None:
        task, job = self._running.pop(name)
        what = f"{task.cell.label}, run {task.number}"
        self._walls_s.append(outcome.wall_s)
        self._simulations_s += outcome.simulation_s
        if outcome.status == "error":
            attempt = self._attempts[name] = self._attempts.get(name, 0) + 1
            again = attempt <= self._retries
            say(f"error in {what}: {outcome.error}{'; trying again' if again else ''}")
            if again:
                self._queue.insert(0, task)
                return
        summary = settle(job, outcome)
        self._sweep.finish(job.directory, name)
        self._note(task.cell, task.number, summary)

    def _state(self, places: int) -> State:
        statuses = [status for progress in self._progress.values() for status in progress.ended.values()]
        total = sum(self._needed(cell) for cell in self._cells)
        left_s = None
        if self._walls_s:
            mean_s = sum(self._walls_s) / len(self._walls_s)
            left_s = max(0.0, (total - len(statuses) - len(self._running) / 2) * mean_s / places)
        running = tuple(f"{task.cell.label} #{task.number}" for task, _ in self._running.values())
        return State(len(statuses), total, statuses.count("failed"), statuses.count("error"), running, left_s)

    def _needed(self, cell: Cell) -> int:
        """How many runs a cell needs, as far as is known."""
        repeat, progress = cell.spec.experiment.repeat, self._progress[cell.folder]
        if repeat.until is None:
            return repeat.most
        enough = next((n for n in range(repeat.least, repeat.most) if self._sufficed(cell, n)), None)
        return enough or min(repeat.most, max(repeat.least, len(progress.ended) + 1))

    def _count(self) -> int:
        return sum(len(progress.ended) for progress in self._progress.values())

    def _note_session(self, places: int, wall_s: float) -> None:
        """Real time, which never repeats, stands apart from all that does."""
        path = self._sweep.path / "wall.json"
        before = self._sweep.read("wall.json") if path.exists() else []
        entry = {
            "runs": len(self._walls_s),
            "places": places,
            "wall_s": round(wall_s, 3),
            "runs_wall_s": round(sum(self._walls_s), 3),
            "simulation_s": round(self._simulations_s, 3),
        }
        self._sweep.write("wall.json", [*before, entry])

    def sum_up(self) -> dict[str, Any]:
        """Table and summary of what there is, also written there."""
        return sum_up_sweep(self._sweep, all(self._is_done(cell) for cell in self._cells))

    def _is_done(self, cell: Cell) -> bool:
        progress, repeat = self._progress[cell.folder], cell.spec.experiment.repeat
        statuses = progress.ended
        return "error" not in statuses.values() and all(self._is_settled(cell, n) for n in range(1, repeat.most + 1))


def sum_up_sweep(sweep: SweepDirectory, is_complete: bool) -> dict[str, Any]:
    """The table and the summary of all runs that a sweep has; both are written."""
    cells = sweep.record["cells"]
    rows = list(read_rows(sweep))
    sweep.write_table(tabulate(cells, rows))
    found = sum_up(cells, rows)
    counts = {status: sum(cell["runs"][status] for cell in found) for status in ("passed", "failed", "error")}
    statements = judge_across(sweep.record["across"], cells, rows)
    is_good = not counts["failed"] and all(statement["held"] for statement in statements)
    status = "error" if counts["error"] else "passed" if is_good else "failed"
    summary = {
        "status": status,
        "complete": is_complete,
        "runs": counts,
        "cells": found,
        "statements": statements,
        "warnings": doubt(found, [cell["repeat"] for cell in cells]),
    }
    sweep.write("summary.json", summary)
    return summary


def read_rows(sweep: SweepDirectory) -> Iterator[Row]:
    """Every run as the analysis takes it."""
    for kept in sweep.runs():
        yield Row(kept.cell, kept.number, str(kept.run.path.relative_to(sweep.path)), kept.summary)
