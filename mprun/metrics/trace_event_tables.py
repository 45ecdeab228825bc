# SPDX-License-Identifier: Apache-2.0
"""The trace events of a run: a table for each kind of event. Pure.

An event belongs to a host if it has the host's address as `saddr`, or the name of an interface of the host. Linux
events of sockets have the socket's own address as `saddr`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mprun.kernel.trace_event_format import HOST, TIME, EventFormat, FieldValue, read_format, read_pages, split_pages
from mprun.metrics.rows import ColumnKind, Rows, SampleSource
from mprun.model.network import Node
from mprun.model.trace_event_name import name_table

if TYPE_CHECKING:
    import polars

COMMAND = "`mprun show --trace`"
# Fields that name an interface.
_DEVICES = ("name", "dev", "dev_name", "devname")


@dataclass
class RecordedEvents:
    """Events of a record, as rows by the number of their kind. `lost`: the number of events that were overwritten.

    An object of the kernel has the number of its first appearance, from 1 on. Its address depends on all memory that
    the kernel took before, so another user's run would have another one. 0 is no object.
    """

    lost: int = 0
    formats: dict[int, EventFormat] = field(default_factory=dict)
    rows: dict[int, Rows] = field(default_factory=dict)
    _objects: dict[object, int] = field(default_factory=lambda: {0: 0})

    def add(self, source: SampleSource) -> None:
        """Take the formats of events. Raises ValueError if they are damaged."""
        self.lost += source.lost
        for event, text in (source.formats or {}).items():
            found = read_format(event, text)
            columns: dict[str, ColumnKind] = {TIME: "whole", **found.columns}
            self.formats[found.number], self.rows[found.number] = found, Rows(columns)

    def read(self, content: bytes, zero_ns: int) -> None:
        """Take pages of events; those without a format are left out. Raises ValueError."""
        for at_ns, number, record in read_pages(split_pages(content)):
            if found := self.formats.get(number):
                values = zip(found.columns, found.read(record), strict=True)
                self.rows[number].add([at_ns - zero_ns, *(self._number(found, *value) for value in values)])

    def _number(self, found: EventFormat, column: str, value: FieldValue) -> FieldValue:
        """Return a value, or the number of the object at this address."""
        return self._objects.setdefault(value, len(self._objects)) if column in found.objects else value


def tabulate_trace(trace: RecordedEvents, nodes: Sequence[Node]) -> dict[str, polars.DataFrame]:
    """Return the table of each kind of event, also without rows. nodes: of the intent."""
    owners = {str(address.ip): node.name for node in nodes for one in node.interfaces for address in one.addresses}
    devices = {one.name: node.name for node in nodes for one in node.interfaces}
    return {
        name_table(found.event): _with_host(trace.rows[number].frame(), found, owners, devices)
        for number, found in trace.formats.items()
    }


def _with_host(
    frame: polars.DataFrame, found: EventFormat, owners: dict[str, str], devices: dict[str, str]
) -> polars.DataFrame:
    import polars

    known = [("saddr", owners), *((name, devices) for name in _DEVICES)]
    for name, names in known:
        if found.columns.get(name) == "text":
            host = polars.col(name).replace_strict(names, default=None, return_dtype=polars.String)
            return frame.select(TIME, host.alias(HOST), *found.columns)
    return frame


def warn_of_lost_events(trace: RecordedEvents) -> Iterator[str]:
    """Warn of events that were overwritten."""
    if trace.lost:
        yield (
            f"{trace.lost} trace events were overwritten, because the kernel keeps the last 32 MiB: record fewer kinds "
            f"of events, or a shorter run ({COMMAND} counts them)"
        )
