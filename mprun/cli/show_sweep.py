# SPDX-License-Identifier: Apache-2.0
"""The summary of a sweep in the terminal: a line for each cell, the expectations and the verdict."""

from __future__ import annotations

from collections.abc import Sequence

import click

from mprun.cli import operand, prose
from mprun.cli.output import mark, show_table
from mprun.cli.show_run import COLOURS, MARKS
from mprun.metrics.cells import INCOMPLETE
from mprun.metrics.metric_table import table_of_sweep
from mprun.metrics.statistics import CONFIDENCE
from mprun.model.sweep_files import SweepSummary
from mprun.reports.messages import list_messages
from mprun.reports.metrics import ExpectationRow, list_verdicts, metrics_of_sweep
from mprun.storage.sweep_directory import SweepDirectory
from mprun.sweeps.sweep_summary import tell_outcome


def show_sweep(
    summary: SweepSummary, sweep: SweepDirectory, wanted: Sequence[str] = (), confidence: float = CONFIDENCE
) -> None:
    """Print a summary, with mean and t interval for cells with several runs.

    wanted: metrics to show, named on the command line. Otherwise as many of the sweep's table as fit are shown.
    """
    cells = summary.cells
    table = table_of_sweep(cells, metrics_of_sweep(sweep, cells, wanted), confidence)
    click.echo()
    rest = "" if wanted else f"mprun export --markdown {prose.spell_path(sweep.path)}"
    show_table([table.head, *([str(cell) for cell in row] for row in table.rows)], table.names, table.names + 1, rest)
    click.echo()
    for row in list_verdicts(summary, sweep):
        _show_verdict(row)
    for kind, text in list_messages(sweep, cells):
        click.echo(_say(click.style(kind[:-1], fg=COLOURS[kind]), text))
    for text in summary.warnings:
        click.echo(_say(click.style("warning", fg="yellow"), text))
    if summary.status != INCOMPLETE and len(sweep.folder.find("runs/*/*/summary.json")) < sum(summary.runs):
        # runs were removed after the summary was written
        operand.tell_incomplete(sweep)
    word, colour = MARKS[summary.status]
    told = f"{tell_outcome(summary)}  {prose.spell_path(sweep.path)}"
    click.echo(f"{click.style(word, fg=colour, bold=True)}  {told}")


def _say(what: str, text: str) -> str:
    """Return `  warning: text` in lines of the terminal's width."""
    label = click.unstyle(what)
    return prose.wrap(f"{label}: {text}", "  ", "    ").replace(label, what, 1)


def _show_verdict(row: ExpectationRow) -> None:
    """Print an expectation on a line. What was measured for a statement follows the statement."""
    if row.is_part:
        click.echo(f"      {row.metric}: {row.measured}")
    elif row.expected:
        click.echo(f"  {mark(row.held)} {row.metric} {row.expected}: {row.measured}")
    else:
        click.echo(f"  {mark(row.held)} {prose.wrap(row.metric, '    ').lstrip()}")
        click.echo(prose.wrap(row.measured, "      "))
