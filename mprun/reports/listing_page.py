# SPDX-License-Identifier: Apache-2.0
"""A page that lists the runs of a folder: a table to sort and filter, with links to the reports."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import quote

from mprun.reports.metrics import choose_main
from mprun.reports.page import ListedCell, ListedRun, ListingPage, render
from mprun.safety.folder import Folder
from mprun.safety.text import plain
from mprun.storage.index.listed import ListedEntry
from mprun.storage.index.selection import FIELDS, ListCell, Listing, ListRequest, spell, to_value

# The number of parameters on a page whose columns nobody has chosen.
MOST_PARAMETERS = 8
# A browser needs seconds to lay out the table of thousands of rows.
MOST_ROWS = 500


def choose_columns(parameters: Sequence[str], metrics: Sequence[str]) -> tuple[str, ...]:
    """Return the columns of a page: the first parameters, and the main metrics."""
    shown = [name for name in parameters if name not in FIELDS]
    return (*shown[:MOST_PARAMETERS], *choose_main(metrics, ()))


def write_listing(page: Path, parent: Path, listing: Listing, request: ListRequest) -> None:
    """Write a list of the runs in the folder `parent` as a page. Its links are relative to the page."""
    base = os.path.relpath(parent.resolve(), page.parent.resolve())
    columns = [name for name in listing.columns if name not in ("name", "status")]
    runs = [
        ListedRun(
            name=row.entry.name,
            link=_link(base, row.entry),
            has_report=row.entry.has_report,
            status=row.entry.status,
            cells=(_cell(row.entry.engine or None), *(_cell(row.values[name]) for name in columns)),
        )
        for row in listing.rows
    ]
    content = ListingPage(
        title=f"Runs in {plain(parent.resolve().name or parent)}",
        description=" · ".join(_describe(listing, request)),
        head=("run", "status", "engine", *map(plain, columns)),
        names=3,
        statuses=tuple(dict.fromkeys(run.status for run in runs)),
        rows=runs,
        most=MOST_ROWS,
    )
    folder = Folder(page.parent)
    folder.write_text(page.name, render(content))


def _describe(listing: Listing, request: ListRequest) -> Iterator[str]:
    of_all = "" if len(listing.rows) == listing.total else f" of {listing.total}"
    yield f"{len(listing.rows)}{of_all} runs and sweeps"
    yield from map(plain, request.where)


def _link(base: str, entry: ListedEntry) -> str:
    """Return the address of the report, or else of the directory. No part of it can be read as a scheme."""
    return quote(f"{base}/{entry.name}/{'report.html' if entry.has_report else ''}", errors="surrogateescape")


def _cell(cell: ListCell) -> ListedCell:
    value = to_value(cell)
    return ListedCell(plain(spell(cell)), None if value is None else value.amount, cell is None)
