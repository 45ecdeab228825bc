# SPDX-License-Identifier: Apache-2.0
"""The plan: everything a run will do, decided before anything exists.

A plan is data. Its `build` part is the text that a person would type, node by node (iproute2, tc,
sysctl, ethtool); daemons, probes and flows are argument vectors with the time they start. The
agent obeys it, `mprun plan` prints it, and tests compare it, all without root.

`intent` is what the inputs mean, equal on every machine, and alone makes the digest; the commands
beside it are bound to the machine's capabilities.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from mprun.errors import MprunError

# The node of the namespace in which the agent starts; it builds links from there.
ROOT = ""

FORMAT = 1


@dataclass(frozen=True)
class Node:
    """A network namespace. `hidden` nodes (the wires) are mprun's, not the user's."""

    name: str
    kind: Literal["host", "router", "switch", "wires"]
    hidden: bool = False


@dataclass(frozen=True)
class Command:
    """A command that builds or configures, on `node`; the agent stops at the first that fails."""

    node: str
    argv: tuple[str, ...]


@dataclass(frozen=True)
class Ready:
    """When a daemon counts as ready: it listens on a TCP port, or its log holds a text."""

    kind: Literal["port", "output"]
    value: str


@dataclass(frozen=True)
class Process:
    """A program of the run. `name` also names its logs: `logs/<name>.out` and `.err`.

    output: file of the run directory that its standard output goes to instead.
    at_ns: start, counted from time zero; None for daemons and probes, which start before it.
    timeout_ns: after this long a process that has not ended is an error.
    stop_signal: what ends a daemon (signal(7) number).
    """

    name: str
    node: str
    argv: tuple[str, ...]
    role: Literal["capture", "server", "probe", "flow"]
    env: Mapping[str, str] = field(default_factory=dict)
    at_ns: int | None = None
    timeout_ns: int = 60_000_000_000
    ready: Ready | None = None
    stop_signal: int = 15
    output: str | None = None


@dataclass(frozen=True)
class Plan:
    """What the agent obeys. Steps in the order in which they are done."""

    intent: Mapping[str, Any]
    seed: int
    nodes: tuple[Node, ...]
    build: tuple[Command, ...]
    daemons: tuple[Process, ...]
    probes: tuple[Process, ...]
    flows: tuple[Process, ...]

    @property
    def digest(self) -> str:
        """SHA-256 of the intent, hexadecimal; equal on every machine."""
        return hashlib.sha256(canonical_json(self.intent).encode()).hexdigest()

    @property
    def end_ns(self) -> int:
        """When the last flow is over at the latest, from time zero, if none hangs."""
        ends = [flow["start_ns"] + (flow["duration_ns"] or 0) for flow in self.intent["traffic"]]
        return max(ends, default=0)

    def to_json(self) -> dict[str, Any]:
        """The plan as JSON values, as the agent and `plan.json` have it."""
        return {"format": FORMAT, "digest": self.digest, "end_ns": self.end_ns, **asdict(self)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Plan:
        """The plan that `to_json` wrote. Raises MprunError for one of another format."""
        if value.get("format") != FORMAT:
            raise MprunError(f"a plan of format {value.get('format')}; this mprun reads format {FORMAT}")
        return cls(
            intent=value["intent"],
            seed=value["seed"],
            nodes=tuple(Node(**node) for node in value["nodes"]),
            build=tuple(Command(command["node"], tuple(command["argv"])) for command in value["build"]),
            daemons=tuple(_process(process) for process in value["daemons"]),
            probes=tuple(_process(process) for process in value["probes"]),
            flows=tuple(_process(process) for process in value["flows"]),
        )

    def commands_of(self, node: str) -> Iterator[str]:
        """The lines of `build` that a person would type on `node`."""
        return (shlex.join(command.argv) for command in self.build if command.node == node)


def _process(value: Mapping[str, Any]) -> Process:
    ready = Ready(**value["ready"]) if value["ready"] else None
    return Process(**{**value, "argv": tuple(value["argv"]), "ready": ready})


def canonical_json(value: object) -> str:
    """JSON with one spelling for equal values: sorted keys, no spaces, ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def render(plan: Plan) -> str:
    """The plan as a person reads it: per node the commands, then the processes in time."""
    lines = [f"# digest {plan.digest}", f"# seed {plan.seed}"]
    for name in (ROOT, *(node.name for node in plan.nodes)):
        commands = list(plan.commands_of(name))
        if commands:
            lines += ["", f"[{name or 'build'}]", *commands]
    for title, processes in (
        ("before time zero: captures and servers", plan.daemons),
        ("before time zero: idle round-trip times", plan.probes),
        ("from time zero", plan.flows),
    ):
        if processes:
            lines += ["", f"[{title}]", *(_render_process(process) for process in processes)]
    return "\n".join(lines) + "\n"


def _render_process(process: Process) -> str:
    at = "" if process.at_ns is None else f"{format_seconds(process.at_ns)} "
    env = "".join(f"{name}={shlex.quote(value)} " for name, value in process.env.items())
    output = f" > {process.output}" if process.output else ""
    return f"{at}{process.node}: {env}{shlex.join(process.argv)}{output}"


def format_seconds(ns: int) -> str:
    """Nanoseconds as seconds without rounding: `0.25s`, `10s`."""
    whole, rest = divmod(ns, 1_000_000_000)
    return f"{whole}.{rest:09d}".rstrip("0").rstrip(".") + "s"
