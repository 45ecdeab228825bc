# SPDX-License-Identifier: Apache-2.0
"""The steps of labs, run side by side where the engine allows, and the claims held against them.

Prints nothing. In the virtual engine a step takes one core and no other step can disturb it; in real time steps
run one after the other.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from mprun import runner
from mprun.analysis.claim import Columns, Judgement, Measured, judge
from mprun.engines import virtual
from mprun.engines.engine import die_with_parent
from mprun.errors import HostError, MprunError
from mprun.rundir import RunDirectory
from mprun.runner import Place
from mprun.spec.lab import Lab, Profile, Step

# ran: there is a summary. broken: the run ended in an error. impossible: this machine lacks something.
State = Literal["ran", "broken", "impossible"]


@dataclass(frozen=True)
class Done:
    """A step that is over: its directory and summary, or why there is none. wall_s: real time that it took."""

    step: Step
    state: State
    wall_s: float
    directory: Path | None = None
    summary: Mapping[str, Any] | None = None
    error: str = ""


@dataclass(frozen=True)
class LabRun:
    """A lab that was run: its steps in order, and its claims."""

    lab: Lab
    done: tuple[Done, ...]
    judgements: tuple[Judgement, ...]


_Work = tuple[int, Step, Place, Path]


def run_labs(
    labs: Sequence[Lab], profile: Profile, place: Place, parent: Path, report: Callable[[Done], None]
) -> Iterator[LabRun]:
    """Run the steps of a profile of all labs; give each lab with its judged claims, in order, when it is over.

    report: called for each step that is over. What goes wrong with a step is told of it.
    """
    steps = [(n, step) for n, lab in enumerate(labs) for step in lab.steps_of(profile)]
    over: list[list[Done]] = [[] for _ in labs]
    waiting = list(enumerate(labs))
    workers = min(len(os.sched_getaffinity(0)), len(steps)) if place.engine == virtual.NAME else 1
    with _crew(workers) as run_all:
        for n, done in run_all([(n, step, place, parent) for n, step in steps]):
            report(done)
            over[n].append(done)
            while waiting and len(over[waiting[0][0]]) == len(waiting[0][1].steps_of(profile)):
                first, lab = waiting.pop(0)
                yield _judge_lab(lab, profile, over[first])


def _judge_lab(lab: Lab, profile: Profile, over: Sequence[Done]) -> LabRun:
    done = tuple(sorted(over, key=lambda one: lab.steps.index(one.step)))
    runs = {one.step.name: measured_by(RunDirectory(one.directory)) for one in done if one.directory is not None}
    missing = {one.step.name: one.error for one in done if one.directory is None}
    return LabRun(lab, done, tuple(judge(lab.claims_of(profile), runs, missing)))


def measured_by(run: RunDirectory) -> Measured:
    """What a run measured, its tables read when they are asked for."""

    def table(name: str) -> Columns | None:
        tables = (table for title, table in run.tables() if title == name)
        return next((table.collect().to_dict(as_series=False) for table in tables), None)

    return Measured(run.read("summary.json")["metrics"], table)


@contextmanager
def _crew(workers: int) -> Iterator[Callable[[Sequence[_Work]], Iterator[tuple[int, Done]]]]:
    """What runs steps, so many at a time, and gives each as it is over."""
    if workers == 1:
        yield lambda work: map(_run_step, work)
        return
    # not forked from here: the tables' library has threads, which a fork would lose
    with multiprocessing.get_context("forkserver").Pool(workers, initializer=_obey_the_parent) as pool:
        yield lambda work: pool.imap_unordered(_run_step, work)


def _obey_the_parent() -> None:
    """In a worker: Ctrl-C is for the parent, which then ends us; a run that is ended so kills its engine."""
    die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))


def _run_step(work: _Work) -> tuple[int, Done]:
    n, step, place, parent = work
    began = time.monotonic()
    state, directory, summary, error = _carry_out(step, place, parent)
    return n, Done(step, state, time.monotonic() - began, directory, summary, error)


def _carry_out(step: Step, place: Place, parent: Path) -> tuple[State, Path | None, Mapping[str, Any] | None, str]:
    try:
        loaded = step.load()
        inputs = (loaded.spec, place, parent, loaded.sources, loaded.warnings)
        run, summary = runner.run_spec(*inputs, lambda text, share, note: None)
    except HostError as error:
        return "impossible", None, None, f"cannot run here: {error}"
    except MprunError as error:
        return "broken", None, None, str(error)
    if summary["status"] == "error":
        return "broken", None, None, f"{run.path}: {'; '.join(summary['errors'])}"
    return "ran", run.path, summary, ""
