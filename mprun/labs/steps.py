# SPDX-License-Identifier: Apache-2.0
"""Run the steps and sweeps of labs, concurrently if the engine allows it, and judge the claims and figures.

This module prints nothing. In the virtual engine a step uses one core and cannot disturb other steps. In real time,
steps run one after the other. `work_of` counts the runs before they begin.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Literal

from mprun.captures.dissection import dissect
from mprun.compile import allocate
from mprun.engines.registry import ENGINES
from mprun.errors import Interrupted, MachineError, MprunError
from mprun.inputs.matrix_cells import PLACES
from mprun.labs.definition import Lab, LabSweep, Step
from mprun.labs.study_figure import JudgedFigure, judge_figure
from mprun.machine import invoking_user
from mprun.machine.version import code_digest
from mprun.metrics.claim_check import JudgedClaim, MeasuredRun, Swept, TableColumns, judge
from mprun.metrics.lateness import find_exchange_allowance
from mprun.model.frozen import Frozen
from mprun.model.permission import NO_COMMANDS, Consent
from mprun.model.run_summary import Summary
from mprun.model.spec import ExperimentSpec
from mprun.runs import runner
from mprun.runs.place import Place, choose_place_of
from mprun.storage import signature
from mprun.storage.run_directory import FROM_CAPTURES, RunDirectory, list_runs
from mprun.storage.sweep_directory import ResultDirectory, SweepDirectory
from mprun.sweeps import execution, study
from mprun.sweeps.execution import TellProgress
from mprun.sweeps.executor import run_all
from mprun.sweeps.local import LocalExecutor
from mprun.sweeps.sweep_summary import list_versions
from mprun.sweeps.worker import Job, RunOutcome

# ran: there is a summary. broken: the run ended with an error. impossible: this machine lacks something.
StepState = Literal["ran", "broken", "impossible"]


class Done(Frozen):
    """A step that is over: its directory and summary, or the reason why there is none.

    - wall_s: its real time.
    - is_earlier: True for a run that existed before and was not repeated.
    """

    step: Step
    state: StepState
    wall_s: float
    directory: Path | None = None
    summary: Summary | None = None
    error: str = ""
    is_earlier: bool = False


class LabRun(Frozen):
    """A lab that was run: its steps in order, its claims, and its figures.

    - results: the runs and sweeps by name.
    - walls_s: the real time of each run and sweep.
    - missing: the reason for each step and sweep without a result.
    """

    lab: Lab
    done: tuple[Done, ...]
    judgements: tuple[JudgedClaim, ...]
    figures: tuple[JudgedFigure, ...]
    results: Mapping[str, ResultDirectory]
    walls_s: Mapping[str, float]
    missing: Mapping[str, str]


class LabSettings(Frozen):
    """The settings for the runs of labs.

    - parent: the folder of the runs.
    - consent: whether commands of the labs may run.
    - seed: the seed of every run, instead of the file's.
    - keeps: True to use runs of the same files, engine and kernel that exist already.
    """

    place: Place
    parent: Path
    consent: Consent = NO_COMMANDS
    seed: int | None = None
    keeps: bool = False


def run_labs(
    labs: Sequence[Lab],
    settings: LabSettings,
    report: Callable[[Done], None],
    look: Callable[[], None],
    tell: TellProgress = lambda _: None,
    say: Callable[[str], None] = lambda _: None,
) -> Iterator[LabRun]:
    """Run the steps and then the sweeps of all labs. Yield each lab with its judged claims, in order, when it is over.

    - labs: each with what its profile runs.
    - report: called for each step that is over. It also gets the errors of a step.
    - look: called from time to time.
    - tell, say: called with the progress and the errors of a sweep.
    """
    steps = [(n, step) for n, lab in enumerate(labs) for step in lab.steps]
    over: list[list[Done]] = [[] for _ in labs]
    waiting = list(enumerate(labs))

    def is_over(n: int, lab: Lab) -> bool:
        return len(over[n]) == len(lab.steps) and not lab.sweeps

    with closing(_run_steps(steps, settings, look)) as all_done:
        for n, done in all_done:
            report(done)
            over[n].append(done)
            while waiting and is_over(*waiting[0]):
                first, lab = waiting.pop(0)
                yield _judge_lab(lab, over[first], {}, {})
    for n, lab in waiting:
        sweeps: dict[str, SweepDirectory] = {}
        missing: dict[str, str] = {}
        for sweep in lab.sweeps:
            try:
                sweeps[sweep.name] = run_sweep(sweep, settings, tell, say)
            except Interrupted:
                raise
            except MprunError as error:
                missing[sweep.name] = str(error)
        yield _judge_lab(lab, over[n], sweeps, missing)


def _judge_lab(
    lab: Lab, over: Sequence[Done], sweeps: Mapping[str, SweepDirectory], missing: Mapping[str, str]
) -> LabRun:
    done = tuple(sorted(over, key=lambda one: lab.steps.index(one.step)))
    found = {one.step.name: RunDirectory(one.directory) for one in done if one.directory is not None}
    runs: dict[str, MeasuredRun | Swept] = {name: measured_by(run) for name, run in found.items()}
    runs |= {name: measured_by_sweep(sweep) for name, sweep in sweeps.items()}
    absent = {**missing, **{one.step.name: one.error for one in done if one.directory is None}}
    walls_s = {one.step.name: one.wall_s for one in done} | {name: sweep.wall_s() for name, sweep in sweeps.items()}
    # the reason is said once, and not for each claim
    unsaid = dict.fromkeys(absent, "has no result")
    judgements = tuple(judge(lab.claims, runs, unsaid))
    figures = tuple(judge_figure(figure, runs, unsaid) for figure in lab.figures)
    return LabRun(lab, done, judgements, figures, {**found, **sweeps}, walls_s, absent)


def make_packet_tables(run: RunDirectory) -> None:
    """Make the tables of packets of a run from its captures, if they do not exist. Raises MprunError."""
    if run.find_table("packets") is None:
        dissect(run, lambda *_: None)
        invoking_user.give(run.path)


def measured_by(run: RunDirectory) -> MeasuredRun:
    """Return the metrics of a run. Its tables are read or made when they are needed."""

    def table(name: str) -> TableColumns | None:
        if name in FROM_CAPTURES and run.captures():
            make_packet_tables(run)
        found = run.find_table(name)
        return None if found is None else found.collect().to_dict(as_series=False)

    summary = run.summary()
    engine = next((engine for name, engine in ENGINES.items() if name == summary.engine), None)
    allowance = None
    if engine is not None and not engine.IS_SIMULATED:
        allowance = find_exchange_allowance(run.plan().intent, run.agent_report().host)
    return MeasuredRun(summary.metrics, table, allowance)


def _run_steps(
    steps: Sequence[tuple[int, Step]], settings: LabSettings, look: Callable[[], None]
) -> Generator[tuple[int, Done], None, None]:
    """Yield each step, with the number of its lab, when it is over."""
    slots = execution.slots_for({settings.place.name}, None)
    begun: dict[str, tuple[int, Step]] = {}
    refused: list[tuple[int, Done]] = []

    def make_jobs() -> Iterator[tuple[str, Job]]:
        for n, step in steps:
            job = _prepare(step, settings)
            if isinstance(job, Job):
                begun[str(job.directory)] = n, step
                yield str(job.directory), job
            else:
                refused.append((n, job))

    with closing(LocalExecutor(slots)) as executor:
        for name, job, outcome in run_all(executor, partial(next, make_jobs(), None), look):
            n, step = begun[name]
            yield n, _end(step, job.directory, outcome)
            while refused:
                yield refused.pop(0)
    yield from refused


def _prepare(step: Step, settings: LabSettings) -> Job | Done:
    """Return the job of a step, or its earlier run, or the reason why it cannot run."""
    try:
        loaded = step.load(settings.seed)
        place = settings.place
        if {*PLACES} & dict(loaded.values).keys():
            place = choose_place_of(loaded.values, place.name, settings.place.kernel_name)
        plan, _ = runner.compile_for(loaded.spec, allocate(loaded.spec), place)
        inputs = runner.read_inputs(loaded.sources)
    except MachineError as error:
        return Done(step, "impossible", 0.0, error=f"cannot run here: {error}")
    except MprunError as error:
        return Done(step, "broken", 0.0, error=str(error))
    earlier = _find_earlier(settings.parent, plan.digest, place, loaded.spec.experiment) if settings.keeps else None
    if earlier is not None:
        return Done(step, "ran", earlier.wall_s(), earlier.path, earlier.summary(), is_earlier=True)
    directory = RunDirectory.reserve(settings.parent, runner.title_of(loaded.spec), plan.digest)
    RunDirectory.clear_links(Path(), runner.find_links(loaded.spec, step.experiment.parent))
    runs_in = (place.name, place.kernel_name, directory)
    return Job(loaded.spec, loaded.warnings, *runs_in, "pcaps", settings.consent, inputs, loaded.parameters)


def _end(step: Step, directory: Path, outcome: RunOutcome) -> Done:
    if outcome.status == "error":
        return Done(step, "broken", outcome.wall_s, error=f"{directory}: {outcome.error}")
    run = RunDirectory(directory)
    signature.sign(run.folder)
    return Done(step, "ran", outcome.wall_s, directory, run.summary())


def _find_earlier(parent: Path, digest: str, place: Place, experiment: ExperimentSpec) -> RunDirectory | None:
    """Return the newest run of a plan that this user's mprun made with the same engine, kernel and code; or None.

    A plan does not have the expectations, nor whether links are measured before the run. These must be the same too.
    """
    wanted = place.name, place.kernel.digest if place.kernel else None, code_digest()
    judged = [*map(vars, experiment.expectations)], experiment.calibrate
    for run in find_by_digest(parent, digest):
        with contextlib.suppress(MprunError):
            environment = run.environment()
            made = environment.engine, environment.kernel.digest or None, environment.code
            had = [one.bounds for one in run.summary().expectations], run.has(runner.CALIBRATION)
            if (made, had) == (wanted, judged) and signature.is_ours(run.folder):
                return run
    return None


def find_by_digest(parent: Path, digest: str) -> Iterator[RunDirectory]:
    """Yield the complete runs of a plan, newest first. Damaged runs are left out."""
    for run in reversed(list_runs(parent)):
        # the name has the beginning of the digest, so that few runs are opened
        if run.short_digest in ("", digest[:8]):
            with contextlib.suppress(MprunError):
                if run.is_complete and run.digest == digest:
                    yield run


def run_sweep(sweep: LabSweep, settings: LabSettings, tell: TellProgress, say: Callable[[str], None]) -> SweepDirectory:
    """Return the finished sweep that was made of the lab's files, or run or resume it. Keep no captures.

    tell, say: as in `mprun.sweeps.execution.Execution`. Raises MprunError.
    """
    loaded = sweep.load(settings.seed)
    made = study.make_cells(loaded, settings.place.name, settings.place.kernel_name)
    placed = execution.place_cells(made, settings.place.name, settings.consent)
    finished = execution.find_sweep(settings.parent, placed, is_finished=True) if settings.keeps else None
    if finished is not None and not finished.strange():
        # a step is run again for another version, and a sweep may take hours
        if list_versions(finished.runs()).get("mprun") != [code_digest()]:
            say(f"note: another version of mprun made {finished.path}, which is used; to run it again: add --new")
        execution.update_figures(finished, placed)
        return finished
    inputs = runner.read_inputs(loaded[0].sources)
    found, _ = execution.find_or_create(settings.parent, placed, inputs, not settings.keeps)
    with found.held(), closing(LocalExecutor(placed.slots(None))) as executor:
        execution.Execution(found, placed.cells, "none", consent=settings.consent).run(executor, tell, say)
    return found


def measured_by_sweep(sweep: SweepDirectory) -> Swept:
    """Return the metrics of the runs of a sweep, by cell."""
    return Swept(sweep.record.cells, list(sweep.runs()))


class LabWork(Frozen):
    """A step or sweep to run: the command that runs it alone in the lab's folder, and its number of runs.

    A cell of a sweep that repeats until an interval is narrow counts as often as it may run at most.
    """

    name: str
    command: str
    runs: int


def link_runs(done: Sequence[Done]) -> list[str]:
    """Make the links of the steps whose files are in the current folder, and return what could not be linked.

    Of links with one name, the last step's holds. A run that existed before replaces no link.
    """
    refused: list[str] = []
    for one in done:
        if one.directory is not None and one.step.experiment.parent.resolve() == Path.cwd():
            links = runner.find_links(one.step.load().spec, one.step.experiment.parent)
            missing = {name: file for name, file in links.items() if not (one.is_earlier and Path(name).exists())}
            _, left = RunDirectory(one.directory).link_into(Path(), missing)
            refused += [f"link {name}: {reason}" for name, reason in left]
    return refused


def work_of(lab: Lab) -> tuple[LabWork, ...]:
    """Return the steps and sweeps of a lab in their order. Raises InputError for wrong files."""
    steps = [LabWork(step.name, step.command(lab.folder), 1) for step in lab.steps]
    sweeps = [
        LabWork(sweep.name, sweep.command(lab.folder), sum(cell.spec.experiment.repeat.most for cell in sweep.load()))
        for sweep in lab.sweeps
    ]
    return (*steps, *sweeps)
