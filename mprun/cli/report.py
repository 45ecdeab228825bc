# SPDX-License-Identifier: Apache-2.0
"""`mprun report`: a page of a run, with its figures."""

from __future__ import annotations

from pathlib import Path

import click

from mprun.cli import options


@click.command("report")
@click.argument("name", metavar="RUN", default="latest")
@options.parent
@click.option("--open", "is_shown", is_flag=True, help="Show it in a browser.")
def command(name: str, parent: Path, is_shown: bool) -> None:
    """Write a page of a run, with its figures.

    report.html in the run directory needs nothing else; each of its figures is also under figures/, as SVG, as PDF
    as wide as a column of a paper (85 mm), as PNG, and its data as CSV.
    """
    from mprun import rundir
    from mprun.cli.progress import Bar
    from mprun.report.report import make_report

    run = rundir.find(parent, name)
    with Bar() as bar:
        path = make_report(run, bar.show)
    options.give_to_invoker(run.path)
    click.echo(path)
    if is_shown:
        click.launch(str(path))
