# SPDX-License-Identifier: Apache-2.0
"""`mprun export`: the tables of a run for other programs."""

from __future__ import annotations

from pathlib import Path

import click

from mprun.cli import options
from mprun.cli.completion import complete_runs
from mprun.errors import MprunError


@click.command("export")
@click.argument("name", metavar="[RUN]", default="latest", shell_complete=complete_runs)
@options.parent
@click.option("--csv", "as_csv", is_flag=True, required=True, help="As CSV (RFC 4180), a file for each table.")
@click.option(
    "--to",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for the files. Default: in the run.",
)
def command(name: str, parent: Path, as_csv: bool, folder: Path | None) -> None:
    """Write the tables of a run as CSV, beside its Parquet files or into a folder."""
    from mprun import rundir, runner

    run = rundir.find(parent, name)
    runner.restore_tables(run)
    target = folder or run.path / "tables"
    written = []
    for title, table in run.tables():
        target.mkdir(parents=True, exist_ok=True)
        path = target / f"{title}.csv"
        table.sink_csv(path, line_terminator="\r\n")
        written.append(path)
    if not written:
        raise MprunError(f"{run.path}: no tables: none of its flows has any")
    for path in written:
        click.echo(path)
