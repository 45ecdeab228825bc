# SPDX-License-Identifier: Apache-2.0
"""Grade a student's own runs: find the steps of a lab among them, and check which claims hold.

A run counts as a step if its plan has the digest of the lab's own files. A run of changed files is no step. If several
runs are the same step, the newest counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mprun import rundir
from mprun.analysis.claim import Judgement, judge
from mprun.compile import allocate, compile_plan
from mprun.errors import MprunError, SpecError
from mprun.lab.file import Lab, Step
from mprun.lab.run import measured_by
from mprun.rundir import RunDirectory
from mprun.schema.lab import Profile


@dataclass(frozen=True)
class Grade:
    """A student's folder: the run of each step that has one, and the claims."""

    folder: Path
    runs: Mapping[str, RunDirectory]
    judgements: tuple[Judgement, ...]

    @property
    def held(self) -> int:
        """The number of claims that hold."""
        return sum(judgement.verdict == "held" for judgement in self.judgements)


def digests_of(lab: Lab, profile: Profile) -> Mapping[str, str]:
    """Return the digest of each step's plan, by the step's name."""
    return {step.name: digest_of_step(step) for step in lab.steps_of(profile)}


def grade(lab: Lab, profile: Profile, digests: Mapping[str, str], folder: Path) -> Grade:
    """Grade the runs in a folder, in its `runs`, and in the `runs` of its subfolders.

    Raises SpecError if it does not exist.
    """
    if not folder.is_dir():
        raise SpecError(f"{folder}: no such directory")
    newest: dict[str, RunDirectory] = {}
    titles: dict[str, str] = {}
    for run in _find_runs(folder):
        digest = _digest_of(run)
        if run.is_complete and digest is not None:
            newest[digest] = run
        titles[run.title] = "is incomplete" if not run.is_complete else "was run with other files or parameters"
    runs = {name: newest[digest] for name, digest in digests.items() if digest in newest}
    missing = {step.name: _say_missing(step, lab, titles) for step in lab.steps_of(profile) if step.name not in runs}
    measured = {name: measured_by(run) for name, run in runs.items()}
    return Grade(folder, runs, tuple(judge(lab.claims_of(profile), measured, missing)))


def digest_of_step(step: Step) -> str:
    """Return the digest of the plan that a step's files give. Raises InputError."""
    spec = step.load().spec
    return compile_plan(spec, allocate(spec)).digest


def _find_runs(folder: Path) -> list[RunDirectory]:
    """Return all runs of the folders, oldest first."""
    places = (folder, folder / "runs", *folder.glob("*/runs"))
    return sorted((run for place in places for run in rundir.list_runs(place)), key=lambda run: rundir.age(run.path))


def _digest_of(run: RunDirectory) -> str | None:
    """The digest of a run that can be graded; None for one whose files are missing or damaged."""
    try:
        run.read("summary.json")
        return run.digest
    except MprunError:
        return None


def _say_missing(step: Step, lab: Lab, titles: Mapping[str, str]) -> str:
    reason = titles.get(f"{step.topology.name}-{step.experiment.name}", "was not run")
    return f"{reason}; {step.command(lab.folder)}"
