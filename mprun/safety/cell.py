# SPDX-License-Identifier: Apache-2.0
"""Cells of exported tables: CSV, Markdown, LaTeX and SQLite. Each cell and each column name is written here.

The type of a value decides, not its look. A number stays a number. A text stays a text: it is no formula of a
spreadsheet, no markup of Markdown and no command of LaTeX. SQLite keeps types, so a text is stored as it is.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, BinaryIO, Literal

from mprun.safety.text import plain

if TYPE_CHECKING:
    import sqlite3

    from polars import LazyFrame

Language = Literal["csv", "markdown", "latex"]
# A value that was not measured, for people.
MISSING = "–"

# The beginning of a text that a spreadsheet takes for a formula (owasp.org/www-community/attacks/CSV_Injection), also
# behind a semicolon, a tab or a line break, where some spreadsheets begin another cell. Polars knows the expression.
_FORMULA = r"(^|[;\t\r\n])(\s*[=+\-@＝＋－＠])"
_QUOTED = re.compile(r'[",\r\n]')
_MARKDOWN = re.compile(r"([\\|`*_<>\[\]&$~])")
# `[` and `*` are arguments of a line break before them.
_LATEX = str.maketrans(
    {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "µ": r"\textmu{}", MISSING: "--"}
    | {sign: f"\\{sign}" for sign in "&%$#_{}"}
    | {sign: f"{{{sign}}}" for sign in "[*"}
)


@dataclass(frozen=True)
class Number:
    """A number as text, with the digits to show.

    - half: half of its interval of confidence as text; empty without one.
    - note: about its runs, such as `2 of 3 runs`; empty without one.
    - unit: empty if the head of its column has it.
    """

    digits: str
    half: str = ""
    note: str = ""
    unit: str = ""

    def __str__(self) -> str:
        return self.write("{} ± {}")

    def write(self, form: str) -> str:
        """Return the number as text. form: of a number with half of its interval."""
        number = form.format(self.digits, self.half) if self.half else self.digits
        return " ".join(filter(None, (number, self.unit, f"({self.note})" if self.note else "")))


def write_cell(value: object, language: Language) -> str:
    """Return a value of an exported table, or the name of a column, as text in one of the languages.

    An unknown number becomes an empty text.
    """
    match value:
        case Number():
            form = r"${} \pm {}$" if language == "latex" else "{} ± {}"
            return replace(value, unit=_write_text(value.unit, language)).write(form)
        case None:
            return ""
        case bool():
            return str(value).lower()
        case int():
            return str(value)
        case float():
            return "" if math.isnan(value) else repr(float(value))
    return _write_text(plain(value), language)


def _write_text(text: str, language: Language) -> str:
    if language == "latex":
        return text.translate(_LATEX)
    if language == "markdown":
        return _MARKDOWN.sub(r"\\\1", " ".join(text.split()))
    text = re.sub(_FORMULA, r"\1'\2", text)
    return '"' + text.replace('"', '""') + '"' if _QUOTED.search(text) else text


def write_rows(rows: Iterable[Sequence[object]]) -> str:
    """Return rows as CSV (RFC 4180), the names of the columns first."""
    return "".join(",".join(write_cell(value, "csv") for value in row) + "\r\n" for row in rows)


def write_csv(table: LazyFrame, file: BinaryIO) -> None:
    """Write a table as CSV (RFC 4180). Polars writes the rows, because a table may have millions."""
    import polars

    schema = table.collect_schema()
    texts = [name for name, kind in schema.items() if kind == polars.String]
    file.write(write_rows([list(schema)]).encode())
    guarded = table.with_columns(polars.col(texts).str.replace_all(_FORMULA, "${1}'${2}"))
    guarded.sink_csv(file, include_header=False, line_terminator="\r\n")


def insert(database: sqlite3.Connection, title: str, table: LazyFrame) -> None:
    """Add a table to a database, under the name `title`.

    Raises sqlite3.Error if SQLite does not allow the names or the number of columns.
    """
    frame = table.collect()
    names = ", ".join(_quote(column) for column in frame.columns)
    database.execute(f"CREATE TABLE {_quote(title)} ({names})")
    marks = ", ".join("?" * frame.width)
    database.executemany(f"INSERT INTO {_quote(title)} VALUES ({marks})", map(_fit, frame.iter_rows()))
    database.commit()


def _fit(row: Sequence[object]) -> Sequence[object]:
    """Return a row with whole numbers that SQLite does not have, from 2**63 on, as text."""
    return [str(value) if isinstance(value, int) and value >= 1 << 63 else value for value in row]


def _quote(name: str) -> str:
    """Return a name of a table or column in SQL."""
    return '"' + name.replace('"', '""') + '"'
