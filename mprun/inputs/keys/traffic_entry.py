# SPDX-License-Identifier: Apache-2.0
"""The common keys of an entry of `traffic`, and the `Flow` that follows from an entry.

A tool's module derives its `Entry` from one of these classes and adds fields. The Python name of such a field carries
the unit (`size_bytes`). Its alias is the key in the file (`size`). Without an alias the key is the Python name. A
field that is not None becomes an option of the flow under its Python name. `writer` writes the option under the same
name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, PlainValidator, WithJsonSchema

from mprun.inputs.keys.field import (
    SIZE_SCHEMA,
    TIME_SCHEMA,
    VOLUME_SCHEMA,
    Name,
    Time,
    Whole,
    checked,
    parsed,
    quantity,
    text_that,
)
from mprun.inputs.keys.file_model import FileModel, KeyProblem, refuse
from mprun.inputs.keys.pairing import Hosts, Pairing
from mprun.model import units
from mprun.model.problem import ValuePath
from mprun.model.spec import After, Attachment, Family, Flow, FlowRepetition
from mprun.model.units import TIME, VOLUME

MOST_REPETITIONS = 1000
MOST_MESSAGE_BYTES = 65_535
# The largest payload of UDP or of an ICMP echo that fits into an IPv4 packet.
MOST_DATAGRAM_BYTES = 65_507
_CONGESTION = re.compile(r"[a-z][a-z0-9_-]{0,14}")


class OmitEntry(FileModel):
    """The time to leave out of the goodput, to measure a steady state."""

    start_ns: Time = Field(0, alias="start")
    """The time to leave out at the beginning."""
    end_ns: Time = Field(0, alias="end")
    """The time to leave out at the end."""

    def plain(self) -> dict[str, Any]:
        return self.model_dump()

    def find_excess(self, duration_ns: int | None) -> Iterator[KeyProblem]:
        """Yield the problem of `omit` if nothing is left of a flow's duration."""
        if duration_ns is None:
            yield "omit", "counts seconds of a duration: write 'duration: 10s'"
        elif self.start_ns + self.end_ns >= duration_ns:
            yield "omit", f"omits the whole {TIME.render(duration_ns)}: write less, or a longer duration"


class StartEntry(FileModel):
    """The start of a flow: `5s`, or `{after: bulk, offset: 1s}`."""

    after: Name | None = None
    of: Literal["start", "end"] = "end"
    offset: Time = 0


_AFTER = re.compile(r"after (\S+)")


def _parse_start(value: object) -> StartEntry:
    if not isinstance(value, dict):
        if found := _AFTER.fullmatch(str(value)):
            raise ValueError(f"'{value}' is not a time: write '{{after: {found[1]}}}'")
        try:
            return _at(TIME.parse(value))
        except units.QuantityError as error:
            if isinstance(value, str) and value[:1].isalpha():
                raise ValueError(f"{error}, or after another flow as in '{{after: {value}}}'") from None
            raise
    if "after" not in value:
        raise refuse({("after",): "is missing: name a flow, as in 'start: {after: bulk}', or write 'start: 5s'"}, value)
    if isinstance(after := value["after"], str) and after[:1].isdigit():
        with suppress(units.QuantityError):
            TIME.parse(after)
            flow = value.get("of")
            is_flow = isinstance(flow, str) and flow not in ("start", "end")
            write = f"start: {{after: {flow}, offset: {after}}}" if is_flow else f"start: {after}"
            raise refuse({("after",): f"names a flow, and '{after}' is none: write '{write}'"}, value)
    return StartEntry.model_validate(value)


def _at(time_ns: int) -> StartEntry:
    return StartEntry.model_construct(after=None, of="end", offset=time_ns)


def whole_seconds(program: str) -> tuple[PlainValidator, WithJsonSchema]:
    """The metadata of a time in ns, for a program that counts whole seconds."""

    def more(ns: int) -> str:
        return TIME.render((ns // units.NS_PER_S + 1) * units.NS_PER_S)

    problem = f"{program} counts whole seconds from 1s on, not {{given}}: write '{{}}'"
    return checked(TIME.parse, TIME_SCHEMA, lambda ns: ns > 0 and ns % units.NS_PER_S == 0, problem, more)


def message_size(example: str, but: str = "") -> tuple[PlainValidator, WithJsonSchema]:
    """The metadata of the payload of a message in bytes.

    example: a size for an error message. but: an exception for it.
    """
    problem = f"{{}} bytes are no message: write '{example}', or up to '{MOST_MESSAGE_BYTES}bytes'{but}"
    return checked(units.SIZE.parse, SIZE_SCHEMA, lambda size_bytes: 0 < size_bytes <= MOST_MESSAGE_BYTES, problem)


_AFTER_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "after": {"type": "string", "description": "The name of another flow."},
        "of": {"enum": ["start", "end"], "default": "end", "description": "The event of that flow to wait for."},
        "offset": {**TIME_SCHEMA, "default": "0s", "description": "The time to wait after that event."},
    },
    "required": ["after"],
    "additionalProperties": False,
}
Start = Annotated[StartEntry, *parsed(_parse_start, {"oneOf": [TIME_SCHEMA, _AFTER_SCHEMA]})]
_NO_CONTROL = "is no congestion control: write the kernel's name of one, as in 'cubic'"
CongestionName = Annotated[str, *text_that(_CONGESTION.fullmatch, _NO_CONTROL, pattern=f"^{_CONGESTION.pattern}$")]
# A number of bytes, at least one.
Size = Annotated[int, *checked(VOLUME.parse, VOLUME_SCHEMA, bool, "is zero: write '1byte' or more")]
PositiveTime = Annotated[int, *checked(TIME.parse, TIME_SCHEMA, bool, "is zero: write a longer time, as in '10s'")]
# A rate in bits of payload per second.
FlowRate = Annotated[int, *quantity(units.RATE, "10mbit", "500kbit")]
PORT = Whole(1, 65_535, "a port has 16 bits, and 0 is none")


class RepetitionEntry(FileModel):
    """The repetition of a flow within a run. Each repetition has the flow's name and a number."""

    ELSEWHERE: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("runs", "seed", "vary"),
        "is of 'repeat' at the top level of the file, which repeats runs: write it there",
    )
    times: Annotated[int, Whole(2, MOST_REPETITIONS, "1 is no repetition, and a run shows no more")] = Field(
        examples=[3]
    )
    """The total number of flows."""
    interval_ns: PositiveTime | None = Field(None, alias="interval")
    """The time from the start of a flow to the start of the next."""
    pause_ns: Time | None = Field(None, alias="pause")
    """The time from the end of a flow to the start of the next."""

    def find_conflicts(self) -> Iterator[KeyProblem]:
        if (self.interval_ns is None) == (self.pause_ns is None):
            what = "is missing" if self.interval_ns is None else "conflicts with 'pause'"
            yield "interval", f"{what}: write 'interval: 10s' (start to start) or 'pause: 1s'"


class FlowEntry(FileModel):
    """The common keys of all entries of `traffic`."""

    # Fields that are left out of the options if they are empty or false. Digests of files without them stay the same.
    UNSAID: ClassVar[tuple[str, ...]] = ()
    ELSEWHERE: ClassVar[Mapping[str, str]] = {
        "backup": "is of a link: write 'backup: true' at the link, in the topology",
        "direction": "is no key of a flow: write 'reverse: true' for data from 'to' to 'from'",
        "mptcp": "is no key of a flow: write 'protocol: mptcp'",
        "path": "is no key of a flow: flows over one path take the first of the topology, so write that path first; "
        "the metric PATH.rtt is the round-trip time of each idle path",
        "paths": "is no key of a flow: to use all paths write 'protocol: mptcp' here, and "
        "'mptcp: {path_manager: fullmesh}' under 'hosts'",
        "subflows": "is no key of a flow: for one on each path write 'mptcp: {path_manager: fullmesh}' under "
        "'hosts', and 'subflows_per_pair' there for several",
        "path_manager": "is a setting of hosts: write 'mptcp: {path_manager: ...}' under 'hosts'",
        "scheduler": "is of MPTCP and QUIC only: for MPTCP write 'mptcp: {scheduler: ...}' under 'hosts', "
        "for the host that sends",
        **dict.fromkeys(
            ("capture", "expect", "matrix", "plots"), "is of the experiment: write it outside of 'traffic'"
        ),
        **dict.fromkeys(
            ("delay", "jitter", "loss", "queue", "rtt"), "is of a link: write it at the link, in the topology"
        ),
    }
    name: Name | None = None
    """The name of the flow, used in its metrics. Default: the tool's name, for further flows with -2, -3 and so on."""
    tool: str
    """The tool."""
    source: Hosts = Field(alias="from", examples=["client"])
    """The host that opens the connection. For several hosts, write a list, a pattern 'h*' or a range 'h0..h4'."""
    destination: Hosts = Field(alias="to", examples=["server"])
    """The host that accepts the connection. Several hosts are written as for `from`."""
    start: Start = Field(_at(0))
    """The start of the flow, counted from time zero or from another flow's start or end. Default: 0s."""
    repeat: RepetitionEntry | None = None
    """Repeat the flow within the run."""
    timeout: PositiveTime | None = None
    """The longest duration of the flow. A flow that takes longer is ended, and the run has failed. Default: the
    tool's."""
    family: Family | None = None
    """The family of the addresses for the connection. Default: ipv6 if both hosts have it, else ipv4."""
    background: bool = False
    """Leave the flow out of metrics that sum over flows."""
    pairs: Pairing | None = None
    """The pairs of hosts if both ends are several hosts. `all-to-all`: from each host to every other. `in-order`: from
    the first to the first, from the second to the second, and so on. `permutation`: from each host to a random host,
    where no two hosts send to the same one."""
    group: Name | None = None
    """A name for several flows, which also get common metrics. Default: the flow's name if the entry names several
    hosts."""

    @property
    def is_several(self) -> bool:
        """Return True if the entry means a flow for each pair of hosts."""
        return not (isinstance(self.source, str) and isinstance(self.destination, str))

    def flow(self, name: str, source: str, destination: str, group: str | None) -> Flow:
        return self.fill(
            Flow,
            name=name,
            source=source,
            destination=destination,
            protocol=getattr(self, "protocol", "tcp"),
            start_ns=self.start.offset,
            duration_ns=getattr(self, "duration", None),
            options=self.options(),
            after=After(self.start.after, self.start.of) if self.start.after else None,
            timeout_ns=self.timeout,
            group=group,
            repetition=self.repeat.fill(FlowRepetition) if self.repeat else None,
        )

    def find_doubts(self) -> Iterator[KeyProblem]:
        """Yield warnings about keys whose values do not do what their user may expect."""
        return iter(())

    def companions(self) -> dict[str, tuple[str, Callable[[str], Mapping[str, object]]]]:
        """The files that fields of the entry name, by field, relative to the file with the entry.

        The function returns the fields that the text of the file gives. It raises TraceError for problems in the file.
        """
        return {}

    def attachments(self) -> dict[ValuePath, tuple[str, str | None]]:
        """The files that go into the run, by the paths of their names in the entry.

        A value is a name relative to the file with the entry, and the attachment's name if the file is an archive.
        """
        return {}

    def with_attachments(self, attachments: Sequence[Attachment]) -> Self:
        """Return the entry with what its files are, in their order."""
        raise NotImplementedError

    def named_words(self) -> dict[ValuePath, str]:
        """The words of commands that may name files, by their paths in the entry."""
        return {}

    def options(self) -> dict[str, object]:
        """The fields with a value that only the tool knows, by their Python names, as plain values."""
        shared = {*FlowEntry.model_fields, "protocol", "duration", "port", "congestion"}
        own = {name: _plain(getattr(self, name)) for name in type(self).model_fields if name not in shared}
        unsaid = {name for name in self.UNSAID if not own[name]}
        return {name: value for name, value in own.items() if value is not None and name not in unsaid}


def _plain(value: object) -> object:
    """Return the value of a field with plain values in place of entries."""
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return value.plain() if isinstance(value, FileModel) else value


class ServedEntry(FlowEntry):
    """A flow to its own server on its own port."""

    port: Annotated[int, PORT] | None = None
    """The server's port, or its first port if it has several. Default: the next free port from 5201 on."""


class ConnectionEntry(ServedEntry):
    """A flow of TCP or MPTCP connections."""

    protocol: Literal["tcp", "mptcp"] = "tcp"
    """The transport protocol."""
