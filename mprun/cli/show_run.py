# SPDX-License-Identifier: Apache-2.0
"""The summary of a run in the terminal: the verdict, the metrics and the expectations."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import click

from mprun.cli import prose
from mprun.cli.output import mark
from mprun.model.grouping import gather
from mprun.model.metric import SYMBOLS, find_owned
from mprun.model.run_summary import Kind, Summary
from mprun.reports.metrics import choose_main, find_hidden, flows_of, format_bound, format_judged, list_known, list_own
from mprun.safety.text import printable
from mprun.storage.run_directory import RunDirectory
from mprun.workloads.tool import OwnedMetrics

MARKS = {
    "passed": ("passed", "green"),
    "failed": ("FAILED", "red"),
    "error": ("ERROR", "red"),
    "incomplete": ("INCOMPLETE", "yellow"),
}
COLOURS: Mapping[Kind, str] = {"errors": "red", "failures": "red", "warnings": "yellow"}


def show_summary(
    summary: Summary, run: RunDirectory, show_all: bool = False, told: Collection[str] = frozenset()
) -> None:
    """Print a summary: what was expected and the main metrics, or all metrics with their meanings, in reading order.

    Colours are used only if the output is a terminal. told: warnings that were printed before, and are left out.
    """
    expected = gather((verdict.metric, verdict) for verdict in summary.expectations)
    flows, metrics, known = flows_of(run), summary.metrics, list_known(summary, run)
    names = known if show_all else choose_main(known, expected, list_own(flows))
    left_out = len(known) - len(names)
    unmeasured = [name for name in expected if name not in metrics]
    names = [*names, *unmeasured]
    wanted = [*(metrics if show_all else ()), *unmeasured]
    # the tools, which know the metrics, are slow to import
    owned = OwnedMetrics(flows) if wanted else {}
    found = {name: defined[0] for name in wanted if (defined := find_owned(name, owned))}
    width = max((len(name) for name in names), default=0)
    for name in names:
        metric = metrics.get(name)
        value = format_judged(metric, expected.get(name, ())) if metric else "not measured"
        line = f"  {name:{width}}  {value:>14}"
        unit = metric.unit if metric else SYMBOLS[found[name].unit] if name in found else "1"
        for verdict in expected.get(name, ()):
            line += f"  {mark(verdict.held)} {format_bound(verdict.bounds, unit)}"
        click.echo(line)
        if show_all and name in found:
            click.echo(prose.wrap(found[name].meaning, "      "))
    if left_out:
        click.echo(f"  {left_out} more: mprun show --all")
    if find_hidden(summary):
        click.echo(f"  of each flow of {', '.join(summary.groups)}: {prose.spell_path(run.path)}/summary.json")
    for kind, colour in COLOURS.items():
        for text in summary.messages(kind):
            if kind == "warnings" and text in told:
                continue
            first, *others = text.splitlines() or [""]
            said = prose.wrap(first, f"  {kind[:-1]}: ", "    ").removeprefix(f"  {kind[:-1]}")
            click.echo(f"  {click.style(kind[:-1], fg=colour)}{said}")
            # what a program printed, such as a compiler, keeps its lines
            for line in others:
                click.echo(f"    {printable(line)}")
    said_above = "\n".join((*summary.errors, *summary.failures))
    for text in (*summary.notes, *(one for one in summary.middleboxes if one not in said_above)):
        click.echo(prose.wrap(text, "  ", "    "))
    word, colour = MARKS[summary.status]
    click.echo(f"{click.style(word, fg=colour, bold=True)}  {prose.spell_path(run.path)}")
