# SPDX-License-Identifier: Apache-2.0
"""A sweep to which cells are added while it runs, because the outcomes of earlier cells decide about later ones."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from mprun.model.permission import Consent
from mprun.model.run_files import Build
from mprun.model.sweep_files import SweepRecord
from mprun.sweeps.execution import Execution, Say, TellProgress, describe, find_by_digest, identify_placed
from mprun.sweeps.executor import Executor
from mprun.sweeps.study import Cell
from mprun.sweeps.sweep_directory import Kept, SweepDirectory
from mprun.sweeps.worker import Keep


class GrowingSweep:
    """A sweep that begins with its first batch of cells.

    - parent: the folder of sweeps.
    - asked: what decides about the cells beyond the first batch, as text. With the same text and the same first batch,
      an earlier sweep is continued, and its runs count.
    - inputs: the files of the request, by name.
    - hold: called with the sweep as soon as there is one.
    """

    def __init__(
        self,
        parent: Path,
        asked: str,
        inputs: Mapping[str, str],
        keep: Keep,
        consent: Consent,
        hold: Callable[[SweepDirectory], None],
    ) -> None:
        self._parent = parent
        self._asked = asked
        self._inputs = inputs
        self._keep: Keep = keep
        self._consent = consent
        self._hold = hold
        self._cells: tuple[Cell, ...] = ()
        self._kernels: dict[str, Build] = {}
        self._digest = ""
        self._directory: SweepDirectory | None = None

    @property
    def directory(self) -> SweepDirectory:
        """The directory of the sweep, once it has cells."""
        assert self._directory is not None
        return self._directory

    @property
    def has_begun(self) -> bool:
        return self._directory is not None

    def add(
        self, cells: Sequence[Cell], kernels: Mapping[str, Build], executor: Executor, tell: TellProgress, say: Say
    ) -> list[Kept]:
        """Run cells that have been placed, and return the finished runs of all cells. Raises Interrupted."""
        self._cells = (*self._cells, *cells)
        self._kernels |= kernels
        grows = self.has_begun
        if self._directory is None:
            own = identify_placed(self._cells, self._kernels)
            self._digest = hashlib.sha256(f"{own} {self._asked}".encode()).hexdigest()
            found = next(find_by_digest(self._parent, self._digest), None)
            self._directory = found or SweepDirectory.create(self._parent, self._record(), self._inputs)
            self._directory.become_latest()
            self._hold(self._directory)
        # also for a sweep that is continued: its further cells are added again
        self._directory.change_record(self._record())
        work = Execution(self._directory, self._cells, self._keep, 0, self._consent, grows)
        work.run(executor, tell, say)
        return list(self._directory.runs())

    def _record(self) -> SweepRecord:
        return describe(self._cells, self._kernels, self._digest)
