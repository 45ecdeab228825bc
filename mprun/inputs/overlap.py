# SPDX-License-Identifier: Apache-2.0
"""The values of one property over time. Events that overlap are resolved here (docs/links.md, "Overlapping changes").

The temporary change that began last holds while it lasts. Below all temporary changes, the permanent change that began
last holds. Pure.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, zip_longest
from typing import Any

from mprun.model.frozen import Frozen
from mprun.model.problem import ValuePath
from mprun.model.spec import Chance, Jitter

EventOrder = tuple[int, int]


class PropertyCourse(Frozen):
    """The values that one event gives to one property.

    `begin_ns`: the time at which the event takes the property over.
    `order`: the place in the file. Of two events that begin at once, the later one in the file counts as the later.
    `position`: the path for problems.
    `steps`: times in ns, and the value from this time on. The last value stays.
    `end_ns`: the end of a temporary change, which has one step; None: the change is permanent.
    `is_ramp`: each step is an equal part of the way from the value before the event to the value of the steps.
    """

    begin_ns: int
    order: EventOrder
    position: ValuePath
    steps: Sequence[tuple[int, Any]]
    end_ns: int | None = None
    is_ramp: bool = False

    @property
    def rank(self) -> tuple[int, EventOrder]:
        return self.begin_ns, self.order


class PropertyMoment(Frozen):
    """A property has a value from a time on, because of a course.

    `is_later`: the course began at an earlier time. Such moments come after the others of the same time.
    """

    at_ns: int
    value: Any
    course: PropertyCourse
    is_later: bool


# The ramp, the value before it, the value to reach, and the share of the way -> the value there.
Climb = Callable[[PropertyCourse, Any, Any, float], Any]


def resolve_courses(before: Any, courses: Sequence[PropertyCourse], climb: Climb) -> Iterator[PropertyMoment]:
    """Yield the values of a property in the order of time. before: the value without any event.

    A moment may repeat the value before it, if an event says so. climb: gives the values of a ramp.
    """
    lasting = {one.at_ns: one for one in _lay_lasting(before, [one for one in courses if one.end_ns is None], climb)}
    tops = dict(_lay_temporary([one for one in courses if one.end_ns is not None]))
    below = last = before
    top: PropertyCourse | None = None
    for at_ns in sorted({*lasting, *tops}):
        step, ended, top = lasting.get(at_ns), top, tops.get(at_ns, top)
        below = below if step is None else step.value
        value = below if top is None else top.steps[0][1]
        if top is not None and top.begin_ns == at_ns:
            yield PropertyMoment(at_ns, value, top, is_later=False)
        elif top is None and ended is None and step is not None and (step.value != last or step.is_written):
            yield PropertyMoment(at_ns, value, step.course, step.course.is_ramp)
        elif ended is not None and value != last:
            yield PropertyMoment(at_ns, value, ended, is_later=True)
        last = value


class _Step(Frozen):
    """A value of the permanent changes. is_written: it is a step of its course, and not the value before a ramp."""

    at_ns: int
    value: Any
    course: PropertyCourse
    is_written: bool


def _lay_lasting(before: Any, courses: Sequence[PropertyCourse], climb: Climb) -> Iterator[_Step]:
    """Yield the values of permanent changes, each until the next one begins."""
    value = before
    ordered = sorted(courses, key=lambda one: one.rank)
    for course, following in zip_longest(ordered, ordered[1:]):
        first, end_ns = value, None if following is None else following.begin_ns
        if end_ns is None or course.begin_ns < end_ns:
            yield _Step(course.begin_ns, first, course, is_written=False)
        for n, (at_ns, target) in enumerate(course.steps, 1):
            if end_ns is not None and at_ns > end_ns:
                break
            value = climb(course, first, target, n / len(course.steps)) if course.is_ramp else target
            if end_ns is None or at_ns < end_ns:
                yield _Step(at_ns, value, course, is_written=True)


def _lay_temporary(courses: Sequence[PropertyCourse]) -> Iterator[tuple[int, PropertyCourse | None]]:
    """Yield the temporary change that is on top from each time on; None if there is none."""
    ordered = sorted(courses, key=lambda one: one.rank)
    # the negative places in `ordered`, of which the least is the change that began last
    running: list[int] = []
    next_one = 0
    for at_ns in sorted(set(chain.from_iterable((one.begin_ns, one.end_ns or 0) for one in ordered))):
        while next_one < len(ordered) and ordered[next_one].begin_ns <= at_ns:
            heapq.heappush(running, -next_one)
            next_one += 1
        while running and (ordered[-running[0]].end_ns or 0) <= at_ns:
            heapq.heappop(running)
        yield at_ns, ordered[-running[0]] if running else None


def have_values_between(before: Any, after: Any) -> bool:
    """Return True if `mix` has values between two values of a property."""
    return before == after or {type(before), type(after)} <= {int, Jitter, Chance, type(None)}


def mix(before: Any, after: Any, share: float) -> Any:
    """Return the value at a share of the way between two values of one kind. Either value may be missing."""
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
