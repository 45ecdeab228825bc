# SPDX-License-Identifier: Apache-2.0
"""`exec`: any command on one host, and one on another that it talks to. Runs with --allow-exec only.

In a word of a command `{source}`, `{destination}` and `{port}` stand for the flow's addresses and its port.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from mprun.capabilities import Capabilities
from mprun.plan import Process, Ready
from mprun.spec.fault import Path
from mprun.spec.flow import PositiveTime, ServedEntry
from mprun.spec.metric import OF_CONNECTIONS, Metric
from mprun.spec.model import refuse
from mprun.spec.spec import Flow
from mprun.tools.tool import Endpoints, Outputs, Program, Result, Work, mptcp_environment

PROGRAMS: dict[str, Program] = {}
PORTS = 1
METRICS = {
    "time": Metric("time", "from the start of the command to its end"),
    "retransmits": Metric("count", "segments sent again by the client, on all subflows", ("mptcp",), over="sum"),
    **OF_CONNECTIONS,
}

DEFAULT_TIMEOUT_NS = 60_000_000_000
# Of what a program prints: one that never stops fills no disk.
MOST_LOG_BYTES = 16 << 20

Command = Annotated[list[str], Field(min_length=1, max_length=1000)]


class Entry(ServedEntry):
    """Any command, word by word, without a shell."""

    tool: Literal["exec"] = Field(description="The tool.")
    protocol: Literal["tcp", "mptcp", "udp", "sctp"] = Field(
        "tcp", description="What it speaks. mptcp: sockets of TCP become MPTCP's, as under mptcpize(8)."
    )
    command: Command = Field(description="Runs on `from`, and is the flow.", examples=[["sleep", "5s"]])
    server: Command | None = Field(None, description="Runs on `to`, from before time zero until the end.")
    listens: bool = Field(True, description="The server counts as ready when it listens on the port; false: at once.")
    timeout: PositiveTime | None = Field(
        DEFAULT_TIMEOUT_NS, description="How long it may last; then it is ended, and the run has failed. Default: 60s."
    )

    @model_validator(mode="after")
    def _agree(self) -> Entry:
        faults: dict[Path, str] = {}
        for name, words in (("command", self.command), ("server", self.server or ())):
            for n, word in enumerate(words):
                if "\0" in word or (n == 0 and not word):
                    faults[(name, n)] = "is no program, or holds what no argument can: write a name, as in 'nc'"
        if self.server is None and "listens" in self.model_fields_set:
            faults[("listens",)] = "is of a server: write one, or take this out"
        if faults:
            raise refuse(faults, self)
        return self

    def options(self) -> dict[str, object]:
        options = super().options()
        if self.server is None:
            del options["listens"]
        return options


def work(flow: Flow, ends: Endpoints, capabilities: Capabilities) -> Work:
    """The command and its server, as they are written."""
    environment = mptcp_environment(flow, capabilities)
    words = _fill(_words(flow, "command"), ends)
    client = Process(flow.name, flow.source, words, "flow", environment, most_log_bytes=MOST_LOG_BYTES)
    if "server" not in flow.options:
        return Work(clients=(client,))
    kind: Literal["udp", "port"] = "udp" if flow.protocol == "udp" else "port"
    listens = flow.options["listens"] and flow.protocol != "sctp"
    server = Process(
        name=f"{flow.name}.server",
        node=flow.destination,
        argv=_fill(_words(flow, "server"), ends),
        role="server",
        env=environment,
        ready=Ready(kind, str(ends.port)) if listens else None,
        most_log_bytes=MOST_LOG_BYTES,
    )
    return Work(clients=(client,), servers=(server,))


def commands(flow: Flow) -> tuple[str, ...]:
    """What the file has run, as it would be typed: a person must have seen and allowed it."""
    lines = [(flow.source, _words(flow, "command")), (flow.destination, _words(flow, "server"))]
    return tuple(f"{host}: {shlex.join(words)}" for host, words in lines if words)


def _words(flow: Flow, which: str) -> Sequence[str]:
    words: Any = flow.options.get(which, ())
    return tuple(words)


def _fill(words: Sequence[str], ends: Endpoints) -> tuple[str, ...]:
    known = {"{source}": ends.source_address, "{destination}": ends.destination_address, "{port}": str(ends.port)}
    filled = []
    for word in words:
        for name, value in known.items():
            word = word.replace(name, value)
        filled.append(word)
    return tuple(filled)


def parse(flow: Flow, outputs: Outputs) -> Result:
    """How long it took; what it printed is in the run's logs. Of MPTCP with a server, what its connections were."""
    span = outputs.span(flow.name)
    is_followed = flow.protocol == "mptcp" and "server" in flow.options
    ports = (flow.port,) if is_followed and flow.port is not None else ()
    return Result({"time": (span[1] - span[0]) / 1e9} if span else {}, server_ports=ports)
