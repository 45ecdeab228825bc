# SPDX-License-Identifier: Apache-2.0
"""Run or resume the sweeps of a lab."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from mprun.inputs import Loaded
from mprun.kernel.store import DEFAULT_NAME
from mprun.labs.definition import LabSweep
from mprun.metrics.claim_check import Swept
from mprun.model.permission import Consent
from mprun.runs import runner
from mprun.runs.place import Place
from mprun.sweeps import execution, study
from mprun.sweeps.local import LocalExecutor
from mprun.sweeps.sweep_directory import SweepDirectory
from mprun.sweeps.sweep_summary import read_rows


def run_sweep(
    sweep: LabSweep,
    place: Place,
    parent: Path,
    consent: Consent,
    seed: int | None,
    keeps: bool,
    tell: execution.TellProgress,
    say: Callable[[str], None],
) -> SweepDirectory:
    """Return the finished sweep in `parent` that was made of the lab's files, or run or resume it. Keep no captures.

    - seed: of every run, instead of the file's.
    - keeps: False to start a new sweep in any case.
    - tell, say: as in `mprun.sweeps.execution.Execution`.

    Raises MprunError.
    """
    finished = find_sweep(sweep, place, parent, consent, seed) if keeps else None
    if finished is not None and not finished.strange():
        return finished
    loaded = sweep.load(seed)
    cells, kernels = _place_cells(loaded, place, consent)
    slots = execution.slots_for({cell.runs_in for cell in cells}, None, len(os.sched_getaffinity(0)))
    found, _ = execution.find_or_create(parent, cells, kernels, runner.read_inputs(loaded[0].sources), not keeps)
    with found.held(), closing(LocalExecutor(slots)) as executor:
        execution.Execution(found, cells, "none", consent=consent).run(executor, tell, say)
    return found


def find_sweep(
    sweep: LabSweep, place: Place, parent: Path, consent: Consent, seed: int | None
) -> SweepDirectory | None:
    """Return the newest finished sweep in `parent` that was made of the lab's files; None if there is none."""
    return execution.find_finished(parent, *_place_cells(sweep.load(seed), place, consent))


def _place_cells(
    loaded: Sequence[Loaded], place: Place, consent: Consent
) -> tuple[tuple[study.Cell, ...], Mapping[str, Any]]:
    kernel = place.kernel.name if place.kernel else DEFAULT_NAME
    return execution.place_cells(study.make_cells(loaded, place.name, kernel), place.name, consent)


def measured_by_sweep(sweep: SweepDirectory) -> Swept:
    """Return the metrics of the runs of a sweep, by cell."""
    return Swept(sweep.record.cells, list(read_rows(sweep)))


def wall_s_of(sweep: SweepDirectory) -> float:
    """Return the real time in which the sweep was run, in seconds, with all its sessions."""
    return sum(session.wall_s for session in sweep.sessions())
