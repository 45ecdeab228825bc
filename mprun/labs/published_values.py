# SPDX-License-Identifier: Apache-2.0
"""The published values of a study: the file `published.csv` of its lab.

The columns are figure, series, x, x_unit, y, y_unit, kind and source. A row of kind `value` has a value in y, `setting`
a parameter, and `statement` a result in words. The source names the section of the study.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from mprun.errors import SpecError
from mprun.model.frozen import Frozen
from mprun.model.metric import UNITS
from mprun.model.units import PREFIXES
from mprun.safety.folder import Folder
from mprun.statements.expression import Value

FILE = "published.csv"
COLUMNS = ("figure", "series", "x", "x_unit", "y", "y_unit", "kind", "source")
KINDS = ("value", "setting", "statement")
ABOUT = " (about)"
# The factor to base units and the base unit of each unit in a file.
_FACTORS = {
    **{name: (factor, unit) for unit, prefixes in PREFIXES.items() for factor, name in prefixes},
    "byte": (1.0, "byte"),
    "KB": (1e3, "byte"),
    # nouns of counts
    "connections": (1.0, "1"),
    "times": (1.0, "1"),
}


class PublishedValue(Frozen):
    """A row of the file. line: its number in the file."""

    figure: str
    series: str
    x: str
    x_unit: str
    y: str
    y_unit: str
    kind: str
    source: str
    line: int

    @property
    def text(self) -> str:
        """The value with its unit, as published."""
        return f"{self.y} {self.y_unit}".strip()

    @property
    def section(self) -> str:
        """The section of the publication: the source without the name of the study and without notes."""
        place = self.source.partition(", ")[2] or self.source
        return place.partition(" (")[0].partition("; ")[0].strip()

    @property
    def value(self) -> Value | None:
        """The value in base units; None for a range, a text or an unknown unit."""
        factor, unit = _FACTORS.get(self.y_unit.removesuffix(ABOUT), (0.0, ""))
        try:
            return Value((float(self.y) * factor,), UNITS[unit]) if factor else None
        except ValueError:
            return None


def read_published(folder: Folder) -> tuple[PublishedValue, ...]:
    """Return the rows of a lab's file. Raises SpecError if the file is missing or a row is faulty."""
    shown = folder.path / FILE
    try:
        lines = list(csv.reader(io.StringIO(folder.read_text(FILE))))
    except FileNotFoundError:
        raise SpecError(f"{shown} is missing: 'figures' needs the published values") from None
    if not lines or tuple(lines[0]) != COLUMNS:
        raise SpecError(f"{shown}:1: has other columns: write '{','.join(COLUMNS)}'")
    rows = []
    for number, cells in enumerate(lines[1:], 2):
        if len(cells) != len(COLUMNS):
            raise SpecError(f"{shown}:{number}: has {len(cells)} columns: write {len(COLUMNS)}")
        figure, series, x, x_unit, y, y_unit, kind, source = cells
        row = PublishedValue(figure, series, x, x_unit, y, y_unit, kind, source, number)
        if row.kind not in KINDS:
            raise SpecError(f"{shown}:{number}: kind '{row.kind}': allowed kinds: {', '.join(KINDS)}")
        if not row.source:
            raise SpecError(f"{shown}:{number}: has no source: name the section of the publication")
        rows.append(row)
    return tuple(rows)


def find_rows(rows: Sequence[PublishedValue], figure: str, series: str, x: str | None) -> list[PublishedValue]:
    """Return the rows with a value of a series in a figure. x: None for any."""
    found = [row for row in rows if row.kind == "value" and (row.figure, row.series) == (figure, series)]
    return [row for row in found if x is None or row.x == x]
