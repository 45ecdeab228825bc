# SPDX-License-Identifier: Apache-2.0
"""Rows that become a table, packed as they come: a long run has millions of samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import polars

# `natural`: from 0 to 2**64 - 1.
ColumnKind = Literal["whole", "natural", "text"]

# So many are packed at a time.
_PACK = 1 << 14


class Rows:
    """A table in the making. kinds: of its columns, in order; every value may be None."""

    def __init__(self, kinds: Mapping[str, ColumnKind]) -> None:
        import polars

        self._polars = polars
        types = {"whole": polars.Int64, "natural": polars.UInt64, "text": polars.String}
        self._schema = {name: types[kind] for name, kind in kinds.items()}
        self._packed: list[polars.DataFrame] = []
        self._rows: list[Sequence[Any]] = []

    def add(self, row: Sequence[Any]) -> None:
        self._rows.append(row)
        if len(self._rows) == _PACK:
            self._pack()

    def _pack(self) -> None:
        columns = zip(*self._rows, strict=True) if self._rows else [()] * len(self._schema)
        values = dict(zip(self._schema, columns, strict=True))
        self._packed.append(self._polars.DataFrame(values, schema=self._schema))
        self._rows = []

    def frame(self) -> polars.DataFrame:
        """All rows so far."""
        self._pack()
        self._packed = [self._polars.concat(self._packed)]
        return self._packed[0]
