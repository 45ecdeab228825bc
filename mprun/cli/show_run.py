# SPDX-License-Identifier: Apache-2.0
"""The summary of a run in the terminal: the verdict, the metrics and the expectations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from mprun.model.units import format_measured
from mprun.report.metrics import format_bound
from mprun.rundir import RunDirectory

MARKS = {
    "passed": ("passed", "green"),
    "failed": ("FAILED", "red"),
    "error": ("ERROR", "red"),
    "incomplete": ("INCOMPLETE", "yellow"),
}


def show_summary(summary: Mapping[str, Any], run: RunDirectory) -> None:
    """Print a summary. Colours are used only if the output is a terminal."""
    expected = {verdict["metric"]: verdict for verdict in summary["expectations"]}
    metrics: Mapping[str, Mapping[str, Any]] = summary["metrics"]
    hidden = _find_hidden(summary)
    names = [name for name in metrics if name not in hidden or name in expected]
    names += [name for name in expected if name not in metrics]
    width = max((len(name) for name in names), default=0)
    for name in names:
        metric = metrics.get(name)
        value = format_measured(metric["value"], metric["unit"]) if metric else "not measured"
        line = f"  {name:{width}}  {value:>14}"
        if name in expected:
            verdict = expected[name]
            unit = metric["unit"] if metric else "1"
            line += "  " + click.style("✓" if verdict["held"] else "✗", fg="green" if verdict["held"] else "red")
            line += " " + format_bound(verdict, unit)
        click.echo(line)
    if hidden:
        click.echo(f"  of each flow of {', '.join(summary['groups'])}: {run.path}/summary.json")
    for kind, colour in (("errors", "red"), ("failures", "red"), ("warnings", "yellow")):
        for text in summary.get(kind, ()):
            click.echo(f"  {click.style(kind[:-1], fg=colour)}: {text}")
    for text in (*summary.get("notes", ()), *summary.get("middleboxes", ())):
        click.echo(f"  {text}")
    word, colour = MARKS[summary["status"]]
    click.echo(f"{click.style(word, fg=colour, bold=True)}  {run.path}")


def _find_hidden(summary: Mapping[str, Any]) -> set[str]:
    """Return the metrics of flows whose group has the same metric. A list for hundreds of flows would be too long."""
    return {
        name
        for group, flows in summary.get("groups", {}).items()
        for flow in flows
        for name in summary["metrics"]
        if name.startswith(f"{flow}.") and f"{group}{name.removeprefix(flow)}" in summary["metrics"]
    }
