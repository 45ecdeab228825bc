# SPDX-License-Identifier: Apache-2.0
"""The interface of a workload's module, the values that it uses, and the search for a module by name."""

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
    """A program that a workload starts, and its Debian package.

    `version`: the argument with which it prints its version, for a run's record; empty: the version is not asked for.
    `remedy`: the command that installs it, if it is not `apt-get install PACKAGE`.
    """

    package: str
    version: str = ""
    remedy: str | None = None


@dataclass(frozen=True)
class Endpoints:
    """The addresses and ports of a flow.

    `source_address`, `destination_address`: of the path that it begins on.
    `ports`: the server's, as many as the module's PORTS, one after the other.
    `pairs`: the two addresses of every path that the flow may use, the first path first.
    `source_addresses`, `destination_addresses`: the addresses for a multi-homed transport, each once, in that order.
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

    `preparations`: run to their end one after the other, before anything listens. A failure ends the run.
    `servers`: run from before time zero until the end, and count as started when they are ready.
    `clients`: start when the flow does. The flow is over when all have ended. The first has the flow's name.
    """

    clients: tuple[Process, ...]
    servers: tuple[Process, ...] = ()
    preparations: tuple[Process, ...] = ()


class SocketSample(NamedTuple):
    """A TCP socket at one time of the run.

    `sent_bytes`, `received_bytes`: payload so far, each byte once.
    `sent_ns`, `received_ns`: the times of the last payload that it sent and received, in ns from time zero. They are
    as exact as the kernel's ticks (10 ms in the virtual engine).
    """

    sent_bytes: int
    received_bytes: int
    sent_ns: int
    received_ns: int


class Outputs(Protocol):
    """The outputs of a flow's processes.

    `zero_ns`: time zero on the clock of the processes (CLOCK_MONOTONIC).
    `epoch_ns`: time zero on the wall clock, for processes that read it (CLOCK_REALTIME).
    """

    @property
    def zero_ns(self) -> int: ...

    @property
    def epoch_ns(self) -> int: ...

    def log(self, process: str, stream: str = "out") -> str:
        """Return the text that a process of the flow printed (stream `out` or `err`). Empty if the process never
        started.
        """

    def span(self, process: str) -> tuple[int, int] | None:
        """Return start and observed end of a process of the flow, in ns of the same clock."""

    def file(self, name: str) -> bytes | None:
        """Return a file that a process of the flow wrote as one of its `keeps`, by its last name. None if it does not
        exist.
        """

    def sockets(self, host: str, port: int) -> Iterator[tuple[int, Sequence[SocketSample]]]:
        """Return the host's TCP sockets with this port at either end: each sampling time in ns from time zero, and
        its samples.
        """


# Columns of equal length by their names, which end in their unit; None: no value.
Table = Mapping[str, Sequence[Any]]


@dataclass(frozen=True)
class PathUse:
    """The payload that a path carried for a flow, by the addresses at its ends. forward: from source to destination.

    `joined_s`: from the flow's start.
    `srtt_s`, `resent`, `resent_bytes`: of the end that sends more, its smoothed round-trip time and its
    retransmissions in packets and bytes. None: not known.
    `failure`: something that the flow should have done on this path and did not.
    `warning`: something that may surprise.
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
    """The time in which a flow's data was in flight, and the spans of 10 ms and more in it without any arrival. Ns
    from time zero.
    """

    began_ns: int
    ended_ns: int
    standstills_ns: Sequence[tuple[int, int]]


@dataclass(frozen=True)
class Portion:
    """The payload that a receiver's program got between two times, in ns from time zero."""

    begin_ns: int
    end_ns: int
    size_bytes: float


@dataclass(frozen=True)
class Result:
    """The results of a flow from its outputs.

    `values`: by names of METRICS, in base units (bit/s, s, share, bytes, 1).
    `tables`: tidy, with a row for each observation. The tables of all flows are joined under their name, with the
    flow's name as a column.
    `delays_ns`: the values that metrics of delays (`over="delays"`) summarize, by the part before the last dot of
    their names.
    `data_ports`: the client's TCP ports of the data connections, whose subflows are then looked up.
    `server_ports`: the ports at the other end, for a tool that does not report `data_ports`.
    `paths`: for a flow that reports the payload of each path itself.
    `movement`: for a flow that reports itself when its data moved.
    `error`: the reason why the result is missing or incomplete, in the tool's words.
    `accounts`: reports of the flow's processes as text for people, by the name of the process.
    `portions`: the payload of a metric of rate, by the metric's name. The metrics of several flows together are made
    of them. A rate without portions counts as constant from the start of the flow's programs to their end.
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

    Some modules have further functions:
    - `commands`: Flow -> the lines that a person must allow (--allow-exec), for a module that runs commands of a
      file.
    - `join`: processes of one role and host -> the argv and readiness of one Process that does the work of all, for
      programs that can serve several flows of a host.
    - `pool`: flows and their results -> Result, for metrics of groups that are neither sum nor least nor of delays.
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
        """Return the result of a flow. Never raise: an unreadable output is an error in the result."""


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
    """Return the module of a workload. None if none has the name. Raises PluginFault."""
    if name in TOOLS:
        return cast(Tool, COLLECTION.load_own(name))
    found = COLLECTION.load_installed(name)
    return None if found is None else _fit(found.where, found.module)


def tool_of(flow: Flow) -> Tool:
    """Return the module of a flow whose entry was read."""
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
    """Return the path of a file of the flow that is removed after the run."""
    return f"{inside.TEMPORARY}/{flow.name}/{name}"


def kept(flow: Flow, name: str) -> str:
    """Return the path, for programs, of a file of the flow that the run keeps. List it in `Process.keeps`."""
    return f"{FILES}/{flow.name}/{name}"


def mptcp_environment(flow: Flow, capabilities: Capabilities) -> dict[str, str]:
    """Return the environment in which a program opens MPTCP sockets instead of TCP sockets, as mptcpize(8) does.

    Empty for flows that do not use MPTCP. Raises HostError if the library for it is not installed.
    """
    if flow.protocol != "mptcp":
        return {}
    if not capabilities.mptcp_library:
        raise HostError(f"flow '{flow.name}' needs mptcpize: apt-get install mptcpize")
    return {"LD_PRELOAD": capabilities.mptcp_library}


def read_records(outputs: Outputs, name: str, form: struct.Struct) -> list[tuple[Any, ...]] | None:
    """Return the records of one form in a file of the flow. None if the file is missing or not whole."""
    content = outputs.file(name)
    return None if content is None or len(content) % form.size else list(form.iter_unpack(content))


def summarize_delays(name: str, delays_ns: Sequence[int]) -> dict[str, float]:
    """Return the metrics of `mprun.model.metric.delays` in s. Empty without delays. A single delay has no deviation."""
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
