# SPDX-License-Identifier: Apache-2.0
"""Tables in the terminal, in parts that fit its width."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence

import click

from mprun.cli import options

# Spaces between columns.
GAP = 2
# The least width of a column whose texts are cut.
LEAST = 12


def show_table(first: Sequence[Sequence[str]], columns: Sequence[Sequence[str]], names: int) -> None:
    """Print a table, with an empty line between its parts. The first row is the head.

    In a terminal too narrow for one column beside the first ones, the longest text of these loses its middle.

    - first: rows of the columns with which each part begins.
    - columns: the other columns, with numbers.
    - names: the number of columns of `first` that have texts; the others have numbers.
    """
    widths = [_width(column) for column in columns]
    if sys.stdout.isatty():
        first = _narrow(first, options.terminal_width() - GAP - max(widths, default=0))
    parts = _fit([_width(column) for column in zip(*first, strict=True)], widths)
    for number, part in enumerate(parts):
        if number:
            click.echo()
        _show_rows([[*row, *(columns[n][k] for n in part)] for k, row in enumerate(first)], names)


def _narrow(first: Sequence[Sequence[str]], room: int) -> list[list[str]]:
    """Return the rows with the widest column cut so that all columns fit, where that leaves it `LEAST` characters."""
    columns = [list(column) for column in zip(*first, strict=True)]
    widest = max(columns, key=_width)
    most = max(_width(widest) + room - sum(GAP + _width(column) for column in columns), LEAST)
    widest[:] = [cut_middle(text, most) for text in widest]
    return [list(row) for row in zip(*columns, strict=True)]


def cut_middle(text: str, most: int) -> str:
    """Return a text of at most `most` characters, with `…` in place of its middle."""
    if len(text) <= most:
        return text
    tail = most // 2
    return f"{text[: most - tail - 1]}…{text[len(text) - tail :]}"


def _width(column: Iterable[str]) -> int:
    return max(map(len, column))


def _fit(first: Sequence[int], widths: Sequence[int]) -> Iterator[list[int]]:
    """Return the columns of each part of the table, so that each part fits the terminal. Without a terminal there is
    one part.

    `first`: the widths of the columns that each part begins with.
    """
    room = options.terminal_width() - sum(GAP + width for width in first)
    part: list[int] = []
    for n in range(len(widths)):
        if part and sys.stdout.isatty() and sum(GAP + widths[m] for m in (*part, n)) > room:
            yield part
            part = []
        part.append(n)
    yield part


def _show_rows(rows: Sequence[Sequence[str]], names: int) -> None:
    """Print a part. names: the number of text columns; the others are numbers."""
    widths = [_width(column) for column in zip(*rows, strict=True)]
    for row in rows:
        texts = [
            text.rjust(width) if n >= names else text.ljust(width)
            for n, (text, width) in enumerate(zip(row, widths, strict=True))
        ]
        click.echo(" " * GAP + (" " * GAP).join(texts).rstrip())
