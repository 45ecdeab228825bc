# SPDX-License-Identifier: Apache-2.0
"""What the module of a workload offers, the values it deals in, and finding it by its name."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

from mprun import inside
from mprun.capabilities import Capabilities
from mprun.errors import HostError
from mprun.model.metric import Metric
from mprun.model.spec import Flow
from mprun.plan import Process
from mprun.plugin import Collection, PluginFault
from mprun.tools import TOOLS

if TYPE_CHECKING:
    from mprun.schema.flow import FlowEntry

# The option of a flow over UDP that the input stage fills in: payload of a packet in bytes.
LENGTH = "length_bytes"
COLLECTION = Collection("mprun.tools", "tool", TOOLS)

# The programs of ours that run as files.
AGENT = f"{inside.LIBRARY}/mprun/agent"
# Programs start in the run directory; what they leave for `parse` belongs in a folder of the flow there.
FILES = "files"
# How a program of ours is run: isolated, without site packages, writing nothing beside its source.
PYTHON = ("python3", "-I", "-S", "-B")


@dataclass(frozen=True)
class Program:
    """A program that a workload starts, and the Debian package that holds it.

    version: the argument with which it says its version, for a run's record; empty: nobody asks.
    remedy: the command that installs it, where that is not `apt-get install PACKAGE`.
    """

    package: str
    version: str = ""
    remedy: str | None = None


@dataclass(frozen=True)
class Endpoints:
    """Where a flow goes.

    source_address, destination_address: of the path that it begins on. ports: the server's, as many as
    the module's PORTS, one after the other. pairs: the two addresses of every path that the flow may
    use, the first path first; those of a multi-homed transport are in `source_addresses` and
    `destination_addresses`, each once, in that order.
    """

    source_address: str
    destination_address: str
    ports: tuple[int, ...] = ()
    pairs: tuple[tuple[str, str], ...] = ()

    @property
    def port(self) -> int:
        """The first port."""
        return self.ports[0]

    @property
    def source_addresses(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(source for source, _ in self.pairs))

    @property
    def destination_addresses(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(destination for _, destination in self.pairs))


@dataclass(frozen=True)
class Work:
    """The processes of a flow.

    preparations: run to their end one after the other, before anything listens; one that fails ends the run.
    servers: run from before time zero until the end, and count as started when they are ready.
    clients: start when the flow does; the flow is over when all have ended. The first has the flow's name.
    """

    clients: tuple[Process, ...]
    servers: tuple[Process, ...] = ()
    preparations: tuple[Process, ...] = ()


class SocketSample(NamedTuple):
    """A TCP socket at one moment of the run.

    sent_bytes, received_bytes: payload so far, each byte once. sent_ns, received_ns: the moments of the last payload
    that it sent and received, ns from time zero, as exact as the kernel's ticks (10 ms in the virtual engine).
    """

    sent_bytes: int
    received_bytes: int
    sent_ns: int
    received_ns: int


class Outputs(Protocol):
    """What the processes of one flow left. zero_ns: time zero on the clock that they read (CLOCK_MONOTONIC).
    epoch_ns: the same on the clock of the day, for those that read that one (CLOCK_REALTIME)."""

    @property
    def zero_ns(self) -> int: ...

    @property
    def epoch_ns(self) -> int: ...

    def log(self, process: str, stream: str = "out") -> str:
        """What a process of the flow printed (stream `out` or `err`); empty if it never started."""

    def span(self, process: str) -> tuple[int, int] | None:
        """When a process of the flow was started and when its end was seen, ns of the same clock."""

    def file(self, name: str) -> bytes | None:
        """A file that a process of the flow left as one of its `keeps`, by its last name; None if there is none."""

    def sockets(self, host: str, port: int) -> Iterator[tuple[int, Sequence[SocketSample]]]:
        """The host's TCP sockets with this port at either end: each moment of sampling, ns from time zero, and the
        samples of that moment."""


# Columns of equal length by their names, which end in their unit; None: no value.
Table = Mapping[str, Sequence[Any]]


@dataclass(frozen=True)
class PathUse:
    """Payload that a path carried for a flow, by the addresses at its ends. forward: from source to destination.

    joined_s: from the flow's start. srtt_s, resent, resent_bytes: of the end that sends more, its smoothed round-trip
    time and what it sent again, in packets and bytes. None: not known.
    failure: what the flow was asked for and did not do on this path. warning: what may surprise.
    """

    source: str
    destination: str
    forward_bytes: int
    reverse_bytes: int
    joined_s: float | None = None
    srtt_s: float | None = None
    resent: int | None = None
    resent_bytes: int | None = None
    failure: str | None = None
    warning: str | None = None

    def fail(self, failure: str) -> PathUse:
        return replace(self, failure=failure)

    def warn(self, warning: str) -> PathUse:
        return replace(self, warning=warning)


@dataclass(frozen=True)
class Movement:
    """When a flow's data was under way, and the spans in it of 10 ms and more in which none arrived though there was
    some. Ns from time zero."""

    began_ns: int
    ended_ns: int
    standstills_ns: Sequence[tuple[int, int]]


@dataclass(frozen=True)
class Portion:
    """Payload that a receiver's program got between two moments, ns from time zero."""

    begin_ns: int
    end_ns: int
    size_bytes: float


@dataclass(frozen=True)
class Result:
    """What the outputs of a flow say.

    values: by names of METRICS, in base units (bit/s, s, share, bytes, 1). tables: tidy, a row for each thing
    observed; those of all flows are joined under their name, with the flow's name as a column.
    delays_ns: what metrics of delays (`over="delays"`) summarize, by what stands before the last dot of their names.
    data_ports: the client's TCP ports of the connections that carried the data, whose subflows are
    then looked up; or, of a tool that does not tell them, server_ports: those at the other end. paths: of a flow
    that knows by itself what each path carried. movement: of one that knows by itself when its data moved.
    error: why there is no result, or not all of it, in the tool's words. accounts: what a process of the flow saw
    as text for people, by the name of the process. portions: the payload that a metric of rate counts, by the metric's
    name; the metrics of several flows together are made of them. A rate without portions counts as constant from the
    start of the flow's programs to their end.
    """

    values: Mapping[str, float] = field(default_factory=dict)
    data_ports: tuple[int, ...] = ()
    error: str | None = None
    tables: Mapping[str, Table] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    paths: tuple[PathUse, ...] = ()
    movement: Movement | None = None
    server_ports: tuple[int, ...] = ()
    delays_ns: Mapping[str, Sequence[int]] = field(default_factory=dict)
    accounts: Mapping[str, str] = field(default_factory=dict)
    portions: Mapping[str, Sequence[Portion]] = field(default_factory=dict)


class Tool(Protocol):
    """The module of a workload; see the package's docstring.

    One that runs what a file says, and not programs of its own choice, also has `commands`: Flow -> the lines
    that a person must allow (--allow-exec). One whose programs can serve several flows of a host at once has `join`:
    processes of one role and host -> the argv and readiness of one that does what all would, in a Process. One with
    metrics of groups that are neither sum nor least nor of delays has `pool`: flows and their results -> Result.
    """

    @property
    def Entry(self) -> type[FlowEntry]: ...

    @property
    def PROGRAMS(self) -> Mapping[str, Program]: ...

    @property
    def PORTS(self) -> int: ...

    @property
    def METRICS(self) -> Mapping[str, Metric]: ...

    @property
    def work(self) -> Callable[[Flow, Endpoints, Capabilities], Work]: ...

    @property
    def parse(self) -> Callable[[Flow, Outputs], Result]:
        """Never raises: what cannot be read is an error in the result."""


# What a module must have beside its Entry, how to tell, and what to say where it has not.
_PARTS: Mapping[str, tuple[Callable[[object], bool], str]] = {
    "PROGRAMS": (lambda part: isinstance(part, Mapping), "mapping PROGRAMS of programs to mprun.tools.tool.Program"),
    "PORTS": (lambda part: isinstance(part, int), "number PORTS, of its server"),
    "METRICS": (lambda part: isinstance(part, Mapping), "mapping METRICS of metrics to mprun.model.metric.Metric"),
    "work": (callable, "function work, which takes a Flow, Endpoints and Capabilities"),
    "parse": (callable, "function parse, which takes a Flow and Outputs"),
}


@cache
def load(name: str) -> Tool | None:
    """The module of a workload; None if there is none of that name. Raises PluginFault."""
    if name in TOOLS:
        return cast(Tool, COLLECTION.load_own(name))
    found = COLLECTION.load_installed(name)
    return None if found is None else _fit(found.where, found.module)


def tool_of(flow: Flow) -> Tool:
    """The module of a flow whose entry was read."""
    tool = load(flow.tool)
    assert tool is not None, flow.tool
    return tool


def _fit(where: str, module: object) -> Tool:
    from mprun.schema.flow import FlowEntry

    entry = getattr(module, "Entry", None)
    if not (isinstance(entry, type) and issubclass(entry, FlowEntry)):
        raise PluginFault(f"{where} has no class Entry derived from mprun.schema.flow.FlowEntry")
    for name, (fits, description) in _PARTS.items():
        if not fits(getattr(module, name, None)):
            raise PluginFault(f"{where} has no {description}")
    return cast(Tool, module)


def temporary(flow: Flow, name: str) -> str:
    """The path of a file of the flow that is gone after the run."""
    return f"{inside.TEMPORARY}/{flow.name}/{name}"


def kept(flow: Flow, name: str) -> str:
    """The path, from where programs start, of a file of the flow that stays; list it in `Process.keeps`."""
    return f"{FILES}/{flow.name}/{name}"


def mptcp_environment(flow: Flow, capabilities: Capabilities) -> dict[str, str]:
    """What makes a program that opens TCP sockets open MPTCP ones, as mptcpize(8) does; nothing for other flows.

    Raises HostError where the library for it is not installed.
    """
    if flow.protocol != "mptcp":
        return {}
    if not capabilities.mptcp_library:
        raise HostError(f"flow '{flow.name}' needs mptcpize: apt-get install mptcpize")
    return {"LD_PRELOAD": capabilities.mptcp_library}


def read_records(outputs: Outputs, name: str, form: struct.Struct) -> list[tuple[Any, ...]] | None:
    """The records of one form that a flow left in a file; None if it is missing or not whole."""
    content = outputs.file(name)
    return None if content is None or len(content) % form.size else list(form.iter_unpack(content))


def summarize_delays(name: str, delays_ns: Sequence[int]) -> dict[str, float]:
    """The metrics of `mprun.model.metric.delays`, s; none without delays, no deviation of a single one."""
    if not delays_ns:
        return {}
    ordered = sorted(delays_ns)
    mean = sum(ordered) / len(ordered)
    values = {"mean": mean, "median": percentile(ordered, 0.5)}
    if len(ordered) > 1:
        values["stdev"] = (sum((delay - mean) ** 2 for delay in ordered) / (len(ordered) - 1)) ** 0.5
    values |= {"p95": percentile(ordered, 0.95), "p99": percentile(ordered, 0.99)}
    values |= {"min": ordered[0], "max": ordered[-1]}
    return {f"{name}.{which}": value / 1e9 for which, value in values.items()}


def percentile(ordered: Sequence[float], share: float) -> float:
    """A quantile of sorted values, linear between the nearest two (Hyndman and Fan 1996, type 7)."""
    position = share * (len(ordered) - 1)
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)
