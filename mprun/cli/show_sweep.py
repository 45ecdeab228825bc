# SPDX-License-Identifier: Apache-2.0
"""The summary of a sweep in the terminal: a line for each cell, the expectations and the verdict."""

from __future__ import annotations

from collections.abc import Sequence

import click

from mprun.cli import operand, prose
from mprun.cli.output import mark, show_table
from mprun.cli.show_run import COLOURS, MARKS
from mprun.metrics.cells import INCOMPLETE
from mprun.metrics.metric_table import check_metrics, choose_metrics, list_metrics, table_of_sweep
from mprun.metrics.statistics import CONFIDENCE
from mprun.model.scalar import spell_values
from mprun.model.sweep_files import CellSummary, StatementResult, SweepSummary
from mprun.model.units import format_measured
from mprun.reports.messages import join_messages
from mprun.reports.metrics import find_own, list_expectations
from mprun.storage.sweep_directory import SweepDirectory
from mprun.sweeps.sweep_summary import tell_progress

# The number of different messages of each kind that are shown.
MOST_TOLD = 5


def show_sweep(
    summary: SweepSummary, sweep: SweepDirectory, wanted: Sequence[str] = (), confidence: float = CONFIDENCE
) -> None:
    """Print a summary, with mean and t interval for cells with several runs.

    wanted: metrics to show, named on the command line. Otherwise those that the experiment names are shown.
    """
    cells = summary.cells
    metrics = check_metrics(wanted, list_metrics(cells)) or choose_metrics(cells, sweep.record.show, find_own(sweep, cells))
    table = table_of_sweep(cells, metrics, confidence)
    click.echo()
    show_table([table.head, *([str(cell) for cell in row] for row in table.rows)], table.names, table.names + 1)
    click.echo()
    _show_expectations(cells)
    _show_statements(summary.statements, summary.status == INCOMPLETE)
    _show_told(sweep, cells)
    for text in summary.warnings:
        click.echo(_say(click.style("warning", fg="yellow"), text))
    if summary.status != INCOMPLETE and len(sweep.folder.find("runs/*/*/summary.json")) < sum(summary.runs):
        # runs were removed after the summary was written
        operand.tell_incomplete(sweep)
    word, colour = MARKS[summary.status]
    words = {"passed": "passed", "failed": "failed", "error": "in error"}
    counts = ", ".join(f"{count} {words[status]}" for status, count in summary.runs._asdict().items() if count)
    if unheld := sum(one.held is False for one in summary.statements):
        counts += f", {unheld} statement{'s' * (unheld > 1)} about cells not held"
    if summary.status == INCOMPLETE:
        counts = f"{tell_progress(summary)}{f' ({counts})' if counts else ''}"
    click.echo(f"{click.style(word, fg=colour, bold=True)}  {counts}  {prose.spell_path(sweep.path)}")


def _show_told(sweep: SweepDirectory, cells: Sequence[CellSummary]) -> None:
    """Print the messages of runs, the most frequent first. Messages that differ in numbers only are one."""
    for kind, joined in join_messages(sweep, cells).items():
        for text in joined[:MOST_TOLD]:
            click.echo(_say(click.style(kind[:-1], fg=COLOURS[kind]), text))
        if len(joined) > MOST_TOLD:
            click.echo(f"  {len(joined) - MOST_TOLD} more {kind}, see summary.json")


def _say(what: str, text: str) -> str:
    """Return `  warning: text` in lines of the terminal's width."""
    label = click.unstyle(what)
    return prose.wrap(f"{label}: {text}", "  ", "    ").replace(label, what, 1)


def _show_expectations(cells: Sequence[CellSummary]) -> None:
    """Print how often each expectation held over all cells, and the cells in which it did not always hold."""
    for metric, bound, held in list_expectations(cells):
        good, total = sum(verdict.held for _, verdict in held), sum(verdict.of for _, verdict in held)
        click.echo(f"  {mark(good == total)} {metric} {bound}: held in {good} of {total} runs")
        for cell, verdict in held:
            if len(held) > 1 and verdict.held < verdict.of:
                click.echo(f"      {spell_values(cell.values)}: {verdict.held} of {verdict.of}")


def _show_statements(statements: Sequence[StatementResult], may_come: bool) -> None:
    """Print the statements across cells, with both sides. may_come: missing runs have not been made yet."""
    for one in statements:
        click.echo(f"  {mark(one.is_true(may_come))} {prose.wrap(one.holds, '    ').lstrip()}")
        for sides in one.comparisons:
            left, right = (format_measured(amount, sides.unit) for amount in (sides.left, sides.right))
            click.echo(f"      measured: {left} {sides.operator} {right}")
        if not one.comparisons:
            click.echo(prose.wrap(one.found, "      "))
