# SPDX-License-Identifier: Apache-2.0
"""The entries of `events`: changes of a network over time.

An event sets properties of a link, takes it down or up, takes an address from a host, or lets a NAT rebind it. It may
be repeated, spread over a time, or stand for a whole file (see `trace`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from mprun.inputs.keys.field import TIME_SCHEMA, Name, Time, parsed
from mprun.inputs.keys.file_model import IS_MISSING, FileModel, KeyProblem
from mprun.inputs.keys.link import DirectionProperties
from mprun.inputs.traces import TRACES
from mprun.model.spec import Rebound
from mprun.model.units import NS_PER_MS, TIME, QuantityError

PROPERTIES = tuple(DirectionProperties.model_fields)


def _parse_begin(value: object) -> int:
    """Return the time of a change in ns. Raises QuantityError, with the remedy for a range such as `1s..3s`."""
    ends = value.split("..") if isinstance(value, str) else []
    with suppress(QuantityError):
        if len(ends) == 2 and (lasts := TIME.parse(ends[1]) - TIME.parse(ends[0])) > 0:
            ends.append(TIME.render(lasts))
    if len(ends) == 3:
        undo = f"to undo a 'state', or a 'set' without 'over', write 'for: {ends[2]}' too"
        raise QuantityError(f"'{value}' is a range: write 'at: {ends[0]}'; {undo}")
    return TIME.parse(value)


Begin = Annotated[int, *parsed(_parse_begin, TIME_SCHEMA)]


class EventEntry(FileModel):
    """A change, or several changes, of a link or of a host's address."""

    ELSEWHERE: ClassVar[Mapping[str, str]] = {
        "off": "is no key: write 'state: down'",
        "node": "is no key: write 'link', or 'host' and 'address'",
        **dict.fromkeys(PROPERTIES, "is a property of the link: write it in 'set', as in 'set: {loss: 100%}'"),
    }
    at: Begin = Field(0, examples=["5s"])
    """The time of the change, counted from time zero. `set`, `state` and `rebind` need it. With `schedule` or `trace`:
    the time at which the file begins."""
    link: Name | None = Field(None, examples=["path0"])
    """The link that changes."""
    set: DirectionProperties | None = Field(None, examples=[{"loss": "100%"}])
    """The properties of the link from this time on."""
    over: Time | None = None
    """Reach the values of `set` in equal steps over this time."""
    step: Time = 100 * NS_PER_MS
    """The time between two steps of `over`."""
    state: Literal["down", "up", "removed", "added"] | None = None
    """Set a link `down` or `up`, or let an address be `removed` or `added`."""
    rebind: Rebound | None = None
    """Let the router at the other end of the link give the host's packets another `port` (UDP and TCP), or another
    source `address`, as a NAT does that has forgotten a connection. Packets to the earlier one no longer arrive."""
    host: Name | None = None
    """The host whose address changes, or is rebound."""
    address: Name | None = None
    """The address that changes, or is rebound, by the name of its link."""
    lasts: Time | None = Field(None, alias="for", examples=["200ms"])
    """End the change after this time. The values of other events then hold, or the values of the link. Default: the
    change stays."""
    every: Time | None = None
    """Repeat the change with this period until `until`."""
    until: Time | None = Field(None, examples=["60s"])
    """The time at which a repetition or a trace ends."""
    schedule: str | None = None
    """A CSV file with values of properties over time, with the header 'at,rate,delay', for example."""
    trace: str | None = Field(
        None,
        description="A file with values over time, or the name of a trace that comes with mprun: "
        + " or ".join(f"`{name}`" for name in TRACES)
        + ".",
        examples=["lte-drive"],
    )
    format: Literal["mahimahi", "rates", "schedule"] = "mahimahi"
    """The format of the trace's file. A `schedule` is a file as for the key `schedule`. Its last row is the time at
    which the trace repeats. The traces of mprun are schedules."""
    interval: Time = 100 * NS_PER_MS
    """The duration of each line of a rate trace, or of each rate that is computed from a mahimahi trace."""
    direction: Literal["forward", "reverse", "both"] = "both"
    """The direction of the link that the trace applies to."""

    @property
    def is_scheduled_trace(self) -> bool:
        return self.trace is not None and (self.trace in TRACES or self.format == "schedule")

    def find_conflicts(self) -> Iterator[KeyProblem]:
        actions = [name for name in ("set", "state", "rebind", "schedule", "trace") if getattr(self, name) is not None]
        if len(actions) != 1:
            what = "changes nothing" if not actions else f"has {' and '.join(actions)}"
            yield (), f"{what}: write one of 'set', 'state', 'rebind', 'schedule', 'trace'"
        elif actions[0] in ("set", "state", "rebind") and "at" not in self.model_fields_set:
            yield "at", "is missing: write when the change happens, as in 'at: 5s'"
        if self.set is not None and not self.set.model_fields_set:
            yield "set", "sets nothing: write a property, as in '{loss: 100%}'"
        is_address = self.state in ("removed", "added") or self.rebind is not None
        whose = f"host: {self.host or 'HOST'}, address: {self.address or self.link or 'LINK'}"
        if self.rebind is not None:
            if self.host is None or self.address is None:
                yield "rebind", f"is of an address of a host: write '{whose}'"
            elif self.link is not None:
                yield "link", "is for changes of a link: remove it, as 'address' names the link"
        elif is_address and (self.host is None or self.address is None):
            yield "state", f"an address is {self.state} of a host: write '{whose}'"
        elif self.host is not None and self.link is not None and self.state is not None:
            yield "host", f"is for addresses, and 'state: {self.state}' for links: remove it"
        elif self.host is not None and self.state is not None and not is_address:
            what = f"write '{'removed' if self.state == 'down' else 'added'}' and 'address: LINK' for its address"
            yield "state", f"is of a link: write 'link: LINK' in place of 'host', or {what}"
        elif not is_address and self.link is None:
            yield "link", IS_MISSING
        for name in ("every", "step", "interval"):
            value = getattr(self, name)
            if value is not None and value < NS_PER_MS:
                yield name, "is shorter than 1ms: write a longer time"
        if self.lasts is not None:
            if self.rebind is not None:
                yield "for", "is not for 'rebind', which a NAT does not undo: remove it"
            elif self.over is not None or self.schedule is not None or self.trace is not None:
                yield "for", "is for 'set' at once and 'state': write the later change as an event of its own"
            elif self.lasts == 0:
                yield "for", "is zero: write a longer time, as in '200ms'"
            elif self.every is not None and self.lasts >= self.every:
                yield "for", "is not shorter than 'every': the change would never be undone"
        if self.trace in TRACES:
            for name in sorted({"format", "interval"} & self.model_fields_set):
                message = f"has no effect on '{self.trace}', a trace of mprun: remove it, or write './{self.trace}'"
                yield name, message
        elif self.format == "schedule" and self.trace is not None and "interval" in self.model_fields_set:
            yield "interval", "has no effect on a schedule, as its rows have times: remove it"
        if self.every is not None and self.until is None:
            yield "until", "is missing: write when repetition ends, as in 'until: 60s'"
        if self.until is not None and self.every is None and self.trace is None:
            ends = self.state is not None or (self.set is not None and self.over is None)
            other = "'for: 2s' without 'until' for a change that ends" if ends else "remove 'until'"
            yield "every", f"is missing: write 'every: 10s' between repetitions, or {other}"
        if self.until is not None and self.until <= self.at:
            end = TIME.render(self.at + self.until)
            yield "until", f"is a time from the beginning, and not after 'at': write a later one, as in 'until: {end}'"
        if self.over == 0:
            yield "over", "is zero: remove it, or write a longer time"
        if self.trace is None:
            for name in sorted({"direction", "format", "interval"} & self.model_fields_set):
                way = self.direction if name == "direction" and self.direction != "both" else None
                remedy = f"write the value as in 'set: {{rate: {{{way}: 1mbit}}}}'" if way else "remove it"
                yield name, f"has no effect without 'trace': {remedy}"
        if self.state is None and self.rebind is None:
            for name in sorted({"host", "address"} & self.model_fields_set):
                yield name, "is for 'rebind', 'state: removed' and 'state: added': remove it"
        if self.over is not None and self.set is None:
            yield "over", "needs 'set': write the values to reach"
        if self.over is not None and self.step and self.over % self.step:
            whole = self.over // 10 if self.over >= 10 * NS_PER_MS else self.over
            yield "step", f"does not divide 'over' into equal steps: write '{TIME.render(whole)}'"
