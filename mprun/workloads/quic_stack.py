# SPDX-License-Identifier: Apache-2.0
"""A QUIC stack of the user: client and server by commands of the file, for `tool: quic`. Runs with --allow-exec only.

Environment variables tell each end its role, addresses, files, keys and folders, as runners of interoperability tests
do. `mprun.agent.programs.quic_end` makes the folders and runs the command. What the stack has done follows from the
files that the client has downloaded, and from the client's qlog. So mprun has no code for a particular stack.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from pydantic import Field

from mprun.inputs.keys.file_model import FileModel, KeyProblem
from mprun.model import engine_paths
from mprun.model.plan import Process, Ready
from mprun.model.problem import ValuePath
from mprun.model.spec import Flow
from mprun.safety.folder import parse_json
from mprun.workloads import certificate, own_program, qlog, quic_connection, tool
from mprun.workloads.account import tell_requests
from mprun.workloads.tool import PYTHON, Endpoints, Movement, Outputs, Portion, Result, Work

PROGRAM = f"{engine_paths.PROGRAMS}/quic_end.py"
# The report of each end (`mprun.agent.programs.quic_end`), and its session secrets.
REPORTS = {"client": "client.json", "server": "server.json"}
KEY_LOGS = {"client": quic_connection.KEY_LOG, "server": "server-tls-keys.log"}
# Each request is a word of a variable, which the kernel limits to 128 KiB.
MOST_REQUESTS = 1000
# A time of this length without data is a standstill.
STANDSTILL_MS = 10


class StackEntry(FileModel):
    """A QUIC stack by the commands of its two ends."""

    client: own_program.CommandWords = Field(examples=[["python3", "client.py"]])
    """The command of the client. It fetches the files of `REQUESTS` and ends."""
    server: own_program.CommandWords = Field(examples=[["python3", "server.py"]])
    """The command of the server. It serves the files of `WWW` until the signal TERM."""
    files: own_program.ProgramFiles = own_program.FILES
    build: own_program.CommandWords | None = own_program.BUILD
    environment: own_program.ProgramEnvironment = own_program.ENVIRONMENT

    def find_conflicts(self) -> Iterator[KeyProblem]:
        return own_program.find_problems(self.files, self.build, self.environment, self.named_words())

    def attachments(self) -> dict[ValuePath, tuple[str, str | None]]:
        return own_program.attachments(self.files)

    def named_words(self) -> dict[ValuePath, str]:
        return own_program.named_words(client=self.client, server=self.server, build=self.build)

    def plain(self) -> dict[str, Any]:
        """Return the entry as plain values, without its files and what is missing."""
        return {name: value for name, value in super().plain().items() if value and name != "files"}


def own_stack(flow: Flow) -> Mapping[str, Any] | None:
    """Return the stack that a flow brings, as `StackEntry.plain` gives it; None if it has one of mprun's."""
    stack = flow.options.get("stack")
    return stack if isinstance(stack, Mapping) else None


def commands(flow: Flow) -> tuple[str, ...]:
    """Return the commands that the file runs, as a person would type them. A person must allow them."""
    stack = own_stack(flow) or {}
    hosts = {"build": flow.source, "client": flow.source, "server": flow.destination}
    return own_program.tell_commands(*((host, stack.get(key, ())) for key, host in hosts.items()))


def work(flow: Flow, ends: Endpoints) -> Work:
    """Return both ends as processes, and preparations for the certificate and the files of the stack."""
    stack = own_stack(flow)
    assert stack is not None
    known = own_program.known_values(flow, ends)
    # BoringSSL and the libraries on it do not offer Ed25519 by default
    made = certificate.make_certificate(flow, ends.destination_address, certificate.P256)
    building = own_program.own_environment(flow, known, KEY_LOGS["client"]) | stack.get("environment", {})
    preparations = (made, *own_program.prepare(flow, stack.get("build", ()), known, building))
    client, server = (_end(flow, ends, role, stack, known) for role in ("client", "server"))
    return Work((client,), (server,), preparations)


def _end(flow: Flow, ends: Endpoints, role: str, stack: Mapping[str, Any], known: Mapping[str, str]) -> Process:
    """Return the process of one end."""
    words = [role, f"{known['files']}/{REPORTS[role]}", certificate.certificate_of(flow), certificate.key_of(flow)]
    words += [str(flow.options["requests"]), str(flow.options["response_bytes"])]
    environment = {
        **certificate.DETERMINISTIC,
        **own_program.own_environment(flow, known, KEY_LOGS[role]),
        **_tell(flow, ends, role),
        **stack.get("environment", {}),
    }
    keeps = [REPORTS[role], KEY_LOGS[role], *([quic_connection.QLOGS[role]] if flow.options["qlog"] else [])]
    argv = (*PYTHON, PROGRAM, *words, *own_program.started(stack[role], known))
    more: dict[str, Any] = {
        "env": environment,
        "timeout_ns": tool.time_limit_of(flow),
        "keeps": tuple(tool.kept(flow, name) for name in keeps),
        "most_log_bytes": own_program.MOST_LOG_BYTES,
        "is_foreign": True,
    }
    if role == "client":
        return tool.make_client(flow, argv, **more)
    return tool.make_server(flow, argv, Ready("udp", str(ends.port)), **more)


def _tell(flow: Flow, ends: Endpoints, role: str) -> dict[str, str]:
    """Return the variables of one end beyond those of each program; docs/quic.md has the list."""
    options = flow.options
    pairs = ends.pairs if options["multipath"] else ends.pairs[:1]
    told = {
        "ROLE": role,
        "TESTCASE": options.get("testcase") or ("multipath" if options["multipath"] else "transfer"),
        "CERTS": tool.temporary(flow, f"{role}/certs"),
        "MPRUN_PATHS": " ".join(",".join(pair) for pair in pairs),
        "MPRUN_CONGESTION": flow.congestion or "cubic",
        "MPRUN_STREAMS": str(options["streams"]),
    }
    if scheduler := quic_connection.scheduler_of(flow, role):
        told["MPRUN_SCHEDULER"] = scheduler
    if options["qlog"]:
        told["QLOGDIR"] = tool.temporary(flow, f"{role}/qlog")
    if role == "server":
        return {**told, "WWW": tool.temporary(flow, "server/www")}
    host = tool.join_port(ends.destination_address, ends.port)
    urls = (f"https://{host}/{number}" for number in range(1, options["requests"] + 1))
    return {**told, "DOWNLOADS": tool.temporary(flow, "client/downloads"), "REQUESTS": " ".join(urls)}


def parse(flow: Flow, outputs: Outputs) -> Result:
    """Return what the downloads and the client's qlog tell."""
    content = outputs.file(REPORTS["client"])
    printed = outputs.log(flow.name, "err").strip()[-500:]
    said = f"; it printed: {printed}" if printed else ""
    if content is None:
        return Result(error=f"the client left no report{said}")
    downloads: Mapping[str, int] = parse_json(content)["downloads"]
    wanted, size = [str(number + 1) for number in range(flow.options["requests"])], flow.options["response_bytes"]
    whole = [name for name in wanted if downloads.get(name) == size]
    values: dict[str, float] = {"requests": len(whole)}
    error = None
    if len(whole) < len(wanted):
        lacking = next(name for name in wanted if name not in whole)
        error = f"{len(whole)} of {len(wanted)} files arrived whole: '{lacking}' has {downloads.get(lacking, 0)} of "
        error += f"{size} bytes in DOWNLOADS{said}"
    else:
        values["bytes"] = size * len(whole)
    if not flow.options["qlog"]:
        span = outputs.span(flow.name)
        if span and error is None:
            values["completion"] = (span[1] - span[0]) / 1e9
        return Result(values, error=error, warnings=(_UNKNOWN,))
    try:
        return _with_qlog(flow, outputs, values, error)
    except qlog.QlogError as problem:
        return Result(values, error=error or f"the qlog of its client {problem}{said}")


_UNKNOWN = "goodput, delays and handshake are not known: write 'qlog: true', and let the client write qlog to QLOGDIR"


def _with_qlog(flow: Flow, outputs: Outputs, values: Mapping[str, float], error: str | None) -> Result:
    """Return a result with the times of the client's qlog. Raises QlogError."""
    content = outputs.file(quic_connection.QLOGS["client"])
    if content is None:
        raise qlog.QlogError("is missing: it wrote no file to QLOGDIR")
    trace = qlog.read(content)
    zero_ns = find_zero(flow, trace, outputs)
    found = {**values}
    if (handshake_ms := qlog.find_handshake(trace)) is not None:
        found["handshake"] = handshake_ms / 1e3
    exchanges = qlog.find_exchanges(trace)
    if error is not None or len(exchanges) != flow.options["requests"]:
        why = f"its qlog has {len(exchanges)} requests, not {flow.options['requests']}: a request is a stream"
        return Result(found, error=error or why)
    begin_ms, end_ms = min(one.begin_ms for one in exchanges), max(one.end_ms for one in exchanges)
    began_ns, ended_ns = (qlog.to_ns(at_ms) + zero_ns for at_ms in (begin_ms, end_ms))
    found["completion"] = (end_ms - next(event.at_ms for event in trace.events if event.name == "packet_sent")) / 1e3
    portions = {}
    # programs take no simulated time, so requests over links without delay may take none
    if ended_ns > began_ns:
        found["goodput"] = found["bytes"] * 8e9 / (ended_ns - began_ns)
        portions["goodput"] = [Portion(began_ns, ended_ns, found["bytes"])]
    rows = (
        (number, qlog.to_ns(one.begin_ms) + zero_ns, round((one.end_ms - one.begin_ms) * 1e6))
        for number, one in enumerate(exchanges, 1)
    )
    table = tool.tabulate_requests(rows) | {"received_bytes": [flow.options["response_bytes"]] * len(exchanges)}
    return Result(
        found,
        tables={"requests": table},
        delays_ns={"delay": table["delay_ns"]},
        movement=Movement(began_ns, ended_ns, _find_standstills(trace, begin_ms, end_ms, zero_ns)),
        accounts={flow.name: tell_requests(table)},
        portions=portions,
    )


def find_zero(flow: Flow, trace: qlog.QlogTrace, outputs: Outputs) -> int:
    """Return the origin of a client's trace, in ns from time zero: that of its clock, or the start of the client."""
    return -outputs.epoch_ns if trace.is_unix else tool.start_of(flow, outputs)


def _find_standstills(trace: qlog.QlogTrace, begin_ms: float, end_ms: float, zero_ns: int) -> list[tuple[int, int]]:
    """Return the spans in which no packet with STREAM frames arrived, in ns from time zero."""
    moments = [
        event.at_ms
        for event in trace.events
        if event.name == "packet_received" and any(frame.get("frame_type") == "stream" for frame in event.frames)
    ]
    between = [begin_ms, *(at_ms for at_ms in moments if begin_ms < at_ms < end_ms), end_ms]
    return [(qlog.to_ns(a) + zero_ns, qlog.to_ns(b) + zero_ns) for a, b in pairwise(between) if b - a >= STANDSTILL_MS]
