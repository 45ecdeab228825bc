# SPDX-License-Identifier: Apache-2.0
"""`ping`: round-trip times at times counted from the first request.

The program is `mprun.agent.programs.echo`, whose output has the format of ping(8). The idle probes of paths use
iputils' ping: `probe`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from mprun.inputs.keys.field import SIZE_SCHEMA, TIME_SCHEMA, Time, Whole, checked
from mprun.inputs.keys.file_model import KeyProblem
from mprun.inputs.keys.traffic_entry import MOST_DATAGRAM_BYTES, FlowEntry
from mprun.model import engine_paths
from mprun.model.capabilities import Capabilities
from mprun.model.metric import less
from mprun.model.spec import Flow
from mprun.model.units import NS_PER_MS, SIZE, TIME
from mprun.workloads import tool
from mprun.workloads.probe import read_statistics
from mprun.workloads.tool import PYTHON, Endpoints, Outputs, Program, Result, TimeLimit, Work

PROGRAMS = {"python3": Program("python3")}
PORTS = 0
METRICS = {
    "rtt": less("time", "mean round-trip time"),
    "rtt.min": less("time", "shortest round-trip time"),
    "rtt.max": less("time", "longest round-trip time"),
    "rtt.mdev": less("time", "mean deviation of the round-trip time, as in ping(8)"),
    "loss": less("ratio", "share of requests without an answer"),
}

PROGRAM = f"{engine_paths.PROGRAMS}/echo.py"
DEFAULT_COUNT = 5
DEFAULT_INTERVAL_NS = 200_000_000
DEFAULT_SIZE_BYTES = 56

_REPLY = re.compile(r"^\[(\d+)\] .*: icmp_seq=(\d+) ttl=\d+ time=([\d.]+) ms", re.MULTILINE)


_TOO_OFTEN = "{} is below 1ms, and a ping is a probe, not a load: write '200ms'"
_TOO_LARGE = f"{{}} bytes do not fit into an IP packet: write '{MOST_DATAGRAM_BYTES}bytes' or less"
PingInterval = Annotated[int, *checked(TIME.parse, TIME_SCHEMA, lambda ns: ns >= NS_PER_MS, _TOO_OFTEN, TIME.render)]
PingSize = Annotated[int, *checked(SIZE.parse, SIZE_SCHEMA, lambda size: size <= MOST_DATAGRAM_BYTES, _TOO_LARGE)]


class Entry(FlowEntry):
    """Round-trip times, see ping(8)."""

    tool: Literal["ping"]
    protocol: Literal["icmp"] = "icmp"
    """The protocol of ping."""
    count: Annotated[int, Whole(1, 100_000, "a ping is a probe, not a load")] | None = None
    """The number of pings. Use either `count` or `duration`. Default: 5."""
    duration: Time | None = None
    """The time to send pings. Use it instead of `count`."""
    interval_ns: PingInterval = Field(DEFAULT_INTERVAL_NS, alias="interval")
    """The time between two pings. Default: 200ms."""
    size_bytes: PingSize = Field(DEFAULT_SIZE_BYTES, alias="size")
    """The payload of a ping. Default: 56bytes."""

    def find_conflicts(self) -> Iterator[KeyProblem]:
        if self.duration is not None and self.count is not None:
            yield "duration", "conflicts with 'count': remove one of the two"
        elif self.duration is not None and self.duration < self.interval_ns:
            yield "duration", f"is shorter than the interval, {TIME.render(self.interval_ns)}: write a longer one"

    def options(self) -> dict[str, object]:
        count = DEFAULT_COUNT if self.count is None and self.duration is None else self.count
        return super().options() | ({} if count is None else {"count": count})


def _count(flow: Flow) -> int:
    return int(flow.options.get("count") or max(1, (flow.duration_ns or 0) // flow.options["interval_ns"]))


# In addition to its last interval, a ping starts, and waits 10 s for an answer.
TIME_LIMIT = TimeLimit(20, lambda flow: _count(flow) * int(flow.options["interval_ns"]))


def work(flow: Flow, ends: Endpoints, capabilities: Capabilities) -> Work:
    """Return one ping, which the kernel answers. Without a count, it sends as many requests as fit in its duration."""
    options = flow.options
    address = (ends.source_address, ends.destination_address)
    facts = (f"count={_count(flow)}", f"interval_ns={options['interval_ns']}", f"size={options['size_bytes']}")
    return Work((tool.make_client(flow, (*PYTHON, PROGRAM, *address, *facts)),))


def parse(flow: Flow, outputs: Outputs) -> Result:
    """Return the statistics, and a table with the number, request time and round-trip time of each answer.

    The answers of a ping that was ended early count too.
    """
    log = outputs.log(flow.name)
    replies = _REPLY.findall(log)
    rows = [(int(number), int(sent_ns) - outputs.zero_ns, float(ms)) for sent_ns, number, ms in replies]
    values = read_statistics(log)
    tables = {"pings": tool.tabulate(("sequence", "start_ns", "rtt_ms"), rows)} if replies else {}
    said = outputs.log(flow.name, "err").strip().splitlines()
    why = f": {said[-1]}" if said else ""
    if "loss" not in values:
        return Result(error=f"no statistics{why or ': ' + (log.strip()[-200:] or 'it printed nothing')}", tables=tables)
    return Result(values, error=None if "rtt" in values else f"no answer to any of its requests{why}", tables=tables)
