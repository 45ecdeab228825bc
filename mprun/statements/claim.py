# SPDX-License-Identifier: Apache-2.0
"""Claims over runs, and the meaning of their names: metrics, and columns of tables, whose names end in their units."""

from __future__ import annotations

from collections.abc import Mapping

from mprun.model.frozen import Frozen
from mprun.model.metric import Unit
from mprun.statements.expression import Expression, Reference, Segment, refuse_conditions

# The end of a column's name -> the kind of its unit, and the number of these units in a base unit. A division by it
# gives the float of a literal: 9 ms of 9,000,000 ns is 9e6 / 1e9, and 9e6 * 1e-9 is a little more.
COLUMNS: Mapping[str, tuple[Unit, float]] = {
    "_bit_per_s": ("rate", 1), "_bytes_per_s": ("rate", 1 / 8), "_ns": ("time", 1e9), "_us": ("time", 1e6),
    "_ms": ("time", 1e3), "_s": ("time", 1), "_bytes": ("size", 1), "_share": ("ratio", 1),
}  # fmt: skip


def column_unit(name: str) -> tuple[Unit, float]:
    """The kind of a column's unit by the column's name, and the divisor that gives base units (bit/s, s, byte, 1).
    Without a unit it is a count.
    """
    return next((found for suffix, found in COLUMNS.items() if name.endswith(suffix)), ("count", 1))


def split_table(reference: Reference) -> tuple[Segment, str] | None:
    """Split a name such as `RUN.requests[flow=msg].delay_ns` into the table with its conditions and the column.

    None if the name is the name of a metric.
    """
    parts = reference.segments
    return (parts[1], parts[2].name) if len(parts) == 3 and parts[1].conditions else None


def refuse_stray(reference: Reference, table: tuple[Segment, str] | None) -> None:
    """Raise UnknownName if a name has conditions elsewhere than at its table. table: as `split_table` returns it."""
    refuse_conditions(one for one in reference.segments if table is None or one is not table[0])


class Claim(Frozen):
    """A statement, in words (`says`) and over the runs of a lab (`holds`), and the reason for it."""

    says: str
    holds: Expression
    why: str
    tolerance: str = ""

    @property
    def steps(self) -> tuple[str, ...]:
        """The runs that the claim is about."""
        return tuple(dict.fromkeys(reference.segments[0].name for reference in self.holds.references()))
