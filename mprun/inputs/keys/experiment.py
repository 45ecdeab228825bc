# SPDX-License-Identifier: Apache-2.0
"""The model of the experiment file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal, cast

from pydantic import Field

from mprun.inputs.keys.field import (
    DEFAULT_SEED,
    SEED,
    CaptureSize,
    FileVersion,
    Name,
    Snaplen,
    Time,
    Whole,
    checked,
    parsed,
    quantity,
    text_that,
)
from mprun.inputs.keys.file_model import PREPARED, FileModel, KeyProblem
from mprun.inputs.keys.pairing import HostKey
from mprun.inputs.keys.plot import PlotEntry
from mprun.inputs.keys.search import SearchEntry
from mprun.inputs.keys.shape import write_bound
from mprun.inputs.keys.traffic_entry import CongestionName
from mprun.model import spec
from mprun.model.scalar import spell_scalar
from mprun.model.units import INTERVAL, PERCENT_PATTERN, VOLUME, parse_ratio

DEFAULT_PROBE_PINGS = 3
# The number of runs of a cell with `until`.
LEAST_RUNS, MOST_RUNS = 5, 50
RUNS = Whole(1, 10_000, "none shows nothing, and more would take days")
# The default number of subflows of ndiffports.
NDIFFPORTS = 2
# The last packets are kept in a ring of at least two files. tcpdump counts their sizes in millions of bytes.
SMALLEST_RING_BYTES = 3 << 20

# A size in the value of a sysctl.
_SIZED = re.compile(r"(?<!\S)[0-9]{1,12}[kmg]b(?!\S)")
_SYSCTL = re.compile(r"[a-z][a-z0-9_]*([./][A-Za-z0-9_-]+)+")
# Only sysctls of the network: files are shared between strangers, and other sysctls apply to the whole machine.
_SYSCTL_PREFIXES = ("net.ipv4.", "net.ipv6.", "net.mptcp.", "net.sctp.", "net.core.")
# `{experiment}` and `{topology}` stand for the names of the files, without their suffix.
_LINK = re.compile(r"([A-Za-z0-9]|\{(experiment|topology)\})([A-Za-z0-9._-]|\{(experiment|topology)\}){0,199}")
_RUN_FILE = re.compile(r"[A-Za-z0-9_*.-]+(/[A-Za-z0-9_*.-]+)*")
_SCHEDULER = re.compile(r"[a-z][a-z0-9_-]{0,14}")


def _parse_sysctl(value: object) -> str:
    if not isinstance(value, str) or not _SYSCTL.fullmatch(value):
        raise ValueError(f"'{value}' is no sysctl: write its full name, as in 'net.ipv4.tcp_congestion_control'")
    name = value.replace("/", ".")
    if not name.startswith(_SYSCTL_PREFIXES):
        prefixes = ", ".join(prefix + "*" for prefix in _SYSCTL_PREFIXES)
        raise ValueError(f"'{name}' is not a setting of the network: only {prefixes} may be set")
    return name


def _parse_sysctl_value(value: object) -> str:
    if isinstance(value, list) and value and all(isinstance(one, str | int) for one in value):
        raise ValueError(f"is a list: write the values as one text, as in '\"{' '.join(map(spell_scalar, value))}\"'")
    if isinstance(value, float):
        raise ValueError(f"{value:g} is no whole number: write one, or a text in quotes")
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise ValueError("must be text or a whole number, as sysctl(8) takes it: write 1 for on and 0 for off")
    if "\n" in str(value):
        raise ValueError("must be one line: a sysctl takes one")
    if value in ("on", "off", "yes", "no"):
        raise ValueError(f"'{value}' is no value of a sysctl: write 1 for on and 0 for off")
    for word in _SIZED.findall(str(value)):
        raise ValueError(f"'{word}' has a unit, and sysctls count bytes: write {VOLUME.parse(word)}")
    return str(value)


# Fields of Wireshark have a dot, and no keyword of pcap-filter(7) does. Two protocols are no keywords either.
_DISPLAY_FILTER = re.compile(r"\b(?:ip|ipv6|tcp|udp|mptcp|sctp|eth|quic|frame)\.[a-z_.]+|^(?:mptcp|quic)\b")


def _parse_filter(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("must be text: write a filter as in 'tcp port 5201', see pcap-filter(7)")
    if value.startswith("-"):
        raise ValueError("begins with '-', which tcpdump reads as an option: put it in parentheses")
    if found := _DISPLAY_FILTER.search(value):
        how = "write one of pcap-filter(7), as in 'tcp port 5201 and host 10.0.0.1'"
        raise ValueError(f"'{found[0]}' is of Wireshark's display filters, and this is a capture filter: {how}")
    return value


def is_link_name(name: str) -> bool:
    """Return whether an experiment may make a link of this name. No link has the name of an input file."""
    return _LINK.fullmatch(name) is not None and not name.endswith((".yaml", ".yml"))


def _is_run_file(text: str) -> bool:
    return _RUN_FILE.fullmatch(text) is not None and ".." not in text.split("/")


def name_link(key: str, topology: str, experiment: str) -> str:
    """Return the name of a link. topology, experiment: the names of the files, without their suffix."""
    return key.replace("{topology}", topology).replace("{experiment}", experiment)


Sysctl = Annotated[str, *parsed(_parse_sysctl, {"type": "string", "pattern": _SYSCTL.pattern})]
SysctlValue = Annotated[str, *parsed(_parse_sysctl_value, {"type": ["string", "integer"]})]
_NO_SCHEDULER = "is no scheduler's name: write one as in 'default'"
_SCHEDULERS = ("default", "lowest-rtt", "roundrobin", "redundant", "balanced", "blest")
Scheduler = Annotated[str, *text_that(_SCHEDULER.fullmatch, _NO_SCHEDULER, _SCHEDULERS)]

_PERCENT = {"type": "string", "pattern": PERCENT_PATTERN}
_NO_LEVEL = "'{given}' is not a known confidence level: write '95%' or '99%'"
Confidence = Annotated[float, *checked(parse_ratio, {"enum": ["95%", "99%"]}, (0.95, 0.99).__contains__, _NO_LEVEL)]
_NO_SHARE = "must be above 0% and below 100%: write a share of the mean, as in '2%'"
Within = Annotated[float, *checked(parse_ratio, _PERCENT, lambda share: 0 < share < 1, _NO_SHARE)]
Filter = Annotated[str, *parsed(_parse_filter, {"type": "string"})]
_NO_LINK = "cannot be a link's name: write a file's name without .yaml, as in 'iperf.log' or 'client-{experiment}.pcap'"
LinkName = Annotated[str, *text_that(is_link_name, _NO_LINK, pattern=_LINK.pattern)]
_NO_FILE = "names no file of a run: write as in 'logs/bulk.log' or 'logs/probe.*.out'"
RunFile = Annotated[str, *text_that(_is_run_file, _NO_FILE)]
SampleInterval = Annotated[int, *quantity(INTERVAL, "100ms", "1s")]
Bound = Annotated[object, *parsed(lambda value: value, {"type": ["string", "number"], "examples": ["36mbit", 2]})]
_Limit = Annotated[int, Whole(0, 8, "the kernel's MPTCP limits end there")]


class LimitsEntry(FileModel):
    """The limits of a host, as `ip mptcp limits` sets them."""

    subflows: _Limit | None = None
    """The number of additional subflows of a connection. Default: the number that the topology needs."""
    add_addr_accepted: _Limit | None = None
    """The number of ADD_ADDRs that the host accepts. Default: the number that the topology needs."""


class EndpointEntry(FileModel):
    """An MPTCP endpoint, see ip-mptcp(8)."""

    link: Name = Field(examples=["path1"])
    """The link of the endpoint's address."""
    flags: Annotated[list[spec.EndpointFlag], Field(min_length=1)] = Field(examples=[["subflow"]])
    """The flags of the endpoint. `subflow`: the host opens a subflow from this address. `signal`: the host announces
    the address. `fullmesh`: the host opens a subflow to each address of the peer. `backup`: the subflow is used only if
    no other works."""

    def find_conflicts(self) -> Iterator[KeyProblem]:
        if {"signal", "fullmesh"} <= {*self.flags}:
            yield "flags", "Linux takes no endpoint with both 'signal' and 'fullmesh': remove one of the two"


class MptcpEntry(FileModel):
    """A host's MPTCP settings."""

    ELSEWHERE: ClassVar[Mapping[str, str]] = {
        "congestion": "is no key of 'mptcp': write it in the flow, under 'traffic'",
        "backup": "is of a link: write 'backup: true' at the link, in the topology",
    }
    path_manager: spec.PathManagerName = "default"
    """The path manager. `default` opens no additional subflow. `fullmesh` opens one subflow for each pair of addresses.
    `in-order` joins the host's first address with the peer's first, the second with the second, and so on. `ndiffports`
    opens several subflows from different ports between the first pair of addresses."""
    scheduler: Scheduler = "default"
    """The packet scheduler, by its name in the kernel. Linux has `default`. The experiment kernel also has
    `lowest-rtt`, `roundrobin`, `redundant`, `balanced` and `blest`."""
    subflows_per_pair: Annotated[int, Whole(1, 9, "the kernel has room for no more")] | None = Field(None, examples=[4])
    """The number of subflows for each pair of addresses. Default: 2 for ndiffports, else 1."""
    endpoints: list[EndpointEntry] = Field([])
    """A list of endpoints, for the path manager `default`."""
    limits: LimitsEntry | None = Field(None, examples=[{"subflows": 2}])
    """The limits on subflows and addresses. Default: the limits that the topology needs."""

    def find_conflicts(self) -> Iterator[KeyProblem]:
        if self.endpoints and self.path_manager != "default":
            yield "endpoints", f"conflict with 'path_manager: {self.path_manager}': remove one of the two"
        if self.subflows_per_pair is not None and self.path_manager == "default":
            yield "subflows_per_pair", "is for fullmesh and ndiffports: write 'path_manager: fullmesh', or remove it"

    def settings(self) -> spec.Mptcp:
        per_pair = self.subflows_per_pair or (NDIFFPORTS if self.path_manager == "ndiffports" else 1)
        limits = self.limits or LimitsEntry.model_validate({})
        endpoints = tuple(entry.fill(spec.Endpoint) for entry in self.endpoints)
        return self.fill(spec.Mptcp, subflows_per_pair=per_pair, endpoints=endpoints, **limits.model_dump())


class HostEntry(FileModel):
    """Settings of one host."""

    ELSEWHERE: ClassVar[Mapping[str, str]] = {
        key: f"is a key of 'mptcp': write it there, as in 'mptcp: {{{key}: {example}}}'"
        for key, example in (
            *(("scheduler", "roundrobin"), ("path_manager", "fullmesh"), ("subflows_per_pair", "2")),
            *(("endpoints", "[{link: path1, flags: [subflow]}]"), ("limits", "{subflows: 2}")),
        )
    }
    mptcp: MptcpEntry | None = Field(None, examples=[{"path_manager": "fullmesh"}])
    """The MPTCP settings of the host."""
    sysctl: dict[Sysctl, SysctlValue] = Field({})
    """Sysctls of the host's network namespace. mprun sets them before the traffic and reads them back."""
    congestion: dict[Name, CongestionName] = Field({}, examples=[{"path0": "cubic", "path1": "bbr"}])
    """The congestion control of TCP connections and MPTCP subflows from the host's address on a link. The key is the
    name of the link (`congctl` of ip-route(8)). Default: the congestion control of the host."""


class CaptureEntry(FileModel):
    """A capture on a host, router or switch, of all its interfaces or of one."""

    ELSEWHERE = dict.fromkeys(
        ("file", "name", "output"), "is no key, as the file has the name of its host or link: remove it"
    )
    host: Name | None = Field(None, examples=["client"])
    """The host to capture on."""
    node: Name | None = Field(None, examples=["router"])
    """The host, router or switch to capture on. Use it instead of `host`."""
    link: Name | None = Field(None, examples=["path0"])
    """Capture only on the node's interface to this link. Default: all interfaces."""
    snaplen: Snaplen = 0
    """The number of bytes to keep of each packet. 0 keeps whole packets."""
    filter: Filter = ""
    """The packets to capture, as an expression of pcap-filter(7). Default: all packets."""
    size_bytes: CaptureSize | None = Field(None, alias="size", examples=["100mb"])
    """The largest size of the file. Default: no limit."""
    keep: Literal["first", "last"] | None = None
    """The packets that a capture with a `size` keeps. Default: first."""

    def find_conflicts(self) -> Iterator[KeyProblem]:
        if (self.host is None) == (self.node is None):
            yield (), "must name one node: write 'host: client', or 'node: router'"
        elif self.keep is not None and self.size_bytes is None:
            yield "keep", "has no effect without 'size': write 'size: 100mb' too"
        elif self.keep == "last" and self.size_bytes is not None and self.size_bytes < SMALLEST_RING_BYTES:
            yield "size", "is too small to keep the last packets: write '3mb' or more"

    def capture(self) -> spec.Capture:
        return self.fill(spec.Capture, node=self.host or self.node, keep=self.keep or "first")


class FaultEntry(FileModel):
    """A fault of one packet."""

    node: Name = Field(examples=["router"])
    """The host or router at which the packet arrives."""
    link: Name = Field(examples=["path0"])
    """The link over which it arrives."""
    packet: Annotated[int, Whole(0, 2**62, "a run has fewer packets")] = Field(examples=[17])
    """The number of the packet among the packets that arrive at this node over this link, from 1. Packets of ICMP do
    not count. 0 stands for no packet."""
    action: spec.FaultAction = "drop"
    """The kind of the fault. `drop`: the packet is lost. `delay`: it continues later. `duplicate`: a copy arrives
    later. `strip`: a TCP option is replaced by NOPs."""
    by_ns: Time | None = Field(None, alias="by", examples=["50ms"])
    """With `delay`: the time. With `duplicate`: the time until the copy arrives. Default: 0."""
    option: Annotated[int, Whole(2, 255, "0 and 1 are the end and the padding of the options")] | None = Field(
        None, examples=[30]
    )
    """With `strip`: the kind of the TCP option. Default: 30, MPTCP (RFC 8684)."""

    def find_conflicts(self) -> Iterator[KeyProblem]:
        if self.action == "delay" and self.by_ns is None:
            yield "by", "is missing: write 'by: 50ms'"
        if self.by_ns is not None and self.action not in ("delay", "duplicate"):
            yield "by", f"is for 'delay' and 'duplicate', not for '{self.action}': remove it"
        if self.option is not None and self.action != "strip":
            yield "option", f"is for 'strip', not for '{self.action}': remove it"

    def fault(self) -> spec.PacketFault:
        option = (spec.MPTCP_OPTION if self.option is None else self.option) if self.action == "strip" else 0
        return self.fill(spec.PacketFault, by_ns=self.by_ns or 0, option=option)


_EVENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*:[A-Za-z0-9_*?]+")
_NO_EVENT = "is no trace event: write its system and its name, as in 'tcp:tcp_probe', or a pattern, as in 'mptcp:*'"
Tracepoint = Annotated[
    str, *text_that(_EVENT.fullmatch, _NO_EVENT, pattern=f"^{_EVENT.pattern}$", examples=["tcp:tcp_probe"])
]


class ProbeEntry(FileModel):
    """The measurements before time zero, when the network is idle."""

    pings: Annotated[int, Whole(0, 1000, "more would only delay the start")] = DEFAULT_PROBE_PINGS
    """The number of pings on each path. 0 sends no ping."""


class SampleEntry(FileModel):
    """The values to sample, and the intervals."""

    interfaces: SampleInterval | None = None
    """The interval between samples of bytes, packets and drops of every interface. Default: once at time zero, once at
    the end."""
    queues: SampleInterval | None = None
    """The interval between samples of backlog and drops of every link's queues. Default: once at time zero, once at the
    end."""
    sockets: SampleInterval | None = None
    """The interval between samples of congestion window, round-trip time, rates and bytes of every TCP socket. Each
    MPTCP subflow has its own TCP socket. Default: 500ms."""
    cpu: SampleInterval | None = None
    """The interval between samples of the CPU time of every program and of the machine's CPUs, in the real engine.
    Default: not sampled."""

    def find_conflicts(self) -> Iterator[KeyProblem]:
        if not self.intervals():
            yield (), "samples nothing: write an interval, as in 'sockets: 100ms'"

    def intervals(self) -> dict[spec.SampleKind, int]:
        return cast(dict[spec.SampleKind, int], self.plain())


_NO_BOUND = "expects nothing: write 'min', 'max' or 'equals'"


class ExpectEntry(FileModel):
    """An expectation: a bound on a metric, or a statement about the cells of a sweep. A run outside the bound has
    failed.
    """

    ELSEWHERE = dict.fromkeys(
        ("if", "when", "where", "cell", "cells", "for"),
        "is no key: to judge some cells of a sweep write 'holds: \"cells[cc=cubic].bulk.goodput > 10mbit\"'",
    )
    metric: str | None = Field(None, examples=["bulk.goodput"])
    """The metric of a flow, a group or a path."""
    holds: str | None = Field(None, examples=["cells[cc=cubic].bulk.goodput >= 1.1 * cells[cc=reno].bulk.goodput"])
    """Instead of `metric`: a statement that compares cells, by the means over their runs."""
    min: Bound | None = None
    """The smallest allowed value, in the metric's unit."""
    max: Bound | None = None
    """The largest allowed value, in the metric's unit."""
    equals: Bound | None = None
    """The exact value, in the metric's unit."""

    def find_conflicts(self) -> Iterator[KeyProblem]:
        bounds = (self.min, self.max, self.equals)
        if self.holds is not None:
            beside = [name for name in ("metric", "min", "max", "equals") if getattr(self, name) is not None]
            if beside:
                yield beside[0], "conflicts with 'holds': remove one of the two"
        elif self.metric is None:
            yield "metric", "is missing: write 'metric: bulk.goodput'"
        elif bounds == (None, None, None):
            is_statement = not {*"<=>≤≥"}.isdisjoint(self.metric)
            bound = write_bound(self.metric) or "{metric: bulk.subflows, equals: 2}"
            yield (), f"is a statement: write '{bound}'" if is_statement else _NO_BOUND
        elif self.equals is not None and bounds != (None, None, self.equals):
            yield "equals", "conflicts with 'min' and 'max': keep one kind of bound"


class UntilEntry(FileModel):
    """The condition that ends the repetitions of a cell."""

    metric: str = Field(examples=["bulk.goodput"])
    """The metric whose mean is measured."""
    confidence: Confidence = Field(0.95, alias="ci")
    """The confidence level of the interval."""
    within: Within = Field(examples=["2%"])
    """The target: half the width of the interval, as a share of the mean."""


class ReseedEntry(FileModel):
    """A change of the kernel's random numbers during a run."""

    at_ns: Time = Field(alias="at", examples=["3s"])
    """The time after time zero."""
    seed: Annotated[int, SEED] = Field(examples=[2])
    """The seed of the random numbers from then on."""


class RepeatEntry(FileModel):
    """The number of runs of each cell of a sweep, and the variations between them."""

    ELSEWHERE = dict.fromkeys(
        ("seeds",), "is no key: each run has a seed of its own, so write 'runs: 3', and 'seed' for the first"
    )
    seed: Annotated[int, SEED] = DEFAULT_SEED
    """The seed of all randomness."""
    runs: Annotated[int, RUNS] | None = Field(None, examples=[5])
    """The number of runs of each cell in `mprun sweep`. Default: 1."""
    until: UntilEntry | None = None
    """Instead of `runs`: repeat a cell until the confidence interval of a metric is narrow enough."""
    min: Annotated[int, RUNS] | None = None
    """With `until`: the smallest number of runs. Default: 5."""
    max: Annotated[int, RUNS] | None = None
    """With `until`: the largest number of runs. Default: 50."""
    vary: list[spec.Variation] | None = Field(None, examples=[["start", "wire"]])
    """The variations that follow from the seed, in addition to the kernel's random numbers. `start` delays the start of
    each flow by up to a round-trip time. `wire` varies the delay of each packet on a link by less than the transmission
    time of a packet. Default: both where a sweep repeats, none in a single run."""

    reseed: ReseedEntry | None = Field(None, examples=[{"at": "3s", "seed": 2}])
    """A change of the kernel's random numbers during the run. Until then, the run is the same as without this key. In
    the virtual engine only."""

    def find_conflicts(self) -> Iterator[KeyProblem]:
        if self.until is not None and self.runs is not None:
            yield "runs", "conflicts with 'until', which decides how many: remove one of the two"
        for name in ("min", "max"):
            if getattr(self, name) is not None and self.until is None:
                yield name, "needs 'until': write 'runs', or 'until: {metric: bulk.goodput, within: 2%}'"
        least, most = self.min or LEAST_RUNS, self.max or MOST_RUNS
        if self.until is not None and least > most:
            if self.min is None:
                yield "max", f"is below {least}, the default of 'min': write 'min: {most}' too"
            elif self.max is None:
                yield "min", f"is above {most}, the default of 'max': write 'max: {least}' too"
            else:
                yield "max", f"is below 'min', {least}: swap them"
        for name, value in (("min", least), ("max", most)):
            if self.until is not None and value < 2:
                yield name, "a single run has no interval: write 2 or more"
        if self.vary is not None and len(set(self.vary)) < len(self.vary):
            yield "vary", "has an entry twice: remove one"

    def repeat(self) -> spec.Repeat:
        vary = spec.VARIATIONS if self.vary is None else tuple(self.vary)
        if self.until is None:
            return spec.Repeat(self.runs or 1, self.runs or 1, None, vary)
        return spec.Repeat(self.min or LEAST_RUNS, self.max or MOST_RUNS, self.until.fill(spec.Until), vary)


class ExperimentFile(FileModel):
    """An experiment on a topology, and its expected results."""

    ELSEWHERE = dict.fromkeys(
        ("topology", "nodes", "paths", "events", "middleboxes", "addressing", "ecmp"),
        "is a key of topologies, and this is read as an experiment: write it there, or in a topology file of its own "
        "that begins with 'extends: FILE'",
    ) | {
        **dict.fromkeys(
            ("duration", "start", "tool", "protocol", "from", "to", "size"),
            "is a key of an entry of 'traffic': write it there, as in '- {tool: iperf3, duration: 10s, ...}'",
        ),
        "sysctl": "is a setting of a host: write it there, as in 'hosts: {client: {sysctl: {...}}}'",
        "mptcp": "is a setting of a host: write it there, as in 'hosts: {client: {mptcp: {...}}}'",
        "seed": "is a key of 'repeat': write 'repeat: {seed: {value}}', or give --seed",
        "runs": "is a key of 'repeat': write 'repeat: {runs: {value}}'",
        **dict.fromkeys(("repetitions", "repeats"), "is no key: write 'repeat: {runs: {value}}'"),
        **dict.fromkeys(("param", "parameters", "vars"), "is no key: write it as 'params: {cc: cubic}'"),
        "kernel": "is no key: give --kernel NAME, or vary it with 'matrix: {kernel: [...]}'",
        "engine": "is no key: give --engine NAME, or vary it with 'matrix: {engine: [...]}'",
    }
    READ_BEFORE = PREPARED
    version: FileVersion = Field(examples=[1])
    """The version of this format."""
    description: str = ""
    """A text for people: the purpose of the experiment."""
    hosts: dict[HostKey, HostEntry] = Field({})
    """Settings of hosts, by name, pattern 'h*' or range 'h0..h4'. The entry of a name replaces that of a pattern, and a
    later pattern replaces an earlier one."""
    traffic: list[dict[str, Any]] = Field(
        default=[], examples=[[{"name": "bulk", "tool": "iperf3", "from": "client", "to": "server"}]]
    )
    """The flows: tool, hosts, times and sizes."""
    capture: list[CaptureEntry] = Field(default=[])
    """The captures of packets."""
    faults: Annotated[list[FaultEntry], Field(max_length=1000)] = Field(
        default=[], examples=[[{"node": "router", "link": "path0", "packet": 17}]]
    )
    """Faults of single packets. Every other packet is forwarded as it would be without this key. In the virtual engine
    only."""
    probe: ProbeEntry | None = Field(None, examples=[{"pings": 5}])
    """The measurements before the traffic."""
    sample: SampleEntry | None = Field(None, examples=[{"sockets": "100ms"}])
    """The values to sample during the run, and their intervals."""
    tracepoints: Annotated[list[Tracepoint], Field(max_length=100)] = Field(
        default=[], examples=[["tcp:tcp_probe", "mptcp:*"]]
    )
    """The kernel's trace events to record (Documentation/trace/events.rst). An entry is an event, or a pattern such as
    `mptcp:*`. `ftrace:print` is trace_printk() of a kernel of your own. Each kind of event becomes a table of the run.
    In the virtual engine only."""
    expect: list[ExpectEntry] = Field(default=[], examples=[[{"metric": "bulk.goodput", "min": "36mbit"}]])
    """The expectations. A run in which an expectation does not hold has failed."""
    calibrate: bool = False
    """Measure each link before the run. A link that does not agree with the topology fails the run."""
    matrix: dict[str, Any] = Field({})
    """The parameters that a sweep varies."""
    repeat: RepeatEntry | None = None
    """The repetitions of each cell, and their seed."""
    search: SearchEntry | None = None
    """The conditions that `mprun search` varies, to find where a statement does not hold."""
    links: dict[LinkName, RunFile] = Field(
        {}, examples=[{"iperf.log": "logs/bulk.log", "client-{experiment}.pcap": "pcap/client.pcap"}]
    )
    """Links to files of the newest run, in the folder of this experiment file. The key is the name of the link. In a
    name, `{experiment}` and `{topology}` stand for the names of the two files without their suffix. The value is a file
    of the run or a pattern. If several files match a pattern, they are concatenated. The links are made if mprun runs
    in that folder."""
    show: Annotated[list[str], Field(max_length=50)] = Field([], examples=[["bulk.goodput", "bulk.retransmits"]])
    """The metrics that the table of a sweep shows. Default: those with expectations, and goodputs."""
    plots: list[PlotEntry] = Field(default=[])
    """The figures of the report. Default: every figure with data."""
