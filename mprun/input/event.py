# SPDX-License-Identifier: Apache-2.0
"""The changes of a network that the entries of `events` stand for.

Each change says what a link is from a moment on, so that later stages need not know what was before.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import count
from typing import Any

from pydantic import ValidationError

from mprun.input.document import Document
from mprun.input.reader import read_text
from mprun.model.fault import Fault, Path, name_nearest
from mprun.model.span import find_spans
from mprun.model.spec import (
    HEADER_BYTES,
    AddressChange,
    Chance,
    Change,
    Direction,
    Flow,
    Jitter,
    LinkChange,
    LinkSpec,
    NodeKind,
    Queue,
)
from mprun.model.units import TIME
from mprun.schema import trace
from mprun.schema.event import PROPERTIES, EventEntry
from mprun.schema.file_model import explain
from mprun.schema.link import find_disagreements
from mprun.traces import TRACES

MOST_CHANGES = 100_000
_SIDES = {"forward": (True, False), "reverse": (False, True), "both": (True, True)}
_OPPOSITES = {"down": "up", "up": "down", "removed": "added", "added": "removed"}


Both = tuple[Direction, Direction]


@dataclass(frozen=True)
class Row:
    """A row of a schedule: its line, its time after the schedule's beginning, and its event.

    The event is None if the row changes nothing or has a fault.
    """

    line: int
    at_ns: int
    entry: EventEntry | None


@dataclass(frozen=True)
class Schedule:
    """A file of rows in the order of time."""

    file: str
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Event:
    """An entry of `events` with the content of its schedule. None if it has no readable schedule."""

    entry: EventEntry
    schedule: Schedule | None = None


def read_events(entries: Sequence[EventEntry], document: Document) -> tuple[Event, ...]:
    """Read events with their schedules. Faults of schedules go to the document."""
    return tuple(Event(entry, _read_schedule(entry, ("events", n), document)) for n, entry in enumerate(entries))


def _read_schedule(entry: EventEntry, place: Path, document: Document) -> Schedule | None:
    key, name = ("trace", entry.trace) if entry.is_scheduled_trace else ("schedule", entry.schedule)
    if name is None:
        return None
    if key == "trace" and name in TRACES:
        found: tuple[str, str] | None = (name, read_text(TRACES[name].file))
    else:
        found = document.companion((*place, key), name)
    if found is None:
        return None
    file, text = found
    try:
        rows = [
            Row(line, at_ns, _read_row(entry, file, line, cells, document) if cells else None)
            for line, at_ns, cells in trace.read_schedule(text, PROPERTIES)
        ]
    except trace.TraceError as error:
        document.faults.append(Fault(file, error.line, (), str(error)))
        return None
    return Schedule(file, tuple(rows))


def _read_row(
    entry: EventEntry, file: str, line: int, cells: Mapping[str, object], document: Document
) -> EventEntry | None:
    """Return a row as an event."""
    try:
        return EventEntry.model_validate({"link": entry.link, "set": cells})
    except ValidationError as error:
        for path, text in explain(EventEntry, error):
            document.faults.append(Fault(file, line, path[1:], text))
        return None


@dataclass
class _State:
    """A link while changes are applied to it."""

    spec: LinkSpec
    now: Both
    is_up: bool = True


class Timeline:
    """The changes of all links, made from events in the order of time."""

    def __init__(self, nodes: Mapping[str, NodeKind], links: tuple[LinkSpec, ...], document: Document) -> None:
        self._nodes = nodes
        self._states = {link.name: _State(link, (link.forward, link.reverse)) for link in links}
        self._document = document
        self._queue: list[tuple[int, int, Callable[[int], None]]] = []
        self._numbers = count()
        self._changes: list[Change] = []

    def lay(self, events: Sequence[Event]) -> tuple[Change, ...]:
        """Return all changes in the order of time. Faults go to the document."""
        for n, event in enumerate(events):
            if self._is_known(event.entry, ("events", n)):
                self._plan(event, ("events", n))
        while self._queue:
            at_ns, _, action = heapq.heappop(self._queue)
            action(at_ns)
            if len(self._changes) > MOST_CHANGES:
                self._document.fault(("events",), f"amount to more than {MOST_CHANGES} changes: use longer steps")
                break
        return tuple(self._changes)

    def _is_known(self, entry: EventEntry, place: Path) -> bool:
        if entry.link is not None and entry.link not in self._states:
            hint = name_nearest(entry.link, list(self._states), "links")
            self._document.fault((*place, "link"), f"no link '{entry.link}'{hint}")
            return False
        if entry.host is None:
            return True
        hosts = [name for name, kind in self._nodes.items() if kind == "host"]
        if entry.host not in hosts:
            hint = name_nearest(entry.host, hosts, "hosts")
            self._document.fault((*place, "host"), f"no host '{entry.host}'{hint}")
            return False
        own = [name for name, state in self._states.items() if entry.host in state.spec.ends]
        if entry.address is not None and entry.address not in own:
            hint = name_nearest(entry.address, own, "its links")
            self._document.fault((*place, "address"), f"host '{entry.host}' has no link '{entry.address}'{hint}")
            return False
        return True

    def _plan(self, event: Event, place: Path) -> None:
        entry = event.entry
        starts = [entry.at]
        if entry.every is not None and entry.until is not None:
            starts = list(range(entry.at, entry.until, entry.every)[: MOST_CHANGES + 1])
        if entry.is_scheduled_trace:
            self._plan_scheduled_trace(event, place)
        elif entry.trace is not None:
            self._plan_trace(entry, place, entry.trace)
        elif entry.schedule is not None:
            for row in event.schedule.rows if event.schedule else ():
                if row.entry is not None:
                    for start_ns in starts:
                        self._at(start_ns + row.at_ns, self._row_setter(row.entry, (*place, "schedule")))
        else:
            action = self._act if entry.over is None else self._ramp
            for start_ns in starts:
                self._at(start_ns, lambda at_ns: action(entry, place, at_ns))

    def _at(self, at_ns: int, action: Callable[[int], None]) -> None:
        heapq.heappush(self._queue, (at_ns, next(self._numbers), action))

    def _act(self, entry: EventEntry, place: Path, at_ns: int) -> None:
        if entry.lasts is not None:
            self._undo_later(entry, place, at_ns + entry.lasts)
        if entry.host is not None and entry.address is not None:
            self._changes.append(AddressChange(at_ns, entry.host, entry.address, entry.state == "added"))
            return
        assert entry.link is not None
        state = self._states[entry.link]
        if entry.set is not None:
            self._become(state, entry.set.over(state.now), (*place, "set"), at_ns)
        else:
            state.is_up = entry.state == "up"
            self._record(state, at_ns)

    def _undo_later(self, entry: EventEntry, place: Path, end_ns: int) -> None:
        """Plan the end of a change that lasts for a time. Properties that it does not set keep later changes."""
        if entry.set is None:
            undone = entry.model_copy(update={"state": _OPPOSITES[entry.state or "down"], "lasts": None})
            self._at(end_ns, lambda at_ns: self._act(undone, place, at_ns))
            return
        assert entry.link is not None
        state = self._states[entry.link]
        before, after = state.now, entry.set.over(state.now)
        own = [
            {
                one.name: getattr(old, one.name)
                for one in fields(old)
                if getattr(old, one.name) != getattr(new, one.name)
            }
            for old, new in zip(before, after, strict=True)
        ]

        def restore(at_ns: int) -> None:
            forward, reverse = (replace(now, **values) for now, values in zip(state.now, own, strict=True))
            self._become(state, (forward, reverse), (*place, "set"), at_ns)

        self._at(end_ns, restore)

    def _record(self, state: _State, at_ns: int) -> None:
        self._changes.append(LinkChange(at_ns, state.spec.name, *state.now, state.is_up))

    def _become(self, state: _State, wanted: Both, place: Path, at_ns: int) -> None:
        """Give a link other properties from a time on, unless the change is impossible."""
        faults = find_disagreements(*wanted)
        new = []
        for before, after in zip((state.spec.forward, state.spec.reverse), wanted, strict=True):
            if after.rate_bit_per_s and not before.rate_bit_per_s:
                faults[("rate",)] = (
                    f"cannot come while packets pass: give link '{state.spec.name}' a rate from the start"
                )
            if after.queue != before.queue and _kind(after.queue) != _kind(before.queue):
                faults[("queue",)] = (
                    f"differs in kind from that of link '{state.spec.name}', and waiting packets would be lost:"
                    " keep its discipline, and what it counts"
                )
            new.append(_keep_distribution(before, after))
        for path, message in faults.items():
            self._document.fault((*place, *path), message)
        if faults:
            return
        state.now = (new[0], new[1])
        self._record(state, at_ns)

    def _ramp(self, entry: EventEntry, place: Path, at_ns: int) -> None:
        assert entry.link is not None
        assert entry.set is not None
        assert entry.over is not None
        state = self._states[entry.link]
        target = entry.set.over(state.now)
        steps = entry.over // entry.step
        first = state.now
        for one, other in zip(first, target, strict=True):
            for name in _fixed(one, other):
                self._document.fault((*place, "set", name), "does not change by steps: 'over' is for numbers")

        def step(n: int) -> Callable[[int], None]:
            def act(now_ns: int) -> None:
                ways = [
                    replace(now, **_mix(one, other, n / steps))
                    for now, one, other in zip(state.now, first, target, strict=True)
                ]
                self._become(state, (ways[0], ways[1]), (*place, "set"), now_ns)

            return act

        for n in range(1, steps + 1):
            self._at(at_ns + n * entry.step, step(n))

    def _plan_trace(self, entry: EventEntry, place: Path, name: str) -> None:
        found = self._document.companion((*place, "trace"), name)
        assert entry.link is not None
        state = self._states[entry.link]
        if found is None:
            return
        file, text = found
        try:
            if entry.format == "rates":
                read = trace.read_rates(text, entry.interval)
            else:
                read = trace.read_mahimahi(text, entry.interval, state.spec.mtu + HEADER_BYTES)
        except trace.TraceError as error:
            self._document.faults.append(Fault(file, error.line, (), str(error)))
            return
        sides = _SIDES[entry.direction]
        if any(side and not way.rate_bit_per_s for side, way in zip(sides, state.now, strict=True)):
            message = f"needs a rate to change: give link '{state.spec.name}' one, it holds before the trace"
            self._document.fault((*place, "trace"), message)
            return
        end_ns = entry.until if entry.until is not None else entry.at + read.period_ns
        begin_ns, last = entry.at, None
        while begin_ns < end_ns:
            for offset_ns, rate in read.rates:
                at_ns = begin_ns + offset_ns
                if rate != last and at_ns < end_ns:
                    self._at(at_ns, self._rate_setter(state, sides, rate, place))
                last = rate
            begin_ns += read.period_ns

    def _plan_scheduled_trace(self, event: Event, place: Path) -> None:
        entry, rows = event.entry, event.schedule.rows if event.schedule else ()
        if not rows:
            return
        *played, last = rows
        if not played:
            self._document.fault((*place, "trace"), "has one row, which is its end: write the rows before it too")
            return
        assert entry.link is not None
        state = self._states[entry.link]
        end_ns = entry.until if entry.until is not None else entry.at + last.at_ns
        begin_ns = entry.at
        while begin_ns < end_ns:
            for row in played:
                if row.entry is not None and begin_ns + row.at_ns < end_ns:
                    setter = self._side_setter(state, _SIDES[entry.direction], row.entry, (*place, "trace"))
                    self._at(begin_ns + row.at_ns, setter)
            begin_ns += last.at_ns
            if len(self._queue) > MOST_CHANGES:
                break

    def _side_setter(
        self, state: _State, sides: tuple[bool, bool], entry: EventEntry, place: Path
    ) -> Callable[[int], None]:
        """Return the action that gives some directions of a link the values of a row."""

        def act(at_ns: int) -> None:
            assert entry.set is not None
            wanted = entry.set.over(state.now)
            forward, reverse = (new if side else now for side, new, now in zip(sides, wanted, state.now, strict=True))
            self._become(state, (forward, reverse), place, at_ns)

        return act

    def _rate_setter(self, state: _State, sides: tuple[bool, bool], rate: int, place: Path) -> Callable[[int], None]:
        def act(at_ns: int) -> None:
            ways = [
                replace(way, rate_bit_per_s=rate) if side else way for side, way in zip(sides, state.now, strict=True)
            ]
            self._become(state, (ways[0], ways[1]), (*place, "trace"), at_ns)

        return act

    def _row_setter(self, entry: EventEntry, place: Path) -> Callable[[int], None]:
        return lambda at_ns: self._act(entry, place, at_ns)


def _kind(queue: Queue | None) -> tuple[str, bool]:
    """The discipline, and the unit of the limit. Neither can change without emptying the queue."""
    return ("fifo", False) if queue is None else (queue.discipline, queue.counts_bytes)


def _keep_distribution(before: Direction, after: Direction) -> Direction:
    """Keep the distribution of a link's jitter: netem cannot go back to a uniform jitter."""
    if before.jitter is None or after.jitter is None or after.jitter.distribution != "uniform":
        return after
    return replace(after, jitter=replace(after.jitter, distribution=before.jitter.distribution))


def _fixed(one: Direction, other: Direction) -> list[str]:
    """The properties that differ between two directions and have no values between them, by their names in a file."""
    names = []
    for field in fields(Direction):
        before, after = getattr(one, field.name), getattr(other, field.name)
        if before != after and not {type(before), type(after)} <= {int, Jitter, Chance, type(None)}:
            names.append(field.name)
    return names


def _mix(one: Direction, other: Direction, share: float) -> dict[str, Any]:
    """The properties that differ between two directions, with the values at a share of the way between them."""
    names = [field.name for field in fields(Direction)]
    differing = [name for name in names if getattr(one, name) != getattr(other, name)]
    return {name: _between(getattr(one, name), getattr(other, name), share) for name in differing}


def _between(before: Any, after: Any, share: float) -> Any:
    """A value between two values of one kind. Either value may be missing."""
    known = after if after is not None else before
    if isinstance(known, int):
        return round((before or 0) + ((after or 0) - (before or 0)) * share)
    if isinstance(known, Jitter):
        ends = [0 if value is None else value.amount_ns for value in (before, after)]
        amount_ns = round(ends[0] + (ends[1] - ends[0]) * share)
        return replace(known, amount_ns=amount_ns) if amount_ns else None
    if isinstance(known, Chance) and {type(before), type(after)} <= {Chance, type(None)}:
        chances = [0.0 if value is None else value.probability for value in (before, after)]
        probability = chances[0] + (chances[1] - chances[0]) * share
        return replace(known, probability=probability) if probability else None
    return after


def check_times(events: Sequence[Event], traffic: Sequence[Flow], document: Document) -> None:
    """Record faults of events that begin after the end of the run, and warn of events that end later.

    Events are checked only if the end of the run is known. A trace may be longer than the run, and so may a
    repetition.
    """
    ends = [span.end_ns for span in find_spans(traffic).values()]
    known = [end for end in ends if end is not None]
    if not known or len(known) < len(ends):
        return
    end_ns = max(known)
    when = f"the end of the experiment, {TIME.render(end_ns)}"
    for n, event in enumerate(events):
        entry = event.entry
        if entry.at >= end_ns:
            document.fault(("events", n, "at"), f"is not before {when}: it would have no effect")
        elif entry.over is not None and entry.at + entry.over > end_ns:
            reached = TIME.render(entry.at + entry.over)
            document.warn(("events", n, "over"), f"its values are reached only at {reached}, after {when}")
        elif event.schedule is not None and entry.trace is None:
            _check_rows(event.schedule, end_ns - entry.at, when, document)


def _check_rows(schedule: Schedule, left_ns: int, when: str, document: Document) -> None:
    """Check the rows of a schedule as `check_times` does. left_ns: the time from its beginning to the end."""
    late = next((n for n, row in enumerate(schedule.rows) if row.at_ns >= left_ns), None)
    if late is None:
        return
    file, line = schedule.file, schedule.rows[late].line
    if late == 0:
        document.faults.append(Fault(file, line, (), f"is not before {when}: the schedule would have no effect"))
    else:
        document.warnings.append(
            Fault(file, line, (), f"is not before {when}: this row and all later rows have no effect")
        )
