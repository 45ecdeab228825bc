# SPDX-License-Identifier: Apache-2.0
"""`mprun export`: the tables of a run or a sweep for other programs."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from mprun.cli import operand, options
from mprun.cli.completion import complete_runs
from mprun.errors import MprunError, SpecError
from mprun.safety.folder import Folder
from mprun.safety.text import slug, untaken
from mprun.storage.run_directory import RunDirectory
from mprun.storage.sweep_directory import ResultDirectory, SweepDirectory
from mprun.storage.table import readable, writing

if TYPE_CHECKING:
    from polars import LazyFrame

    from mprun.reports.paper import PaperFormat

_PAPERS = {"markdown": "metrics.md", "latex": "metrics.tex"}


@click.command("export")
@click.argument("name", metavar="[RUN|SWEEP]", default="latest", shell_complete=complete_runs)
@options.parent
@click.option("--csv", "kinds", flag_value="csv", multiple=True, help="Write one CSV file (RFC 4180) for each table.")
@click.option("--sqlite", "kinds", flag_value="sqlite", multiple=True, help="Write all tables into tables.sqlite.")
@click.option(
    "--markdown", "kinds", flag_value="markdown", multiple=True, help="Print the metrics as a Markdown table."
)
@click.option("--latex", "kinds", flag_value="latex", multiple=True, help="Print the metrics as a LaTeX table.")
@click.option("--qlog", "kinds", flag_value="qlog", multiple=True, help="Write the qlog of each end for viewers.")
@click.option(
    "--upstream", "kinds", flag_value="upstream", multiple=True, help="Write a report for the maintainers of a kernel."
)
@options.text(
    "--control other",
    "RUN",
    "Compare the report of --upstream with this run, which does not show the effect.",
    shell_complete=complete_runs,
)
@options.text(
    "--attach attached",
    "FILE",
    "Add this file to the report of --upstream, such as a patch or a packetdrill script. Can be repeated.",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    multiple=True,
)
@options.metrics(help="Write only this metric, with --markdown or --latex. Can be repeated.")
@options.to_folder("Write the files to DIRECTORY. Default: `tables` or `upstream` in the run or sweep.")
@options.confidence
def command(
    name: str,
    parent: Path,
    kinds: tuple[str, ...],
    metrics: tuple[str, ...],
    target: Path | None,
    confidence: float | None,
    other: str | None,
    attached: tuple[Path, ...],
) -> None:
    """Export the results of a run or a sweep: its tables for other programs, or its metrics for a paper.

    A sweep has two tables: `cells` with a row for each run, and `statistics` with a row for each cell and metric. A
    sweep of `mprun faults` also has `faults`, with a row for each packet. A LaTeX table needs the package booktabs. It
    has the mean over the runs of each cell with half its t interval.

    `--qlog` writes a file for each end of each QUIC flow with `qlog: true`, in the form that qvis reads. The file has a
    trace with all events, and one for each path if the flow's QUIC library writes the paths.

    `--upstream` writes a folder with the run's files, its counters, its kernel log, and a text in the form that the
    kernel's MPTCP project asks for. With `--control`, it also has the packets around the first one that differs.
    """
    if not kinds:
        raise click.UsageError("write one of --csv, --sqlite, --markdown, --latex, --qlog and --upstream")
    if (other is not None or attached) and "upstream" not in kinds:
        raise click.UsageError("--control and --attach are for --upstream")
    if metrics and _PAPERS.keys().isdisjoint(kinds):
        raise click.UsageError("--metric is for --markdown and --latex: --csv and --sqlite write all columns")
    if target is None and len(set(kinds)) > 1 and not _PAPERS.keys().isdisjoint(kinds):
        both = " and ".join(f"--{kind}" for kind in dict.fromkeys(kinds))
        raise click.UsageError(f"{both} are both printed: write one of them, or give --to DIRECTORY")
    found = operand.find_either(parent, name)
    if isinstance(found, RunDirectory):
        options.refuse_confidence(confidence)
    with readable(found.path):
        for kind in dict.fromkeys(kinds):
            if kind in _PAPERS:
                text = _write_paper(found, cast("PaperFormat", kind), metrics, confidence)
                if target is None:
                    click.echo(text, nl=False)
                    continue
                _make(target, found).write_text(_PAPERS[kind], text)
                paths = iter([target / _PAPERS[kind]])
            elif kind == "upstream":
                paths = _write_upstream(
                    found, None if other is None else operand.find_either(parent, other), target, attached
                )
            else:
                paths = _write_qlogs(found, target) if kind == "qlog" else _write_tables(found, kind, target)
            for path in paths:
                click.echo(path)


def _write_paper(found: ResultDirectory, form: PaperFormat, metrics: Sequence[str], confidence: float | None) -> str:
    """Return the metrics of a run or a sweep as a table. Raises SpecError for a metric that it does not have."""
    from mprun.metrics.metric_table import check_metrics, table_of_run, table_of_sweep
    from mprun.metrics.statistics import CONFIDENCE
    from mprun.reports.metrics import choose_main, find_own, list_known, metrics_of_sweep
    from mprun.reports.paper import write
    from mprun.sweeps.sweep_summary import read_summary

    if isinstance(found, RunDirectory):
        of_run = found.summary()
        expected = {one.metric for one in of_run.expectations}
        main = choose_main(list_known(of_run, found), expected, find_own(found))
        chosen = check_metrics(metrics, list(of_run.metrics)) or main
        return write(table_of_run(of_run, chosen), form)
    operand.tell_incomplete(found)
    cells = read_summary(found).cells
    return write(table_of_sweep(cells, metrics_of_sweep(found, cells, metrics), confidence or CONFIDENCE), form)


def _write_tables(found: ResultDirectory, kind: str, folder: Path | None) -> Iterator[Path]:
    """Write all tables, and yield the files. Raises MprunError if there are none."""
    from mprun.safety.cell import insert, write_csv

    target = database = None
    taken: set[str] = set()
    if isinstance(found, RunDirectory):
        operand.restore_tables(found, is_needed=True)
    for name, table in found.tables() if isinstance(found, RunDirectory) else _tables_of_sweep(found):
        target = target or _make(folder, found)
        # the name of a table is that of its file, which may have any characters
        title = untaken(slug(name), taken)
        taken.add(title)
        if kind == "csv":
            with writing(target.path / f"{title}.csv"), target.whole(f"{title}.csv") as file:
                write_csv(table, file)
            yield target.path / f"{title}.csv"
        else:
            database = database or sqlite3.connect(":memory:")
            try:
                insert(database, title, table)
            except sqlite3.Error as error:
                raise MprunError(f"{found.path}: table '{title}' does not fit SQLite: {error}: use --csv") from None
    if target is None:
        why = "none of its flows has any" if found.has("summary.json") else "the run did not get so far"
        raise MprunError(f"{found.path}: no tables: {why}")
    if database is not None:
        target.write_bytes("tables.sqlite", database.serialize())
        yield target.path / "tables.sqlite"


def _write_qlogs(found: ResultDirectory, folder: Path | None) -> Iterator[Path]:
    """Write the qlog of each end for viewers, and yield the files. Raises MprunError if there is none."""
    from mprun.workloads.qlog import QlogError, read
    from mprun.workloads.qlog_export import render

    if not isinstance(found, RunDirectory):
        raise SpecError(f"{found.path} is a sweep, and qlog is of a run: name one of its runs")
    target = None
    for flow in found.plan().intent.traffic:
        for end in ("client", "server"):
            content = found.flow_file(flow.name, f"{end}.sqlog") if flow.protocol == "quic" else None
            if content is None:
                continue
            try:
                text = render(read(content), end, f"{found.name}: {flow.name}")
            except QlogError as problem:
                raise MprunError(f"{found.path}: the qlog of {flow.name}'s {end} {problem}") from None
            target = target or _make(folder, found)
            title = f"{slug(flow.name)}-{end}.qlog"
            target.write_text(title, text)
            yield target.path / title
    if target is None:
        raise MprunError(f"{found.path}: no qlog: write 'qlog: true' in an entry of `tool: quic`, and run it again")


def _write_upstream(
    found: ResultDirectory,
    other: ResultDirectory | None,
    folder: Path | None,
    attached: Sequence[Path],
) -> Iterator[Path]:
    """Write the report of a run for the maintainers of a kernel, and yield the files. other: the control run."""
    from mprun.questions.upstream import ControlledRun, write_upstream

    run = operand.need_run(found, "--upstream")
    control = None if other is None else operand.need_run(other, "--control")
    for one in (run, control):
        if one is not None:
            operand.restore_tables(one)
    target = _make(folder, run, "upstream")
    files = {path.name: path.read_bytes() for path in attached}
    for name in write_upstream(ControlledRun(run, control), target, files):
        yield target.path / name


def _make(folder: Path | None, found: ResultDirectory, name: str = "tables") -> Folder:
    """Return the folder for the files: the user's folder, or a folder of this name in the run or sweep."""
    if folder is None:
        return found.folder.make(name)
    folder.mkdir(parents=True, exist_ok=True)
    return Folder(folder)


def _tables_of_sweep(found: SweepDirectory) -> Iterator[tuple[str, LazyFrame]]:
    from mprun.api import read_sweep

    operand.tell_incomplete(found)
    sweep = read_sweep(found)
    yield "cells", sweep.cells.lazy()
    yield "statistics", sweep.statistics.lazy()
    if (table := found.find_table("faults")) is not None:
        yield "faults", table
