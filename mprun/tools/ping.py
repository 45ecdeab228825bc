# SPDX-License-Identifier: Apache-2.0
"""`ping`: round-trip times, as a flow and as the idle probe of each path, see ping(8) of iputils."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Annotated, Literal

from pydantic import Field, PlainValidator, WithJsonSchema, model_validator

from mprun.capabilities import Capabilities
from mprun.plan import Process
from mprun.spec.field import SIZE_SCHEMA, TIME_SCHEMA, Time, Whole
from mprun.spec.flow import FlowEntry
from mprun.spec.metric import Metric
from mprun.spec.model import refuse
from mprun.spec.spec import Flow
from mprun.spec.units import NS_PER_MS, SIZE, TIME
from mprun.tools.tool import Endpoints, Outputs, Program, Result, Table, Work

PROGRAMS = {"ping": Program("iputils-ping", "-V")}
PORTS = 0
METRICS = {
    "rtt": Metric("time", "mean round-trip time"),
    "rtt.min": Metric("time", "shortest"),
    "rtt.max": Metric("time", "longest"),
    "rtt.mdev": Metric("time", "mean deviation, as ping(8) has it"),
    "loss": Metric("ratio", "share of requests without an answer"),
}

GRACE_NS = 10_000_000_000
DEFAULT_COUNT = 5
DEFAULT_INTERVAL_NS = 200_000_000
DEFAULT_SIZE_BYTES = 56
MOST_BYTES = 65_507
# of the numbers that packets have
HALF = 1 << 15

_SUMMARY = re.compile(r"(\d+) packets transmitted, (\d+) received")
_TIMES = re.compile(r"rtt min/avg/max/mdev = ([\d.]+)/([\d.]+)/([\d.]+)/([\d.]+) ms")
_MOMENT = re.compile(r"^\[(\d+)\.(\d{6})\] .* ttl=\d+ time=", re.MULTILINE)
_REPLY = re.compile(r"icmp_seq=(\d+) ttl=\d+ time=([\d.]+) ms")


def _parse_interval(value: object) -> int:
    interval_ns = TIME.parse(value)
    if interval_ns == 0 or interval_ns % NS_PER_MS:
        raise ValueError(f"ping waits whole milliseconds, not {TIME.render(interval_ns)}: write '200ms'")
    return interval_ns


def _parse_size(value: object) -> int:
    size_bytes = SIZE.parse(value)
    if size_bytes > MOST_BYTES:
        raise ValueError(f"{size_bytes} bytes do not fit into an IP packet: write '{MOST_BYTES}bytes' or less")
    return size_bytes


class Entry(FlowEntry):
    """Round-trip times, see ping(8)."""

    tool: Literal["ping"] = Field(description="The tool.")
    protocol: Literal["icmp"] = Field("icmp", description="icmp.")
    count: Annotated[int, Whole(1, 100_000, "a ping is a probe, not a load")] | None = Field(
        None, description="How many pings; or give a duration. Default: 5."
    )
    duration: Time | None = Field(None, description="How long it pings, instead of count.")
    interval_ns: Annotated[int, PlainValidator(_parse_interval), WithJsonSchema(TIME_SCHEMA)] = Field(
        DEFAULT_INTERVAL_NS, alias="interval", description="Time between two pings. Default: 200ms."
    )
    size_bytes: Annotated[int, PlainValidator(_parse_size), WithJsonSchema(SIZE_SCHEMA)] = Field(
        DEFAULT_SIZE_BYTES, alias="size", description="Bytes of payload. Default: 56bytes."
    )

    @model_validator(mode="after")
    def _agree(self) -> Entry:
        if self.duration is not None:
            if self.count is not None:
                raise refuse({("duration",): "stands beside 'count': keep one of the two"}, self)
            if self.duration < self.interval_ns:
                interval = TIME.render(self.interval_ns)
                raise refuse({("duration",): f"is shorter than the interval, {interval}: write a longer one"}, self)
        return self

    def options(self) -> dict[str, object]:
        count = DEFAULT_COUNT if self.count is None and self.duration is None else self.count
        return super().options() | ({} if count is None else {"count": count})


def work(flow: Flow, ends: Endpoints, capabilities: Capabilities) -> Work:
    """One ping, which the kernel answers; without a count it takes as many as fit in its duration."""
    interval_ns = _number(flow.options.get("interval_ns"), DEFAULT_INTERVAL_NS)
    count = _number(flow.options.get("count"), 0)
    if not count:
        count = DEFAULT_COUNT if flow.duration_ns is None else max(1, flow.duration_ns // interval_ns)
    client = Process(
        name=flow.name,
        node=flow.source,
        argv=argv(ends, count, interval_ns, _number(flow.options.get("size_bytes"), DEFAULT_SIZE_BYTES), ("-D",)),
        role="flow",
        timeout_ns=count * interval_ns + GRACE_NS,
    )
    return Work(clients=(client,))


def argv(
    ends: Endpoints,
    count: int,
    interval_ns: int,
    size_bytes: int = DEFAULT_SIZE_BYTES,
    options: tuple[str, ...] = (),
) -> tuple[str, ...]:
    """The command; -I makes the source address, and so the path, ours to choose, and -D has the time of each reply."""
    words = f"ping -n -c {count} -i {interval_ns / 1e9:g} -s {size_bytes}"
    return (*words.split(), *options, "-I", ends.source_address, ends.destination_address)


def parse(flow: Flow, outputs: Outputs) -> Result:
    """What `read` has, and of each reply when its request was sent: late where round trips take longer than the
    interval, and as exact as ping prints round trips (a microsecond below 1 ms, a millisecond from 100 ms on). In
    logs without times, of older runs, when it was due.
    """
    log = outputs.log(flow.name)
    result = read(log)
    span = outputs.span(flow.name)
    if "pings" not in result.tables or span is None:
        return result
    table = result.tables["pings"]
    began_ns, interval_ns = span[0] - outputs.zero_ns, _number(flow.options.get("interval_ns"), DEFAULT_INTERVAL_NS)
    starts = [began_ns + (sequence - 1) * interval_ns for sequence in table["sequence"]]
    if moments := _MOMENT.findall(log):
        replied = [int(seconds) * 1_000_000_000 + int(us) * 1000 for seconds, us in moments]
        sent = [at_ns - round(ms * NS_PER_MS) for at_ns, ms in zip(replied, table["rtt_ms"], strict=True)]
        # of the clock only differences: the first was sent when it was due
        starts = [starts[0] + at_ns - sent[0] for at_ns in sent]
    return replace(result, tables={"pings": {"sequence": table["sequence"], "start_ns": starts, **table}})


def read(output: str) -> Result:
    """rtt: the mean; loss: the share of requests without an answer. Replies are numbered from 1 on, beyond the 16 bits
    that a packet has for it."""
    summary = _SUMMARY.search(output)
    if not summary:
        return Result(error="no summary: " + (output.strip()[-200:] or "it printed nothing"))
    sent, received = int(summary[1]), int(summary[2])
    if not received:
        return Result({"loss": 1.0}, error=f"no answer to any of its {sent} requests")
    values = {"loss": (sent - received) / sent}
    times = _TIMES.search(output)
    if times:
        names = ("rtt.min", "rtt", "rtt.max", "rtt.mdev")
        values |= {name: float(text) / 1e3 for name, text in zip(names, times.groups(), strict=True)}
    sequences: list[int] = []
    replies = _REPLY.findall(output)
    for said, _ in replies:
        near = sequences[-1] if sequences else 0
        sequences.append(near + (int(said) - near + HALF) % (2 * HALF) - HALF)
    table: Table = {"sequence": sequences, "rtt_ms": [float(ms) for _, ms in replies]}
    return Result(values, tables={"pings": table})


def _number(value: object, default: int) -> int:
    return value if isinstance(value, int) else default
