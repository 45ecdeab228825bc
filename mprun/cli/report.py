# SPDX-License-Identifier: Apache-2.0
"""`mprun report`: an HTML report of a run or a sweep, with its figures."""

from __future__ import annotations

from pathlib import Path

import click

from mprun import invoker
from mprun.cli import options
from mprun.cli.completion import complete_runs


@click.command("report")
@click.argument("name", metavar="[RUN|SWEEP]", default="latest", shell_complete=complete_runs)
@options.parent
@click.option("--open", "is_shown", is_flag=True, help="Open the report in a browser.")
@options.confidence
def command(name: str, parent: Path, is_shown: bool, confidence: float | None) -> None:
    """Write an HTML report of a run or a sweep, with its figures.

    The file report.html in the directory of the run or sweep needs no other file. Each figure is also in figures/
    as SVG, as PNG, as PDF of the width of a paper's column (85 mm), and its data as CSV.
    """
    from mprun.analysis.statistics import CONFIDENCE
    from mprun.cli.progress import Bar
    from mprun.report.report import make_report
    from mprun.report.sweep import make_sweep_report
    from mprun.rundir import RunDirectory, readable
    from mprun.sweepdir.directory import SweepDirectory, find_either

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
        options.launch(path)
