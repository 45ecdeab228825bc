# SPDX-License-Identifier: Apache-2.0
"""Turn the entries of `events` into changes of the network.

Each change says what a link is from a moment on, so that later stages need not know what was before.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from ipaddress import ip_interface
from itertools import chain, count, islice
from typing import Any, TypeVar

from mprun.inputs.document import Document
from mprun.inputs.event_entry import MOST_CHANGES, ReadEvent, warn_of_rates
from mprun.inputs.keys import trace_file
from mprun.inputs.keys.event import EventEntry
from mprun.inputs.keys.link import DirectionProperties, find_disagreements
from mprun.inputs.overlap import EventOrder, PropertyCourse, PropertyMoment, have_values_between, mix, resolve_courses
from mprun.inputs.traces import TRACES
from mprun.model.address import free_addresses
from mprun.model.frozen import Frozen
from mprun.model.problem import ValuePath, name_nearest, tell_unknown
from mprun.model.spec import (
    HEADER_BYTES,
    ONE_BDP,
    AddressChange,
    Chance,
    Change,
    Direction,
    LinkChange,
    LinkSpec,
    NodeKind,
    Queue,
    Rebinding,
    Rebound,
    TopologySpec,
)
from mprun.model.units import TIME, hold_rate

# The rebindings of an address. A derived subnet of 24 bits has 252 addresses for them.
MOST_REBINDINGS = 250
_SIDES = {"forward": (0,), "reverse": (1,), "both": (0, 1)}

# The order of a change among all changes (`_rank`).
_Order = tuple[int, bool, int, EventOrder]
PropertyT = TypeVar("PropertyT")


class Track(Frozen):
    """A target of events: a property of a direction of a link, `is_up` of a link, or `is_there` of a host's address.

    side: 0 for forward, 1 for reverse. host: of an address, else empty.
    """

    link: str
    field: str
    side: int = 0
    host: str = ""


class Timeline:
    """The changes of all links, made from events in the order of time."""

    def __init__(self, nodes: Mapping[str, NodeKind], links: tuple[LinkSpec, ...], document: Document) -> None:
        self._nodes = nodes
        self._links = {link.name: link for link in links}
        self._document = document
        self._rebindings: dict[tuple[str, str], Counter[Rebound]] = {}
        # by name, format, interval and largest packet
        self._traces: dict[tuple[object, ...], trace_file.RateTrace | None] = {}
        # of all rate traces that were read, and rows of all schedules that were played
        self._intervals = 0
        # the length of each event's trace
        self.periods_ns: dict[int, int] = {}

    def lay(self, events: Sequence[ReadEvent]) -> tuple[Change, ...]:
        """Return all changes in the order of time, one for each moment of a link. Problems go to the document."""
        courses: dict[Track, list[PropertyCourse]] = {}
        changes = 0
        rebindings: list[tuple[_Order, Change]] = []
        for n, event in enumerate(events):
            if event.entry.rebind is not None:
                rebindings += self._rebind(n, event.entry)
                continue
            for laid in self._lay_event(n, event) if self._is_known(event.entry, ("events", n)) else ():
                for track, course in laid.items():
                    courses.setdefault(track, []).append(course)
                changes += max((len(one.steps) + (one.end_ns is not None) for one in laid.values()), default=0)
                if changes > MOST_CHANGES:
                    return self._refuse_number()
        moments: dict[tuple[str, str], dict[int, dict[Track, PropertyMoment]]] = {}
        resolved = {track: list(self._resolve(track, laid)) for track, laid in courses.items()}
        if not self._document.tree.is_resolved:
            self._warn_of_idle(courses, resolved)
            self._warn_of_ended_traces(courses)
        for track, found_for_it in resolved.items():
            for moment in found_for_it:
                moments.setdefault((track.link, track.host), {}).setdefault(moment.at_ns, {})[track] = moment
        found = rebindings + [
            (min(map(_rank, at_once.values())), change)
            for (link, host), by_time in moments.items()
            for at_once, change in (self._change_address if host else self._change_link)(link, host, by_time)
        ]
        return tuple(change for _, change in sorted(found, key=lambda one: one[0]))

    def _refuse_number(self) -> tuple[Change, ...]:
        self._document.refuse(("events",), f"amount to more than {MOST_CHANGES} changes: use longer steps")
        return ()

    def _rebind(self, n: int, entry: EventEntry) -> Iterator[tuple[_Order, Change]]:
        position: ValuePath = ("events", n)
        if entry.host is None or entry.address is None or not self._is_known(entry, position):
            return
        other = next(end for end in self._links[entry.address].ends if end != entry.host)
        if self._nodes[other] != "router":
            message = f"needs a router at the other end of '{entry.address}', and '{other}' is a {self._nodes[other]}"
            self._document.refuse((*position, "rebind"), f"{message}: put a router between them")
            return
        assert entry.rebind is not None
        starts = _starts(entry)
        known = self._rebindings.setdefault((entry.host, entry.address), Counter())
        if _explain_excess(self._links[entry.address], known):
            # an earlier event has this problem
            return
        known[entry.rebind] += len(starts)
        if excess := _explain_excess(self._links[entry.address], known):
            self._document.refuse((*position, "rebind"), excess)
            return
        for number, at_ns in enumerate(starts):
            yield (at_ns, False, 0, (n, number)), Rebinding(at_ns, entry.host, entry.address, entry.rebind)

    def _is_known(self, entry: EventEntry, position: ValuePath) -> bool:
        if entry.link is not None and entry.link not in self._links:
            self._document.refuse((*position, "link"), tell_unknown("link", entry.link, self._links))
            return False
        if entry.host is None:
            return True
        hosts = [name for name, kind in self._nodes.items() if kind == "host"]
        if entry.host not in hosts:
            self._document.refuse((*position, "host"), tell_unknown("host", entry.host, hosts))
            return False
        own = [name for name, link in self._links.items() if entry.host in link.ends]
        if entry.address is not None and entry.address not in own:
            hint = name_nearest(entry.address, own, "its links")
            self._document.refuse((*position, "address"), f"host '{entry.host}' has no link '{entry.address}'{hint}")
            return False
        return True

    def _lay_event(self, n: int, event: ReadEvent) -> Iterator[dict[Track, PropertyCourse]]:
        """Yield the courses of each time that an event begins."""
        entry, position = event.entry, ("events", n)
        starts = _starts(entry)
        numbers = count()
        # the rows of a rate trace count when it is read
        self._intervals += len(event.rows) if entry.trace is not None else 0
        if entry.trace is not None and self._intervals > trace_file.MOST_INTERVALS:
            self._refuse_number()
        elif entry.is_scheduled_trace:
            yield from self._lay_scheduled_trace(event, n)
        elif entry.trace is not None:
            yield from self._lay_rate_trace(entry, n, entry.trace)
        else:
            key, rows = "set", [(0, entry.set)]
            if entry.schedule is not None:
                key, rows = "schedule", [(row.at_ns, row.set) for row in event.rows if row.set is not None]
            for at_ns, given in ((start_ns + offset_ns, given) for start_ns in starts for offset_ns, given in rows):
                end_ns = None if entry.lasts is None else at_ns + entry.lasts
                times = [at_ns]
                if entry.over is not None:
                    times = list(range(at_ns + entry.step, at_ns + entry.over + 1, entry.step)[: MOST_CHANGES + 1])
                course = partial(PropertyCourse, at_ns, (n, next(numbers)), (*position, key))
                yield {
                    track: course([(one, value) for one in times], end_ns, is_ramp=entry.over is not None)
                    for track, value in _values(entry, given)
                }

    def _lay_rate_trace(self, entry: EventEntry, n: int, name: str) -> Iterator[dict[Track, PropertyCourse]]:
        position: ValuePath = ("events", n, "trace")
        assert entry.link is not None
        link = self._links[entry.link]

        # the trace, and the lines with the rates that the user wrote
        def read(text: str) -> tuple[trace_file.RateTrace, list[tuple[int, str]]]:
            if entry.format == "rates":
                return trace_file.read_rates(text, entry.interval), list(trace_file.number_lines(text))
            return trace_file.read_mahimahi(text, entry.interval, link.mtu + HEADER_BYTES), []

        known = (name, entry.format, entry.interval, link.mtu)
        if known not in self._traces:
            self._traces[known] = None
            if found := self._document.companion(position, name, read, tuple(TRACES)):
                file, (whole, written) = found
                self._intervals += len(whole.rates)
                warn_of_rates(file, written, self._document)
                self._traces[known] = replace(whole, rates=tuple(trace_file.keep_changes(whole.rates)))
        trace = self._traces[known]
        if trace is None:
            return
        sides = _SIDES[entry.direction]
        if any(not (link.forward, link.reverse)[side].rate_bit_per_s for side in sides):
            message = f"needs a rate to change: give link '{link.name}' one, it holds before the trace"
            self._document.refuse(position, message)
            return
        if entry.format == "rates" and "interval" not in entry.model_fields_set:
            each, period = TIME.render(entry.interval), TIME.render(trace.period_ns)
            message = f"is missing, so that each rate holds for {each} and the trace lasts {period}"
            self._document.warn((*position[:2], "interval"), f"{message}: write it, as in 'interval: {each}'")
        self._note_period(entry, n, trace.period_ns)
        steps = trace_file.keep_changes(_repeat(trace.rates, trace.period_ns, entry))
        yield {
            Track(link.name, "rate_bit_per_s", side): PropertyCourse(entry.at, (n, 0), position, steps)
            for side in sides
        }

    def _lay_scheduled_trace(self, event: ReadEvent, n: int) -> Iterator[dict[Track, PropertyCourse]]:
        """Yield the course of each property. It begins with the first value that the trace has for the property."""
        entry = event.entry
        if not event.rows:
            return
        *played, last = event.rows
        if not played:
            self._document.refuse(("events", n, "trace"), "has one row, which is its end: write the rows before it too")
            return
        if entry.direction != "both":
            self._check_direction(n, event.file, [row.set for row in played if row.set], entry.direction)
        self._note_period(entry, n, last.at_ns)
        if last.set is not None and last.set not in (played[0].set, played[-1].set):
            message = "never holds, as its time is the end: write one more row after it"
            self._document.warn(("events", n, "trace"), f"the last row of '{event.file}' {message}")
        steps: dict[Track, list[tuple[int, Any]]] = {}
        for at_ns, given in _repeat([(row.at_ns, row.set) for row in played], last.at_ns, entry):
            for track, value in _values(entry, given) if given is not None else ():
                if track.side in _SIDES[entry.direction]:
                    steps.setdefault(track, []).append((at_ns, value))
        position = ("events", n, "trace")
        yield {track: PropertyCourse(values[0][0], (n, 0), position, values) for track, values in steps.items()}

    def _note_period(self, entry: EventEntry, n: int, period_ns: int) -> None:
        """Note the length of a trace, and warn if the trace begins again before its end."""
        self.periods_ns[n] = period_ns
        if entry.every is not None and entry.every < period_ns:
            period = TIME.render(period_ns)
            message = f"is shorter than the trace, whose end is then never played: write 'every: {period}' or more"
            self._document.warn(("events", n, "every"), message)

    def _check_direction(self, n: int, file: str, rows: Sequence[DirectionProperties], direction: str) -> None:
        """Record what a trace with values of both directions loses if one direction alone is played."""
        position = ("events", n, "direction")
        if any("rtt" in row.model_fields_set for row in rows):
            message = "has 'rtt', which is of both directions: write 'delay' there, or remove 'direction'"
            self._document.refuse(position, f"'{file}' {message}")
        (played,) = _SIDES[direction]
        pairs = [row.given() for row in rows]
        names = [{name for pair in pairs for name in pair[side]} for side in (0, 1)]
        if names[1 - played] - names[played]:
            message = f"has a column for the other direction than '{direction}' alone, which has no effect"
            self._document.warn(position, f"'{file}' {message}")

    def _resolve(self, track: Track, courses: Sequence[PropertyCourse]) -> Iterator[PropertyMoment]:
        def climb(ramp: PropertyCourse, first: Any, target: Any, share: float) -> Any:
            if not have_values_between(first, target):
                message = "does not change by steps: 'over' is for numbers"
                self._document.refuse((*ramp.position, track.field), message)
            value = mix(first, target, share)
            return hold_rate(value) if track.field == "rate_bit_per_s" else value

        return resolve_courses(self._before(track), courses, climb)

    def _before(self, track: Track) -> Any:
        is_state = track.field in ("is_up", "is_there")
        return True if is_state else getattr(_sides(self._links[track.link])[track.side], track.field)

    def _warn_of_idle(
        self, courses: Mapping[Track, Sequence[PropertyCourse]], moments: Mapping[Track, Sequence[PropertyMoment]]
    ) -> None:
        """Warn of events that set only what holds already, each once. All changes stay.

        A parameter may change in other runs.
        """
        changing: set[int] = set()
        # events of which a repetition changes something
        again: set[int] = set()
        layers = dict(moments)
        for track, laid in courses.items():
            found, held_back = moments[track], [one for one in laid if one.end_ns is not None]
            if held_back and len({one.order[0] for one in laid}) > 1:
                # a temporary change holds other changes back, so that permanent changes are judged without it
                changing |= {course.order[0] for course in held_back}
                again |= changing
                layers[track] = found = list(self._resolve(track, [one for one in laid if one.end_ns is None]))
            values = [self._before(track), *(moment.value for moment in found)]
            orders = [one.course.order for n, one in enumerate(found) if one.value != values[n]]
            changing |= {event for event, _ in orders}
            again |= {event for event, repetition in orders if repetition}
        for track, laid in courses.items():
            words = ("removed", "present") if track.host else ("down", "up") if track.field == "is_up" else None
            for course in sorted(laid, key=lambda one: one.rank):
                event, repetition = course.order
                if repetition and event in changing - again and not self._document.is_template:
                    again.add(event)
                    message = "has no effect: a repetition sets what holds already; write 'for' for a change that ends"
                    self._document.warn((*course.position[:2], "every"), message)
                if repetition or event in changing or (self._document.is_template and not words):
                    continue
                at, key = TIME.render(course.begin_ns), "state" if words else course.position[2]
                what = f"the address of '{track.link}'" if track.host else f"link '{track.link}'"
                held = self._held(layers, track, course.begin_ns)
                value = course.steps[0][1]
                holder = next((one for one in laid if one.begin_ns <= course.begin_ns < (one.end_ns or 0)), None)
                later = next((one for one in laid if one.begin_ns > course.begin_ns and one.steps[0][1] != value), None)
                reason = f"a later event sets the {'state' if words else 'values'} of {what} at {at} too"
                if holder is not None and holder.steps[0][1] != value:
                    has = words[holder.steps[0][1]] if words else "at its values"
                    until = TIME.render(holder.end_ns or 0)
                    reason = f"events[{holder.order[0]}] holds {what} {has} until {until}: write a shorter 'for' there"
                elif value == held:
                    reason = f"{what} {f'is {words[value]}' if words else 'has these values'} already at {at}"
                    beside = [Track(track.link, "loss"), Track(track.link, "loss", 1), Track(track.link, "is_up")]
                    *losses, is_up = (self._held(layers, one, course.begin_ns) for one in beside)
                    if value is True and not track.host and losses == [Chance(1.0)] * 2:
                        reason += ", and loses all packets"
                    elif not words and not is_up:
                        reason += ", and is down"
                    elif words and later is not None:
                        reason += f", and events[{later.order[0]}] changes it at {TIME.render(later.begin_ns)}: "
                        reason += "write a time after that, or remove this event"
                self._document.warn((*course.position[:2], key), f"has no effect: {reason}")

    def _held(self, layers: Mapping[Track, Sequence[PropertyMoment]], track: Track, at_ns: int) -> object:
        """Return the value of a track before a time."""
        moments = layers.get(track, ())
        earlier = bisect_left(moments, at_ns, key=lambda one: one.at_ns)
        return moments[earlier - 1].value if earlier else self._before(track)

    def _warn_of_ended_traces(self, courses: Mapping[Track, Sequence[PropertyCourse]]) -> None:
        """Warn of permanent changes at once that end a trace, which does not come back."""
        for laid in courses.values():
            for trace in (one for one in laid if one.position[2] == "trace"):
                end_ns = trace.steps[-1][0]
                later = [one for one in laid if one.rank > trace.rank and one.begin_ns <= end_ns and one.end_ns is None]
                first = min(later, key=lambda one: one.rank, default=trace)
                if first.position[2] == "set" and not first.is_ramp:
                    message = f"ends the trace of events[{trace.order[0]}] for good at {TIME.render(first.begin_ns)}"
                    self._document.warn(first.position, f"{message}: write 'for: 2s' too for a change that ends")

    def _change_address(
        self, link: str, host: str, by_time: Mapping[int, Mapping[Track, PropertyMoment]]
    ) -> Iterator[tuple[Mapping[Track, PropertyMoment], Change]]:
        is_there = True
        for at_ns, at_once in sorted(by_time.items()):
            (moment,) = at_once.values()
            # the kernel refuses to add an address that exists
            if moment.value != is_there:
                yield at_once, AddressChange(at_ns, host, link, moment.value)
            is_there = moment.value

    def _change_link(
        self, name: str, _host: str, by_time: Mapping[int, Mapping[Track, PropertyMoment]]
    ) -> Iterator[tuple[Mapping[Track, PropertyMoment], Change]]:
        """Yield the changes of a link. Problems of impossible changes go to the document."""
        link = self._links[name]
        ways, is_up = list(_sides(link)), True
        shapes = [way.jitter.distribution if way.jitter else "uniform" for way in ways]
        known: dict[ValuePath, str] = {}
        for at_ns, at_once in sorted(by_time.items()):
            for track, moment in at_once.items():
                if track.field == "is_up":
                    is_up = moment.value
                else:
                    ways[track.side] = replace(ways[track.side], **{track.field: moment.value})
            ways = [_keep_distribution(*both) for both in zip(_sides(link), ways, strict=True)]
            problems = _find_problems(link, ways)
            for side, way in enumerate(ways):
                if way.jitter is not None and way.jitter.distribution != shapes[side]:
                    if way.jitter.distribution == "uniform":
                        problems[("jitter",)] = (
                            f"would be uniform again, and netem keeps the distribution '{shapes[side]}': give link "
                            f"'{name}' a jitter with this distribution from the start"
                        )
                    shapes[side] = way.jitter.distribution
            for path, message in problems.items():
                causes = [moment for track, moment in at_once.items() if track.field.startswith(str(path[0]))]
                if causes or known.get(path) != message:
                    cause = (causes or list(at_once.values()))[0].course
                    self._document.refuse((*cause.position, *path), message)
            known = problems
            yield at_once, LinkChange(at_ns, name, ways[0], ways[1], is_up)


def _starts(entry: EventEntry) -> Sequence[int]:
    """Return the times at which an event begins, from time zero."""
    if entry.every is not None and entry.until is not None:
        return range(entry.at, entry.until, entry.every)
    return [entry.at]


def _explain_excess(link: LinkSpec, rebindings: Counter[Rebound]) -> str | None:
    """Return why a link cannot have these rebindings of one of its addresses; None if it can."""
    if rebindings.total() > MOST_REBINDINGS:
        return f"amounts to more than {MOST_REBINDINGS} rebindings of this address: write fewer"
    given = [ip_interface(text) for texts in link.addresses for text in texts]
    for subnet in dict.fromkeys(one.network for one in given):
        taken = {one.ip for one in given if one.network == subnet}
        # an end without a given address gets one of the subnet
        derived, wanted = len(link.ends) - len(taken), rebindings["address"]
        free = max(0, len([*islice(free_addresses(subnet, taken), wanted + derived)]) - derived)
        if free < wanted:
            figures = f"(needed: {wanted}, free: {free})"
            return f"needs more free addresses than {subnet} of link '{link.name}' has {figures}: enlarge the subnet"
    return None


def _sides(link: LinkSpec) -> tuple[Direction, Direction]:
    return link.forward, link.reverse


def _values(entry: EventEntry, given: DirectionProperties | None) -> Iterator[tuple[Track, Any]]:
    """Yield each target that an event changes, and the new value. given: the properties that it or a row of it sets."""
    if entry.host is not None and entry.address is not None:
        yield Track(entry.address, "is_there", host=entry.host), entry.state == "added"
        return
    assert entry.link is not None
    if given is None:
        yield Track(entry.link, "is_up"), entry.state == "up"
        return
    for side, values in enumerate(given.given()):
        for name, value in values.items():
            yield Track(entry.link, name, side), value


def _repeat(
    played: Sequence[tuple[int, PropertyT]], period_ns: int, entry: EventEntry
) -> Iterator[tuple[int, PropertyT]]:
    """Yield the values of a trace, which is played once, or until `until`: again at its end, or at each `every`."""
    end_ns = entry.until if entry.until is not None else entry.at + period_ns
    every_ns = entry.every or period_ns
    for n, begin_ns in enumerate(range(entry.at, end_ns, every_ns)):
        for offset_ns, value in played:
            if offset_ns >= min(every_ns, end_ns - begin_ns):
                break
            yield begin_ns + offset_ns, value
        if n * len(played) > MOST_CHANGES:
            return


def _rank(moment: PropertyMoment) -> _Order:
    """The order of the changes of several links. Changes that begin come before steps and ends of earlier changes."""
    begin_ns = moment.course.begin_ns if moment.is_later else 0
    return moment.at_ns, moment.is_later, begin_ns, moment.course.order


def _find_problems(link: LinkSpec, ways: Sequence[Direction]) -> dict[ValuePath, str]:
    """The problems of a link with other properties, by the key of the problem."""
    problems = find_disagreements(ways[0], ways[1], link.mtu + HEADER_BYTES)
    for before, after in zip(_sides(link), ways, strict=True):
        if after.rate_bit_per_s and not before.rate_bit_per_s:
            problems[("rate",)] = f"cannot come while packets pass: give link '{link.name}' a rate from the start"
        if after.queue != before.queue and _kind(after.queue) != _kind(before.queue):
            size = write_size(link, after.queue or ONE_BDP, after.rate_bit_per_s, before.queue)
            problems[("queue",)] = (
                f"differs in kind from that of link '{link.name}', and waiting packets would be lost:"
                f" keep its discipline, and what it counts{size and f', as in {size!r}'}"
            )
    return problems


def hold(link: LinkSpec, queue: Queue, rate: int | None) -> int:
    """Return the bytes that a queue holds at a rate; 0 if its size depends on the path."""
    frame_bytes = link.mtu + HEADER_BYTES
    each = {"packets": frame_bytes, "bytes": 1, "time": (rate or 0) / 8e9}.get(queue.unit)
    return (each and max(frame_bytes, math.ceil(queue.amount * each))) or 0


def write_size(link: LinkSpec, queue: Queue, rate: int | None, like: Queue | None) -> str:
    """Return the size of a queue at a rate as a key, in the unit that another queue counts; empty if not known."""
    if not (held := hold(link, queue, rate)):
        return ""
    return f"queue: {held}bytes" if _kind(like)[1] else f"queue: {math.ceil(held / (link.mtu + HEADER_BYTES))}packets"


def _kind(queue: Queue | None) -> tuple[str, bool]:
    """The discipline, and the unit of the limit. Neither can change without emptying the queue."""
    return ("fifo", False) if queue is None else (queue.discipline, queue.counts_bytes)


def _keep_distribution(before: Direction, after: Direction) -> Direction:
    """Keep the distribution of a link's jitter: netem cannot go back to a uniform jitter."""
    if before.jitter is None or after.jitter is None or after.jitter.distribution != "uniform":
        return after
    return replace(after, jitter=replace(after.jitter, distribution=before.jitter.distribution))


def begin_with_changes(topology: TopologySpec) -> TopologySpec:
    """Return a topology whose links have from the beginning the values that events set at time zero.

    A link keeps its values if one of them sizes a queue: a queue has its size before time zero.
    """
    first = {one.link: one for one in topology.changes if isinstance(one, LinkChange) and not one.at_ns}
    in_bdp = any(
        way.rate_bit_per_s and (way.queue or ONE_BDP).unit == "bdp" for way in chain(*map(_sides, topology.links))
    )
    links = []
    for link in topology.links:
        change = first.get(link.name)
        ways = zip(_sides(link), (change.forward, change.reverse), strict=True) if change else ()
        is_sized = any(
            (was.rate_bit_per_s != now.rate_bit_per_s and (was.queue or ONE_BDP).unit in ("bdp", "time"))
            or (was.delay_ns != now.delay_ns and in_bdp)
            for was, now in ways
        )
        links.append(
            link if change is None or is_sized else replace(link, forward=change.forward, reverse=change.reverse)
        )
    return replace(topology, links=tuple(links))
