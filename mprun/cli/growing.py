# SPDX-License-Identifier: Apache-2.0
"""Run a sweep that grows, with its progress on the terminal: what `mprun search` and `mprun why` have in common."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from mprun.cli.sweep_progress import SweepBar
from mprun.machine import invoking_user
from mprun.model.permission import Consent
from mprun.sweeps import execution
from mprun.sweeps.executor import Executor
from mprun.sweeps.growth import GrowingSweep
from mprun.sweeps.study import Cell
from mprun.sweeps.sweep_directory import Kept, SweepDirectory
from mprun.sweeps.worker import Keep

RunGrowingCells = Callable[[Sequence[Cell]], list[Kept]]


@contextmanager
def growing_sweep(
    parent: Path, asked: str, inputs: Mapping[str, str], keep: Keep, consent: Consent, executor: Executor
) -> Iterator[tuple[GrowingSweep, RunGrowingCells]]:
    """Begin or continue a sweep in the virtual engine; no other command can change it until the end of the block.

    Parameters as for `GrowingSweep`. The function that is returned adds cells, runs them, and returns the finished runs
    of all cells. It raises Interrupted.
    """
    with ExitStack() as stack:

        def hold(sweep: SweepDirectory) -> None:
            invoking_user.give_at_exit(sweep.path)
            stack.enter_context(sweep.held())
            sweep.note_command(sys.argv[1:])

        growing = GrowingSweep(parent, asked, inputs, keep, consent, hold)
        bar = stack.enter_context(SweepBar())

        def run(cells: Sequence[Cell]) -> list[Kept]:
            placed, kernels = execution.place_cells(cells, "virtual", consent)
            return growing.add(placed, kernels, executor, bar.show, bar.say)

        yield growing, run
