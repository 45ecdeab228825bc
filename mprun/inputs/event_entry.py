# SPDX-License-Identifier: Apache-2.0
"""Read the entries of `events`, and the rows of the files of their schedules and traces."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pydantic import ValidationError

from mprun.inputs.document import Document
from mprun.inputs.keys import trace_file
from mprun.inputs.keys.event import PROPERTIES, EventEntry
from mprun.inputs.keys.file_model import explain
from mprun.inputs.keys.impairment import spread_directions
from mprun.inputs.keys.link import DirectionProperties
from mprun.inputs.named_file import read_text
from mprun.inputs.traces import TRACES
from mprun.model.frozen import Frozen
from mprun.model.problem import InputProblem, ValuePath
from mprun.model.units import tell_rounding

MOST_CHANGES = 100_000


class ScheduleRow(Frozen):
    """A row of a schedule: its line, its time after the schedule's beginning, and the properties that it sets.

    The properties are None if the row changes nothing or has a problem.
    """

    line: int
    at_ns: int
    set: DirectionProperties | None


class ReadEvent(Frozen):
    """An entry of `events`, with the file of its schedule and the rows in the order of time.

    An entry without a readable schedule has no rows.
    `period_ns`: the length of its trace; None without a trace that can be read.
    """

    entry: EventEntry
    file: str = ""
    rows: tuple[ScheduleRow, ...] = ()
    period_ns: int | None = None


ReadRows = tuple[str, tuple[ScheduleRow, ...]]


def read_events(entries: Sequence[EventEntry], document: Document) -> tuple[ReadEvent, ...]:
    """Read events with their schedules, each file once. Problems of schedules go to the document."""
    files: dict[tuple[str, str], ReadRows | None] = {}
    read: list[ReadEvent] = []
    rows = 0
    for n, entry in enumerate(entries):
        key, name = ("trace", entry.trace) if entry.is_scheduled_trace else ("schedule", entry.schedule)
        found = None
        if name is not None:
            if (key, name) not in files and rows <= MOST_CHANGES:
                files[key, name] = made = _read_rows(name, ("events", n, key), document)
                rows += len(made[1]) if made else 0
            found = files.get((key, name))
        read.append(ReadEvent(entry, *found) if found else ReadEvent(entry))
    if rows > MOST_CHANGES:
        document.refuse(
            ("events",), f"have files of more than {MOST_CHANGES} rows in all: use longer steps, or cut them"
        )
    return tuple(read)


def _read_rows(name: str, position: ValuePath, document: Document) -> ReadRows | None:
    """Return the file of a schedule and its rows. None if it cannot be read; the reason is recorded."""
    if position[-1] == "trace" and name in TRACES:
        file, read = name, trace_file.read_schedule(read_text(TRACES[name].file), PROPERTIES)
    else:
        found = document.companion(position, name, lambda text: trace_file.read_schedule(text, PROPERTIES))
        if found is None:
            return None
        file, read = found
    warn_of_rates(file, [(line, cells.get("rate")) for line, _, cells in read], document)
    rows = (
        ScheduleRow(line, at_ns, _read_row(file, line, cells, document) if cells else None)
        for line, at_ns, cells in read
    )
    return file, tuple(rows)


def warn_of_rates(file: str, written: Iterable[tuple[int, object]], document: Document) -> None:
    """Warn of the first rate in a file that is rounded to one that a link can have, and count all such rates."""
    told = [
        (line, message)
        for line, value in written
        for _, one in spread_directions((), value)
        if (message := tell_rounding(one))
    ]
    if told:
        line, message = told[0]
        counted = f"; rounded rates in this file: {len(told)}" if len(told) > 1 else ""
        document.warnings[InputProblem(file, line, ("rate",), message + counted)] = None


def _read_row(file: str, line: int, cells: Mapping[str, object], document: Document) -> DirectionProperties | None:
    try:
        return DirectionProperties.model_validate(cells)
    except ValidationError as error:
        for path, text in explain(DirectionProperties, error):
            document.add_problem(InputProblem(file, line, path, text))
        return None
