# SPDX-License-Identifier: Apache-2.0
"""`mprun export`: the tables of a run or a sweep for other programs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mprun.cli import options
from mprun.cli.completion import complete_runs
from mprun.errors import MprunError
from mprun.folder import Folder

if TYPE_CHECKING:
    from polars import LazyFrame

    from mprun.rundir import RunDirectory
    from mprun.sweepdir.directory import SweepDirectory


@click.command("export")
@click.argument("name", metavar="[RUN|SWEEP]", default="latest", shell_complete=complete_runs)
@options.parent
@click.option("--csv", "as_csv", is_flag=True, required=True, help="Write one CSV file (RFC 4180) for each table.")
@click.option(
    "--to",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write the files to DIRECTORY. Default: `tables` in the run or sweep.",
)
def command(name: str, parent: Path, as_csv: bool, folder: Path | None) -> None:
    """Export the tables of a run or a sweep as CSV, next to its Parquet files or to a folder.

    A sweep has two tables: `cells` with a row for each run, and `statistics` with a row for each cell and metric.
    """
    from mprun.rundir import RunDirectory, readable
    from mprun.sweepdir.directory import find_either
    from mprun.table import writing

    found = find_either(parent, name)
    target = None
    written = []
    with readable(found.path):
        for title, table in _tables_of_run(found) if isinstance(found, RunDirectory) else _tables_of_sweep(found):
            target = target or _make(folder, found)
            with writing(target.path / f"{title}.csv"), target.whole(f"{title}.csv") as file:
                table.sink_csv(file, line_terminator="\r\n")
            written.append(target.path / f"{title}.csv")
    if not written:
        is_whole = found.has("summary.json")
        why = "none of its flows has any" if is_whole else "the run did not get so far"
        raise MprunError(f"{found.path}: no tables: {why}")
    for path in written:
        click.echo(path)


def _make(folder: Path | None, found: RunDirectory | SweepDirectory) -> Folder:
    """Return the folder for the files: the user's folder, or `tables` in the run or sweep."""
    if folder is None:
        return found.folder.make("tables")
    folder.mkdir(parents=True, exist_ok=True)
    return Folder(folder)


def _tables_of_run(run: RunDirectory) -> Iterator[tuple[str, LazyFrame]]:
    options.restore_tables(run)
    yield from run.tables()


def _tables_of_sweep(found: SweepDirectory) -> Iterator[tuple[str, LazyFrame]]:
    from mprun.results import read_sweep

    options.tell_incomplete(found)
    sweep = read_sweep(found)
    yield "cells", sweep.cells.lazy()
    yield "statistics", sweep.statistics.lazy()
