# SPDX-License-Identifier: Apache-2.0
"""`flows`: short flows that start independently of each other (open loop), with completion time and losses of each.

Each flow is a connection of its own. It is complete when its receiver has read the last byte of the announced size,
over both transports. Both ends read one clock.

Start times and sizes are drawn inside the run, from its seed and the name of the flow, or are read from a file. In a
group that aggregates (partition-aggregate), flows are the parts of queries. Sender and receiver are
`mprun.agent.programs.flows`. Each is one process per host for all flows of a group.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import Field

from mprun.inputs.keys.field import VOLUME_SCHEMA, Time, checked, parsed
from mprun.inputs.keys.file_model import KeyProblem
from mprun.inputs.keys.trace_file import TraceError, read_cells
from mprun.inputs.keys.traffic_entry import CongestionName, ConnectionEntry, PositiveTime
from mprun.model import engine_paths
from mprun.model.capabilities import Capabilities
from mprun.model.frozen import Frozen
from mprun.model.metric import OF_CONNECTIONS, Metric, delays, less
from mprun.model.plan import File, Process, Ready
from mprun.model.problem import tell_unknown
from mprun.model.spec import Flow
from mprun.model.units import PERCENT_PATTERN, TIME, VOLUME, parse_ratio
from mprun.workloads import tool
from mprun.workloads.tool import PYTHON, Endpoints, Outputs, Program, Result, Table, TimeLimit, Work

PROGRAMS = {"python3": Program("python3")}
PORTS = 1
# Classes of short flows, by the losses that a flow had. Studies of data centres distinguish them by completion time.
CLASSES = {
    "full_window": "no loss",
    "intensive": "losses that were repaired without a timeout",
    "delay_with_loss": "one timeout",
    "extreme_delay": "a lost handshake or several timeouts",
}
# Columns of the table of flows that are summed up.
COUNTED = ("retransmits", "losses", "timeouts", "handshake_losses")
METRICS = {
    **delays("completion", "time from the beginning of a flow until its receiver has read all of it"),
    "flows": tool.total("count", "flows that began"),
    "bytes": tool.total("size", "payload of the flows that were completed"),
    "retransmits": tool.total("count", "segments that the initial subflows sent again", better="lower"),
    "losses": tool.total(
        "count", "segments sent again that the receiver did not have already (RFC 2883)", better="lower"
    ),
    "timeouts": tool.total("count", "retransmission timeouts of established connections", better="lower"),
    "handshake_losses": tool.total("count", "handshakes that were lost in either direction", better="lower"),
    "missed": less("ratio", "share of the flows that were completed after the deadline, if there is one", over="pool"),
    "queries": Metric("count", "queries of a group that aggregates", over="pool"),
    **{
        f"class.{name}": Metric("ratio", f"share of the completed flows with {what}", over="pool")
        for name, what in CLASSES.items()
    },
    **OF_CONNECTIONS,
}

PROGRAM = f"{engine_paths.PROGRAMS}/flows.py"
RECEIVED = "received"
# Number, bytes, time of the last byte; retransmitted segments, duplicates among them, time-outs.
_RECORD = struct.Struct("<QQQIII")
# A flow begins with its number, a request with its number and the size of the answer.
LEAST_BYTES, LEAST_REQUEST_BYTES = 8, 16
MOST_FLOWS = 100_000
# With more connections, their subflows are not looked up: this would take longer than the run.
MOST_CONNECTIONS = 1_000

# Size in bytes, and the share of flows up to that size; linear in between.
DISTRIBUTIONS: Mapping[str, tuple[tuple[int, float], ...]] = {
    # Alizadeh et al., Data Center TCP (DCTCP), SIGCOMM 2010
    "web-search": (
        *((0, 0.0), (10_000, 0.15), (20_000, 0.2), (30_000, 0.3), (50_000, 0.4), (80_000, 0.53), (200_000, 0.6)),
        *((1_000_000, 0.7), (2_000_000, 0.8), (5_000_000, 0.9), (10_000_000, 0.97), (30_000_000, 1.0)),
    ),
    # Greenberg et al., VL2, SIGCOMM 2009
    "data-mining": (
        *((0, 0.0), (180, 0.1), (216, 0.2), (560, 0.3), (900, 0.4), (1_100, 0.5), (1_870, 0.6), (3_160, 0.7)),
        *((10_000, 0.8), (400_000, 0.9), (3_160_000, 0.95), (100_000_000, 0.98), (1_000_000_000, 1.0)),
    ),
}


def _parse_one_size(value: object) -> int:
    size_bytes = VOLUME.parse(value)
    if size_bytes < LEAST_BYTES:
        raise ValueError(f"a flow begins with its number, of {LEAST_BYTES} bytes: write '{LEAST_BYTES}bytes' or more")
    return size_bytes


def _parse_size(value: object) -> int | str | dict[str, Any]:
    """Parse a size, a range, the name of a distribution, the file of a distribution, or the content of such a file."""
    if isinstance(value, dict):
        return _parse_size_of_many(value)
    if isinstance(value, str) and value[:1].isalpha():
        if value not in DISTRIBUTIONS:
            raise ValueError(tell_unknown("distribution", value, DISTRIBUTIONS))
        return value
    return _parse_one_size(value)


def _parse_size_of_many(value: Mapping[str, Any]) -> dict[str, Any]:
    if value.keys() == {"file"} and isinstance(value["file"], str):
        return dict(value)
    if value.keys() == {"sizes", "shares"} and all(isinstance(one, list) for one in value.values()):
        sizes, shares = ([parse(one) for one in value[name]] for name, parse in _PARSERS)
        if problem := find_problem(sizes, shares):
            raise ValueError(problem[1])
        return {"sizes_bytes": sizes, "shares_share": shares}
    if value.keys() != {"min", "max"}:
        raise ValueError("is neither range nor distribution: write '{min: 1kb, max: 16kb}' or '{file: sizes.csv}'")
    low, high = (_parse_one_size(value[name]) for name in ("min", "max"))
    if low > high:
        raise ValueError("has a 'min' above its 'max': swap them")
    return {"min_bytes": low, "max_bytes": high}


_PARSERS: tuple[tuple[str, Callable[[object], Any]], ...] = (("sizes", VOLUME.parse), ("shares", parse_ratio))


def find_problem(sizes: Sequence[int], shares: Sequence[float]) -> tuple[int, str] | None:
    """Return the number of the first row, from 0, that makes this no distribution, with the reason; None without one.

    Sizes and shares rise, and the shares end at 100%.
    """
    last = len(sizes) - 1
    if len(sizes) != len(shares) or last < 1:
        return last, "is no distribution: write two sizes or more, and the share of flows up to each"
    falls = [n + 1 for n in range(last) if sizes[n] >= sizes[n + 1] or shares[n] >= shares[n + 1]]
    rows = [*([0] if shares[0] else []), *falls, *([last] if shares[-1] != 1 else [])]
    text = "is no distribution: sizes and shares rise from row to row, and shares from 0% for the first size to 100%"
    return (rows[0], text) if rows else None


def _key(description: str, **schema: Any) -> dict[str, Any]:
    return {**schema, "description": description}


_RANGE_SCHEMA = tool.mapping_schema(
    min=_key("The smallest size. All sizes between `min` and `max` are equally likely.", **VOLUME_SCHEMA),
    max=_key("The largest size.", **VOLUME_SCHEMA),
)
_FILE_SCHEMA = tool.mapping_schema(file=_key("A CSV file with the header 'size,share'.", type="string"))
_SHARE_SCHEMA = {"type": "string", "pattern": PERCENT_PATTERN}
_POINTS_SCHEMA = tool.mapping_schema(
    sizes=_key("The sizes of the distribution in rising order.", type="array", items=VOLUME_SCHEMA),
    shares=_key("For each size, the share of flows that are not larger.", type="array", items=_SHARE_SCHEMA),
)
_SIZE_SCHEMA: dict[str, Any] = {
    "oneOf": [VOLUME_SCHEMA, {"enum": list(DISTRIBUTIONS)}, _RANGE_SCHEMA, _FILE_SCHEMA, _POINTS_SCHEMA]
}


FlowSize = Annotated[int | str | dict[str, Any], *parsed(_parse_size, _SIZE_SCHEMA)]
_SHORT = f"a request says its number and what it asks for: write '{LEAST_REQUEST_BYTES}bytes' or more"
RequestSize = Annotated[int, *checked(VOLUME.parse, VOLUME_SCHEMA, lambda size: size >= LEAST_REQUEST_BYTES, _SHORT)]
OneSize = Annotated[int, *parsed(_parse_one_size, VOLUME_SCHEMA)]


class Entry(ConnectionEntry):
    """Short flows that start independently of each other (open loop)."""

    UNSAID = ("aggregate",)
    tool: Literal["flows"]
    arrivals: Literal["poisson", "uniform", "constant"] = "poisson"
    """The distribution of the time between the starts of two flows. `poisson`: exponential. `uniform`: from 0 to twice
    the interval. `constant`: always the interval."""
    interval_ns: PositiveTime | None = Field(None, alias="interval", examples=["200ms"])
    """The mean time between the starts of two flows."""
    duration: PositiveTime | None = Field(None, examples=["10s"])
    """The time during which flows start."""
    size: FlowSize | None = Field(None, examples=["70kb"])
    """The size of the flows: a size, a range {min, max}, 'web-search', 'data-mining', or a distribution {file}."""
    schedule: str | None = None
    """A CSV file with the header 'at,size'. Use it instead of `interval`, `duration` and `size`."""
    starts_ns: list[Time] | None = Field(None, alias="starts")
    """The starts of the flows, as in the file of a schedule."""
    sizes_bytes: list[OneSize] | None = Field(None, alias="sizes")
    """The sizes of the flows in `starts`."""
    deadline_ns: PositiveTime | None = Field(None, alias="deadline")
    """The time within which a flow should be complete."""
    request_bytes: RequestSize | None = Field(None, alias="request", examples=["1kb"])
    """The size of a request. `from` sends the request, and `to` answers with the flow. Default: `from` sends the flow
    without a request."""
    aggregate: bool = False
    """Treat flows of several hosts as parts of queries. The parts of one query have the same number and start together.
    The query is complete when its last part is complete."""
    congestion: CongestionName | None = None
    """The congestion control of both ends. Default: the hosts'."""

    def find_conflicts(self) -> Iterator[KeyProblem]:
        drawn = {"interval": self.interval_ns, "duration": self.duration, "size": self.size}
        given = [name for name, value in drawn.items() if value is not None]
        if self.schedule is not None or self.starts_ns is not None:
            for name in given:
                yield name, "is what the schedule says: remove one of the two"
        else:
            examples = {"interval": "200ms", "duration": "10s", "size": "70kb"}
            for name in (name for name in drawn if name not in given):
                yield name, f"is missing: write '{name}: {examples[name]}', or 'schedule: flows.csv'"
        if len(self.starts_ns or ()) != len(self.sizes_bytes or ()):
            yield "sizes", "are not as many as 'starts': write one for each"
        if self.duration and self.interval_ns and self.duration // self.interval_ns > MOST_FLOWS:
            yield "interval", f"amounts to more than {MOST_FLOWS} flows: write a longer one"
        if self.arrivals == "constant" and self.duration and self.interval_ns and self.interval_ns >= self.duration:
            yield "interval", "begins no flow within the duration: write a shorter one, or a longer duration"
        if self.aggregate and not self.is_several and self.group is None:
            yield "aggregate", "is for flows of several hosts: name them, as in 'to: [h1, h2]', or remove it"

    def find_doubts(self) -> Iterator[KeyProblem]:
        if self.arrivals != "constant" and self.duration and self.interval_ns and self.interval_ns >= self.duration:
            yield "interval", "is not shorter than 'duration', so that perhaps no flow begins: write a shorter one"

    def companions(self) -> dict[str, tuple[str, Callable[[str], Mapping[str, object]]]]:
        if self.schedule is not None:
            return {"schedule": (self.schedule, read_schedule)}
        if isinstance(self.size, dict) and "file" in self.size:
            return {"size": (self.size["file"], read_distribution)}
        return {}

    def options(self) -> dict[str, object]:
        options = super().options()
        if self.starts_ns is not None:
            del options["arrivals"]
        if isinstance(self.size, int):
            options["size_bytes"] = options.pop("size")
        return options


def read_schedule(text: str) -> dict[str, object]:
    """Return the fields that a CSV file `at,size` gives: starts and sizes, sorted by time. Raises TraceError."""
    rows = sorted(row for _, row in _read_rows(text, ("at", "size"), (TIME.parse, _parse_one_size), "100ms,70kb"))
    starts_ns, sizes_bytes = map(list, zip(*rows, strict=True))
    return {"schedule": None, "starts_ns": starts_ns, "sizes_bytes": sizes_bytes}


def read_distribution(text: str) -> dict[str, object]:
    """Return the field that a CSV file `size,share` gives: sizes and cumulative shares. Raises TraceError."""
    rows = _read_rows(text, ("size", "share"), (VOLUME.parse, parse_ratio), "70kb,50%")
    sizes, shares = zip(*(row for _, row in rows), strict=True)
    if problem := find_problem(sizes, shares):
        raise TraceError(rows[problem[0]][0], problem[1])
    return {"size": {"sizes_bytes": list(sizes), "shares_share": list(shares)}}


def _read_rows(
    text: str, header: tuple[str, str], parsers: tuple[Callable[[object], Any], ...], example: str
) -> list[tuple[int, tuple[Any, ...]]]:
    """Return the rows of a CSV file of two columns with their line numbers. `#` begins a comment. Raises TraceError."""
    rows = read_cells(text)
    if next(rows, (1, []))[1] != [*header]:
        raise TraceError(1, f"has no header: write '{','.join(header)}'")
    found = []
    for line, cells in rows:
        if len(cells) != len(header):
            raise TraceError(line, f"has {len(cells)} cells: write two, as in '{example}'")
        try:
            found.append((line, tuple(parse(cell) for parse, cell in zip(parsers, cells, strict=True))))
        except ValueError as error:
            raise TraceError(line, str(error)) from None
    if not found:
        raise TraceError(1, "holds no row")
    return found


TIME_LIMIT = TimeLimit(60, lambda flow: flow.duration_ns or max(flow.options.get("starts_ns", [0])))


def is_download(flow: Flow) -> bool:
    """Return whether all data goes to the client."""
    return "request_bytes" in flow.options


def work(flow: Flow, ends: Endpoints, capabilities: Capabilities) -> Work:
    """Return the receiver, which listens until the end of the run, and the sender with its schedule."""
    shared = {
        "address": ends.destination_address,
        "port": ends.port,
        "protocol": flow.protocol,
        "congestion": flow.congestion or "",
        "request_bytes": flow.options.get("request_bytes"),
    }
    file, ready = tool.kept(flow, RECEIVED), Ready("port", str(ends.port))
    taking = File(tool.temporary(flow, "receive.json"), json.dumps({**shared, "record": file}))
    receiving = (*PYTHON, PROGRAM, "receive", taking.path)
    receiver = tool.make_server(flow, receiving, ready, files=(taking,), keeps=(file,))
    sending = File(tool.temporary(flow, "send.json"), json.dumps({**shared, "name": flow.name, **_schedule(flow)}))
    return Work((tool.make_client(flow, (*PYTHON, PROGRAM, "send", sending.path), files=(sending,)),), (receiver,))


def join(processes: Sequence[Process]) -> Process:
    """Return one program for all flows of a host.

    It reads a file for each flow, and listens on their ports in this order.
    """
    argv = (*processes[0].argv, *(process.argv[-1] for process in processes[1:]))
    return replace(processes[0], argv=argv, ready=processes[-1].ready)


def _schedule(flow: Flow) -> dict[str, Any]:
    """Return the start times and sizes of a flow in the format of `mprun.agent.programs.flows`."""
    options = flow.options
    if "starts_ns" in options:
        return {name: options[name] for name in ("starts_ns", "sizes_bytes")}
    drawn = {name: options[name] for name in ("arrivals", "interval_ns")} | {"duration_ns": flow.duration_ns}
    # the parts of a query start at the same time
    drawn["starts_key"] = f"{flow.group} {flow.source}" if options.get("aggregate") else flow.name
    if "size_bytes" in options:
        return drawn | {"size_bytes": options["size_bytes"]}
    size = options["size"]
    if isinstance(size, str):
        return drawn | {"distribution": DISTRIBUTIONS[size]}
    if "sizes_bytes" in size:
        return drawn | {"distribution": list(zip(size["sizes_bytes"], size["shares_share"], strict=True))}
    return drawn | {"range_bytes": [size["min_bytes"], size["max_bytes"]]}


class Sent(Frozen):
    """The sender's record of a flow. Times are ns of the run's clock.

    - end_ns: 0 if the flow failed.
    - duplicates: retransmitted segments that the receiver had already (RFC 2883).
    - refused: handshakes that were lost.
    """

    number: int
    size: int
    received: int
    start_ns: int
    connected_ns: int
    end_ns: int
    retransmits: int
    duplicates: int
    timeouts: int
    refused: int
    port: int


class Received(Frozen):
    """The receiver's record of a flow: received bytes, the time of the last byte, and its own counts."""

    number: int
    count: int
    end_ns: int
    retransmits: int
    duplicates: int
    timeouts: int


def parse(flow: Flow, outputs: Outputs) -> Result:
    """Return each flow's start at its sender and end at its receiver. A flow without an end is an error."""
    records = tool.read_records(outputs, RECEIVED, _RECORD)
    if records is None:
        return Result(error="the receiver's record is missing or not whole")
    received = {one.number: one for one in (Received(*record) for record in records)}
    lines = [line.split() for line in outputs.log(flow.name).splitlines()]
    try:
        # several flows may share a sender, whose lines begin with the name of the flow
        sent = [Sent(*map(int, rest)) for name, *rest in lines if name == flow.name]
    except (TypeError, ValueError) as problem:
        return Result(error=f"a line that it never prints: {problem}")
    sent.sort(key=lambda one: one.number)
    table = _table(flow, sent, received, outputs.zero_ns)
    delays_ns = [delay for delay in table["completion_ns"] if delay is not None]
    values: dict[str, float] = {
        "flows": len(sent),
        "bytes": sum(
            size for size, delay in zip(table["size_bytes"], table["completion_ns"], strict=True) if delay is not None
        ),
        **{name: sum(table[name]) for name in COUNTED},
        **_classify(table["class"]),
        **_miss([(flow, delays_ns)]),
    }
    is_asked = flow.protocol == "mptcp" and len(sent) <= MOST_CONNECTIONS
    ports = tuple(dict.fromkeys(one.port for one in sent)) if is_asked else ()
    many = f"{len(sent)} connections: subflows are looked up of {MOST_CONNECTIONS} at most"
    warnings = (many,) if flow.protocol == "mptcp" and not is_asked else ()
    said = outputs.log(flow.name, "err").strip().splitlines()
    why = f": {said[-1]}" if said else ""
    error = None if len(delays_ns) == len(sent) else f"{len(sent) - len(delays_ns)} flows did not arrive whole{why}"
    tables: dict[str, Table] = {"flows": table} if sent else {}
    if flow.group is None:
        tables |= _distribute(delays_ns)
    return Result(values, ports, error, tables, warnings, delays_ns={"completion": delays_ns})


def pool(flows: Sequence[Flow], results: Sequence[Result]) -> Result:
    """Return all flows of a group as one result. If the group aggregates, the result is of queries instead of flows."""
    tables = [result.tables["flows"] for result in results if "flows" in result.tables]
    classes = [one for table in tables for one in table["class"]]
    if flows[0].options.get("aggregate"):
        queries = _gather_queries(flows, results)
        delays_ns = [delay for delay in queries["completion_ns"] if delay is not None]
        told: dict[str, Table] = {"queries": queries}
        values: dict[str, float] = {"queries": len(queries["sequence"]), **_miss([(flows[0], delays_ns)])}
    else:
        of_flows = [result.delays_ns.get("completion", ()) for result in results]
        delays_ns = [delay for some in of_flows for delay in some]
        told, values = {}, _miss(zip(flows, of_flows, strict=True))
    values |= _classify(classes)
    return Result(values, tables={**told, **_distribute(delays_ns)}, delays_ns={"completion": delays_ns})


def _gather_queries(flows: Sequence[Flow], results: Sequence[Result]) -> Table:
    """Return a row for each query: the flows of one host with the same number that start together.

    The completion of a query is that of its last part; None if a part is not complete.
    """
    parts: dict[tuple[str, int, int, int], list[tuple[int, int | None, str]]] = {}
    # of each flow, the flows before it of which it waits for the end
    waited: dict[str, int] = {}
    for flow, result in zip(flows, results, strict=True):
        waited[flow.name] = waited.get(flow.after.flow, 0) + 1 if flow.after else 0
        table: Table = result.tables.get("flows", {"sequence": [], "start_ns": [], "completion_ns": []})
        for sequence, *times in zip(table["sequence"], table["start_ns"], table["completion_ns"], strict=True):
            query = (flow.source, waited[flow.name], flow.start_ns, sequence)
            parts.setdefault(query, []).append((*times, flow.destination))
    rows = []
    for (host, *_, sequence), some in sorted(parts.items()):
        first_ns = min(start_ns for start_ns, _, _ in some)
        ends = [(start_ns + delay_ns, name) for start_ns, delay_ns, name in some if delay_ns is not None]
        is_whole = len(ends) == len(some)
        end_ns, last = max(ends) if is_whole else (None, None)
        rows.append((host, sequence, first_ns, len(some), None if end_ns is None else end_ns - first_ns, last))
    return tool.tabulate(("host", "sequence", "start_ns", "parts", "completion_ns", "last"), rows)


def _classify(classes: Sequence[str | None]) -> dict[str, float]:
    """Return the share of each class among the flows that have a class; empty without such flows."""
    known = [one for one in classes if one is not None]
    return {f"class.{name}": known.count(name) / len(known) for name in CLASSES} if known else {}


def _miss(measured: Iterable[tuple[Flow, Sequence[int]]]) -> dict[str, float]:
    """Return the share of completions after the deadline of their flow; empty without a deadline."""
    late = [
        delay > flow.options["deadline_ns"] for flow, ns in measured if "deadline_ns" in flow.options for delay in ns
    ]
    return {"missed": sum(late) / len(late)} if late else {}


def _distribute(delays_ns: Sequence[int]) -> dict[str, Table]:
    """Return completion times by the share of flows that were at least as fast, in steps of 1 %."""
    if not delays_ns:
        return {}
    ordered, shares = sorted(delays_ns), [percent / 100 for percent in range(101)]
    return {
        "completions": {"share": shares, "completion_ns": [round(tool.percentile(ordered, share)) for share in shares]}
    }


def _table(flow: Flow, sent: Sequence[Sent], received: Mapping[int, Received], zero_ns: int) -> dict[str, list[Any]]:
    """Return a row for each flow by number. An incomplete flow has neither completion nor class."""
    names = (
        *("sequence", "start_ns", "size_bytes", "connect_ns", "completion_ns", "retransmits"),
        *("losses", "timeouts", "handshake_losses", "class", "local_port"),
    )
    rows = []
    asks = "request_bytes" in flow.options
    for one in sent:
        other = received.get(one.number, Received(one.number, 0, 0, 0, 0, 0))
        count, end_ns = (one.received, one.end_ns) if asks else (other.count, other.end_ns)
        completion_ns = end_ns - one.start_ns if one.end_ns and count == one.size else None
        # retransmissions of both ends are counted: in a flow with a request, the requesting end sends almost nothing
        retransmits = one.retransmits + other.retransmits
        losses = max(one.refused, retransmits - one.duplicates - other.duplicates)
        timeouts = max(0, one.timeouts + other.timeouts - one.refused)
        connect_ns = one.connected_ns - one.start_ns if one.connected_ns else None
        kind = None if completion_ns is None else _class_of(losses, timeouts, one.refused)
        times = (one.start_ns - zero_ns, one.size, connect_ns, completion_ns)
        rows.append((one.number + 1, *times, retransmits, losses, timeouts, one.refused, kind, one.port))
    return tool.tabulate(names, rows)


def _class_of(losses: int, timeouts: int, refused: int) -> str:
    """Return the class of a flow by its losses, independently of the network's delays; see CLASSES."""
    if refused or timeouts > 1:
        return "extreme_delay"
    if timeouts:
        return "delay_with_loss"
    return "intensive" if losses else "full_window"
