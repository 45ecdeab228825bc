# SPDX-License-Identifier: Apache-2.0
"""Run the cells of a sweep with their progress on standard error. Several commands make sweeps."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

import click

from mprun.cli.options import RunOptions
from mprun.cli.progress import BAR_WIDTH, Live, Pace, make_progress, say_time
from mprun.engines.capability import programs_needed
from mprun.engines.registry import ENGINES
from mprun.errors import SpecError
from mprun.machine import invoking_user
from mprun.model.sweep_files import SweepSummary
from mprun.storage.sweep_directory import SweepDirectory
from mprun.sweeps import execution
from mprun.sweeps.executor import Executor
from mprun.sweeps.growth import GrowingSweep
from mprun.sweeps.study import Cell

MOST_RUNNING = 3
_TEXTS = ("{task.description}", "{task.fields[left]}", "[dim]{task.fields[note]}")


def start_executor(placed: execution.PlacedCells, runs: RunOptions) -> Executor:
    """Return the executor for cells: on this machine, or on a cluster."""
    cells, slots = placed.cells, placed.slots(runs.jobs)
    if runs.cluster is None:
        from mprun.sweeps.local import LocalExecutor

        return LocalExecutor(slots)
    from mprun.sweeps.cluster import ClusterExecutor, Needs

    if not all(ENGINES[cell.runs_in].IS_SIMULATED for cell in cells):
        raise SpecError("a cluster runs only cells of the virtual engine, as its machines differ")
    programs = {name: program for cell in cells for name, program in programs_needed(cell.spec).items()}
    kernels = tuple(dict.fromkeys(cell.kernel for cell in cells))
    return ClusterExecutor(runs.cluster, Needs(kernels, programs), lambda text: click.echo(text, err=True))


@contextmanager
def held(sweep: SweepDirectory) -> Iterator[None]:
    """Keep other commands from changing a sweep until the end of the block. Record the command that resumes it."""
    invoking_user.give_at_exit(sweep.path)
    with sweep.held():
        sweep.note_command(sys.argv[1:])
        yield


def run_cells(
    sweep: SweepDirectory, cells: Sequence[Cell], runs: RunOptions, executor: Executor, retries: int = 0
) -> SweepSummary:
    """Run the cells of a sweep that is held. retries: of a run that ends with an error. Raises Interrupted."""
    with SweepBar() as bar:
        return execution.Execution(sweep, cells, runs.keep, retries, runs.consent).run(executor, bar.show, bar.say)


@contextmanager
def growing_sweep(
    asked: str, inputs: Mapping[str, str], kernel: str, runs: RunOptions, executor: Executor, title: str = ""
) -> Iterator[GrowingSweep]:
    """Yield a sweep that no other command can change until the block ends. title: instead of that of its files."""
    with ExitStack() as stack, SweepBar() as bar:
        yield GrowingSweep(
            *(runs.parent, asked, inputs, kernel, runs.keep, runs.consent),
            hold=lambda sweep: stack.enter_context(held(sweep)),
            carry_out=lambda work: work.run(executor, bar.show, bar.say),
            title=title,
        )


class SweepBar(Live):
    """The finished and running runs, and the time left: a bar on a terminal, else a line at growing intervals."""

    def __init__(self) -> None:
        super().__init__(make_progress(*_TEXTS) if sys.stderr.isatty() else None)
        self._pace = Pace()
        if self._progress is not None:
            self._task = self._progress.add_task("", total=None, left="", note="")

    def show(self, state: execution.SweepProgress) -> None:
        left = "" if state.left_s is None else f"about {say_time(state.left_s)} left"
        bad = [f"{count} {word}" for count, word in ((state.failed, "failed"), (state.errors, "errors")) if count]
        if self._progress is not None:
            more = len(state.running) - MOST_RUNNING
            note = ", ".join([*state.running[:MOST_RUNNING], *([f"{more} more"] if more > 0 else [])])
            text = ", ".join([f"{state.done} of {state.total} runs", *bad])
            # the short texts matter most, so the list of running cells gets only the remaining room
            room = self._progress.console.width - BAR_WIDTH - len(text) - len(left) - 4
            note = f"{note[: max(0, room - 1)]}…" if len(note) > room else note
            self._progress.update(
                self._task, completed=state.done, total=state.total, description=text, left=left, note=note
            )
        elif self._pace.is_due():
            words = [f"{state.done} of {state.total} runs", *bad, *([left] if left else [])]
            print(", ".join(words), file=sys.stderr, flush=True)

    def say(self, text: str) -> None:
        """Print a line that stays."""
        if self._progress is not None:
            self._progress.console.print(text, markup=False, highlight=False)
        else:
            print(text, file=sys.stderr, flush=True)
