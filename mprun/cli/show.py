# SPDX-License-Identifier: Apache-2.0
"""`mprun show`: a run or a sweep in the terminal."""

from __future__ import annotations

from pathlib import Path

import click

from mprun.cli import operand, options, prose, show_kernel
from mprun.cli.completion import complete_counters, complete_runs
from mprun.cli.output import emit
from mprun.errors import MprunError, SpecError
from mprun.model.run_summary import Summary
from mprun.model.units import format_measured
from mprun.storage.run_directory import RunDirectory
from mprun.storage.sweep_directory import ResultDirectory
from mprun.storage.table import readable

# The files of an unfinished run that are named.
MOST_LEFT = 20


@click.command("show")
@click.argument("name", metavar="[RUN|SWEEP]", default="latest", shell_complete=complete_runs)
@options.parent
@options.confidence
@click.option("--all", "show_all", is_flag=True, help="Show all metrics of a run, with their meanings.")
@click.option("--cost", is_flag=True, help="Show how often each program of a run stopped for the kernel.")
@click.option("--kernel-log", is_flag=True, help="Show the log of a run's experiment kernel.")
@click.option(
    "--counters",
    is_flag=False,
    flag_value="*",
    metavar="[PATTERN]",
    shell_complete=complete_counters,
    help="Show the kernel's counters (nstat) of all hosts and routers: those that grew, or those whose names match "
    "PATTERN.",
)
@click.option(
    "--trace",
    is_flag=False,
    flag_value="",
    metavar="[PATTERN]",
    help="Show how many trace events of each kind a run has, or the events whose names match PATTERN.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
def command(
    name: str,
    parent: Path,
    confidence: float | None,
    show_all: bool,
    cost: bool,
    kernel_log: bool,
    counters: str | None,
    trace: str | None,
    as_json: bool,
) -> None:
    """Show the summary of a run with its time lines, or the summary of a sweep with its cells."""
    found = operand.find_either(parent, name)
    with readable(found.path):
        if cost:
            show_kernel.show_cost(operand.need_run(found, "--cost"), as_json)
        elif kernel_log:
            show_kernel.show_kernel_log(operand.need_run(found, "--kernel-log"), as_json)
        elif counters is not None:
            show_kernel.show_counters(operand.need_run(found, "--counters"), counters, as_json)
        elif trace is not None:
            show_kernel.show_trace(operand.need_run(found, "--trace"), trace, as_json)
        else:
            _show(found, confidence, show_all, as_json)


def _show(found: ResultDirectory, confidence: float | None, show_all: bool, as_json: bool) -> None:
    if isinstance(found, RunDirectory):
        options.refuse_confidence(confidence)
        summary = _read_summary(found)
        if as_json:
            emit({"directory": str(found.path), **summary.to_json()})
            return
        from mprun.cli.show_run import show_summary

        operand.restore_tables(found)
        _show_figures(found)
        show_summary(summary, found, show_all)
        return
    if show_all:
        operand.need_run(found, "--all")
    from mprun.sweeps.sweep_summary import read_summary

    of_sweep = read_summary(found)
    if as_json:
        emit({"directory": str(found.path), **of_sweep.to_json()})
    else:
        from mprun.cli.show_sweep import show_sweep
        from mprun.metrics.cells import INCOMPLETE
        from mprun.metrics.statistics import CONFIDENCE

        show_sweep(of_sweep, found, confidence=confidence or CONFIDENCE)
        if of_sweep.status == INCOMPLETE and (text := found.tell_how_to_go_on()):
            click.echo(text)


def _read_summary(run: RunDirectory) -> Summary:
    """Return the summary of a run. The error for a run that ended early names what it left."""
    try:
        return run.summary()
    except MprunError as error:
        if run.has("summary.json"):
            raise
        names = [*run.left_files(), *run.folder.find("logs/*.out")]
        left = [f"{name} ({format_measured(size, 'byte')})" for name in names if (size := run.folder.size(name))]
        said = f"{error}; it left {', '.join(left[:MOST_LEFT]) or 'no captures and no outputs'}"
        if run.has_resolved_inputs:
            topology, experiment = map(prose.spell_path, run.resolved_inputs)
            said += f"; to repeat it: mprun -t {topology} -x {experiment}"
        raise MprunError(said) from None


def _show_figures(run: RunDirectory) -> None:
    """Print the figures of a run's report with a line for each series."""
    from mprun.reports.run_charts import charts_of
    from mprun.reports.text_chart import list_marks, to_text

    try:
        charts = charts_of(run)
    except SpecError as error:
        click.echo(f"no figures: {error}", err=True)
        return
    width = prose.terminal_width()
    for chart in charts:
        for line in to_text(chart, width, charts):
            click.echo(line)
        click.echo()
    if marks := list(list_marks(charts)):
        click.echo("\n".join(prose.wrap(mark, "", "     ") for mark in marks) + "\n")
