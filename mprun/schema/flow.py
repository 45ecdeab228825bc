# SPDX-License-Identifier: Apache-2.0
"""What an entry of `traffic` may hold whatever its tool, and the `Flow` that it comes to.

A tool's module derives its `Entry` from one of these classes and adds fields of its own. The Python name
of such a field carries the unit (`size_bytes`), its alias is what the file says (`size`); without the
alias the two are the same. What is not None becomes an option of the flow under the Python name, and
`writer` spells it again by that name.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, Self

from pydantic import Field, PlainValidator, WithJsonSchema, model_validator

from mprun.model import units
from mprun.model.spec import After, Family, Flow, Repetition
from mprun.model.units import TIME, VOLUME
from mprun.schema.field import TIME_SCHEMA, VOLUME_SCHEMA, Name, Time, Whole
from mprun.schema.file_model import FileModel, refuse
from mprun.schema.impairment import text_schema
from mprun.schema.pairing import Hosts, Pairing

MOST_REPETITIONS = 1000
_CONGESTION = re.compile(r"[a-z][a-z0-9_-]{0,14}")


class OmitEntry(FileModel):
    """What is left out of the goodput, for a steady state."""

    start_ns: Time = Field(0, alias="start", description="The first of it.")
    end_ns: Time = Field(0, alias="end", description="The last of it.")


class StartEntry(FileModel):
    """When a flow starts: `5s`, or `{after: bulk, offset: 1s}`."""

    after: Name | None = None
    of: Literal["start", "end"] = "end"
    offset: Time = 0


def _parse_start(value: object) -> StartEntry:
    if not isinstance(value, dict):
        return _at(TIME.parse(value))
    if "after" not in value:
        raise refuse({("after",): "is missing: name a flow, as in 'start: {after: bulk}', or write 'start: 5s'"}, value)
    return StartEntry.model_validate(value)


def _at(time_ns: int) -> StartEntry:
    return StartEntry.model_construct(after=None, of="end", offset=time_ns)


def _parse_congestion(value: object) -> str:
    if not isinstance(value, str) or not _CONGESTION.fullmatch(value):
        raise ValueError(f"'{value}' is no congestion control: write the kernel's name of one, as in 'cubic'")
    return value


def _parse_least_size(value: object) -> int:
    size_bytes = VOLUME.parse(value)
    if size_bytes == 0:
        raise ValueError("is nothing at all: write '1byte' or more")
    return size_bytes


def _parse_positive_time(value: object) -> int:
    time_ns = TIME.parse(value)
    if time_ns == 0:
        raise ValueError("is no time at all: write a longer one, as in '10s'")
    return time_ns


_AFTER_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "after": {"type": "string", "description": "Another flow, by name."},
        "of": {"enum": ["start", "end"], "default": "end", "description": "Which moment of it."},
        "offset": {**TIME_SCHEMA, "default": "0s", "description": "How long after that moment."},
    },
    "required": ["after"],
    "additionalProperties": False,
}
Start = Annotated[StartEntry, PlainValidator(_parse_start), WithJsonSchema({"oneOf": [TIME_SCHEMA, _AFTER_SCHEMA]})]
Congestion = Annotated[
    str, PlainValidator(_parse_congestion), WithJsonSchema({"type": "string", "pattern": f"^{_CONGESTION.pattern}$"})
]
# Bytes, at least one.
Size = Annotated[int, PlainValidator(_parse_least_size), WithJsonSchema(VOLUME_SCHEMA)]
PositiveTime = Annotated[int, PlainValidator(_parse_positive_time), WithJsonSchema(TIME_SCHEMA)]
# Bits of payload per second.
FlowRate = Annotated[
    int, PlainValidator(units.RATE.parse), WithJsonSchema(text_schema(units.RATE.pattern, "10mbit", "500kbit"))
]
PORT = Whole(1, 65_535, "a port has 16 bits, and 0 is none")


class RepetitionEntry(FileModel):
    """The same flow several times within a run; each has the flow's name with a number."""

    times: Annotated[int, Whole(2, MOST_REPETITIONS, "1 is no repetition, and a run shows no more")] = Field(
        description="How often in all.", examples=[3]
    )
    interval: PositiveTime | None = Field(None, description="From the start of one to the start of the next.")
    pause: Time | None = Field(None, description="From the end of one to the start of the next.")

    @model_validator(mode="after")
    def _agree(self) -> RepetitionEntry:
        if (self.interval is None) == (self.pause is None):
            what = "is missing" if self.interval is None else "stands beside 'pause'"
            raise refuse({("interval",): f"{what}: write 'interval: 10s' (start to start) or 'pause: 1s'"}, self)
        return self

    def repetition(self) -> Repetition:
        return Repetition(self.times, self.interval, self.pause)


class FlowEntry(FileModel):
    """What every entry of `traffic` holds."""

    name: Name | None = Field(None, description="Names its metrics. Default: the tool, then tool-2 and so on.")
    tool: str = Field(description="The tool.")
    source: Hosts = Field(
        alias="from",
        description="The host that opens the connection; or several, by a list, a pattern 'h*' or a range 'h0..h4'.",
        examples=["client"],
    )
    destination: Hosts = Field(
        alias="to", description="The host that is connected to, or several.", examples=["server"]
    )
    start: Start = Field(
        _at(0),
        description="When it starts, counted from time zero, or from another flow's start or end. Default: 0s.",
    )
    repeat: RepetitionEntry | None = Field(None, description="Several times within the run.")
    timeout: PositiveTime | None = Field(
        None, description="How long it may last; then it is ended, and the run has failed. Default: the tool's."
    )
    family: Family | None = Field(
        None, description="Of the addresses that it opens its connection to. Default: ipv6 where both hosts have it."
    )
    background: bool = Field(False, description="Metrics that sum over flows leave it out.")
    pairs: Pairing | None = Field(
        None,
        description="Who sends to whom where both ends are several: all-to-all: each to each other; in-order: the "
        "first to the first; permutation: each to one that is drawn, no two to the same.",
    )
    group: Name | None = Field(
        None, description="Flows of one group are measured together, too. Default: that of an entry of several hosts."
    )

    @property
    def is_several(self) -> bool:
        """Whether it stands for a flow for each pair of hosts."""
        return not (isinstance(self.source, str) and isinstance(self.destination, str))

    def flow(self, name: str, source: str, destination: str, group: str | None) -> Flow:
        """A flow that this entry stands for, under a name."""
        return Flow(
            name=name,
            tool=self.tool,
            source=source,
            destination=destination,
            protocol=getattr(self, "protocol", "tcp"),
            start_ns=self.start.offset,
            duration_ns=getattr(self, "duration", None),
            options=self.options(),
            family=self.family,
            after=After(self.start.after, self.start.of) if self.start.after else None,
            timeout_ns=self.timeout,
            port=getattr(self, "port", None),
            congestion=getattr(self, "congestion", None),
            background=self.background,
            group=group,
            repetition=self.repeat.repetition() if self.repeat else None,
        )

    def companions(self) -> dict[str, str]:
        """The files that its fields name, relative to the file that it stands in, by the field."""
        return {}

    def with_companion(self, field: str, text: str) -> Self:
        """The entry with the content of such a file in place of its name. Raises TraceError for what is wrong in it."""
        raise NotImplementedError(field)

    def options(self) -> dict[str, object]:
        """The fields that the tool alone knows and that have a value, by their Python names; plain values."""
        shared = {*FlowEntry.model_fields, "protocol", "duration", "port", "congestion"}
        own = {name: getattr(self, name) for name in type(self).model_fields if name not in shared}
        return {name: value for name, value in own.items() if value is not None}


class ServedEntry(FlowEntry):
    """A flow to a server of its own, on a port of its own."""

    port: Annotated[int, PORT] | None = Field(
        None, description="The server's port, the first if it has several. Default: the next that is free from 5201 on."
    )


class ConnectionEntry(ServedEntry):
    """A flow of TCP or MPTCP connections."""

    protocol: Literal["tcp", "mptcp"] = Field("tcp", description="tcp or mptcp.")
