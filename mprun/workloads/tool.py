# SPDX-License-Identifier: Apache-2.0
"""The interface of a workload's module, its values, and the look-up of a module by name."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

from mprun.errors import MachineError
from mprun.machine.plugin import Collection, PluginProblem
from mprun.model import engine_paths
from mprun.model.capabilities import Capabilities
from mprun.model.frozen import Frozen
from mprun.model.metric import OF_FLOWS, OF_TOTAL, Better, Metric, Metrics, Unit, group_metrics
from mprun.model.plan import TIMEOUT_NS, Process, Ready
from mprun.model.spec import Flow
from mprun.model.spec import Protocol as Transport
from mprun.model.units import NS_PER_S
from mprun.workloads import TOOLS

if TYPE_CHECKING:
    from mprun.inputs.keys.traffic_entry import FlowEntry

# The option of a flow over UDP that the input stage fills in: payload of a packet in bytes.
LENGTH = "length_bytes"
COLLECTION = Collection("mprun.tools", "tool", "mprun.workloads", TOOLS)

# Programs start in the run directory. The files that they leave for `parse` belong in a folder of the flow below this
# one.
FILES = "files"
# The command that runs one of our programs: isolated, without site packages, without writing bytecode.
PYTHON = ("python3", "-I", "-S", "-B")
# The port of the first server to which the file gives none.
FIRST_PORT = 5201
# A flow of a number of bytes is given the time that they take at this rate.
LEAST_BIT_PER_S = 1_000_000


class Program(Frozen):
    """A program that a workload starts, and the Debian package that contains it.

    - version: the argument that prints its version, for a run's record; empty: do not ask.
    - remedy: the command that installs it, if it is not `apt-get install PACKAGE`.
    """

    package: str
    version: str = ""
    remedy: str | None = None


class Endpoints(Frozen):
    """The addresses and ports of a flow.

    - source_address, destination_address: those of the path on which the flow begins.
    - ports: the server's consecutive ports; their number is the module's PORTS.
    - pairs: the two addresses of every path that the flow may use, the first path first.
    """

    source_address: str
    destination_address: str
    ports: tuple[int, ...] = ()
    pairs: tuple[tuple[str, str], ...] = ()

    @property
    def port(self) -> int:
        """The first port of the server."""
        return self.ports[0]


class Work(Frozen):
    """The processes of a flow.

    - preparations: run to their end one after the other, before any server starts; a failure ends the run.
    - servers: run from before time zero until the end, and count as started when they are ready.
    - clients: start with the flow; the flow ends when all have ended. The first client has the flow's name.
    """

    clients: tuple[Process, ...]
    servers: tuple[Process, ...] = ()
    preparations: tuple[Process, ...] = ()


def make_client(flow: Flow, argv: Iterable[str], **more: Any) -> Process:
    """Return the client of a flow, which has the flow's name. more: further fields of the Process."""
    return Process(name=flow.name, node=flow.source, argv=tuple(argv), role="flow", **more)


def make_server(flow: Flow, argv: Iterable[str], ready: Ready | None, **more: Any) -> Process:
    """Return the server of a flow. ready: its condition. more: further fields of the Process."""
    name = f"{flow.name}.server"
    return Process(name=name, node=flow.destination, argv=tuple(argv), role="server", ready=ready, **more)


def _work_ns(flow: Flow) -> int:
    """Return the duration of a flow, or the time that its `size` may take; 0 for a flow with neither."""
    return flow.duration_ns or transfer_ns(flow.options.get("size_bytes", 0))


class TimeLimit(Frozen):
    """The time limit of a tool's flows without a `timeout`: the time of their work, and some seconds more.

    work_ns: Flow -> the time of its work. Default: its duration, or the time of its size.
    """

    grace_s: int
    work_ns: Callable[[Flow], int] = _work_ns


def time_limit_of(flow: Flow, otherwise_ns: int = TIMEOUT_NS) -> int:
    """Return the time limit of a flow's programs, in ns: that of its entry, or else that of its tool.

    otherwise_ns: for a tool without a TIME_LIMIT.
    """
    limit: TimeLimit | None = getattr(tool_of(flow), "TIME_LIMIT", None)
    return flow.timeout_ns or (otherwise_ns if limit is None else limit.grace_s * NS_PER_S + limit.work_ns(flow))


def receiver_of(flow: Flow) -> str | None:
    """Return the host to which all data of a flow goes; None if both hosts send data, or if it is not known."""
    options, is_download = flow.options, getattr(tool_of(flow), "is_download", None)
    if ("reverse" not in options and is_download is None) or options.get("bidirectional"):
        return None
    return flow.source if (is_download(flow) if is_download else options["reverse"]) else flow.destination


def transfer_ns(size_bytes: int) -> int:
    """Return the time that a number of bytes may take."""
    return size_bytes * 8 * NS_PER_S // LEAST_BIT_PER_S


class SocketSample(NamedTuple):
    """A TCP socket at one time of the run.

    - sent_bytes, received_bytes: payload so far, each byte counted once.
    - sent_ns, received_ns: the times of the last payload sent and received, in ns from time zero. Their resolution is
      the kernel's tick (10 ms in the virtual engine).
    """

    sent_bytes: int
    received_bytes: int
    sent_ns: int
    received_ns: int


class Outputs(Protocol):
    """The outputs of the processes of one flow.

    - zero_ns: time zero on CLOCK_MONOTONIC, which the processes read.
    - epoch_ns: time zero on CLOCK_REALTIME, for processes that read it.
    """

    @property
    def zero_ns(self) -> int: ...

    @property
    def epoch_ns(self) -> int: ...

    def log(self, process: str, stream: str = "out") -> str:
        """Return the output of a process of the flow (stream `out` or `err`); empty if it never started."""

    def span(self, process: str) -> tuple[int, int] | None:
        """Return when a process of the flow started and when its end was seen, in ns of CLOCK_MONOTONIC.

        None: it never started.
        """

    def file(self, name: str) -> bytes | None:
        """Return a file that a process of the flow left as one of its `keeps`, by its base name; None if missing."""

    def sockets(self, host: str, port: int) -> Iterator[tuple[int, Sequence[SocketSample]]]:
        """Yield the samples of the host's TCP sockets that have this port at either end.

        Each item is the time of sampling, in ns from time zero, and the samples of that time.
        """


# Columns of equal length by name. A name ends in the column's unit. None means no value.
Table = Mapping[str, Sequence[Any]]


def tabulate(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> dict[str, list[Any]]:
    """Return a table with these columns from its rows."""
    listed = list(rows)
    return {name: [row[n] for row in listed] for n, name in enumerate(names)}


def tabulate_goodput(intervals: Iterable[tuple[bool, Mapping[str, Any], int]]) -> dict[str, list[Any]]:
    """Return the table of the payload that a receiver got in each interval of its report.

    intervals: True if the data goes to the flow's source; the report; and the origin of its times from time zero.
    """
    rows = []
    for is_back, one, origin_ns in intervals:
        times = (round(origin_ns / 1e9 + one[end], 9) for end in ("start", "end"))
        rows.append(("back" if is_back else "forth", *times, float(one["bits_per_second"])))
    return tabulate(("direction", "start_s", "end_s", "goodput_bit_per_s"), rows)


def tabulate_requests(rows: Iterable[tuple[int, int, int]]) -> dict[str, list[Any]]:
    """Return the table of requests. rows: number from 1 on, start from time zero, and delay, in ns."""
    return tabulate(("sequence", "start_ns", "delay_ns"), rows)


class PathUse(Frozen):
    """The payload that a path carried for a flow. The path is given by the addresses at its ends.

    - forward_bytes, reverse_bytes: from source to destination, and back.
    - joined_s: when the path joined, from the flow's start.
    - srtt_s: the smoothed round-trip time of the end that sends more.
    - resent, resent_bytes: retransmissions of the end that sends more, in packets and in bytes.
    - failure: a request of the flow that was not met on this path.
    - warning: a result that may surprise.

    None means that a value is not known.
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


class Movement(Frozen):
    """The time in which a flow's data was in transit, in ns from time zero.

    standstills_ns: the spans of 10 ms or more in which data was in transit and none arrived.
    """

    began_ns: int
    ended_ns: int
    standstills_ns: Sequence[tuple[int, int]]


class Portion(Frozen):
    """Payload that a receiver's program got between two times, in ns from time zero."""

    begin_ns: int
    end_ns: int
    size_bytes: float

    @classmethod
    def of_interval(cls, interval: Mapping[str, Any], origin_ns: int) -> Portion:
        """Return the payload of an interval of a report, whose times in s count from an origin."""
        began_ns, ended_ns = (origin_ns + round(interval[end] * 1e9) for end in ("start", "end"))
        return cls(began_ns, ended_ns, interval["bytes"])


class Result(Frozen):
    """The result of a flow, read from its outputs.

    - values: by names of METRICS, in base units (bit/s, s, share, bytes, 1).
    - data_ports: the client's TCP ports of the connections that carried the data; their subflows are looked up.
    - error: the reason why the result is missing or incomplete, in the tool's words.
    - tables: tidy, a row for each observation. The tables of all flows are joined by name, with a column for the flow.
    - paths: if the tool knows what each path carried.
    - movement: if the tool knows when its data was in transit.
    - server_ports: instead of data_ports, the server's ports, if the tool does not report the client's.
    - delays_ns: the delays that metrics summarize (`over="delays"`), by the part of their names before the last dot.
    - accounts: readable reports by the name of the process.
    - portions: the payload that a metric of rate counts, by the metric's name. The metrics of several flows together
      are computed from them. A rate without portions counts as constant while the flow's programs run.
    - lost_packets: the packets that did not arrive, if the tool does not send them again.
    - waits_round_trip: the time of the goodput begins a round trip before the first payload can arrive.
    - hint: the end of the message if the flow failed.
    """

    values: Mapping[str, float] = field(default_factory=dict)
    data_ports: tuple[int, ...] = ()
    error: str | None = None
    tables: Mapping[str, Table] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    paths: tuple[PathUse, ...] = ()
    movement: Movement | None = None
    server_ports: tuple[int, ...] = ()
    delays_ns: Mapping[str, Sequence[int]] = field(default_factory=dict)
    accounts: Mapping[str, str] = field(default_factory=dict)
    portions: Mapping[str, Sequence[Portion]] = field(default_factory=dict)
    lost_packets: int = 0
    waits_round_trip: bool = False
    hint: str = ""


class Tool(Protocol):
    """The module of a workload; see the package's docstring.

    A module may have one more value and six more functions:

    - `TIME_LIMIT`: the `TimeLimit` of its flows. Without it, each client has the limit of its Process.
    - `is_download`: Flow -> True if all data goes to the client, False if all data goes to the server.
    - `commands`: Flow -> lines that a person must allow (--allow-exec). It is for a tool that runs what a file says.
    - `join`: processes of one role and host -> a Process that does the work of all. It is for a tool whose programs can
      serve several flows of a host at once.
    - `programs`: Flow -> the programs that this flow starts, in addition to PROGRAMS.
    - `own_metrics`: Flow -> the metrics that its entry defines, in addition to METRICS.
    - `pool`: flows and their results -> Result. It is for metrics of groups that are neither sum, minimum nor delays.
    """

    Entry: type[FlowEntry]
    PROGRAMS: Mapping[str, Program]
    PORTS: int
    METRICS: Metrics
    work: Callable[[Flow, Endpoints, Capabilities], Work]
    # Never raises: output that cannot be read becomes an error in the result.
    parse: Callable[[Flow, Outputs], Result]


# The parts of a module besides its Entry, a check of each, and its description for an error message.
_PARTS: Mapping[str, tuple[Callable[[object], bool], str]] = {
    "PROGRAMS": (
        lambda part: isinstance(part, Mapping),
        "mapping PROGRAMS of programs to mprun.workloads.tool.Program",
    ),
    "PORTS": (lambda part: isinstance(part, int), "number PORTS, of its server"),
    "METRICS": (lambda part: isinstance(part, Mapping), "mapping METRICS of metrics to mprun.model.metric.Metric"),
    "work": (callable, "function work, which takes a Flow, Endpoints and Capabilities"),
    "parse": (callable, "function parse, which takes a Flow and Outputs"),
}


@cache
def load(name: str) -> Tool | None:
    """Return the module of a workload; None if no workload has this name. Raises PluginProblem."""
    if name in TOOLS:
        return cast(Tool, COLLECTION.load_own(name))
    found = COLLECTION.load_installed(name)
    return None if found is None else _fit(*found)


def tool_of(flow: Flow) -> Tool:
    """Return the module of a flow whose entry has been read."""
    tool = load(flow.tool)
    assert tool is not None, flow.tool
    return tool


def _nothing(_flow: Flow) -> Mapping[str, Any]:
    return {}


def programs_of(flow: Flow) -> Mapping[str, Program]:
    """Return the programs that a flow starts."""
    tool = tool_of(flow)
    return {**tool.PROGRAMS, **getattr(tool, "programs", _nothing)(flow)}


def metrics_of(flow: Flow) -> Metrics:
    """Return the metrics that a flow may have: those of its tool and those that its entry defines."""
    tool = tool_of(flow)
    return {**tool.METRICS, **getattr(tool, "own_metrics", _nothing)(flow)}


def place_ports(flows: Sequence[Flow]) -> Iterator[tuple[Flow, tuple[int, ...]]]:
    """Yield each flow with the consecutive ports of its server: those of the file, or else the next free ones."""
    taken = {port for flow in flows if flow.port for port in range(flow.port, flow.port + tool_of(flow).PORTS)}
    free = FIRST_PORT
    for flow in flows:
        needed = tool_of(flow).PORTS
        first = flow.port
        if first is None:
            while taken & set(range(free, free + needed)):
                free += 1
            first, free = free, free + needed
        yield flow, tuple(range(first, first + needed))


class OwnedMetrics(dict[str, Metrics]):
    """The metrics that each flow and each group of flows may have, by its name."""

    def __init__(self, flows: Sequence[Flow]) -> None:
        super().__init__({name: {**metrics_of(flow), **OF_FLOWS} for flow in flows for name in flow.names})
        self.update({one.group: group_metrics(metrics_of(one)) for one in flows if one.group is not None})
        self._flows = {name: flow for flow in flows for name in (*flow.names, flow.group)}

    def offered(self, owner: str) -> dict[str, Metric]:
        """Return those that a flow has with its protocol and its direction."""
        flow = self._flows.get(owner)
        return {
            name: metric
            for name, metric in self.get(owner, OF_TOTAL).items()
            if flow is None or not metric.protocols or flow.protocol in metric.protocols
            if flow is None or not name.endswith(".back") or flow.options.get("bidirectional")
        }


def _fit(where: str, module: object) -> Tool:
    from mprun.inputs.keys.traffic_entry import FlowEntry

    entry = getattr(module, "Entry", None)
    if not (isinstance(entry, type) and issubclass(entry, FlowEntry)):
        raise PluginProblem(f"{where} has no class Entry derived from mprun.inputs.keys.traffic_entry.FlowEntry")
    for name, (fits, description) in _PARTS.items():
        if not fits(getattr(module, name, None)):
            raise PluginProblem(f"{where} has no {description}")
    return cast(Tool, module)


def temporary(flow: Flow, name: str) -> str:
    """Return the path of a file of the flow that is removed after the run."""
    return f"{engine_paths.TEMPORARY}/{flow.name}/{name}"


def kept(flow: Flow, name: str) -> str:
    """Return the path of a file of the flow that is kept, relative to the run directory. List it in `Process.keeps`."""
    return f"{FILES}/{flow.name}/{name}"


def mptcp_environment(flow: Flow, capabilities: Capabilities) -> dict[str, str]:
    """Return the environment that makes a program's TCP sockets MPTCP sockets, as mptcpize(8) does.

    The environment is empty for flows over other protocols. Raises MachineError if mptcpize's library is not installed.
    """
    if flow.protocol != "mptcp":
        return {}
    if not capabilities.mptcp_library:
        raise MachineError(f"flow '{flow.name}' needs mptcpize: apt-get install mptcpize")
    return {"LD_PRELOAD": capabilities.mptcp_library}


def goodput(meaning: str) -> Metric:
    """Return the metric of the payload that a receiver got, divided by a time."""
    return Metric("rate", meaning, over="sum", better="higher")


# The time by which the goodput of a flow over UDP counts.
LONGER = "the flow's duration or by the time of its arrivals, whichever is longer"


def counted_ns(flow: Flow, arriving_ns: float, arrived: float) -> float:
    """Return the time by which the goodput of a flow over UDP counts.

    Most packets may be lost, and full queues deliver packets after the flow's end. arriving_ns: from the first of the
    arrived packets to the last one, to which one mean gap is added.
    """
    return max(flow.duration_ns or 1, arriving_ns * arrived / (arrived - 1) if arrived > 1 else 0)


def total(unit: Unit, meaning: str, protocols: tuple[Transport, ...] = (), better: Better | None = None) -> Metric:
    """Return a metric of a flow whose values are added up for a group."""
    return Metric(unit, meaning, protocols, over="sum", better=better)


def said_by(flow: Flow, outputs: Outputs, otherwise: str = "it said nothing") -> str:
    """Return the end of what the client printed as errors, for a message. otherwise: the message without errors."""
    return outputs.log(flow.name, "err").strip()[-200:] or otherwise


def start_of(flow: Flow, outputs: Outputs) -> int:
    """Return when the client of a flow started, in ns from time zero; 0 if it never did."""
    span = outputs.span(flow.name)
    return span[0] - outputs.zero_ns if span else 0


def join_port(address: str, port: int) -> str:
    """Return an address with a port, an IPv6 address in brackets."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def mapping_schema(**properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema of a mapping that must have exactly these keys."""
    required = list(properties)
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def steady_span(flow: Flow) -> tuple[int, float]:
    """Return begin and end of the part of a flow that its goodput counts, in ns from the flow's start.

    The end is infinite if the flow has no duration.
    """
    omit = flow.options.get("omit", {"start_ns": 0, "end_ns": 0})
    return omit["start_ns"], math.inf if flow.duration_ns is None else flow.duration_ns - omit["end_ns"]


def read_records(outputs: Outputs, name: str, form: struct.Struct) -> list[tuple[Any, ...]] | None:
    """Return the records of one form in a file of a flow; None if the file is missing or incomplete."""
    content = outputs.file(name)
    return None if content is None or len(content) % form.size else list(form.iter_unpack(content))


def summarize_delays(name: str, delays_ns: Sequence[int]) -> dict[str, float]:
    """Return the metrics of `mprun.model.metric.delays`, in s; empty without delays.

    A single delay has no deviation.
    """
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
    """Return a quantile of sorted values, linear between the nearest two (Hyndman and Fan 1996, type 7)."""
    position = share * (len(ordered) - 1)
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)
