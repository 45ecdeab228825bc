# SPDX-License-Identifier: Apache-2.0
"""A sweep to which cells are added while it runs, because the outcomes of earlier cells decide about later ones."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mprun.inputs.loading import Loaded
from mprun.model.permission import Consent
from mprun.model.sweep_files import SweepRecord
from mprun.storage.sweep_directory import Kept, SweepDirectory
from mprun.sweeps.execution import Execution, PlacedCells, find_by_digest, place_cells
from mprun.sweeps.study import make_cells
from mprun.sweeps.worker import Keep

# Runs new cases, and returns the finished runs of all cases so far, in their order.
RunCases = Callable[[Sequence[Loaded]], Sequence[Kept]]


@dataclass
class GrowingSweep:
    """A sweep in the virtual engine that begins with its first batch of cases.

    - parent: the folder of sweeps.
    - asked: what decides about the cases beyond the first batch, as text. With the same text and the same first batch,
      an earlier sweep is continued, and its runs count.
    - inputs: the files of the request, by name.
    - kernel: of the cases that name none.
    - hold: called with the sweep as soon as there is one.
    - carry_out: runs the cells that are left. Raises Interrupted.
    - title: of the sweep, instead of that of its files.
    - directory: None until there is a case.
    """

    parent: Path
    asked: str
    inputs: Mapping[str, str]
    kernel: str
    keep: Keep
    consent: Consent
    hold: Callable[[SweepDirectory], object]
    carry_out: Callable[[Execution], object]
    title: str = ""
    directory: SweepDirectory | None = None
    _placed: PlacedCells = field(default_factory=PlacedCells)
    _digest: str = ""

    def run(self, cases: Sequence[Loaded]) -> list[Kept]:
        """Run new cases, and return the finished runs of all cases so far. Raises Interrupted."""
        new = place_cells(make_cells(cases, "virtual", self.kernel), "virtual", self.consent)
        kernels = {**self._placed.kernels, **new.kernels}
        self._placed = PlacedCells((*self._placed.cells, *new.cells), kernels)
        sweep = self.directory or self._begin()
        # also for a sweep that is continued: its further cells are added again
        sweep.change_record(self._describe())
        grows = self.directory is not None
        self.carry_out(Execution(sweep, self._placed.cells, self.keep, 0, self.consent, grows=grows))
        self.directory = sweep
        return list(sweep.runs())

    def _begin(self) -> SweepDirectory:
        self._digest = hashlib.sha256(f"{self._placed.digest} {self.asked}".encode()).hexdigest()
        found = next(find_by_digest(self.parent, self._digest), None)
        sweep = found or SweepDirectory.create(self.parent, self._describe(), self.inputs)
        sweep.become_latest()
        self.hold(sweep)
        return sweep

    def _describe(self) -> SweepRecord:
        record = self._placed.describe(self._digest)
        return record._replace(title=self.title) if self.title else record
