# SPDX-License-Identifier: Apache-2.0
"""`video`: a video in chunks of several qualities, played while it is downloaded, as in MPEG-DASH.

It uses one TCP, MPTCP or QUIC connection. Chunks are zeros of a constant bit rate. Server and player are
`mprun.agent.programs.video`. Over QUIC, the server is mprun-quic or mprun-noq, and the player drives the
client of the same program.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Annotated, Literal

from pydantic import Field

from mprun.inputs.keys.file_model import KeyProblem
from mprun.inputs.keys.traffic_entry import CongestionName, FlowRate, PositiveTime, ServedEntry
from mprun.model import engine_paths
from mprun.model.capabilities import Capabilities
from mprun.model.metric import OF_CONNECTIONS, OF_HANDOVER, OF_PATHS, Metric, delays, less
from mprun.model.plan import Ready
from mprun.model.spec import Flow
from mprun.model.units import NS_PER_S, TIME
from mprun.workloads import quic_connection, quic_report, tool
from mprun.workloads.quic_connection import check_paths as check_paths
from mprun.workloads.tool import Endpoints, Outputs, Program, Result, Table, TimeLimit, Work

PROGRAMS = {"python3": Program("python3")}
PORTS = 1
METRICS = {
    "startup": less("time", "time from the start of the flow until the video begins to play"),
    "stalls": tool.total("count", "number of times that playback stopped because the buffer was empty", better="lower"),
    "stall_time": tool.total("time", "total time of the stalls", better="lower"),
    "quality": Metric("rate", "mean bit rate of the chunks", better="higher"),
    "switches": tool.total("count", "chunks with another quality than the previous chunk"),
    "chunks": tool.total("count", "chunks that arrived"),
    "bytes": tool.total("size", "payload of the chunks"),
    **delays("delay", "time from the request of a chunk to its last byte"),
    **OF_CONNECTIONS,
    **{name: replace(metric, protocols=("quic",)) for name, metric in quic_connection.METRICS.items()},
    **{name: replace(metric, protocols=("mptcp", "quic")) for name, metric in {**OF_HANDOVER, **OF_PATHS}.items()},
}

# Without site packages and without writing bytecode.
PLAYER = ("python3", "-S", "-B", "-m", "mprun.agent.programs.video")
MOST_CHUNKS, MOST_QUALITIES = 10_000, 30
# A flow may last ten times as long as the video, plus a minute.
TIME_LIMIT = TimeLimit(60, lambda flow: 10 * int(flow.options["length_ns"]))


class Entry(ServedEntry):
    """A video that is played while it is downloaded."""

    tool: Literal["video"]
    protocol: Literal["tcp", "mptcp", "quic"] = "tcp"
    """The transport protocol."""
    length_ns: PositiveTime = Field(alias="length", examples=["60s"])
    """The length of the video."""
    qualities_bit_per_s: Annotated[list[FlowRate], Field(min_length=1, max_length=MOST_QUALITIES)] = Field(
        alias="qualities", examples=[["1mbit", "4mbit"]]
    )
    """The bit rates of the video, in rising order."""
    chunk_ns: PositiveTime = Field(2 * NS_PER_S, alias="chunk", examples=["2s"])
    """The length of a chunk. Default: 2s."""
    startup_ns: PositiveTime = Field(4 * NS_PER_S, alias="startup")
    """The amount of video in the buffer before playback begins, and before it resumes after a stall. Default: 4s."""
    buffer_ns: PositiveTime = Field(20 * NS_PER_S, alias="buffer")
    """The largest amount of video in the buffer. Default: 20s."""
    adaptation: Literal["rate", "buffer"] = "rate"
    """The choice of the quality. `rate`: the best quality below 90 % of the rate of the last three chunks. `buffer`: a
    better quality for a fuller buffer (BBA-0)."""
    congestion: CongestionName | None = None
    """The congestion control of both ends. For `quic`: cubic or bbr3, with tquic also bbr or copa, with noq also reno.
    Default: the hosts', and cubic for `quic`."""
    multipath: bool = False
    """Use every path between the hosts. It needs `protocol: quic`."""
    scheduler: quic_connection.Schedulers | None = quic_connection.SCHEDULER
    stack: quic_connection.MultipathStackName | None = Field(
        None, description=f"{quic_connection.STACK_DESCRIPTION} It needs `protocol: quic`."
    )
    qlog: bool = False
    """Keep the events of both ends as qlog. It needs `protocol: quic`."""

    def find_conflicts(self) -> Iterator[KeyProblem]:
        if any(before >= after for before, after in pairwise(self.qualities_bit_per_s)):
            yield "qualities", "do not rise: write each once, the smallest first"
        if self.length_ns % self.chunk_ns or self.length_ns // self.chunk_ns > MOST_CHUNKS:
            chunk = TIME.render(self.chunk_ns)
            yield "length", f"is not 1 to {MOST_CHUNKS} chunks of {chunk}: write a multiple of 'chunk'"
        if self.buffer_ns < self.startup_ns + self.chunk_ns:
            least = TIME.render(self.startup_ns + self.chunk_ns)
            yield "buffer", f"has no room for 'startup' and a chunk: write '{least}' or more"
        yield from self._check_transport()

    def _check_transport(self) -> Iterator[KeyProblem]:
        """Yield the problems of keys that only QUIC has, and of keys that have another meaning over QUIC."""
        if self.protocol != "quic":
            for key in ("multipath", "scheduler", "stack", "qlog"):
                if getattr(self, key):
                    yield key, "is only for QUIC: write 'protocol: quic'"
            return
        if self.scheduler is not None and not self.multipath:
            yield "scheduler", quic_connection.NO_CHOICE
        yield from quic_connection.find_stack_problems(self.stack, self.congestion, self.scheduler, self.multipath)


def programs(flow: Flow) -> Mapping[str, Program]:
    """Return the programs that only a video over QUIC needs."""
    return quic_connection.programs(flow) if flow.protocol == "quic" else {}


def is_download(flow: Flow) -> bool:
    """Return whether all data goes to the client."""
    return True


def work(flow: Flow, ends: Endpoints, capabilities: Capabilities) -> Work:
    """Return a server for one connection, and the player."""
    rates = ",".join(map(str, flow.options["qualities_bit_per_s"]))
    names = ("chunk_ns", "length_ns", "buffer_ns", "startup_ns", "adaptation")
    asked = (f"rates={rates}", *(f"{name}={flow.options[name]}" for name in names))
    environment = {"PYTHONPATH": engine_paths.LIBRARY}
    if flow.protocol == "quic":
        made = quic_connection.work(flow, ends, ("--requests", "-"), flow.options["chunk_ns"])
        (client,) = made.clients
        player = (*PLAYER, "quic", *asked, "--", *client.argv)
        return replace(made, clients=(replace(client, argv=player, env={**client.env, **environment}),))
    port = str(ends.port)
    shared = (ends.destination_address, port, f"protocol={flow.protocol}", f"congestion={flow.congestion or ''}")
    client = tool.make_client(flow, (*PLAYER, "player", *shared, *asked), env=environment)
    return Work(
        (client,), (tool.make_server(flow, (*PLAYER, "server", *shared), Ready("port", port), env=environment),)
    )


def parse(flow: Flow, outputs: Outputs) -> Result:
    """Return chunks and stalls. A video that was not fetched completely is an error."""
    ports: list[int] = []
    chunks: list[tuple[int, ...]] = []
    stalls: list[tuple[int, int]] = []
    began_ns: int | None = None
    of_client: list[str] = []
    for line in outputs.log(flow.name).splitlines():
        if line.startswith("{"):
            of_client.append(line)
            continue
        words = line.split()
        try:
            if words[0] == "port":
                ports.append(int(words[1]))
            elif words[0] == "startup":
                began_ns = int(words[1])
            elif words[0] == "stall":
                stalls.append((int(words[1]), int(words[2])))
            else:
                size, quality, start_ns, end_ns, buffer_ns = map(int, words)
                rate = flow.options["qualities_bit_per_s"][quality]
                chunks.append((size, rate, start_ns - outputs.zero_ns, end_ns - start_ns, buffer_ns))
        except (IndexError, ValueError):
            return Result(error=f"a line that it never prints: {line[:200]}")
    rates = [rate for _, rate, *_ in chunks]
    values: dict[str, float] = {
        "stalls": len(stalls),
        "stall_time": sum(end_ns - start_ns for start_ns, end_ns in stalls) / NS_PER_S,
        "switches": sum(before != after for before, after in pairwise(rates)),
        "chunks": len(chunks),
        "bytes": sum(size for size, *_ in chunks),
    }
    if rates:
        values["quality"] = sum(rates) / len(rates)
    span = outputs.span(flow.name)
    if began_ns is not None and span is not None:
        values["startup"] = (began_ns - span[0]) / NS_PER_S
    names = ("sequence", "size_bytes", "quality_bit_per_s", "start_ns", "delay_ns", "buffer_ns")
    table = tool.tabulate(names, [(n, *chunk) for n, chunk in enumerate(chunks, 1)])
    tables: dict[str, Table] = {"chunks": table} if chunks else {}
    if stalls:
        rows = ((start_ns - outputs.zero_ns, end_ns - start_ns) for start_ns, end_ns in stalls)
        tables["stalls"] = tool.tabulate(("start_ns", "duration_ns"), rows)
    result = Result(values, tuple(ports), tables=tables, delays_ns={"delay": table["delay_ns"]})
    asked = flow.options["length_ns"] // flow.options["chunk_ns"]
    if len(chunks) != asked:
        said = quic_report.strip_name(outputs.log(flow.name, "err").strip())[-200:]
        result = replace(result, error=f"{len(chunks)} of {asked} chunks arrived: {said or 'it said nothing'}")
    if flow.protocol != "quic":
        return result
    try:
        report = quic_report.read_report(of_client, outputs.zero_ns)
    except quic_report.ReportError as problem:
        return replace(result, error=str(problem))
    return quic_report.add_facts(flow, outputs, report, result)
