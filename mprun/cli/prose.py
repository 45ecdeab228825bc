# SPDX-License-Identifier: Apache-2.0
"""Lines of prose in the terminal: its width, texts that fit into it, warnings, and paths and options as people type."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

import click

from mprun.safety.text import printable

# Longer lines of prose are hard to read.
_MOST_WIDTH = 100
# The conditions of a name in a statement.
_IN_BRACKETS = re.compile(r"\w\[[^\[\]]{1,60}\]")
_BEFORE_UNIT = re.compile(r"(\d) (?=(?:%|[kMGT]?(?:bit/s|B)|[mun]?s)(?![\w/]))")


def terminal_width() -> int:
    """Return the columns of the terminal, or 100 without a terminal."""
    return shutil.get_terminal_size((100, 24)).columns


def wrap(text: str, first: str, rest: str | None = None, columns: int = 0) -> str:
    """Return text in lines of the terminal's width. first: before the first line; rest: before the others.

    columns: of the terminal; 0: those of standard output. A pipe has none, so `grep` finds the whole text in one line.
    """
    import textwrap

    width = min(columns or shutil.get_terminal_size((0, 24)).columns, _MOST_WIDTH) or sys.maxsize
    rest = first if rest is None else rest
    # a value stays on the line of its unit, and conditions on that of their name; names of files stay whole
    joined = _BEFORE_UNIT.sub("\\1\u00a0", printable(text))
    joined = _IN_BRACKETS.sub(lambda found: found[0].replace(" ", "\u00a0"), joined)
    filled = textwrap.fill(
        joined, width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False, break_long_words=False
    )
    return filled.replace("\u00a0", " ")


def complain(text: str) -> None:
    """Print lines to standard error, and break long lines at words if it is a terminal."""
    for line in text.split("\n"):
        is_long = sys.stderr.isatty() and len(line) > terminal_width()
        click.echo(wrap(line, "", "  ", terminal_width()) if is_long else printable(line), err=True)


def warn(warnings: Iterable[str]) -> None:
    """Print warnings, each once."""
    for warning in dict.fromkeys(warnings):
        complain(f"warning: {warning}")


def note_unconfined() -> None:
    """Print a note if this machine cannot keep programs of a run from the user's files."""
    from mprun.runs.place import tell_unconfined

    if note := tell_unconfined():
        click.echo(f"note: {note}", err=True)


def spell_path(path: Path) -> str:
    """Return a path as short as a person would type it: relative if it is below the current folder."""
    folder = Path.cwd()
    return str(path.relative_to(folder)) if path.is_relative_to(folder) else str(path)


def spell_kernel(name: str) -> str:
    """Return the option of a command that runs files on a kernel; empty for the default one."""
    from mprun.kernel.store import DEFAULT_NAME

    return "" if name in ("", DEFAULT_NAME) else f" --kernel {name}"
