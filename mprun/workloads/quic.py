# SPDX-License-Identifier: Apache-2.0
"""`quic`: requests and answers over QUIC, on one path or several (RFC 9000, draft-ietf-quic-multipath).

Client and server are one program of ours: mprun-quic on the library tquic, or mprun-noq on the library noq.
`mprun tools install` builds each. Or they are commands of the file (`quic_stack`). The client sends one request after
the other, or several at a time, each on a stream of its own. A bulk transfer is one request for many bytes. Our
programs count what each path carried: payload of STREAM frames, including retransmissions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import Field, WrapValidator

from mprun.inputs.keys.field import Time, Volume, Whole
from mprun.inputs.keys.file_model import KeyProblem
from mprun.inputs.keys.traffic_entry import Size
from mprun.model.capabilities import Capabilities
from mprun.model.metric import delays, less
from mprun.model.problem import ValuePath, list_names
from mprun.model.scalar import name_value
from mprun.model.spec import Flow
from mprun.workloads import certificate, own_program, quic_connection, quic_report, quic_stack, tool
from mprun.workloads.account import tell_requests
from mprun.workloads.quic_connection import check_paths as check_paths
from mprun.workloads.quic_stack import StackEntry
from mprun.workloads.quic_stack import commands as commands
from mprun.workloads.tool import Endpoints, Outputs, Portion, Program, Result, Table, TimeLimit, Work

PORTS = 1
PROGRAMS: Mapping[str, Program] = {}
METRICS = {
    "goodput": tool.goodput(
        "bytes of all answers, divided by the time from the first request to the end of the last answer"
    ),
    "requests": tool.total("count", "requests that were answered"),
    "bytes": tool.total("size", "bytes of all answers"),
    "completion": less("time", "time from the first packet to the end of the last answer, including the handshake"),
    **quic_connection.METRICS,
    **delays("delay", "time from a request to the end of its answer"),
}

TIME_LIMIT = TimeLimit(300)


def _parse_stack(value: object, _: object) -> str | StackEntry:
    if isinstance(value, dict):
        return StackEntry.model_validate(value)
    if not isinstance(value, str) or value not in quic_connection.STACKS:
        known = (*quic_connection.STACKS, "{client: [...], server: [...]}")
        raise ValueError(f"{name_value(value)} is no stack that mprun knows{list_names(known, 'stacks')}")
    return value


# The validator replaces pydantic's own of the union, whose problems would name both of its types.
StackChoice = Annotated[quic_connection.StackName | StackEntry, WrapValidator(_parse_stack)]


class Entry(own_program.AttachedEntry):
    """Requests and answers over QUIC, one after the other or several at a time, on one connection."""

    tool: Literal["quic"]
    protocol: Literal["quic"] = "quic"
    """The transport protocol."""
    response_bytes: Size = Field(alias="response", examples=["5mb"])
    """The size of an answer."""
    requests: Annotated[int, Whole(1, 100_000, "a run shows no more")] = 1
    """The number of requests."""
    request_bytes: Volume = Field(0, alias="request")
    """The size of a request, in addition to the line that asks for the answer. Default: 0bytes."""
    think_ns: Time = Field(0, alias="think")
    """The time from an answer to the next request. Default: 0s."""
    streams: Annotated[int, Whole(1, 100, "an end allows its peer no more streams at a time")] = 1
    """The number of requests that are under way at a time, each on a stream of its own."""
    stack: StackChoice = "tquic"
    """The QUIC library of both ends: tquic (multipath as in draft 05), noq (as in draft 21) or aioquic (one path). Or a
    stack of your own, as a mapping with the commands `client` and `server`."""
    server_stack: quic_connection.StackName | None = None
    """The QUIC library of the server, if it is another one than that of `stack`. Only on one path."""
    testcase: quic_connection.TestCase | None = None
    """A test case of interoperability runners (docs/quic.md). A stack of your own gets it as TESTCASE."""
    multipath: bool = False
    """Use every path between the hosts."""
    scheduler: quic_connection.Schedulers | None = quic_connection.SCHEDULER
    congestion: quic_connection.QuicCongestion = "cubic"
    """The congestion control of both ends, on each path."""
    qlog: bool = False
    """Keep the events of client and server as qlog: packets, recovery and congestion control."""

    def find_conflicts(self) -> Iterator[KeyProblem]:
        if self.scheduler is not None and not self.multipath:
            yield "scheduler", quic_connection.NO_CHOICE
        elif isinstance(self.stack, StackEntry):
            yield from self._find_own_problems()
        else:
            for name in dict.fromkeys((self.stack, self.server_stack or self.stack)):
                yield from quic_connection.find_stack_problems(name, self.congestion, self.scheduler, self.multipath)
            yield from quic_connection.find_case_problems(
                self.testcase or "transfer", self.stack, self.server_stack or self.stack
            )
            if self.testcase == "keyupdate" and self.response_bytes <= quic_connection.KEY_UPDATE_BYTES:
                yield "response", "is too small for a key update: write more than '50kb'"
            if self.testcase == "multiconnect":
                yield from self._find_reconnection_problems()
            if self.multipath and self.server_stack not in (None, self.stack):
                yield (
                    "multipath",
                    "needs the same library at both ends, as each has its own draft: remove 'server_stack'",
                )

    def find_doubts(self) -> Iterator[KeyProblem]:
        yield from super().find_doubts()
        if self.streams > self.requests:
            remedy = f"write 'requests: {self.streams}' or more"
            yield "streams", f"is more than 'requests', and each request has one stream: {remedy}"
        if self.think_ns and self.requests == 1:
            yield "think", "has no effect with a single request: write 'requests: 20', or remove it"

    def _find_reconnection_problems(self) -> Iterator[KeyProblem]:
        """Yield the problems of keys if each request has a connection of its own."""
        if self.requests == 1:
            yield "requests", "is one connection: write '2' or more for 'multiconnect'"
        for name, is_set in (
            ("streams", self.streams > 1),
            ("think", self.think_ns > 0),
            ("multipath", self.multipath),
        ):
            if is_set:
                yield name, "has no effect with 'multiconnect', where each request has a connection: remove it"

    def _find_own_problems(self) -> Iterator[KeyProblem]:
        """Yield the problems of keys that a stack of the user does not have."""
        if self.server_stack:
            yield "server_stack", "conflicts with a stack of your own, which has its own server: remove it"
        for name, value in (("request", self.request_bytes), ("think", self.think_ns)):
            if value:
                yield name, "is not known to a stack of your own, which fetches files: remove it"
        if self.requests > quic_stack.MOST_REQUESTS:
            most = quic_stack.MOST_REQUESTS
            yield "requests", f"is more than a stack of your own is asked for: write {most} or less"

    def attachments(self) -> dict[ValuePath, tuple[str, str | None]]:
        found = self.stack.attachments() if isinstance(self.stack, StackEntry) else {}
        return {("stack", *path): named for path, named in found.items()}

    def named_words(self) -> dict[ValuePath, str]:
        found = self.stack.named_words() if isinstance(self.stack, StackEntry) else {}
        return {("stack", *path): word for path, word in found.items()}


def programs(flow: Flow) -> Mapping[str, Program]:
    """Return the programs that a flow starts. Those of a stack of the user are not known."""
    return certificate.PROGRAMS if quic_stack.own_stack(flow) else quic_connection.programs(flow)


def work(flow: Flow, ends: Endpoints, capabilities: Capabilities) -> Work:
    """Return a preparation for the certificate, the server (bound to each of its addresses), and the client."""
    if quic_stack.own_stack(flow):
        return quic_stack.work(flow, ends)
    asked = {"requests": "requests", "response": "response_bytes", "request": "request_bytes", "think-ns": "think_ns"}
    if flow.options["streams"] > 1:
        asked["streams"] = "streams"
    requests = [word for name, option in asked.items() for word in (f"--{name}", str(flow.options[option]))]
    return quic_connection.work(flow, ends, requests, flow.options["think_ns"])


def parse(flow: Flow, outputs: Outputs) -> Result:
    """Return delays, rates and the payload of each path, from the client's JSON lines.

    The counts of data that the server sent come from the server's lines.
    """
    if quic_stack.own_stack(flow):
        return quic_stack.parse(flow, outputs)
    try:
        report = quic_report.read_report(outputs.log(flow.name).splitlines(), outputs.zero_ns)
    except quic_report.ReportError as problem:
        return Result(error=str(problem))
    table = _requests_table(report.requests, report.offset_ns)
    result = Result(
        {"requests": len(report.requests)},
        error=quic_report.explain(outputs.log(flow.name, "err")),
        tables={"requests": table},
        delays_ns={"delay": table["delay_ns"]},
    )
    if (end := report.end) is not None:
        result = replace(result, accounts={flow.name: tell_requests(table)})
        elapsed_ns = end["end_ns"] - end["first_request_ns"]
        if end["requests"] == flow.options["requests"] and elapsed_ns > 0:
            size_bytes = end["bytes"]
            values = {"bytes": size_bytes, "completion": end["end_ns"] / 1e9, "goodput": size_bytes * 8e9 / elapsed_ns}
            begin_ns, end_ns = (end[name] + report.offset_ns for name in ("first_request_ns", "end_ns"))
            portions = {"goodput": [Portion(begin_ns, end_ns, size_bytes)]}
            result = replace(result, values={**result.values, **values}, error=None, portions=portions)
    return quic_report.add_facts(flow, outputs, report, result)


def _requests_table(requests: Sequence[Mapping[str, Any]], offset_ns: int) -> Table:
    """Return a row for each request. Start times count from time zero, which is offset_ns before the client's start."""
    rows = ((one["number"] + 1, offset_ns + one["at_ns"], one["delay_ns"]) for one in requests)
    return {**tool.tabulate_requests(rows), "received_bytes": [one["bytes"] for one in requests]}
