# SPDX-License-Identifier: Apache-2.0
"""`mprun show`, and a run's summary in the terminal: the verdict, the metrics, what was expected."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from mprun.cli import options
from mprun.cli.completion import complete_runs
from mprun.report.reading import format_bound, format_value, order_metrics
from mprun.rundir import RunDirectory

MARKS = {"passed": ("passed", "green"), "failed": ("FAILED", "red"), "error": ("ERROR", "red")}


@click.command("show")
@click.argument("name", metavar="[RUN|SWEEP]", default="latest", shell_complete=complete_runs)
@options.parent
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
def command(name: str, parent: Path, as_json: bool) -> None:
    """Show the summary of a run or a sweep: of a run also what went on over its time, of a sweep its cells."""
    from mprun.sweep.directory import SweepDirectory, find_either

    found = find_either(parent, name)
    summary = found.read("summary.json")
    if as_json:
        click.echo(json.dumps({"directory": str(found.path), **summary}))
    elif isinstance(found, SweepDirectory):
        from mprun.cli.show_sweep import show_sweep

        show_sweep(summary, found.path)
    else:
        summary["metrics"] = _show_figures(found, summary["metrics"])
        show_summary(summary, found)


def _show_figures(run: RunDirectory, metrics: Mapping[str, Any]) -> Mapping[str, Any]:
    """Print the figures of a run's report in a line for each series; the metrics in the order of their tools."""
    from mprun.errors import SpecError
    from mprun.report.report import gather
    from mprun.report.spark import to_text
    from mprun.report.timeline import draw_run
    from mprun.spec import load
    from mprun.spec.traffic import owned_metrics

    try:
        spec = load(*run.resolved_inputs).spec
    except SpecError as error:
        click.echo(f"no figures: {error}", err=True)
        return metrics
    evidence = gather(run, spec, run.read("plan.json")["intent"])
    width = options.terminal_width()
    for chart in draw_run(evidence, spec.experiment.plots):
        for line in to_text(chart, width):
            click.echo(line)
        click.echo()
    return order_metrics(metrics, owned_metrics(spec.experiment.traffic))


def show_summary(summary: Mapping[str, Any], run: RunDirectory) -> None:
    """Print a summary; colours only where the output is a terminal."""
    expected = {verdict["metric"]: verdict for verdict in summary["expectations"]}
    metrics: Mapping[str, Mapping[str, Any]] = summary["metrics"]
    hidden = _find_hidden(summary)
    names = [name for name in metrics if name not in hidden or name in expected]
    names += [name for name in expected if name not in metrics]
    width = max((len(name) for name in names), default=0)
    for name in names:
        metric = metrics.get(name)
        value = format_value(metric["value"], metric["unit"]) if metric else "not measured"
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
    for text in summary.get("middleboxes", ()):
        click.echo(f"  {text}")
    word, colour = MARKS[summary["status"]]
    click.echo(f"{click.style(word, fg=colour, bold=True)}  {run.path}")


def _find_hidden(summary: Mapping[str, Any]) -> set[str]:
    """Metrics of flows whose group has the same one: nobody reads those of hundreds."""
    return {
        name
        for group, flows in summary.get("groups", {}).items()
        for flow in flows
        for name in summary["metrics"]
        if name.startswith(f"{flow}.") and f"{group}{name.removeprefix(flow)}" in summary["metrics"]
    }
