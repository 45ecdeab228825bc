# SPDX-License-Identifier: Apache-2.0
"""ping(8) of iputils: round-trip times, as a flow and as the idle probe of each path."""

from __future__ import annotations

import re

from mprun.capabilities import Capabilities
from mprun.plan import Process
from mprun.spec.spec import Flow
from mprun.tools.tool import Endpoints, Result

PROGRAMS = {"ping": "iputils-ping"}

GRACE_NS = 10_000_000_000
DEFAULT_COUNT = 5
DEFAULT_INTERVAL_NS = 200_000_000
DEFAULT_SIZE_BYTES = 56

_SUMMARY = re.compile(r"(\d+) packets transmitted, (\d+) received")
_TIMES = re.compile(r"rtt min/avg/max/mdev = ([\d.]+)/([\d.]+)/([\d.]+)/([\d.]+) ms")


def servers(flow: Flow, ends: Endpoints, capabilities: Capabilities) -> tuple[Process, ...]:
    """None: the kernel answers."""
    return ()


def client(flow: Flow, ends: Endpoints, capabilities: Capabilities) -> Process:
    """One ping; without a count it takes as many as fit in its duration."""
    options = flow.options
    interval_ns = _number(options.get("interval_ns"), DEFAULT_INTERVAL_NS)
    count = _number(options.get("count"), 0)
    if not count:
        count = DEFAULT_COUNT if flow.duration_ns is None else max(1, flow.duration_ns // interval_ns)
    return Process(
        name=flow.name,
        node=flow.source,
        argv=argv(ends, count, interval_ns, _number(options.get("size_bytes"), DEFAULT_SIZE_BYTES)),
        role="flow",
        at_ns=flow.start_ns,
        timeout_ns=count * interval_ns + GRACE_NS,
    )


def argv(ends: Endpoints, count: int, interval_ns: int, size_bytes: int = DEFAULT_SIZE_BYTES) -> tuple[str, ...]:
    """The command; -I makes the source address, and so the path, ours to choose."""
    words = f"ping -n -c {count} -i {interval_ns / 1e9:g} -s {size_bytes}"
    return (*words.split(), "-I", ends.source_address, ends.destination_address)


def parse(output: str) -> Result:
    """rtt: the mean; loss: the share of requests without an answer."""
    summary = _SUMMARY.search(output)
    if not summary:
        return Result(error="no summary: " + (output.strip()[-200:] or "it printed nothing"))
    sent, received = int(summary[1]), int(summary[2])
    if not received:
        return Result({"loss": (1.0, "share")}, error=f"no answer to any of its {sent} requests")
    values = {"loss": ((sent - received) / sent, "share")}
    times = _TIMES.search(output)
    if times:
        low, mean, high, deviation = (float(text) / 1e3 for text in times.groups())
        values |= {"rtt": (mean, "s"), "rtt.min": (low, "s"), "rtt.max": (high, "s"), "rtt.mdev": (deviation, "s")}
    return Result(values)


def _number(value: object, default: int) -> int:
    return value if isinstance(value, int) else default
