# SPDX-License-Identifier: Apache-2.0
"""Run the steps of labs, concurrently if the engine allows it, and judge the claims.

This module prints nothing. In the virtual engine a step uses one core and cannot disturb other steps. In real time,
steps run one after the other.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from mprun import runner
from mprun.analysis.claim import Columns, Judgement, Measured, judge
from mprun.analysis.lateness import find_exchange_allowance
from mprun.compile import allocate
from mprun.engines.table import ENGINES
from mprun.errors import HostError, MprunError
from mprun.lab.file import Lab, Step
from mprun.model.permission import NO_COMMANDS, Consent
from mprun.place import Place
from mprun.rundir import RunDirectory
from mprun.schema.lab import Profile
from mprun.sweep.executor import run_all
from mprun.sweep.local import LocalExecutor
from mprun.sweep.worker import Job, Outcome

# ran: there is a summary. broken: the run ended with an error. impossible: this machine lacks something.
State = Literal["ran", "broken", "impossible"]


@dataclass(frozen=True)
class Done:
    """A step that is over: its directory and summary, or the reason why there is none. wall_s: its real time."""

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


def run_labs(
    labs: Sequence[Lab],
    profile: Profile,
    place: Place,
    parent: Path,
    report: Callable[[Done], None],
    look: Callable[[], None],
    consent: Consent = NO_COMMANDS,
    seed: int | None = None,
) -> Iterator[LabRun]:
    """Run the steps of a profile of all labs. Yield each lab with its judged claims, in order, when it is over.

    - report: called for each step that is over. It also gets the errors of a step.
    - look: called from time to time.
    - consent: whether commands of the labs may run.
    - seed: the seed of every step, instead of the file's.
    """
    steps = [(n, step) for n, lab in enumerate(labs) for step in lab.steps_of(profile)]
    over: list[list[Done]] = [[] for _ in labs]
    waiting = list(enumerate(labs))
    with closing(_run_steps(steps, place, parent, look, consent, seed)) as all_done:
        for n, done in all_done:
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
    """Return the metrics of a run. Its tables are read when they are needed."""

    def table(name: str) -> Columns | None:
        tables = (table for title, table in run.tables() if title == name)
        return next((table.collect().to_dict(as_series=False) for table in tables), None)

    summary = run.read("summary.json")
    engine = ENGINES.get(summary.get("engine"))
    allowance = None
    if engine is not None and not engine.IS_SIMULATED:
        allowance = find_exchange_allowance(run.plan().intent, run.agent_report().host)
    return Measured(summary["metrics"], table, allowance)


def _run_steps(
    steps: Sequence[tuple[int, Step]],
    place: Place,
    parent: Path,
    look: Callable[[], None],
    consent: Consent,
    seed: int | None,
) -> Generator[tuple[int, Done], None, None]:
    """Yield each step, with the number of its lab, when it is over."""
    places = len(os.sched_getaffinity(0)) if place.engine.IS_SIMULATED else 1
    left = list(steps)
    running: dict[str, tuple[int, Step, Path]] = {}
    refused: list[tuple[int, Done]] = []

    def begin() -> tuple[str, Job] | None:
        while left:
            n, step = left.pop(0)
            job = _prepare(step, place, parent, consent, seed)
            if isinstance(job, Job):
                running[str(job.directory)] = (n, step, job.directory)
                return str(job.directory), job
            refused.append((n, job))
        return None

    with closing(LocalExecutor(places)) as executor:
        for name, outcome in run_all(executor, begin, look):
            n, step, directory = running.pop(name)
            yield n, _end(step, directory, outcome)
            while refused:
                yield refused.pop(0)
    yield from refused


def _prepare(step: Step, place: Place, parent: Path, consent: Consent, seed: int | None) -> Job | Done:
    """Return the job of a step, or the reason why it cannot run."""
    try:
        loaded = step.load(seed)
        plan, _ = runner.compile_for(loaded.spec, allocate(loaded.spec), place)
        inputs = runner.read_inputs(loaded.sources)
    except HostError as error:
        return Done(step, "impossible", 0.0, error=f"cannot run here: {error}")
    except MprunError as error:
        return Done(step, "broken", 0.0, error=str(error))
    directory = RunDirectory.reserve(parent, runner.title_of(loaded.spec), plan.digest)
    kernel = place.kernel.name if place.kernel else "default"
    runs_in = (place.name, kernel, directory)
    return Job(loaded.spec, loaded.warnings, *runs_in, "pcaps", consent, inputs, loaded.parameters)


def _end(step: Step, directory: Path, outcome: Outcome) -> Done:
    if outcome.status == "error":
        return Done(step, "broken", outcome.wall_s, error=f"{directory}: {outcome.error}")
    return Done(step, "ran", outcome.wall_s, directory, RunDirectory(directory).read("summary.json"))
