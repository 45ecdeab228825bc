# SPDX-License-Identifier: Apache-2.0
"""Grade a student's own runs: find the steps of a lab among them, and check which claims hold.

A run counts as a step if its plan has the digest of the lab's own files. A run of changed files is no step. If several
runs are the same step, the newest counts.

`find_step_run` finds the run of a single step by its name, such as `01/xp_tcp`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from mprun.compile import allocate, compile_plan
from mprun.errors import MprunError, SpecError
from mprun.inputs.matrix_cells import PLACES
from mprun.labs.catalog import open_lab
from mprun.labs.definition import FILE, Lab, Step, read_lab
from mprun.labs.steps import find_by_digest, measured_by
from mprun.metrics.claim_check import JudgedClaim, judge
from mprun.model.frozen import Frozen
from mprun.model.problem import find_nearest, name_nearest
from mprun.model.scalar import Scalar
from mprun.runs.runner import read_inputs
from mprun.safety.folder import Folder
from mprun.storage import run_directory
from mprun.storage.run_directory import RunDirectory

# The reason of a step that nobody tried.
NOT_RUN = "was not run"
# Experiments of labs often have this prefix, which may be left out of the name of a step.
PREFIX = "xp_"


class Grade(Frozen):
    """A student's folder: the run of each step that has one, the steps without a run, and the claims.

    - left: the steps without a run, each with the reason.
    - passed_over: the steps that have a run and a newer one of changed files, each with why that one does not count.
    """

    folder: Path
    runs: Mapping[str, RunDirectory]
    left: tuple[tuple[Step, str], ...]
    passed_over: tuple[tuple[Step, str], ...]
    judgements: tuple[JudgedClaim, ...]

    @property
    def held(self) -> int:
        """The number of claims that hold."""
        return sum(judgement.verdict == "held" for judgement in self.judgements)


def digests_of(lab: Lab) -> Mapping[str, str]:
    """Return the digest of each step's plan, by the step's name."""
    return {step.name: digest_of_step(step) for step in lab.steps}


def grade(lab: Lab, digests: Mapping[str, str], folder: Path) -> Grade:
    """Grade the runs in a folder, in its `runs`, and in the `runs` of its subfolders.

    lab: with what its profile runs. Raises SpecError if the folder does not exist.
    """
    if not folder.is_dir():
        raise SpecError(f"{folder}: no such directory")
    steps = set(digests.values())
    newest: dict[str | None, RunDirectory] = {}
    others: dict[str, RunDirectory] = {}
    for run in _find_runs(folder):
        digest = _digest_of(run)
        if run.is_complete and digest in steps:
            newest[digest] = run
        else:
            others[run.title] = run
    runs = {name: newest[digest] for name, digest in digests.items() if digest in newest}
    places = (lab.folder, Folder(folder))
    left = tuple((step, _say_missing(step, others, places)) for step in lab.steps if step.name not in runs)
    passed_over = tuple(
        (step, reason)
        for step in lab.steps
        if step.name in runs and (other := others.get(_title_of(step))) is not None and other.is_complete
        if run_directory.age(other.path) > run_directory.age(runs[step.name].path)
        if (reason := _say_changed(step, other, places))
    )
    missing = {step.name: reason for step, reason in left}
    measured = {name: measured_by(run) for name, run in runs.items()}
    return Grade(folder, runs, left, passed_over, tuple(judge(lab.claims, measured, missing)))


def digest_of_step(step: Step) -> str:
    """Return the digest of the plan that a step's files give, and the place of its `params`. Raises InputError."""
    loaded = step.load()
    return _add_place(compile_plan(loaded.spec, allocate(loaded.spec)).digest, loaded.parameters)


def _add_place(digest: str, parameters: Mapping[str, Scalar]) -> str:
    """Return the digest of a plan with the kernel and the engine among the parameters, which no plan has."""
    return " ".join((digest, *(f"{name}={parameters[name]}" for name in PLACES if name in parameters)))


def _find_runs(folder: Path) -> list[RunDirectory]:
    """Return all runs of the folders, oldest first."""
    parents = (folder, folder / "runs", *folder.glob("*/runs"))
    return sorted(
        (run for parent in parents for run in run_directory.list_runs(parent)),
        key=lambda run: run_directory.age(run.path),
    )


def _digest_of(run: RunDirectory) -> str | None:
    """The digest of a run that can be graded, as of a step; None for one whose files are missing or damaged."""
    try:
        run.summary()
        return _add_place(run.digest, run.environment().parameters if run.has("environment.json") else {})
    except MprunError:
        return None


def _title_of(step: Step) -> str:
    """Return the title of a run of a step's files."""
    return f"{step.topology.name}-{step.experiment.name}"


def _say_missing(step: Step, others: Mapping[str, RunDirectory], places: tuple[Path, Folder]) -> str:
    """Return why a step has no run.

    others: the newest run of each title that is no step of the lab. places: the folders of the lab and of the student.
    """
    run = others.get(_title_of(step))
    if run is None:
        return NOT_RUN
    if not run.is_complete:
        return "is incomplete"
    if changed := _say_changed(step, run, places):
        return changed
    if (seed := run.summary().seed) != step.load().spec.experiment.seed:
        return f"was run with seed {seed}: run it again without --seed"
    return "was run with other parameters"


def _say_changed(step: Step, run: RunDirectory, places: tuple[Path, Folder]) -> str:
    """Return how the files of a run differ from those of a step; empty if they do not."""
    try:
        had = run.inputs()
    except MprunError:
        return "has damaged files"
    sources = step.load().sources
    wanted = read_inputs(sources)
    changed = [name for name, text in wanted.items() if _values_of(text) != _values_of(had.get(name, ""))]
    if not changed:
        return ""
    names = " and ".join(changed)
    own = {path.name: _read_own(*places, path) for path in sources}
    if all(_values_of(own.get(name, "")) == _values_of(wanted[name]) for name in changed):
        return f"was run with a changed {names}, and the changes are undone: run it again"
    return f"was run with a changed {names}: undo the changes first, or copy the lab again with `mprun lab start`"


def _read_own(lab: Path, folder: Folder, path: Path) -> str:
    """Return the copy of a lab's file in a student's folder; empty if it cannot be read."""
    try:
        return folder.read_text(os.path.relpath(path, lab))
    except (MprunError, OSError, ValueError):
        return ""


def _values_of(text: str) -> list[str]:
    """Return the lines of a file without comments: a copy names another place of its schema."""
    return [line for line in text.splitlines() if not line.lstrip().startswith("#")]


class StepRun(Frozen):
    """The newest run of a step. newer: a newer run of its experiment, with changed files or other parameters."""

    step: str
    run: RunDirectory
    newer: RunDirectory | None


def find_step_run(parent: Path, name: str) -> StepRun | None:
    """Return the newest run of a step in `parent`. None if no lab fits the name.

    name: `LAB/STEP`, where LAB is a lab's number, name or folder. In the folder of a lab or directly below it, `STEP`
    suffices. The run must be complete and made from the files and parameters of the lab. Raises SpecError if the lab
    has no such step, or the step has no such run.
    """
    lab = _open(name)
    if lab is None:
        return None
    wanted = name.rpartition("/")[2]
    step = next((one for one in lab.steps if wanted in (one.name, one.name.removeprefix(PREFIX))), None)
    if step is None and ("/" not in name or os.path.lexists(name)):
        return None
    if step is None:
        names = [one.name for one in lab.steps]
        raise SpecError(f"{name}: lab {lab.name} has no step '{wanted}'{name_nearest(wanted, names, 'steps')}")
    folder = name.rpartition("/")[0]
    command = f"mprun lab run {folder}" if folder else step.command(Path().resolve())
    run = _find_newest(parent, lab, step, command)
    begun = run_directory.age(run.path)
    alike = [one for one in run_directory.list_runs(parent) if one.title.endswith(f"-{step.experiment.name}")]
    newer = [one for one in alike if one.is_complete and run_directory.age(one.path) > begun]
    # the runs of other steps with the same files or experiment are none of this step
    siblings = [one for one in lab.steps if one.experiment.name == step.experiment.name and one is not step]
    known = {digest_of_step(one) for one in siblings} if newer else set()
    newer = [one for one in newer if _digest_of(one) not in known]
    return StepRun(step.name, run, newer[-1] if newer else None)


def find_near_step(name: str) -> str | None:
    """Return the step of the lab in this folder whose name is most like a name; None if none is like it."""
    lab = _open(name) if "/" not in name else None
    return find_nearest(name, [step.name for step in lab.steps]) if lab else None


def _open(name: str) -> Lab | None:
    folder, slash, _ = name.rpartition("/")
    if not slash:
        here = Path().resolve()
        return next((read_lab(one) for one in (here, here.parent) if (one / FILE).is_file()), None)
    try:
        return open_lab(folder)
    except SpecError:
        if (Path(folder) / FILE).is_file():
            raise
        return None


def _find_newest(parent: Path, lab: Lab, step: Step, command: str) -> RunDirectory:
    """Return the newest run of a step. command: makes such a run, for the error."""
    wanted = digest_of_step(step)
    runs = find_by_digest(parent, wanted.partition(" ")[0])
    found = next((run for run in runs if _digest_of(run) == wanted), None)
    if found is None:
        raise SpecError(
            f"{parent} has no run of step '{step.name}' of {lab.name} with the lab's own files: run it with "
            f"`{command}`, or name another directory with -o"
        )
    return found
