# SPDX-License-Identifier: Apache-2.0
"""`reqres`: requests and answers, one after the other over one TCP or MPTCP connection, with the delay of each.

The delay is the time from the sending of a request until its whole answer has arrived at the client. It includes the
server's think time. Client and server are `mprun.agent.programs.reqres`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from mprun.inputs.keys.field import Time, Whole
from mprun.inputs.keys.file_model import KeyProblem
from mprun.inputs.keys.traffic_entry import CongestionName, ConnectionEntry, Size
from mprun.model import engine_paths
from mprun.model.capabilities import Capabilities
from mprun.model.metric import OF_CONNECTIONS, delays
from mprun.model.plan import Ready
from mprun.model.spec import Flow
from mprun.model.units import DAY_NS
from mprun.workloads import tool
from mprun.workloads.account import tell_requests
from mprun.workloads.tool import PYTHON, Endpoints, Outputs, Program, Result, TimeLimit, Work

PROGRAMS = {"python3": Program("python3")}
PORTS = 1
METRICS = {
    **delays("delay", "time from a request to its whole answer"),
    "requests": tool.total("count", "requests that were answered"),
    **OF_CONNECTIONS,
}

PROGRAM = f"{engine_paths.PROGRAMS}/reqres.py"
# The longest time of a request with its answer, besides its think times.
REQUEST_NS = 1_000_000_000


class Entry(ConnectionEntry):
    """Requests and answers over one connection. Each request is sent after the previous answer."""

    tool: Literal["reqres"]
    requests: Annotated[int, Whole(1, 1_000_000, "0 would measure nothing, more than a million no better")] = Field(
        examples=[20]
    )
    """The number of requests."""
    request_bytes: Size = Field(1_000, alias="request")
    """The size of a request. Default: 1000bytes."""
    response_bytes: Size = Field(1_000, alias="response")
    """The size of an answer. Default: 1000bytes."""
    think_ns: Time = Field(0, alias="think")
    """The time that the client waits before each request. Default: 0s."""
    server_think_ns: Time = Field(0, alias="server_think")
    """The time that the server waits before each answer. Default: 0s."""
    congestion: CongestionName | None = None
    """The congestion control of both ends. Default: the hosts'."""

    def find_conflicts(self) -> Iterator[KeyProblem]:
        days = self.requests * (self.think_ns + self.server_think_ns) / DAY_NS
        if days > 1:
            yield "requests", f"take {days:.1f} days with their think times, and a run lasts a day at most: write fewer"


def _work_ns(flow: Flow) -> int:
    return int(flow.options["requests"] * (flow.options["think_ns"] + flow.options["server_think_ns"] + REQUEST_NS))


TIME_LIMIT = TimeLimit(60, _work_ns)


def work(flow: Flow, ends: Endpoints, capabilities: Capabilities) -> Work:
    """Return a server for one connection, and the client."""
    options, port = flow.options, str(ends.port)
    both = [ends.destination_address, port, f"protocol={flow.protocol}", f"congestion={flow.congestion or ''}"]
    both += [f"request={options['request_bytes']}", f"response={options['response_bytes']}"]
    of_server = (*PYTHON, PROGRAM, "server", *both, f"think_ns={options['server_think_ns']}")
    own = (f"requests={options['requests']}", f"think_ns={options['think_ns']}")
    client = tool.make_client(flow, (*PYTHON, PROGRAM, "client", *both, *own))
    return Work((client,), (tool.make_server(flow, of_server, Ready("port", port)),))


def parse(flow: Flow, outputs: Outputs) -> Result:
    """Return the delays of all requests. Fewer answers than requests are an error."""
    ports: list[int] = []
    times: list[tuple[int, int]] = []
    for line in outputs.log(flow.name).splitlines():
        match line.split():
            case ["port", port] if port.isdigit():
                ports.append(int(port))
            case [start, end] if start.isdigit() and end.isdigit():
                times.append((int(start), int(end)))
            case _:
                return Result(error=f"a line that it never prints: {line[:200]}")
    table = tool.tabulate_requests((n, start - outputs.zero_ns, end - start) for n, (start, end) in enumerate(times, 1))
    asked, count = flow.options["requests"], len(times)
    return Result(
        {"requests": count},
        tuple(ports),
        None if count == asked else f"{count} of {asked} requests were answered: {tool.said_by(flow, outputs)}",
        {"requests": table} if times else {},
        delays_ns={"delay": table["delay_ns"]},
        accounts={flow.name: tell_requests(table)},
    )
