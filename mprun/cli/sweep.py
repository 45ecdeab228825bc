# SPDX-License-Identifier: Apache-2.0
"""`mprun sweep`: all cells of an experiment's matrix, with their repetitions."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mprun.cli import options, prose
from mprun.cli.output import emit, show_table
from mprun.cli.progress import say_time
from mprun.errors import MprunError
from mprun.model.permission import Consent

if TYPE_CHECKING:
    from mprun.storage.sweep_directory import SweepDirectory
    from mprun.sweeps.estimate import Estimate
    from mprun.sweeps.study import Cell


@click.command("sweep")
@options.files("topology experiment params seed strict outside")
@options.runs("engine kernel parent consent cluster jobs keep.pcaps")
@click.option("--dry-run", is_flag=True, help="List the cells and estimate their time. Run nothing.")
@options.number("--retries", 0, 100, "Repeat a run that ends with an error up to N times.", 0)
@click.option("--new", "anew", is_flag=True, help="Start a new sweep even if an unfinished one for these files exists.")
@options.metrics(help="Show this metric. Can be repeated.")
@options.verdicts
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON, with the directory of the sweep.")
def command(
    files: options.FileOptions,
    runs: options.RunOptions,
    dry_run: bool,
    retries: int,
    anew: bool,
    metrics: tuple[str, ...],
    verdicts: options.VerdictOptions,
    as_json: bool,
) -> None:
    """Run every cell of an experiment's matrix on all CPUs, as often as `repeat` says.

    The same command resumes a sweep that was interrupted. -p also fixes an axis of the matrix.
    """
    loaded = files.load_cells(runs.consent)
    # after the line that says that the files are read
    from mprun.cli.sweep_work import held, run_cells, start_executor
    from mprun.engines.trial import refuse_unknown
    from mprun.inputs.experiment import refuse_unknown_metrics
    from mprun.inputs.loading import join_warnings
    from mprun.runs import runner
    from mprun.sweeps import execution, study

    refuse_unknown_metrics(metrics, [one.spec.experiment for one in loaded])
    prose.warn(join_warnings(loaded))
    made = study.make_cells(loaded, runs.engine, runs.kernel)
    # a list of cells runs no commands
    consent = Consent(commands=True, unconfined=True, as_root=True) if dry_run else runs.consent
    placed = execution.place_cells(made, runs.engine, consent)
    cells = placed.cells
    prose.note_unconfined()
    if len(cells) == 1 and not cells[0].values and cells[0].spec.experiment.repeat.most == 1:
        click.echo("note: this sweep is one run: 'matrix' and 'repeat' in the experiment make several", err=True)
    if dry_run:
        begun = None if anew else execution.find_sweep(runs.parent, placed, is_finished=False)
        _show_cells(cells, placed.slots(runs.jobs), runs.parent, begun)
        return
    refuse_unknown(loaded, runs.engine, runs.kernel)
    inputs = runner.read_inputs(loaded[0].sources)
    # a cluster that cannot be used leaves no directory behind
    with closing(start_executor(placed, runs)) as executor:
        sweep, is_new = execution.find_or_create(runs.parent, placed, inputs, anew)
        if not as_json:
            click.echo(f"{'sweep' if is_new else 'resuming'}: {sweep.path}", err=True)
        with held(sweep):
            if is_new and not anew:
                tell_left(runs.parent, sweep)
            summary = run_cells(sweep, cells, runs, executor, retries)
    if verdicts.is_wanted:
        from mprun.reports.test_results import checks_of_sweep

        verdicts.write(sweep.name, checks_of_sweep(summary))
    if as_json:
        emit({"directory": str(sweep.path), **summary.to_json()})
    else:
        from mprun.cli.show_sweep import show_sweep

        show_sweep(summary, sweep, metrics)
    if files.strict and any(cell.told.warnings for cell in summary.cells):
        click.echo("failed because of warnings of its runs (--strict)", err=True)
        sys.exit(1)
    sys.exit(0 if summary.status == "passed" else 1)


def tell_left(parent: Path, sweep: SweepDirectory) -> None:
    """Say that the newest earlier sweep of the same command is not finished, if this is so."""
    from mprun.storage.sweep_directory import list_sweeps

    for other in reversed(list_sweeps(parent)):
        if other.path != sweep.path and other.command == sweep.command:
            # one with a damaged summary is not told of
            with suppress(MprunError):
                if not (other.is_held or (other.has("summary.json") and other.summary().complete)):
                    why = "its files, its kernel or mprun have changed since, so this is a new sweep"
                    click.echo(f"note: {other.name}, of the same command, is not finished: {why}", err=True)
            return


def _show_cells(cells: Sequence[Cell], slots: int, parent: Path, begun: SweepDirectory | None) -> None:
    from mprun.model.scalar import spell_scalar
    from mprun.sweeps.estimate import estimate

    names = list(dict.fromkeys(name for cell in cells for name, _ in cell.values))
    if names:
        rows = [[spell_scalar(dict(cell.values).get(name, "")) for name in names] for cell in cells]
        show_table([names, *rows], len(names))
    counts = {_times(cell) for cell in cells}
    each = "as many runs as each needs"
    if len(counts) == 1:
        times = counts.pop()
        each = "1 run" if times == "1" else f"{times} runs"
    click.echo(f"{len(cells)} cell{'s' if len(cells) > 1 else ''} of {each}, {slots} at a time")
    done = 0
    if begun is not None:
        done = begun.count()
        click.echo(f"resumes {begun.path}, where {done} run{' is' if done == 1 else 's are'} done")
    click.echo(_say_estimate(estimate(cells, slots, parent, done), parent))


def _say_estimate(found: Estimate, parent: Path) -> str:
    if found.seconds is None:
        return "the time is not known before the first run of files with these names"
    if found.is_real:
        return f"about {say_time(found.seconds)}: runs in the real engine take their full time, one after the other"
    known = f"{found.known} earlier runs of files with these names"
    return f"about {say_time(found.seconds)}, estimated from {known} in {parent}"


def _times(cell: Cell) -> str:
    repeat = cell.spec.experiment.repeat
    return str(repeat.most) if repeat.least == repeat.most else f"{repeat.least} to {repeat.most}"
