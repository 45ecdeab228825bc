# SPDX-License-Identifier: Apache-2.0
"""The samples of a record: their sources, as the agent describes each once, and rows that become a table.

Rows are packed as they come, because a long run has millions of samples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from mprun.model.frozen import Frozen

if TYPE_CHECKING:
    import polars


class SampleSource(Frozen):
    """A source of samples: sockets, interfaces, a program, CPU times, or trace events. It has only the fields of one.

    - host: the host whose sockets are sampled.
    - nodes, indices: the nodes that share a namespace, and the numbers of its interfaces by name.
    - session, process, node: a program that was started, and the node on which it runs.
    - tick_per_s: the unit of CPU times.
    - formats, lost: the format of each trace event by its name, and the number of events that were overwritten.
    """

    host: str | None = None
    nodes: tuple[str, ...] = ()
    indices: Mapping[str, int] | None = None
    session: int | None = None
    process: str = ""
    node: str | None = None
    tick_per_s: int = 0
    formats: Mapping[str, str] | None = None
    lost: int = 0


# `natural`: from 0 to 2**64 - 1.
ColumnKind = Literal["whole", "natural", "text"]

# The number of rows that are packed at a time.
_PACK = 1 << 14


class Rows:
    """A table to which rows are added. kinds: of its columns, in order. Every value may be None."""

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
        self._pack()
        self._packed = [self._polars.concat(self._packed)]
        return self._packed[0]
