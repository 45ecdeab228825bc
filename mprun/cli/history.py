# SPDX-License-Identifier: Apache-2.0
"""`mprun history`: draw the values of baselines over the commits of a repository."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mprun.cli import options
from mprun.cli.output import emit
from mprun.machine import invoking_user
from mprun.safety.text import plain

if TYPE_CHECKING:
    from mprun.questions.history import Past, PastBaseline
    from mprun.reports.history_page import HistoryLine
    from mprun.reports.page import HistoryRow


@click.command("history")
@click.argument("folder", type=click.Path(exists=True, path_type=Path), default=Path(), metavar="[DIRECTORY]")
@options.to("Write the page to FILE.", default=Path("history.html"), type=options.Target(b"<"))
@click.option("--json", "as_json", is_flag=True, help="Print the values as JSON instead of a page.")
def command(folder: Path, target: Path, as_json: bool) -> None:
    """Draw the values of all baselines below a directory over the commits of its git repository.

    The page is one file without scripts of other sites. Nothing is run.
    """
    from mprun.questions.history import read_past
    from mprun.reports.history_page import make_page
    from mprun.safety.folder import Folder

    found = read_past(folder)
    if unread := sum(past.unread for past in found):
        click.echo(f"note: versions of baselines that cannot be read, and are left out: {unread}", err=True)
    if as_json:
        emit({past.name: list(map(_to_json, past.versions)) for past in found})
        return
    lines = [line for past in found for line in _lines(past)]
    rows = [row for past in found for row in _rows(past)]
    rows.sort(key=lambda row: row.date or "9", reverse=True)
    title = f"Values of {folder.resolve().name}"
    invoking_user.make_folder(target.parent)
    Folder(target.parent).write_text(target.name, make_page(title, lines, rows))
    invoking_user.give(target)
    commits = len({one.name for past in found for one in past.versions})
    changed = sum(not line.is_constant for line in lines)
    what = f"{len(found)} baseline{'s' if len(found) > 1 else ''}, {commits} commits"
    click.echo(f"{what}, {changed} of {len(lines)} values changed: {target}")


def _to_json(one: PastBaseline) -> dict[str, object]:
    return {"commit": one.name, "date": one.date, "subject": one.subject, "lines": one.lines}


def _lines(past: Past) -> Iterator[HistoryLine]:
    from mprun.model.metric import UNITS
    from mprun.reports.history_page import HistoryLine

    commits = [one.name for one in past.versions]
    for name, values in past.values().items():
        known = [value for value in values if value is not None]
        unit = known[-1][1] if known else "1"
        numbers = [math.nan if value is None else value[0] for value in values]
        yield HistoryLine(past.name, name, unit if unit in UNITS else "1", commits, numbers)


def _rows(past: Past) -> Iterator[HistoryRow]:
    from mprun.questions.baseline import tell
    from mprun.reports.page import HistoryRow

    for one, differences in past.changes():
        values = [
            (plain(name), plain(base), plain(now), plain(change)) for name, base, now, change in tell(differences)
        ]
        yield HistoryRow(plain(one.name), one.date, plain(one.subject), plain(past.name), values)
