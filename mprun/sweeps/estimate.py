# SPDX-License-Identifier: Apache-2.0
"""Estimate the duration of a sweep from earlier runs of the same files."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from mprun.engines.registry import ENGINES
from mprun.errors import MprunError
from mprun.model.frozen import Frozen
from mprun.model.span import find_spans
from mprun.runs import runner
from mprun.storage.run_directory import RunDirectory, list_runs
from mprun.storage.sweep_directory import list_sweeps
from mprun.sweeps.study import Cell

# The number of the newest known runs that count.
MOST_LOOKED_AT = 50
# The time of a run besides its flows: building, probes, settling.
REAL_SETUP_S = 4.0


class Estimate(Frozen):
    """The real seconds that a sweep may take; None if no run is known. known: the number of earlier runs that count."""

    seconds: float | None
    known: int = 0
    is_real: bool = False


def estimate(cells: Sequence[Cell], slots: int, parent: Path, done: int = 0) -> Estimate:
    """Estimate for the least number of runs. done: the number of runs that exist already."""
    runs = sum(cell.spec.experiment.repeat.least for cell in cells)
    left = max(0, runs - done)
    if not all(ENGINES[cell.runs_in].IS_SIMULATED for cell in cells):
        lasting_s = sum((_end_s(cell) + REAL_SETUP_S) * cell.spec.experiment.repeat.least for cell in cells)
        return Estimate(lasting_s * left / runs, is_real=True)
    known = list(_known_s(runner.title_of(cells[0].spec), parent))
    return Estimate(sum(known) / len(known) * left / slots, len(known)) if known else Estimate(None)


def _known_s(title: str, parent: Path) -> Iterator[float]:
    """Yield the real seconds of earlier virtual runs with the same title."""
    runs = [run for run in list_runs(parent) if run.title == title]
    for sweep in list_sweeps(parent):
        # a sweep that cannot be read is left out
        with contextlib.suppress(MprunError):
            if sweep.record.title == title:
                runs += [RunDirectory(sweep.folder.below(name)) for name in sweep.folder.find("runs/*/*", folders=True)]
    ended = [run for run in runs if run.is_complete and run.has("wall.json")]
    # sorted by time; sorted by name, the newest would all be of the last value of an axis
    ended.sort(key=lambda run: run.folder.stat("wall.json").st_mtime_ns)
    for run in ended[-MOST_LOOKED_AT:]:
        with contextlib.suppress(MprunError):
            if ENGINES[run.environment().engine].IS_SIMULATED:
                yield run.wall_s()


def _end_s(cell: Cell) -> float:
    """Return when the last flow ends, in s. A flow without an end counts from its start."""
    spans = find_spans(cell.spec.experiment.traffic).values()
    return max((span.end_ns or span.start_ns or 0 for span in spans), default=0) / 1e9
