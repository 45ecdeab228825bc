# SPDX-License-Identifier: Apache-2.0
"""`video`: a video in chunks of several qualities, played while it is downloaded, as in MPEG-DASH.

It uses one TCP or MPTCP connection. Chunks are zeros of a constant bit rate. Server and player are `mprun.guest.video`.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from mprun import inside
from mprun.capabilities import Capabilities
from mprun.model.fault import Path
from mprun.model.metric import OF_CONNECTIONS, Metric, delays
from mprun.model.spec import Flow
from mprun.model.units import NS_PER_S, TIME
from mprun.plan import Process, Ready
from mprun.schema.file_model import refuse
from mprun.schema.flow import Congestion, ConnectionEntry, FlowRate, PositiveTime
from mprun.tools.tool import Endpoints, Outputs, Program, Result, Table, Work

PROGRAMS = {"python3": Program("python3")}
PORTS = 1
METRICS = {
    "startup": Metric("time", "time from the start of the flow until the video begins to play", better="lower"),
    "stalls": Metric(
        "count", "number of times that playback stopped because the buffer was empty", over="sum", better="lower"
    ),
    "stall_time": Metric("time", "total time of the stalls", over="sum", better="lower"),
    "quality": Metric("rate", "mean bit rate of the chunks", better="higher"),
    "switches": Metric("count", "chunks with another quality than the previous chunk", over="sum"),
    "chunks": Metric("count", "chunks that arrived", over="sum"),
    "bytes": Metric("size", "payload of the chunks", over="sum"),
    **delays("delay", "time from the request of a chunk to its last byte"),
    **OF_CONNECTIONS,
}

# Without site packages and without writing bytecode.
PLAYER = ("python3", "-S", "-B", "-m", "mprun.guest.video")
MOST_CHUNKS, MOST_QUALITIES = 10_000, 30
# A flow may last ten times as long as the video, plus a minute.
GRACE_NS, SLOWNESS = 60 * NS_PER_S, 10


class Entry(ConnectionEntry):
    """A video that is played while it is downloaded."""

    tool: Literal["video"] = Field(description="The tool.")
    length_ns: PositiveTime = Field(alias="length", description="The length of the video.", examples=["60s"])
    qualities_bit_per_s: Annotated[list[FlowRate], Field(min_length=1, max_length=MOST_QUALITIES)] = Field(
        alias="qualities", description="The bit rates of the video, in rising order.", examples=[["1mbit", "4mbit"]]
    )
    chunk_ns: PositiveTime = Field(
        2 * NS_PER_S, alias="chunk", description="The length of a chunk. Default: 2s.", examples=["2s"]
    )
    startup_ns: PositiveTime = Field(
        4 * NS_PER_S,
        alias="startup",
        description="The amount of video in the buffer before playback begins, and before it resumes after a "
        "stall. Default: 4s.",
    )
    buffer_ns: PositiveTime = Field(
        20 * NS_PER_S, alias="buffer", description="The largest amount of video in the buffer. Default: 20s."
    )
    adaptation: Literal["rate", "buffer"] = Field(
        "rate",
        description="The choice of the quality. `rate`: the best quality below 90 % of the rate of the last three "
        "chunks. `buffer`: a better quality for a fuller buffer (BBA-0).",
    )
    congestion: Congestion | None = Field(None, description="The congestion control of both ends. Default: the hosts'.")

    @model_validator(mode="after")
    def _agree(self) -> Self:
        faults: dict[Path, str] = {}
        if any(before >= after for before, after in pairwise(self.qualities_bit_per_s)):
            faults[("qualities",)] = "do not rise: write each once, the smallest first"
        if self.length_ns % self.chunk_ns or self.length_ns // self.chunk_ns > MOST_CHUNKS:
            chunk = TIME.render(self.chunk_ns)
            faults[("length",)] = f"is not 1 to {MOST_CHUNKS} chunks of {chunk}: write a multiple of 'chunk'"
        if self.buffer_ns < self.startup_ns + self.chunk_ns:
            least = TIME.render(self.startup_ns + self.chunk_ns)
            faults[("buffer",)] = f"has no room for 'startup' and a chunk: write '{least}' or more"
        if faults:
            raise refuse(faults, self)
        return self


def work(flow: Flow, ends: Endpoints, capabilities: Capabilities) -> Work:
    """Return a server for one connection, and the player."""
    options: Mapping[str, Any] = flow.options
    place = (ends.destination_address, str(ends.port))
    shared = (f"protocol={flow.protocol}", f"congestion={flow.congestion or ''}")
    environment = {"PYTHONPATH": inside.LIBRARY}
    server = Process(
        name=f"{flow.name}.server",
        node=flow.destination,
        argv=(*PLAYER, "server", *place, *shared),
        role="server",
        env=environment,
        ready=Ready("port", str(ends.port)),
    )
    asked = [f"{name}={options[name]}" for name in ("chunk_ns", "length_ns", "buffer_ns", "startup_ns", "adaptation")]
    rates = ",".join(map(str, options["qualities_bit_per_s"]))
    player = Process(
        name=flow.name,
        node=flow.source,
        argv=(*PLAYER, "player", *place, *shared, f"rates={rates}", *asked),
        role="flow",
        env=environment,
        timeout_ns=GRACE_NS + SLOWNESS * options["length_ns"],
    )
    return Work(clients=(player,), servers=(server,))


def parse(flow: Flow, outputs: Outputs) -> Result:
    """Return chunks and stalls. A video that was not fetched completely is an error."""
    options: Mapping[str, Any] = flow.options
    ports: list[int] = []
    chunks: list[tuple[int, ...]] = []
    stalls: list[tuple[int, int]] = []
    began_ns: int | None = None
    for line in outputs.log(flow.name).splitlines():
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
                rate = options["qualities_bit_per_s"][quality]
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
    names = ("size_bytes", "quality_bit_per_s", "start_ns", "delay_ns", "buffer_ns")
    table: Table = {"sequence": list(range(1, len(chunks) + 1))} | {
        name: [chunk[n] for chunk in chunks] for n, name in enumerate(names)
    }
    tables = {"chunks": table} if chunks else {}
    if stalls:
        begins = [start_ns - outputs.zero_ns for start_ns, _ in stalls]
        tables["stalls"] = {"start_ns": begins, "duration_ns": [end_ns - start_ns for start_ns, end_ns in stalls]}
    asked = options["length_ns"] // options["chunk_ns"]
    said = outputs.log(flow.name, "err").strip()[-200:] or "it said nothing"
    error = None if len(chunks) == asked else f"{len(chunks)} of {asked} chunks arrived: {said}"
    return Result(values, tuple(ports), error, tables, delays_ns={"delay": list(table["delay_ns"])})
