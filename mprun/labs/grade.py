# SPDX-License-Identifier: Apache-2.0
"""Grade a student's own runs: find the steps of a lab among them, and check which claims hold.

A run counts as a step if its plan has the digest of the lab's own files. A run of changed files is no step. If several
runs are the same step, the newest counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mprun.compile import allocate, compile_plan
from mprun.errors import MprunError, SpecError
from mprun.inputs.keys.lab_definition import LabProfile
from mprun.labs.definition import Lab, Step
from mprun.labs.steps import measured_by
from mprun.metrics.claim_check import JudgedClaim, judge
from mprun.runs import run_directory
from mprun.runs.run_directory import RunDirectory

# The reason of a step that nobody tried.
NOT_RUN = "was not run"


@dataclass(frozen=True)
class Grade:
    """A student's folder: the run of each step that has one, the steps without a run, and the claims.

    left: the steps without a run, each with the reason.
    """

    folder: Path
    runs: Mapping[str, RunDirectory]
    left: tuple[tuple[Step, str], ...]
    judgements: tuple[JudgedClaim, ...]

    @property
    def held(self) -> int:
        """The number of claims that hold."""
        return sum(judgement.verdict == "held" for judgement in self.judgements)


def digests_of(lab: Lab, profile: LabProfile) -> Mapping[str, str]:
    """Return the digest of each step's plan, by the step's name."""
    return {step.name: digest_of_step(step) for step in lab.steps_of(profile)}


def grade(lab: Lab, profile: LabProfile, digests: Mapping[str, str], folder: Path) -> Grade:
    """Grade the runs in a folder, in its `runs`, and in the `runs` of its subfolders.

    Raises SpecError if it does not exist.
    """
    if not folder.is_dir():
        raise SpecError(f"{folder}: no such directory")
    steps = set(digests.values())
    newest: dict[str | None, RunDirectory] = {}
    titles: dict[str, str] = {}
    for run in _find_runs(folder):
        digest = _digest_of(run)
        if run.is_complete and digest in steps:
            newest[digest] = run
        else:
            titles[run.title] = "was run with other files or parameters" if run.is_complete else "is incomplete"
    runs = {name: newest[digest] for name, digest in digests.items() if digest in newest}
    left = tuple((step, _say_missing(step, titles)) for step in lab.steps_of(profile) if step.name not in runs)
    missing = {step.name: reason for step, reason in left}
    measured = {name: measured_by(run) for name, run in runs.items()}
    return Grade(folder, runs, left, tuple(judge(lab.claims_of(profile), measured, missing)))


def digest_of_step(step: Step) -> str:
    """Return the digest of the plan that a step's files give. Raises InputError."""
    spec = step.load().spec
    return compile_plan(spec, allocate(spec)).digest


def _find_runs(folder: Path) -> list[RunDirectory]:
    """Return all runs of the folders, oldest first."""
    parents = (folder, folder / "runs", *folder.glob("*/runs"))
    return sorted(
        (run for parent in parents for run in run_directory.list_runs(parent)),
        key=lambda run: run_directory.age(run.path),
    )


def _digest_of(run: RunDirectory) -> str | None:
    """The digest of a run that can be graded; None for one whose files are missing or damaged."""
    try:
        run.summary()
        return run.digest
    except MprunError:
        return None


def _say_missing(step: Step, titles: Mapping[str, str]) -> str:
    return titles.get(f"{step.topology.name}-{step.experiment.name}", NOT_RUN)
