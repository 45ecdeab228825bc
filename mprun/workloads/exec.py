# SPDX-License-Identifier: Apache-2.0
"""`exec`: any command on one host, and a server for it on another. Runs with --allow-exec only.

The words of a command may contain `{source}`, `{destination}`, `{port}`, `{files}` and `{inputs}`. They are replaced by
the flow's addresses, its port, the folder of the run that keeps the files of both programs, and the folder with the
files that the entry takes with it. The environment has the same values, and the names of the hosts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from mprun.inputs.keys.file_model import KeyProblem
from mprun.inputs.keys.own_output import MOST_OWN, MetricEntry, TableEntry
from mprun.inputs.keys.traffic_entry import PositiveTime
from mprun.model import engine_paths
from mprun.model.capabilities import Capabilities
from mprun.model.intent import AddressedFlow
from mprun.model.metric import OF_CONNECTIONS, less
from mprun.model.plan import COMPUTE_S, TIMEOUT_NS, Ready
from mprun.model.problem import ValuePath
from mprun.model.spec import Flow
from mprun.model.units import NS_PER_S, TIME
from mprun.safety.text import attach
from mprun.workloads import own_program, tool
from mprun.workloads.own_result import OF_OUTPUT, read_own
from mprun.workloads.own_result import own_metrics as own_metrics
from mprun.workloads.tool import PYTHON, Endpoints, Outputs, Program, Result, Work

PROGRAMS: dict[str, Program] = {}
PROGRAM = f"{engine_paths.PROGRAMS}/until.py"
PORTS = 1
METRICS = {
    "time": less("time", "time from the start of the command to its end"),
    "retransmits": tool.total("count", "segments that the sender of more payload sent again", ("mptcp",), "lower"),
    **OF_CONNECTIONS,
}

KEY_LOG = "keys.log"
# The end of what a program prints that connects to a wrong address, or to a name.
_NO_ADDRESS = re.compile("refused|resol|not known|unreachable|no route|timed out", re.IGNORECASE)
_ADDRESS = re.compile(r"(?<![\w.])\d+(?:\.\d+){3}(?![\w.])")
# The number of lines of a program's output in a message.
MOST_LINES = 5
COMPILERS = ("cc", "c++", "gcc", "g++", "clang", "clang++")
# The options with which a compiler makes no a.out.
NO_LINKING = ("-o", "-c", "-S", "-E", "--")
# The names by which a host means itself.
LOOPBACK = ("localhost", "127.0.0.1", "::1")


class Entry(own_program.AttachedEntry):
    """Any command, given as a list of words and run without a shell."""

    UNSAID = ("environment", "metrics", "tables")
    ELSEWHERE: ClassVar[Mapping[str, str]] = {
        **own_program.AttachedEntry.ELSEWHERE,
        "congestion": "is a setting of hosts for own programs: write "
        "'sysctl: {net.ipv4.tcp_congestion_control: {value}}' under 'hosts', for the host that sends",
    }
    tool: Literal["exec"]
    protocol: Literal["tcp", "mptcp", "udp", "sctp"] = "tcp"
    """The transport protocol of the programs. `mptcp` turns TCP sockets into MPTCP sockets, as mptcpize(8) does."""
    command: own_program.CommandWords = Field(examples=[["sleep", "5s"]])
    """The command that runs on `from`. The flow lasts as long as the command."""
    on: str | None = Field(None, examples=["router"])
    """The host or router on which the command runs. Default: `from`. The addresses and paths of the flow are still
    those of `from` and `to`."""
    server: own_program.CommandWords | None = None
    """The server's command. It runs on `to` from before time zero until the end of the run."""
    files: own_program.ProgramFiles = own_program.FILES
    build: own_program.CommandWords | None = own_program.BUILD
    environment: own_program.ProgramEnvironment = own_program.ENVIRONMENT
    listens: bool = True
    """Wait until the server listens on the port. `false` does not wait."""
    ready: str | None = Field(None, min_length=1, examples=["started"])
    """Wait until the server's standard error contains this text. Use it instead of `listens`."""
    until: str | None = Field(None, examples=["transfer complete"])
    """End the command with the signal TERM when it has printed this text. A command that ends without printing the text
    has failed."""
    duration: PositiveTime | None = Field(None, examples=["10s"])
    """End the command with the signal TERM after this time. This is no failure. Default: the command ends by itself."""
    timeout: PositiveTime | None = TIMEOUT_NS
    """The longest duration of the flow. A flow that takes longer is ended, and the run has failed. Default: 60s."""
    compute_ns: PositiveTime | None = Field(None, alias="compute", examples=["120s"])
    """The largest CPU time of the flow's programs while simulated time stands still, in whole seconds. Programs that
    use more are considered to spin and are ended. The key has no effect in the real engine. Default: 10s."""

    metrics: Annotated[list[MetricEntry], Field(max_length=MOST_OWN)] = Field([])
    """Metrics from the output of the programs, or from files that they leave. They are used like all other metrics. A
    run has failed if one of them is not found."""
    tables: Annotated[list[TableEntry], Field(max_length=MOST_OWN)] = Field([])
    """Tables of the run from CSV files that the programs leave in `{files}`."""

    def find_conflicts(self) -> Iterator[KeyProblem]:
        for kind, taken in (("metrics", METRICS), ("tables", ())):
            names: list[str] = [*taken]
            for n, own in enumerate(getattr(self, kind)):
                if own.name in names:
                    yield (kind, n, "name"), f"'{own.name}' is taken already: write another name"
                names.append(own.name)
        for n, metric in enumerate(self.metrics):
            if metric.of == "server" and self.server is None:
                yield ("metrics", n, "of"), "names the server, and there is none: write 'server', or remove this"
        if self.compute_ns is not None and self.compute_ns % NS_PER_S:
            yield "compute", "is no number of whole seconds: write one, as in '120s'"
        yield from own_program.find_problems(self.files, self.build, self.environment, self.named_words())
        for name in ("listens", "ready"):
            if self.server is None and name in self.model_fields_set:
                yield name, "needs a server: write 'server', or remove this"
        if self.ready is not None and "listens" in self.model_fields_set:
            yield "ready", "conflicts with 'listens': remove one of the two"
        if self.until is not None and self.duration is not None:
            message = (
                "conflicts with 'duration', which also ends the command: remove one of the two, and keep 'timeout'"
            )
            yield "until", message
        if self.until is not None and not (self.until and self.until.isprintable()):
            yield "until", "is no text of one line: write a part of a line that the command prints"

    def find_doubts(self) -> Iterator[KeyProblem]:
        yield from super().find_doubts()
        if self.on is None and self.source != self.destination:
            for n, word in enumerate(self.command):
                if word in LOOPBACK:
                    yield ("command", n), f"'{word}' is '{self.source}' itself: write '{{destination}}'"
        compiler, *others = self.build or [""]
        is_used = "./a.out" in self.named_words().values()
        if compiler in COMPILERS and not is_used and not any(one.startswith(NO_LINKING) for one in others):
            yield "build", f"makes 'a.out': write '[{compiler}, -o, {self.command[0].removeprefix('./')}, ...]'"
        if self.server is None and "port" not in self.model_fields_set:
            for n, word in enumerate(self.command):
                if "{port}" in word:
                    yield ("command", n), "'{port}' is that of the entry's server, and there is none: write 'server'"

    def attachments(self) -> dict[ValuePath, tuple[str, str | None]]:
        return own_program.attachments(self.files)

    def named_words(self) -> dict[ValuePath, str]:
        return own_program.named_words(command=self.command, server=self.server, build=self.build)

    def options(self) -> dict[str, object]:
        options = super().options()
        options.pop("files", None)
        if self.server is None or self.ready is not None:
            del options["listens"]
        return options


def work(flow: Flow, ends: Endpoints, capabilities: Capabilities) -> Work:
    """Return the command and its server as processes, with the placeholders filled."""
    known = own_program.known_values(flow, ends)
    own: Any = flow.options.get("environment", {})
    ours = own_program.own_environment(flow, known, KEY_LOG)
    environment = {**ours, **own, **tool.mptcp_environment(flow, capabilities)}
    both = {
        "env": environment,
        "keeps": (tool.kept(flow, KEY_LOG),),
        "most_log_bytes": own_program.MOST_LOG_BYTES,
        "compute_s": flow.options.get("compute_ns", COMPUTE_S * NS_PER_S) // NS_PER_S,
        "is_foreign": True,
    }
    # what ends the command when it prints a text
    watcher = (*PYTHON, PROGRAM, str(flow.options["until"])) if "until" in flow.options else ()
    argv = (*watcher, *own_program.started(_words(flow, "command"), known))
    client = tool.make_client(flow, argv, is_endless=flow.duration_ns is not None, **both)
    client = replace(client, node=_node(flow))
    preparations = tuple(own_program.prepare(flow, _words(flow, "build"), known, {**ours, **own}))
    if "server" not in flow.options:
        return Work(clients=(client,), preparations=preparations)
    ready = None
    if "ready" in flow.options:
        ready = Ready("output", str(flow.options["ready"]))
    elif flow.options["listens"] and flow.protocol != "sctp":
        ready = Ready("udp" if flow.protocol == "udp" else "port", str(ends.port))
    server = tool.make_server(flow, own_program.started(_words(flow, "server"), known), ready, **both)
    return Work((client,), (server,), preparations)


def commands(flow: Flow) -> tuple[str, ...]:
    """Return the commands that the file runs, as a person would type them. A person must allow them."""
    hosts = {"build": flow.source, "command": _node(flow), "server": flow.destination}
    return own_program.tell_commands(*((host, _words(flow, key)) for key, host in hosts.items()))


def _node(flow: Flow) -> str:
    """Return the node on which the command runs."""
    return str(flow.options.get("on", flow.source))


def _words(flow: Flow, which: str) -> Sequence[str]:
    return tuple(flow.options.get(which, ()))


def parse(flow: Flow, outputs: Outputs) -> Result:
    """Return the duration of the command. The output is in the run's logs.

    For MPTCP with a server, the result has the server's port, so that its connections are looked up.
    """
    span = outputs.span(flow.name)
    is_followed = flow.protocol == "mptcp" and "server" in flow.options
    ports = (flow.port,) if is_followed and flow.port is not None else ()
    own = read_own(flow, outputs)
    error = "; ".join(own.errors)
    if error and span and flow.duration_ns and span[1] - span[0] >= flow.duration_ns:
        error += f"; 'duration' ended the command after {TIME.render(flow.duration_ns)}"
    if error:
        programs = [one for one in ("command", "server") if any(f"in {OF_OUTPUT} {one}" in told for told in own.errors)]
        error += _tell_printed(flow, outputs, programs)
    values = {**({"time": (span[1] - span[0]) / NS_PER_S} if span else {}), **own.values}
    return Result(
        values,
        error=error or None,
        tables=own.tables,
        warnings=tuple(own.warnings),
        server_ports=ports,
        hint=_explain_refused(flow, outputs),
    )


def _tell_printed(flow: Flow, outputs: Outputs, programs: Sequence[str]) -> str:
    """Return the end of what programs printed, and the log with the whole text.

    programs: those in whose output a value is missing. Of the command, at least its own words on a failure are shown.
    """
    told = ""
    for program in dict.fromkeys(("command", *programs)):
        name = f"{flow.name}.server" if program == "server" else flow.name
        streams = ("err", "out") if program in programs else ("err",)
        found = ((stream, _end_of(outputs.log(name, stream))) for stream in streams)
        stream, printed = next((one for one in found if one[1]), ("", ""))
        if printed:
            told = attach(told, f"; the {program} printed (logs/{name}.{stream}):{printed}")
        elif program == "server":
            remedy = "flush its output, as with fflush(stdout) or print(..., flush=True)"
            told = attach(told, f"; the server printed nothing: {remedy}")
    return told


def _end_of(text: str) -> str:
    """Return the last lines of a text, to follow a colon. Several lines begin on a line of their own."""
    lines = text.strip()[-500:].splitlines()[-MOST_LINES:]
    before = " " if len(lines) == 1 else "\n"
    return "".join(f"{before}{line}" for line in lines)


def _doubt_address(flow: Flow, words: Sequence[str]) -> str:
    """Return why the address in a command is not that of the server, if no word has the right one; else nothing."""
    text = " ".join(words)
    if "{destination}" in text or "MPRUN_DESTINATION" in text:
        return ""
    servers = flow.server_addresses if isinstance(flow, AddressedFlow) else frozenset()
    addresses = _ADDRESS.findall(text)
    if not servers.isdisjoint(addresses):
        return ""
    if flow.destination in text.split():
        return f"'{flow.destination}' is no address in a command"
    if unknown := own_program.find_unknown(text):
        return f"'{{{unknown}}}' is no value of a run"
    if flow.source != flow.destination and (own := next((one for one in LOOPBACK if one in text), None)):
        return f"'{own}' is '{_node(flow)}' itself"
    # of several addresses, one may be that of the command's own host
    return f"{addresses[0]} is no address of '{flow.destination}'" if servers and len(addresses) == 1 else ""


def _explain_refused(flow: Flow, outputs: Outputs) -> str:
    """Return what may be wrong if the command printed that it could not connect, else nothing."""
    printed = outputs.log(flow.name, "err").strip() or outputs.log(flow.name, "out").strip()
    words = _words(flow, "command")
    if _NO_ADDRESS.search(printed[-500:]) and (advice := _doubt_address(flow, words)):
        return f"; {advice}: write '{{destination}}'"
    if "refused" not in printed[-500:].lower():
        return ""
    if "server" not in flow.options:
        return "; the entry has no 'server', and nothing listens"
    if not any("{port}" in word for word in words):
        return "; the command does not name the server's port: write '{port}'"
    is_ipv6 = isinstance(flow, AddressedFlow) and ":" in flow.endpoints.destination_address
    every, own = ("'::'", "::1") if is_ipv6 else ("0.0.0.0", "127.0.0.1")
    # the run waited until something listened on the port
    return f"; let the server listen on {every}, and not on {own} only" if flow.options.get("listens") else ""
