# SPDX-License-Identifier: Apache-2.0
"""Results in the same form for all commands: marks, tables, JSON, CSV, new files, and pages for a browser."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mprun.cli import prose
from mprun.errors import MachineError, SpecError
from mprun.safety.cell import write_rows

if TYPE_CHECKING:
    from mprun.kernel.store import Kernel
    from mprun.workloads.built.program_store import BuiltProgram

# Spaces between columns.
GAP = 2
# The least width of a column whose texts are cut.
LEAST = 12


def mark(is_held: bool | None) -> str:
    """Return a green tick, a red cross, or a yellow question mark if it is not known."""
    text, colour = {True: ("✓", "green"), False: ("✗", "red"), None: ("?", "yellow")}[is_held]
    return click.style(text, fg=colour)


def emit(value: object) -> None:
    """Print a value as JSON: on one line, or with indents on a terminal. Records become mappings.

    Only ASCII is printed, because texts of strangers may have characters that a terminal obeys.
    """
    # most commands print no JSON
    from mprun.model.codec import PLAIN

    click.echo(json.dumps(PLAIN.encode(value), indent=2 if sys.stdout.isatty() else None))


def emit_csv(rows: Sequence[Mapping[str, object]]) -> None:
    """Print rows as CSV, with the keys of the first row as the header (RFC 4180)."""
    names = list(rows[0]) if rows else []
    click.echo(write_rows([names, *([row[name] for name in names] for row in rows)]), nl=False)


def tell_built(built: Kernel | BuiltProgram, is_new: bool, as_json: bool) -> None:
    """Print that it was built and the time, or that it existed already, or all facts as JSON."""
    if as_json:
        emit(built)
    elif is_new:
        click.echo(f"built {built.version} in {built.build_seconds:.0f} s: {built.path}")
    else:
        click.echo(f"{built.version} is built already: {built.path}")


def show_table(rows: Sequence[Sequence[str]], names: int, repeated: int | None = None, rest: str = "") -> None:
    """Print a table, with an empty line between its parts. The first row is the head.

    In a terminal too narrow for one column beside the repeated ones, the longest text of these loses its middle.

    - names: the number of columns with texts, which come first; the others have numbers.
    - repeated: the number of columns with which each part begins. Default: those with texts.
    - rest: a command that shows all columns. The table has one part then, as wide as a line, before this command.
    """
    columns = [list(column) for column in zip(*rows, strict=True)]
    first, others = columns[: repeated or names], columns[repeated or names :]
    if sys.stdout.isatty():
        _narrow(first, _room_beside(first) - GAP - max(map(_width, others), default=0))
    parts = list(_fit(others, _room_beside(first) if rest or sys.stdout.isatty() else sys.maxsize))
    for number, part in enumerate(parts[:1] if rest else parts):
        if number:
            click.echo()
        _show_columns([*first, *part], names)
    if rest and len(parts) > 1:
        click.echo(f"{' ' * GAP}{len(others) - len(parts[0])} more: {rest}")


def _room_beside(columns: Sequence[Sequence[str]]) -> int:
    return prose.terminal_width() - sum(GAP + _width(column) for column in columns)


def _narrow(columns: Sequence[list[str]], room: int) -> None:
    """Cut the widest column if there is no room left, so that all fit, where that leaves it `LEAST` characters."""
    widest = max(columns, key=_width)
    most = max(_width(widest) + room, LEAST)
    widest[:] = [cut_middle(text, most) for text in widest]


def cut_middle(text: str, most: int) -> str:
    """Return a text of at most `most` characters, with `…` in place of its middle."""
    if len(text) <= most:
        return text
    tail = most // 2
    return f"{text[: most - tail - 1]}…{text[len(text) - tail :]}"


def _width(column: Iterable[str]) -> int:
    return max(map(len, column))


def _fit(columns: Iterable[list[str]], room: int) -> Iterator[list[list[str]]]:
    """Yield the columns of each part of the table, so that each part fits."""
    part: list[list[str]] = []
    for column in columns:
        if part and sum(GAP + _width(one) for one in (*part, column)) > room:
            yield part
            part = []
        part.append(column)
    yield part


def _show_columns(columns: Sequence[Sequence[str]], names: int) -> None:
    """Print a part. names: the number of text columns; the others are numbers."""
    widths = [_width(column) for column in columns]
    for row in zip(*columns, strict=True):
        texts = [
            text.rjust(width) if n >= names else text.ljust(width)
            for n, (text, width) in enumerate(zip(row, widths, strict=True))
        ]
        click.echo(" " * GAP + (" " * GAP).join(texts).rstrip())


def confirm(question: str) -> bool:
    """Ask the user a question. Raises SpecError if nobody can answer it."""
    try:
        return click.confirm(question)
    except click.Abort:
        if sys.stdin.isatty():
            raise
        click.echo(err=True)
        raise SpecError("no terminal to ask: add -y, which does not ask") from None


def refuse_existing(folder: Path) -> None:
    """Raise SpecError if a folder already has the files of a case, topo.yaml or xp.yaml."""
    for path in (folder / "topo.yaml", folder / "xp.yaml"):
        if path.exists():
            raise SpecError(f"{path} exists: remove it, or name another directory with --to")


def write_files(files: Mapping[Path, str], advice: str, is_forced: bool = False) -> None:
    """Write files, and their folders.

    advice: if files exist. is_forced: overwrite them. Raises SpecError if they exist, MachineError if one cannot be
    written.
    """
    present = [str(path) for path in files if path.exists() or path.is_symlink()]
    if present and not is_forced:
        raise SpecError(f"{' and '.join(present)} would be overwritten: {advice}")
    try:
        for path, text in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("w" if is_forced else "x", encoding="utf-8") as file:
                file.write(text)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise MachineError(f"{error.filename}: cannot be written: {reason}") from None


# A browser that has not ended by then is open.
BROWSER_S = 2


def launch(page: Path) -> None:
    """Open a page in a browser. If there is none, say where the page is."""
    import subprocess

    is_open = False
    with contextlib.suppress(subprocess.TimeoutExpired, OSError):
        # without a browser it prints the names of those that it tried
        opener = subprocess.Popen(["xdg-open", str(page.absolute())], stderr=subprocess.DEVNULL)
        is_open = True
        is_open = opener.wait(BROWSER_S) == 0
    if not is_open:
        click.echo(f"no browser was found here: open {page.resolve().as_uri()}", err=True)
