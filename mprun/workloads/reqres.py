# SPDX-License-Identifier: Apache-2.0
"""`reqres`: requests and answers, one after the other over one TCP or MPTCP connection, with the delay of each.

The delay is the time from the sending of a request until its whole answer has arrived at the client. It includes the
server's think time. Client and server are `mprun.agent.programs.reqres`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from mprun.inputs.keys.field import Time, Whole
from mprun.inputs.keys.traffic_entry import CongestionName, ConnectionEntry, Size
from mprun.model import engine_paths
from mprun.model.capabilities import Capabilities
from mprun.model.metric import OF_CONNECTIONS, Metric, delays
from mprun.model.plan import Process, Ready
from mprun.model.spec import Flow
from mprun.workloads.account import tell_requests
from mprun.workloads.time_limit import TimeLimit
from mprun.workloads.tool import PYTHON, Endpoints, Outputs, Program, Result, Table, Work

PROGRAMS = {"python3": Program("python3")}
PORTS = 1
METRICS = {
    **delays("delay", "time from a request to its whole answer"),
    "requests": Metric("count", "requests that were answered", over="sum"),
    **OF_CONNECTIONS,
}

PROGRAM = f"{engine_paths.PROGRAMS}/reqres.py"
# The longest time of a request with its answer, besides its think times.
REQUEST_NS = 1_000_000_000


class Entry(ConnectionEntry):
    """Requests and answers over one connection. Each request is sent after the previous answer."""

    tool: Literal["reqres"] = Field(description="The tool.")
    requests: Annotated[int, Whole(1, 1_000_000, "0 would measure nothing, more than a million no better")] = Field(
        description="The number of requests.", examples=[20]
    )
    request_bytes: Size = Field(1_000, alias="request", description="The size of a request. Default: 1000bytes.")
    response_bytes: Size = Field(1_000, alias="response", description="The size of an answer. Default: 1000bytes.")
    think_ns: Time = Field(
        0, alias="think", description="The time that the client waits before each request. Default: 0s."
    )
    server_think_ns: Time = Field(
        0, alias="server_think", description="The time that the server waits before each answer. Default: 0s."
    )
    congestion: CongestionName | None = Field(
        None, description="The congestion control of both ends. Default: the hosts'."
    )


def _work_ns(flow: Flow) -> int:
    options: Mapping[str, Any] = flow.options
    return int(options["requests"] * (options["think_ns"] + options["server_think_ns"] + REQUEST_NS))


TIME_LIMIT = TimeLimit(60, _work_ns)


def work(flow: Flow, ends: Endpoints, capabilities: Capabilities) -> Work:
    """Return a server for one connection, and the client."""
    options: Mapping[str, Any] = flow.options
    shared = [
        f"protocol={flow.protocol}",
        f"congestion={flow.congestion or ''}",
        f"request={options['request_bytes']}",
        f"response={options['response_bytes']}",
    ]
    address = (ends.destination_address, str(ends.port))
    server = Process(
        name=f"{flow.name}.server",
        node=flow.destination,
        argv=(*PYTHON, PROGRAM, "server", *address, *shared, f"think_ns={options['server_think_ns']}"),
        role="server",
        ready=Ready("port", str(ends.port)),
    )
    own = (f"requests={options['requests']}", f"think_ns={options['think_ns']}")
    client = Process(
        name=flow.name,
        node=flow.source,
        argv=(*PYTHON, PROGRAM, "client", *address, *shared, *own),
        role="flow",
    )
    return Work(clients=(client,), servers=(server,))


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
    delays_ns = [end - start for start, end in times]
    table: Table = {
        "sequence": list(range(1, len(times) + 1)),
        "start_ns": [start - outputs.zero_ns for start, _ in times],
        "delay_ns": delays_ns,
    }
    values = {"requests": len(times)}
    asked = flow.options["requests"]
    said = outputs.log(flow.name, "err").strip()[-200:] or "it said nothing"
    error = None if len(times) == asked else f"{len(times)} of {asked} requests were answered: {said}"
    tables = {"requests": table} if times else {}
    accounts = {flow.name: tell_requests(table)}
    return Result(values, tuple(ports), error, tables, delays_ns={"delay": delays_ns}, accounts=accounts)
