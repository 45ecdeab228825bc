# SPDX-License-Identifier: Apache-2.0
"""`mprun sweep`: all cells of an experiment's matrix, with their repetitions."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mprun.cli import options
from mprun.cli.completion import complete_metrics
from mprun.cli.output import emit
from mprun.machine import invoking_user

if TYPE_CHECKING:
    from mprun.model.engine_name import EngineChoice
    from mprun.model.permission import Consent
    from mprun.sweeps.estimate import Estimate
    from mprun.sweeps.executor import Executor
    from mprun.sweeps.study import Cell
    from mprun.sweeps.sweep_directory import SweepDirectory
    from mprun.sweeps.worker import Keep


@click.command("sweep")
@options.topology
@options.experiment
@options.parameters
@options.seed
@options.strict
@options.engine
@options.kernel
@options.parent
@options.consent
@options.allow_outside
@click.option("--dry-run", is_flag=True, help="List the cells and estimate their time. Run nothing.")
@options.cluster
@options.runs_at_once
@click.option(
    "--retries",
    type=click.IntRange(0, 100),
    default=0,
    metavar="N",
    help="Repeat a run that ends with an error up to N times.",
)
@options.keep("pcaps")
@click.option("--new", "anew", is_flag=True, help="Start a new sweep even if an unfinished one for these files exists.")
@click.option(
    "--metric",
    "shown",
    multiple=True,
    metavar="NAME",
    shell_complete=complete_metrics,
    help="Show this metric. Can be repeated.",
)
@options.verdicts
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON, with the directory of the sweep.")
def command(
    topology: str,
    experiment: str,
    params: tuple[str, ...],
    seed: int | None,
    strict: bool,
    engine: EngineChoice,
    kernel: str,
    parent: Path,
    consent: Consent,
    allow_outside: bool,
    dry_run: bool,
    address: str | None,
    jobs: int | None,
    retries: int,
    keep: Keep,
    anew: bool,
    shown: tuple[str, ...],
    junit: Path | None,
    tap: Path | None,
    as_json: bool,
) -> None:
    """Run every cell of an experiment's matrix on all CPUs, as often as `repeat` says.

    The same command resumes a sweep that was interrupted. -p also fixes an axis of the matrix.
    """
    from mprun.cli.sweep_progress import SweepBar
    from mprun.inputs import load_cells
    from mprun.model.permission import Permissions
    from mprun.runs import runner
    from mprun.sweeps import execution, study

    allowed = Permissions(consent.commands, allow_outside)
    given = options.parse_parameters(params)
    loaded = load_cells(topology, experiment, given, seed, strict, allowed)
    for warning in dict.fromkeys(warning for one in loaded for warning in one.warnings):
        click.echo(f"warning: {warning}", err=True)
    cells, kernels = execution.place_cells(study.make_cells(loaded, engine, kernel), engine, consent)
    options.note_unconfined()
    slots = execution.slots_for({cell.runs_in for cell in cells}, jobs, len(os.sched_getaffinity(0)))
    if dry_run:
        _show_cells(cells, slots, parent, None if anew else execution.find_unfinished(parent, cells, kernels))
        return
    inputs = runner.read_inputs(loaded[0].sources)
    # a cluster that cannot be used leaves no directory behind
    with closing(start_executor(cells, slots, address)) as executor:
        sweep, is_new = execution.find_or_create(parent, cells, kernels, inputs, anew)
        invoking_user.give_at_exit(sweep.path)
        if not as_json:
            click.echo(f"{'sweep' if is_new else 'resuming'}: {sweep.path}", err=True)
        with sweep.held():
            sweep.note_command(sys.argv[1:])
            work = execution.Execution(sweep, cells, keep, retries, consent)
            with SweepBar() as bar:
                summary = work.run(executor, bar.show, bar.say)
    if junit or tap:
        from mprun.reports.test_results import checks_of_sweep

        options.write_verdicts(sweep.name, checks_of_sweep(summary), junit, tap)
    if as_json:
        emit({"directory": str(sweep.path), **summary.to_json()})
    else:
        from mprun.cli.show_sweep import show_sweep

        show_sweep(summary, sweep, shown, asked=sweep.record.show)
    if strict and any(cell.told.warnings for cell in summary.cells):
        click.echo("failed because of warnings of its runs (--strict)", err=True)
        sys.exit(1)
    sys.exit(0 if summary.status == "passed" else 1)


def start_executor(cells: Sequence[Cell], slots: int, address: str | None) -> Executor:
    """Return the executor on this machine, or on the cluster at an address."""
    if address is None:
        from mprun.sweeps.local import LocalExecutor

        return LocalExecutor(slots)
    from mprun.engines.capability import programs_needed
    from mprun.engines.registry import ENGINES
    from mprun.errors import SpecError
    from mprun.sweeps.cluster import ClusterExecutor, Needs

    if not all(ENGINES[cell.runs_in].IS_SIMULATED for cell in cells):
        raise SpecError("a cluster runs only cells of the virtual engine, as its machines differ")
    programs = {name: program for cell in cells for name, program in programs_needed(cell.spec).items()}
    kernels = tuple(dict.fromkeys(cell.kernel for cell in cells))
    return ClusterExecutor(address, Needs(kernels, programs), lambda text: click.echo(text, err=True))


def _show_cells(cells: Sequence[Cell], slots: int, parent: Path, begun: SweepDirectory | None) -> None:
    from mprun.model.scalar import spell_scalar
    from mprun.sweeps.estimate import estimate

    names = list(dict.fromkeys(name for cell in cells for name, _ in cell.values))
    rows = [[spell_scalar(dict(cell.values).get(name, "")) for name in names] for cell in cells]
    widths = [max(len(row[n]) for row in [names, *rows]) for n in range(len(names))]
    for row in [names, *rows] if names else ():
        click.echo("  " + "  ".join(f"{text:{width}}" for text, width in zip(row, widths, strict=True)).rstrip())
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
    from mprun.cli.progress import say_time

    if found.seconds is None:
        return "the time is not known before the first run of these files"
    if found.is_real:
        return f"about {say_time(found.seconds)}: runs in the real engine take their full time, one after the other"
    return f"about {say_time(found.seconds)}, estimated from {found.known} earlier runs of these files in {parent}"


def _times(cell: Cell) -> str:
    repeat = cell.spec.experiment.repeat
    return str(repeat.most) if repeat.least == repeat.most else f"{repeat.least} to {repeat.most}"
