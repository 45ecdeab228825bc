# SPDX-License-Identifier: Apache-2.0
"""`mprun runs list|rm`: the runs and sweeps of a folder, with conditions, columns and order, also as a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mprun.cli import options, output
from mprun.cli.completion import complete_runs, complete_values
from mprun.cli.operand import advise
from mprun.cli.output import emit, show_table
from mprun.cli.progress import Bar
from mprun.errors import RunError, SpecError
from mprun.machine import invoking_user
from mprun.safety.text import name_some, plain
from mprun.storage.look_up import find_either
from mprun.storage.sweep_directory import SweepDirectory

if TYPE_CHECKING:
    from mprun.storage.index.listed import DirectoryKind, Scan
    from mprun.storage.index.selection import ListedRow, Listing, ListRequest


_values = partial(options.text, shell_complete=complete_values)
# The number of damaged runs, or of other folders, that are named.
MOST_NAMED = 5


@click.group("runs", context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """List and remove runs: `mprun runs list` lists them.

    RUN is the directory, the name, the beginning of the name or the digest of a run, or `latest`.
    """


def _split(_context: click.Context, _parameter: click.Parameter, texts: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names in texts such as `scheduler,bulk.goodput`."""
    return tuple(name for text in texts for part in text.split(",") if (name := part.strip()))


@command.command("list")
@options.parent
@_values(
    "--where",
    "STATEMENT",
    "List only runs for which this holds, such as `scheduler=roundrobin` or `bulk.goodput > 10mbit`. Can be repeated.",
    multiple=True,
)
@_values(
    "--columns",
    "NAME,...",
    "Show the values of these parameters and metrics. Can be repeated.",
    multiple=True,
    callback=_split,
)
@_values(
    "--sort",
    "NAME",
    "List by the value of this parameter or metric, the smallest first. Default: the oldest run first.",
    default="",
)
@click.option("--reverse", "is_reversed", is_flag=True, help="List in the reverse order.")
@click.option("--all", "is_deep", is_flag=True, help="List also each run of the sweeps.")
@click.option("--json", "as_json", is_flag=True, help="Print the list as JSON.")
@options.text(
    "--html page",
    "FILE",
    "Write the list to FILE as a page with a table to sort and filter. It links to the reports.",
    type=options.Target(b"<", has_folder=True),
)
def list_(
    parent: Path,
    where: tuple[str, ...],
    columns: tuple[str, ...],
    sort: str,
    is_reversed: bool,
    is_deep: bool,
    as_json: bool,
    page: Path | None,
) -> None:
    """List the runs and sweeps, oldest first.

    STATEMENT is a condition on a text, such as `scheduler=roundrobin`, or a statement over values with units, such as
    `bulk.goodput > 10mbit`. A name is a parameter, an axis of a matrix, a metric, or name, status, engine or seed. A
    run that lacks a value is left out.
    """
    from mprun.storage.index.listed import scan
    from mprun.storage.index.selection import ListRequest

    if as_json and page is not None:
        raise click.UsageError("--json conflicts with --html: remove one of the two")
    request = ListRequest(where, columns, sort, is_reversed)
    found = scan(parent, is_deep)
    listing = _ask(parent, found, is_deep, request, "json" if as_json else "page" if page is not None else "terminal")
    for note in listing.notes:
        click.echo(f"note: {plain(note)}", err=True)
    if as_json:
        emit([_describe(row, listing) for row in listing.rows])
    elif page is not None:
        _write_page(page, parent, listing, request)
    else:
        _show(listing, parent)
    # a program finds the problems in the rows
    shown = {row.entry.damage for row in listing.rows} if as_json else ()
    _name([problem for problem in listing.damage if problem not in shown])
    if found.strange:
        click.echo(f"note: neither a run nor a sweep: {name_some(found.strange, MOST_NAMED)}", err=True)


@command.command()
@click.argument("names", metavar="RUN|SWEEP...", nargs=-1, required=True, shell_complete=complete_runs)
@options.parent
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
def rm(names: tuple[str, ...], parent: Path, yes: bool) -> None:
    """Remove runs and sweeps. Removing a sweep removes all its runs."""
    try:
        chosen = [find_either(parent, name) for name in names]
    except SpecError:
        for advice in filter(None, (advise(parent, name) for name in names)):
            raise SpecError(advice) from None
        raise
    if held := [found for found in chosen if found.is_held]:
        raise RunError(f"{held[0].path} is running now: end it first, as with Ctrl-C in its terminal")
    for found in chosen:
        question = f"remove {'sweep ' if isinstance(found, SweepDirectory) else ''}{found.path}?"
        if yes or output.confirm(question):
            found.remove()


def _ask(parent: Path, found: Scan, is_deep: bool, request: ListRequest, form: str) -> Listing:
    """Return the list; without chosen columns, with those of its form: `page`, `terminal` or `json`."""
    from mprun.storage.index.database import FolderIndex, Index
    from mprun.storage.index.selection import find_differing, select

    kinds: Sequence[DirectoryKind] = ("run", "sweep", "run of sweep") if is_deep else ("run", "sweep")
    lacking = "" if is_deep or all(one.kind == "run" for one in found.found) else "; --all adds the runs of sweeps"

    def question(index: Index) -> Listing:
        asked = request
        if form == "terminal" and not request.columns:
            asked = replace(request, columns=find_differing(index))
        if form == "page" and not request.columns:
            from mprun.reports.listing_page import choose_columns

            asked = replace(request, columns=choose_columns(index.names("parameters"), index.names("metrics")))
        return select(index, asked, lacking)

    with Bar() as bar:
        answer, reason = FolderIndex(parent, found, kinds, bar.show).ask(question)
    if reason:
        click.echo(f"note: the list is not kept for the next time: {plain(reason)}", err=True)
    return answer


def _describe(row: ListedRow, listing: Listing) -> dict[str, Any]:
    entry = row.entry
    told: dict[str, Any] = {"name": entry.name, "status": entry.status, "engine": entry.engine}
    if entry.damage:
        told["fault"] = entry.damage
    return {**told, "values": dict(row.values)} if listing.columns else told


def _show(listing: Listing, parent: Path) -> None:
    from mprun.storage.index.selection import spell

    if not listing.rows:
        missing = "" if parent.exists() else ": no such folder"
        click.echo(f"no run in {parent} matches" if listing.total else f"no runs in {parent}{missing}")
    elif not listing.columns:
        for row in listing.rows:
            click.echo(f"{row.entry.status:10} {row.entry.engine:8} {row.entry.name}")
    else:
        rows = [["status", "engine", "name", *map(plain, listing.columns)]]
        for row in listing.rows:
            cells = (plain(spell(row.values[name])) for name in listing.columns)
            rows.append([row.entry.status, row.entry.engine, row.entry.name, *cells])
        show_table(rows, 3)


def _name(problems: Sequence[str]) -> None:
    """Print the first problems, and the number of the others."""
    for problem in problems[:MOST_NAMED]:
        click.echo(f"warning: {problem}", err=True)
    if len(problems) > MOST_NAMED:
        click.echo(f"warning: {len(problems) - MOST_NAMED} more runs or sweeps are damaged", err=True)


def _write_page(page: Path, parent: Path, listing: Listing, request: ListRequest) -> None:
    from mprun.reports.listing_page import write_listing

    write_listing(page, parent, listing, request)
    invoking_user.give(page)
    click.echo(page)
