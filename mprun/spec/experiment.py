# SPDX-License-Identifier: Apache-2.0
"""The experiment file: what may be written in it, and what it comes to."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePath
from typing import Annotated, Literal

from pydantic import Field, PlainValidator, WithJsonSchema, model_validator

from mprun.spec import metric, units
from mprun.spec.datagram import LENGTH
from mprun.spec.document import Document
from mprun.spec.fault import name_nearest
from mprun.spec.field import DEFAULT_SEED, SEED, SIZE_SCHEMA, TIME_SCHEMA, Name, Snaplen, Time, Version, Whole
from mprun.spec.impairment import text_schema
from mprun.spec.model import FileModel, check, refuse
from mprun.spec.spec import (
    Capture,
    Endpoint,
    EndpointFlag,
    Expectation,
    ExperimentSpec,
    Family,
    Flow,
    HostSpec,
    Mptcp,
    PathManager,
    Protocol,
)
from mprun.spec.units import NS_PER_MS, NS_PER_S, SIZE, TIME, QuantityError

DEFAULT_PROBE_PINGS = 3
DEFAULT_PING_INTERVAL_NS = 200_000_000
DEFAULT_PING_COUNT = 5
MOST_PING_BYTES = 65_507
# Subflows of ndiffports where nobody says how many.
NDIFFPORTS = 2

_SYSCTL = re.compile(r"[a-z][a-z0-9_]*([./][A-Za-z0-9_-]+)+")
# Of the network and of nothing else: files are shared between strangers, and others hold for a whole machine.
_SYSCTL_PLACES = ("net.ipv4.", "net.ipv6.", "net.mptcp.", "net.sctp.", "net.core.")
_SCHEDULER = re.compile(r"[a-z][a-z0-9_-]{0,14}")


def _parse_sysctl(value: object) -> str:
    if not isinstance(value, str) or not _SYSCTL.fullmatch(value):
        raise ValueError(f"'{value}' is no sysctl: write its full name, as in 'net.ipv4.tcp_congestion_control'")
    name = value.replace("/", ".")
    if not name.startswith(_SYSCTL_PLACES):
        places = ", ".join(place + "*" for place in _SYSCTL_PLACES)
        raise ValueError(f"'{name}' is not a setting of the network: only {places} may be set")
    return name


def _parse_sysctl_value(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise ValueError("must be text or a whole number, as sysctl(8) takes it: write 1 for on and 0 for off")
    if "\n" in str(value):
        raise ValueError("must be one line: a sysctl takes one")
    return str(value)


def _parse_scheduler(value: object) -> str:
    if not isinstance(value, str) or not _SCHEDULER.fullmatch(value):
        raise ValueError(f"'{value}' is no scheduler's name: write one as in 'default'")
    return value


def _parse_whole_seconds(value: object) -> int:
    duration_ns = TIME.parse(value)
    if duration_ns == 0 or duration_ns % NS_PER_S:
        raise ValueError(f"iperf3 counts whole seconds from 1s on, not {TIME.render(duration_ns)}: write '10s'")
    return duration_ns


def _parse_ping_interval(value: object) -> int:
    interval_ns = TIME.parse(value)
    if interval_ns == 0 or interval_ns % NS_PER_MS:
        raise ValueError(f"ping waits whole milliseconds, not {TIME.render(interval_ns)}: write '200ms'")
    return interval_ns


def _parse_ping_size(value: object) -> int:
    size_bytes = SIZE.parse(value)
    if size_bytes > MOST_PING_BYTES:
        raise ValueError(f"{size_bytes} bytes do not fit into an IP packet: write '{MOST_PING_BYTES}bytes' or less")
    return size_bytes


def _parse_filter(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("must be text: write a filter as in 'tcp port 5201', see pcap-filter(7)")
    if value.startswith("-"):
        raise ValueError("begins with '-', which tcpdump takes for an option: put it in parentheses")
    return value


Sysctl = Annotated[str, PlainValidator(_parse_sysctl), WithJsonSchema({"type": "string", "pattern": _SYSCTL.pattern})]
SysctlValue = Annotated[str, PlainValidator(_parse_sysctl_value), WithJsonSchema({"type": ["string", "integer"]})]
Scheduler = Annotated[str, PlainValidator(_parse_scheduler), WithJsonSchema({"type": "string"})]
Filter = Annotated[str, PlainValidator(_parse_filter), WithJsonSchema({"type": "string"})]
WholeSeconds = Annotated[int, PlainValidator(_parse_whole_seconds), WithJsonSchema(TIME_SCHEMA)]
PingInterval = Annotated[int, PlainValidator(_parse_ping_interval), WithJsonSchema(TIME_SCHEMA)]
PingSize = Annotated[int, PlainValidator(_parse_ping_size), WithJsonSchema(SIZE_SCHEMA)]
Bound = Annotated[
    object,
    PlainValidator(lambda value: value),
    WithJsonSchema({"type": ["string", "number"], "examples": ["36mbit", 2]}),
]
_Limit = Annotated[int, Whole(0, 8, "the kernel's MPTCP limits end there")]


class LimitsEntry(FileModel):
    """`ip mptcp limits` of a host."""

    subflows: _Limit | None = Field(
        None, description="Additional subflows of a connection. Default: what the topology needs."
    )
    add_addr_accepted: _Limit | None = Field(
        None, description="ADD_ADDRs that are acted upon. Default: what the topology needs."
    )


class EndpointEntry(FileModel):
    """An MPTCP endpoint, see ip-mptcp(8)."""

    link: Name = Field(description="The link on which the host has the address.", examples=["path1"])
    flags: Annotated[list[EndpointFlag], Field(min_length=1)] = Field(
        description="subflow: the host opens subflows from it; signal: it is announced; fullmesh: to each address of "
        "the peer; backup: used when nothing else is left.",
        examples=[["subflow", "backup"]],
    )


class MptcpEntry(FileModel):
    """A host's MPTCP settings."""

    path_manager: PathManager = Field(
        "default",
        description="default: opens no subflow by itself; fullmesh: one for each pair of addresses; ndiffports: "
        "several between the first pair of addresses, from different ports.",
    )
    scheduler: Scheduler = Field(
        "default",
        description="The packet scheduler, by the kernel's name: default; of the experiment kernel also lowest-rtt, "
        "roundrobin, redundant, balanced, blest.",
    )
    subflows_per_pair: Annotated[int, Whole(1, 9, "the kernel has room for no more")] | None = Field(
        None, description="Subflows for each pair of addresses. Default: 2 for ndiffports, else 1.", examples=[4]
    )
    endpoints: list[EndpointEntry] = Field([], description="Endpoints written out, for path manager default.")
    limits: LimitsEntry | None = Field(None, description="Limits on subflows. Default: what the topology needs.")

    @model_validator(mode="after")
    def _agree(self) -> MptcpEntry:
        if self.endpoints and self.path_manager != "default":
            raise refuse({("endpoints",): f"stand beside 'path_manager: {self.path_manager}': keep one"}, self)
        if self.subflows_per_pair is not None and self.path_manager == "default":
            message = "is for fullmesh and ndiffports: write 'path_manager: fullmesh', or take it out"
            raise refuse({("subflows_per_pair",): message}, self)
        return self

    def settings(self) -> Mptcp:
        per_pair = self.subflows_per_pair or (NDIFFPORTS if self.path_manager == "ndiffports" else 1)
        limits = self.limits or LimitsEntry.model_validate({})
        return Mptcp(
            self.path_manager,
            self.scheduler,
            limits.subflows,
            limits.add_addr_accepted,
            per_pair,
            tuple(Endpoint(entry.link, tuple(entry.flags)) for entry in self.endpoints),
        )


class HostEntry(FileModel):
    """Settings of one host."""

    mptcp: MptcpEntry | None = Field(None, description="MPTCP settings.")
    sysctl: dict[Sysctl, SysctlValue] = Field(
        {}, description="sysctls of the host's network namespace, set before traffic and read back."
    )


FlowRate = Annotated[
    int, PlainValidator(units.RATE.parse), WithJsonSchema(text_schema(units.RATE.pattern, "10mbit", "500kbit"))
]


class FlowEntry(FileModel):
    """What every entry of `traffic` holds."""

    name: Name | None = Field(None, description="Names its metrics. Default: the tool, then tool-2 and so on.")
    source: Name = Field(alias="from", description="The host that opens the connection.", examples=["client"])
    destination: Name = Field(alias="to", description="The host that is connected to.", examples=["server"])
    start: Time = Field(0, description="When it starts, counted from time zero.")
    family: Family | None = Field(
        None, description="Of the addresses that it opens its connection to. Default: ipv6 where both hosts have it."
    )


class Iperf3Entry(FlowEntry):
    """Bulk transfer, see iperf3(1)."""

    tool: Literal["iperf3"] = Field(description="The tool.")
    protocol: Protocol = Field("tcp", description="tcp, mptcp or udp.")
    rate: FlowRate | None = Field(None, description="Bits of payload per second to offer; udp needs it.")
    length: Annotated[int, PlainValidator(SIZE.parse), WithJsonSchema(SIZE_SCHEMA)] | None = Field(
        None, description="Bytes of payload in a UDP packet. Default: what fits into 1500 bytes."
    )
    duration: WholeSeconds = Field(description="How long it sends, in whole seconds.", examples=["10s"])
    reverse: bool = Field(False, description="The server sends and the client receives.")
    parallel: Annotated[int, Whole(1, 128, "iperf3 takes no more streams")] = Field(
        1, description="Connections side by side."
    )

    @model_validator(mode="after")
    def _agree(self) -> Iperf3Entry:
        if self.protocol == "udp" and self.rate is None:
            raise refuse({("rate",): "is missing: UDP sends as fast as it is told to, write 'rate: 10mbit'"}, self)
        if self.protocol != "udp" and self.length is not None:
            raise refuse({("length",): "is of UDP packets: write 'protocol: udp' or take it out"}, self)
        return self

    def flow(self, name: str) -> Flow:
        options: dict[str, object] = {"reverse": self.reverse, "parallel": self.parallel}
        if self.rate is not None:
            options["rate_bit_per_s"] = self.rate
        if self.length is not None:
            options[LENGTH] = self.length
        ends = (self.source, self.destination)
        return Flow(name, "iperf3", *ends, self.protocol, self.start, self.duration, options, self.family)


class PingEntry(FlowEntry):
    """Round-trip times, see ping(8)."""

    tool: Literal["ping"] = Field(description="The tool.")
    count: Annotated[int, Whole(1, 100_000, "a ping is a probe, not a load")] | None = Field(
        None, description="How many pings; or give a duration. Default: 5."
    )
    duration: Time | None = Field(None, description="How long it pings, instead of count.")
    interval: PingInterval = Field(DEFAULT_PING_INTERVAL_NS, description="Time between two pings. Default: 200ms.")
    size: PingSize = Field(56, description="Bytes of payload. Default: 56bytes.")

    @model_validator(mode="after")
    def _agree(self) -> PingEntry:
        if self.duration is not None:
            if self.count is not None:
                raise refuse({("duration",): "stands beside 'count': keep one of the two"}, self)
            if self.duration < self.interval:
                interval = TIME.render(self.interval)
                raise refuse({("duration",): f"is shorter than the interval, {interval}: write a longer one"}, self)
        return self

    def flow(self, name: str) -> Flow:
        options: dict[str, object] = {"interval_ns": self.interval, "size_bytes": self.size}
        if self.duration is None:
            options["count"] = DEFAULT_PING_COUNT if self.count is None else self.count
        ends = (self.source, self.destination)
        return Flow(name, "ping", *ends, "tcp", self.start, self.duration, options, self.family)


class CaptureEntry(FileModel):
    """A capture of all interfaces of a host."""

    host: Name = Field(description="The host.", examples=["client"])
    snaplen: Snaplen = Field(0, description="Bytes kept of each packet; 0, the default: all of it.")
    filter: Filter = Field("", description="Which packets, see pcap-filter(7). Default: all.")


class ProbeEntry(FileModel):
    """What is measured before time zero, when the network is idle."""

    pings: Annotated[int, Whole(0, 1000, "more would only delay the start")] = Field(
        DEFAULT_PROBE_PINGS, description="Pings of each path; 0: none."
    )


class ExpectEntry(FileModel):
    """A bound on a metric; a run in which it does not hold has failed."""

    metric: str = Field(description="A flow's or path's metric.", examples=["bulk.goodput"])
    min: Bound | None = Field(None, description="The least that will do, in the metric's unit.")
    max: Bound | None = Field(None, description="The most that will do, in the metric's unit.")
    equals: Bound | None = Field(None, description="The value, exactly.")

    @model_validator(mode="after")
    def _agree(self) -> ExpectEntry:
        bounds = (self.min, self.max, self.equals)
        if bounds == (None, None, None):
            raise ValueError("expects nothing: write 'min', 'max' or 'equals'")
        if self.equals is not None and bounds != (None, None, self.equals):
            raise refuse({("equals",): "stands beside 'min' or 'max': keep one kind of bound"}, self)
        return self


class RepeatEntry(FileModel):
    """What may differ from run to run."""

    seed: Annotated[int, SEED] = Field(DEFAULT_SEED, description="The seed of all randomness.")


class ExperimentFile(FileModel):
    """What happens on a topology, and what is expected of it."""

    version: Version = Field(description="The version of this format.", examples=[1])
    description: str = Field("", description="What the experiment shows, for people.")
    hosts: dict[Name, HostEntry] = Field({}, description="Settings by host.")
    traffic: list[Annotated[Iperf3Entry | PingEntry, Field(discriminator="tool")]] = Field(
        default=[], description="What is sent, by whom, when."
    )
    capture: list[CaptureEntry] = Field(default=[], description="Packets to keep.")
    probe: ProbeEntry | None = Field(None, description="Measurements before traffic.")
    expect: list[ExpectEntry] = Field(default=[], description="What must hold.")
    calibrate: bool = Field(False, description="Measure each link before the run; one that is not as asked fails it.")
    repeat: RepeatEntry | None = Field(None, description="Seeds.")


def read_experiment(values: Mapping[str, object], document: Document) -> ExperimentSpec | None:
    """The experiment that plain values stand for; faults go to the document."""
    file = check(ExperimentFile, values, document)
    if file is None:
        return None
    flows = _name_flows(file, document)
    return ExperimentSpec(
        name=PurePath(document.name).stem,
        description=file.description,
        hosts={name: _host(entry) for name, entry in file.hosts.items()},
        traffic=flows,
        captures=tuple(Capture(c.host, c.snaplen, c.filter) for c in file.capture),
        expectations=tuple(_expectation(n, entry, document) for n, entry in enumerate(file.expect)),
        probe_pings=DEFAULT_PROBE_PINGS if file.probe is None else file.probe.pings,
        seed=DEFAULT_SEED if file.repeat is None else file.repeat.seed,
        calibrate=file.calibrate,
    )


def _host(entry: HostEntry) -> HostSpec:
    sysctl = tuple(entry.sysctl.items())
    if entry.mptcp is None:
        return HostSpec(sysctl=sysctl)
    return HostSpec(entry.mptcp.settings(), sysctl)


def _name_flows(file: ExperimentFile, document: Document) -> tuple[Flow, ...]:
    first: dict[str, int] = {}
    for n, entry in enumerate(file.traffic):
        if entry.name in first:
            line = document.place(("traffic", first[entry.name], "name"))[1]
            message = f"a second flow '{entry.name}', first on line {line}: give each flow its own name"
            document.fault(("traffic", n, "name"), message)
        elif entry.name:
            first[entry.name] = n
    flows = []
    taken = set(first)
    for entry in file.traffic:
        name = entry.name or entry.tool
        number = 1
        while entry.name is None and name in taken:
            number += 1
            name = f"{entry.tool}-{number}"
        taken.add(name)
        flows.append(entry.flow(name))
    return tuple(flows)


def _expectation(n: int, entry: ExpectEntry, document: Document) -> Expectation:
    """A bound in base units; one that cannot be read is a fault and counts as absent."""
    unit = metric.unit_of(entry.metric)
    if unit is None:
        words = entry.metric.split(".")
        if words[1:2] == ["share"]:
            hint = f": name one path, as in '{words[0]}.share.path0'"
        elif len(words) != 2:
            hint = ": write the flow or path first, as in 'bulk.goodput'"
        else:
            hint = name_nearest(words[1], metric.UNITS, "metrics")
        document.fault(("expect", n, "metric"), f"no metric '{entry.metric}'{hint}")
        return Expectation(entry.metric)
    bounds: dict[str, float | None] = {}
    for key, value in (("min", entry.min), ("max", entry.max), ("equals", entry.equals)):
        try:
            bounds[key] = None if value is None else metric.parse_bound(unit, value)
        except QuantityError as error:
            document.fault(("expect", n, key), str(error))
            bounds[key] = None
    minimum, maximum = bounds["min"], bounds["max"]
    if minimum is not None and maximum is not None and minimum > maximum:
        document.fault(("expect", n, "min"), f"'{entry.min}' is above max, '{entry.max}': swap them")
    return Expectation(entry.metric, minimum, maximum, bounds["equals"])
