# SPDX-License-Identifier: Apache-2.0
"""Find the run of a lab's step by the name of the step, such as `01/xp_tcp`."""

from __future__ import annotations

from pathlib import Path

from mprun.errors import SpecError
from mprun.labs.catalog import open_lab
from mprun.labs.definition import FILE, Lab, Step, read_lab
from mprun.labs.grade import digest_of_step
from mprun.model.problem import name_nearest
from mprun.runs import run_directory
from mprun.runs.run_directory import RunDirectory

# Experiments of labs often have this prefix, which may be left out of the name of a step.
PREFIX = "xp_"


def find_step_run(parent: Path, name: str) -> tuple[RunDirectory, str] | None:
    """Return the newest run of a step in `parent`, and the name of the step. None if no lab fits the name.

    name: `LAB/STEP`, where LAB is a lab's number, name or folder. In the folder of a lab `STEP` suffices. The run must
    be complete and made from the files and parameters of the lab. Raises SpecError if the lab has no such step, or the
    step has no such run.
    """
    lab = _open(name)
    if lab is None:
        return None
    wanted = name.rpartition("/")[2]
    step = next((one for one in lab.steps if wanted in (one.name, one.name.removeprefix(PREFIX))), None)
    if step is None and "/" not in name:
        return None
    if step is None:
        names = [one.name for one in lab.steps]
        raise SpecError(f"{name}: lab {lab.name} has no step '{wanted}'{name_nearest(wanted, names, 'steps')}")
    folder = name.rpartition("/")[0]
    command = f"mprun lab run {folder}" if folder else step.command(lab.folder)
    return _find_newest(parent, lab, step, command), step.name


def _open(name: str) -> Lab | None:
    folder, slash, _ = name.rpartition("/")
    if not slash:
        return read_lab(Path().resolve()) if Path(FILE).is_file() else None
    try:
        return open_lab(folder)
    except SpecError:
        if (Path(folder) / FILE).is_file():
            raise
        return None


def _find_newest(parent: Path, lab: Lab, step: Step, command: str) -> RunDirectory:
    """Return the newest run of a step. command: makes such a run, for the error."""
    digest = digest_of_step(step)
    # the name has the beginning of the digest, so that few runs are opened
    named = [
        run
        for run in reversed(run_directory.list_runs(parent))
        if run_directory.short_digest_of(run.name) == digest[:8]
    ]
    found = next((run for run in named if run.is_complete and run.digest == digest), None)
    if found is None:
        raise SpecError(
            f"{parent} has no run of step '{step.name}' of {lab.name} with the lab's own files: run it with "
            f"`{command}`, or name another directory with -o"
        )
    return found
