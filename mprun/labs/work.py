# SPDX-License-Identifier: Apache-2.0
"""The runs that a lab needs, counted before they begin."""

from __future__ import annotations

from dataclasses import dataclass

from mprun.labs.definition import Lab
from mprun.labs.steps import Scope


@dataclass(frozen=True)
class LabWork:
    """A step or sweep to run: the command that runs it alone in the lab's folder, and its number of runs.

    A cell of a sweep that repeats until an interval is narrow counts as often as it may run at most.
    """

    name: str
    command: str
    runs: int


def work_of(lab: Lab, scope: Scope) -> tuple[LabWork, ...]:
    """Return the steps and sweeps of a lab in their order. Raises InputError for wrong files."""
    steps = [LabWork(step.name, step.command(lab.folder), 1) for step in scope.steps_of(lab)]
    sweeps = [
        LabWork(sweep.name, sweep.command(lab.folder), sum(cell.spec.experiment.repeat.most for cell in sweep.load()))
        for sweep in scope.sweeps_of(lab)
    ]
    return (*steps, *sweeps)
