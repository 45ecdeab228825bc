# SPDX-License-Identifier: Apache-2.0
"""The plan: everything a run will do, decided before anything exists.

A plan is data. Its `build` part is the text that a person would type, node by node (iproute2, tc,
sysctl, ethtool); daemons, probes and flows are argument vectors with the time they start. The
agent obeys it, `mprun plan` prints it, and tests compare it, all without root.

`intent` is what the inputs mean, equal on every machine, and alone makes the digest; the commands
beside it are bound to the machine's capabilities.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, Literal

from mprun.codec import Fault
from mprun.errors import MprunError
from mprun.intent import Intent
from mprun.intent.document import CODEC, digest_of, write_intent

# The node of the namespace in which the agent starts; it builds links from there.
ROOT = ""

FORMAT = 5
# CPU time that a program may use while simulated time stands still, unless its entry says otherwise.
COMPUTE_S = 10
# Of a file that a process needs, a person is shown so many.
MOST_LINES = 40


@dataclass(frozen=True)
class Node:
    """A network namespace; that of the wires is mprun's, not the user's.

    inside: another node whose namespace this one shares, instead of one of its own.
    """

    name: str
    kind: Literal["host", "router", "switch", "openflow", "wires"]
    inside: str = ""


@dataclass(frozen=True)
class Command:
    """A command that builds or configures, on `node`; the agent stops at the first that fails."""

    node: str
    argv: tuple[str, ...]


def sysctl(node: str, name: str, value: str) -> Command:
    """The command that sets a sysctl of the node's namespace (sysctl(8))."""
    return Command(node, ("sysctl", "-w", f"{name}={value}"))


@dataclass(frozen=True)
class Ready:
    """When a daemon counts as ready: it listens on a port (of TCP, or `udp`), its socket is there, or its log (what it
    says on standard error) holds a text."""

    kind: Literal["port", "udp", "socket", "output"]
    value: str


@dataclass(frozen=True)
class File:
    """A file that a process needs: its text, or, with size_bytes, so many zeros that take no room."""

    path: str
    text: str = ""
    size_bytes: int | None = None


@dataclass(frozen=True)
class Process:
    """A program of the run. `name` also names its logs: `logs/<name>.out` and `.err`.

    output: file of the run directory that its standard output goes to instead.
    flows: the names of the flows that it is part of, and then those of their groups.
    at_ns: start, counted from time zero, or from `after`; None for what starts before time zero.
    after: (name of a flow or group, `start` or `end`).
    lasts_ns: how long it is meant to take; None: nobody knows. is_endless: it is told to end then, by stop_signal, and
    that is no error.
    timeout_ns: after this long a process that has not ended is an error.
    stop_signal: what ends a daemon (signal(7) number).
    files: written before it starts. keeps: files of the run directory that it leaves; their folders are made.
    most_log_bytes: how much of what it prints is kept, of standard output and error each; None: all of it.
    compute_s: how much CPU time it may use while simulated time stands still.
    needs: what the kernel must have for it beside TCP and UDP: `sctp`.
    is_foreign: its command is the file's own (`exec`), which the real engine confines.
    """

    name: str
    node: str
    argv: tuple[str, ...]
    role: Literal["switch", "capture", "preparation", "server", "probe", "flow"]
    env: Mapping[str, str] = field(default_factory=dict)
    flows: tuple[str, ...] = ()
    at_ns: int | None = None
    after: tuple[str, str] | None = None
    lasts_ns: int | None = None
    is_endless: bool = False
    timeout_ns: int = 60_000_000_000
    ready: Ready | None = None
    stop_signal: int = 15
    output: str | None = None
    files: tuple[File, ...] = ()
    keeps: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    most_log_bytes: int | None = None
    compute_s: int = COMPUTE_S
    is_foreign: bool = False


@dataclass(frozen=True)
class Change:
    """Commands at a moment of the run, counted from time zero; `name` says of what, `values` what it becomes."""

    at_ns: int
    name: str
    values: Mapping[str, object]
    commands: tuple[Command, ...]


@dataclass(frozen=True)
class Train:
    """Frames from one end of a link to the other, that show what is in between (see `compile.calibration`).

    `batch` frames at once every gap_ns; frame_bytes with the Ethernet header; tail_ns: how long to wait
    for what is under way after the last one.
    """

    link: str
    direction: str
    kind: str
    node: str
    interface: str
    peer_node: str
    peer_interface: str
    peer_mac: str
    count: int
    frame_bytes: int
    batch: int
    gap_ns: int
    tail_ns: int


@dataclass(frozen=True)
class Plan:
    """What the agent obeys. Steps in the order in which they are done.

    switch_programs, switching: what runs once `build` is done, and the commands that it then obeys.
    preparations: run to their end before the daemons start. end_ns: when the last flow is over at the
    latest, from time zero, as far as that can be told. samples: interval of each series that is sampled, ns.
    watches: spans, from time zero, in which `progress` is, as no path of some flow works then.
    """

    intent: Intent
    seed: int
    nodes: tuple[Node, ...]
    build: tuple[Command, ...]
    daemons: tuple[Process, ...]
    probes: tuple[Process, ...]
    flows: tuple[Process, ...]
    changes: tuple[Change, ...] = ()
    switch_programs: tuple[Process, ...] = ()
    switching: tuple[Command, ...] = ()
    trains: tuple[Train, ...] = ()
    preparations: tuple[Process, ...] = ()
    end_ns: int = 0
    samples: Mapping[str, int] = field(default_factory=dict)
    watches: tuple[tuple[int, int], ...] = ()

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the intent, hexadecimal; equal on every machine."""
        return digest_of(write_intent(self.intent))

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON values, as the agent and `plan.json` have it."""
        value = {one.name: CODEC.encode(getattr(self, one.name)) for one in fields(self)}
        return {"format": FORMAT, "digest": self.digest, **value}

    def to_text(self) -> str:
        """Return the text of `plan.json`: a line for each command, process, node, link and change."""
        return _spell(self.to_json(), "") + "\n"

    @classmethod
    def from_json(cls, value: object) -> Plan:
        """Return the plan that `to_json` wrote.

        Raises codec.Fault for one of another form, MprunError if it is so because its format is another.
        """
        try:
            return CODEC.decode(cls, value)
        except Fault:
            if isinstance(value, dict) and value.get("format", FORMAT) != FORMAT:
                raise MprunError(f"a plan of format {value['format']}; this mprun reads format {FORMAT}") from None
            raise

    def commands_of(self, node: str) -> Iterator[str]:
        """The lines of `build` that a person would type on `node`."""
        return (shlex.join(command.argv) for command in self.build if command.node == node)


def _spell(value: Any, indent: str) -> str:
    """JSON with a line for each member of an object and each element of a list, which is whole on it."""
    if isinstance(value, dict) and value:
        lines = (f"{indent} {_encode(key)}: {_spell(value[key], indent + ' ')}" for key in sorted(value))
        return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
    if isinstance(value, list) and value and isinstance(value[0], (dict, list)):
        return "[\n" + ",\n".join(f"{indent} {_encode(one)}" for one in value) + f"\n{indent}]"
    return _encode(value)


_encode = json.JSONEncoder(sort_keys=True).encode


def render(plan: Plan) -> str:
    """The plan as a person reads it: per node the commands, then the processes in time."""
    lines = [f"# digest {plan.digest}", f"# seed {plan.seed}"]
    titles = {node.name: f"{node.name}, inside {node.inside}" if node.inside else node.name for node in plan.nodes}
    for name in (ROOT, *(node.name for node in plan.nodes)):
        commands = list(plan.commands_of(name))
        if commands:
            lines += ["", f"[{titles.get(name, 'build')}]", *commands]
    if plan.switch_programs:
        lines += ["", "[switches]", *(_render_process(process) for process in plan.switch_programs)]
        lines += [f"{command.node}: {shlex.join(command.argv)}" for command in plan.switching]
    for title, processes in (
        ("before time zero: preparations", plan.preparations),
        ("before time zero: captures and servers", plan.daemons),
        ("before time zero: idle round-trip times", plan.probes),
        ("from time zero", plan.flows),
    ):
        if processes:
            lines += ["", f"[{title}]", *(_render_process(process) for process in processes)]
    if plan.intent.samples:
        every = (f"{series} every {format_seconds(ns)}" for series, ns in plan.samples.items())
        lines += ["", "[samples, from time zero]", *every]
    if plan.changes:
        lines += ["", "[changes, from time zero]"]
        for change in plan.changes:
            at = f"{format_seconds(change.at_ns)} {change.name}:"
            lines += [f"{at} {command.node}: {shlex.join(command.argv)}" for command in change.commands]
    return "\n".join(lines) + "\n"


def _render_process(process: Process) -> str:
    at = "" if process.at_ns is None else f"{_render_start(process)} "
    env = "".join(f"{name}={shlex.quote(value)} " for name, value in process.env.items())
    output = f" > {process.output}" if process.output else ""
    output += f" (until {format_seconds(process.lasts_ns)} later)" if process.is_endless and process.lasts_ns else ""
    lines = [f"{at}{process.node}: {env}{shlex.join(process.argv)}{output}"]
    return "\n".join(lines + [line for file in process.files for line in _render_file(file)])


def _render_start(process: Process) -> str:
    at = format_seconds(process.at_ns or 0)
    return f"{at} after the {process.after[1]} of {process.after[0]}" if process.after else at


def _render_file(file: File) -> list[str]:
    if file.size_bytes is not None:
        return [f"    {file.path}: {file.size_bytes} bytes of zeros"]
    lines = file.text.splitlines()
    more = [f"        ... {len(lines) - MOST_LINES} lines more"] if len(lines) > MOST_LINES else []
    return [f"    {file.path}:", *(f"        {line}" for line in lines[:MOST_LINES]), *more]


def format_seconds(ns: int) -> str:
    """Nanoseconds as seconds without rounding: `0.25s`, `10s`."""
    whole, rest = divmod(ns, 1_000_000_000)
    return f"{whole}.{rest:09d}".rstrip("0").rstrip(".") + "s"
