# SPDX-License-Identifier: Apache-2.0
"""`mprun report`: a page of a run or a sweep, with its figures."""

from __future__ import annotations

from pathlib import Path

import click

from mprun import invoker
from mprun.cli import options
from mprun.cli.completion import complete_runs


@click.command("report")
@click.argument("name", metavar="[RUN|SWEEP]", default="latest", shell_complete=complete_runs)
@options.parent
@click.option("--open", "is_shown", is_flag=True, help="Show it in a browser.")
@options.confidence
def command(name: str, parent: Path, is_shown: bool, confidence: float | None) -> None:
    """Write a page of a run or a sweep, with its figures.

    report.html in its directory needs nothing else; each of its figures is also under figures/, as SVG, as PDF
    as wide as a column of a paper (85 mm), as PNG, and its data as CSV.
    """
    from mprun.analysis.statistics import CONFIDENCE
    from mprun.cli.progress import Bar
    from mprun.report.report import make_report
    from mprun.report.sweep import make_sweep_report
    from mprun.rundir import RunDirectory, readable
    from mprun.sweep.directory import SweepDirectory, find_either

    found = find_either(parent, name)
    if isinstance(found, RunDirectory):
        options.refuse_confidence(confidence)
        options.restore_tables(found)
    else:
        options.tell_incomplete(found)
    with readable(found.path), Bar() as bar:
        if isinstance(found, SweepDirectory):
            path = make_sweep_report(found, bar.show, confidence or CONFIDENCE)
        else:
            path = make_report(found, bar.show)
    invoker.give(path.parent)
    click.echo(path)
    if is_shown:
        click.launch(str(path))
