# SPDX-License-Identifier: Apache-2.0
"""The plan: all commands and processes of a run, decided before the network exists.

A plan is data. Its part `build` has the commands that a person would type on each node (iproute2, tc, sysctl,
ethtool). Daemons, probes and flows are argument vectors with their start times. The agent carries out a plan, and
`mprun plan` prints it without root.

`intent` is the meaning of the inputs. It is equal on every machine, and only the digest of the intent is the digest of
the plan. The commands depend on the capabilities of a machine too.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import field, fields
from functools import cached_property
from typing import Any, Literal

from mprun.errors import MprunError
from mprun.model.codec import JsonProblem
from mprun.model.frozen import Frozen
from mprun.model.intent import Intent
from mprun.model.intent.intent_file import CODEC, digest_of, write_intent
from mprun.model.spec import FaultAction, Reseed

# The node of the namespace in which the agent starts; it builds links from there.
ROOT = ""

FORMAT = 5
# CPU time that a program may use while simulated time stands still, unless its entry says otherwise.
COMPUTE_S = 10
# The time after which a process that has not ended is an error, unless its flow has another limit.
TIMEOUT_NS = 60_000_000_000
# The number of lines that `render` shows of a file that a process needs.
MOST_LINES = 40


class PlannedNode(Frozen):
    """A network namespace. The user's file has no node of the kind `wires`, which mprun adds for its links.

    inside: another node whose namespace this one shares, instead of one of its own.
    """

    name: str
    kind: Literal["host", "router", "switch", "openflow", "wires"]
    inside: str = ""


class Command(Frozen):
    """A command that builds or configures the network on `node`. The agent stops at the first command that fails."""

    node: str
    argv: tuple[str, ...]


def sysctl(node: str, name: str, value: str) -> Command:
    """Return the command that sets a sysctl of the node's namespace (sysctl(8))."""
    return Command(node, ("sysctl", "-w", f"{name}={value}"))


class Ready(Frozen):
    """The condition under which a daemon counts as ready.

    - port, udp: it listens on this port of TCP or UDP.
    - socket: this file exists.
    - output: its standard error contains this text.
    """

    kind: Literal["port", "udp", "socket", "output"]
    value: str


class File(Frozen):
    """A file that a process needs: its text, or else size_bytes zeros as a sparse file."""

    path: str
    text: str = ""
    size_bytes: int | None = None


class Process(Frozen):
    """A program of the run. `name` also names its logs: `logs/<name>.out` and `.err`.

    - flows: the names of its flows, and then of their groups.
    - at_ns: start, from time zero or from `after`; None if it starts before time zero.
    - after: (name of a flow or group, `start` or `end`).
    - lasts_ns: its intended duration; None if it is unknown.
    - is_endless: it ends after `lasts_ns` by stop_signal, which is no error.
    - timeout_ns: a process that has not ended after this time is an error.
    - ready: the condition under which a daemon counts as ready.
    - stop_signal: the number of the signal that ends a daemon (signal(7)).
    - output: the file of the run directory that receives its standard output; None for the log.
    - files: files that are written before it starts.
    - keeps: files of the run directory that it leaves. Their folders are made.
    - needs: features of the kernel in addition to TCP and UDP: `sctp`.
    - most_log_bytes: the size that each of its two logs may reach; None for no limit.
    - compute_s: CPU time that it may use while simulated time stands still.
    - is_foreign: its command is the file's own (`exec`), which the real engine confines.
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
    timeout_ns: int = TIMEOUT_NS
    ready: Ready | None = None
    stop_signal: int = 15
    output: str | None = None
    files: tuple[File, ...] = ()
    keeps: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    most_log_bytes: int | None = None
    compute_s: int = COMPUTE_S
    is_foreign: bool = False


class PlannedChange(Frozen):
    """Commands at a moment of the run, from time zero. name: of the object that changes. values: its new values."""

    at_ns: int
    name: str
    values: Mapping[str, object]
    commands: tuple[Command, ...]


class PlannedFault(Frozen):
    """A fault of a packet that arrives on an interface.

    - packet: its number among the packets that arrive there, from 1. ICMP does not count.
    - value: the time in ns of a delay or until a duplicate arrives, or the kind of a TCP option.
    """

    node: str
    interface: str
    packet: int
    action: FaultAction
    value: int


class Train(Frozen):
    """Frames from one end of a link to the other, which measure the link (see `compile.calibration`).

    - batch: the number of frames that are sent at once, every gap_ns.
    - frame_bytes: the size of a frame, with its Ethernet header.
    - tail_ns: the time to wait after the last frame, for frames that are still in the link.
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


class Plan(Frozen):
    """The steps of a run, in the order in which the agent carries them out.

    - switch_programs, switching: programs that start after `build`, and the commands that they then obey.
    - preparations: processes that run to their end before the daemons start.
    - end_ns: the latest end of the last flow, from time zero; None if it is unknown.
    - samples: the interval of each series that is sampled, in ns.
    - watches: spans, from time zero, in which the series `progress` is sampled, because a path of a flow fails.
    - tracepoints: the trace events of the kernel to record, as names or patterns.
    """

    intent: Intent
    seed: int
    nodes: tuple[PlannedNode, ...]
    build: tuple[Command, ...]
    daemons: tuple[Process, ...]
    probes: tuple[Process, ...]
    flows: tuple[Process, ...]
    changes: tuple[PlannedChange, ...] = ()
    switch_programs: tuple[Process, ...] = ()
    switching: tuple[Command, ...] = ()
    trains: tuple[Train, ...] = ()
    preparations: tuple[Process, ...] = ()
    end_ns: int = 0
    samples: Mapping[str, int] = field(default_factory=dict)
    watches: tuple[tuple[int, int], ...] = ()
    faults: tuple[PlannedFault, ...] = ()
    reseed: Reseed | None = None
    tracepoints: tuple[str, ...] = ()

    @property
    def processes(self) -> tuple[Process, ...]:
        """All processes that the plan starts."""
        return (*self.preparations, *self.switch_programs, *self.daemons, *self.probes, *self.flows)

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

        Raises MprunError for a plan of another format, codec.JsonProblem for another value that is no plan.
        """
        form = value.get("format", FORMAT) if isinstance(value, dict) else FORMAT
        other = MprunError(f"a plan of format {form}; this mprun reads format {FORMAT}: use the one that made it")
        if isinstance(form, int) and form > FORMAT:
            raise other
        try:
            return CODEC.decode(cls, value)
        except JsonProblem:
            if form != FORMAT:
                raise other from None
            raise


def _spell(value: Any, indent: str) -> str:
    """Return JSON with a line for each member of an object and each element of a list."""
    if isinstance(value, dict) and value:
        lines = (f"{indent} {_encode(key)}: {_spell(value[key], indent + ' ')}" for key in sorted(value))
        return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
    if isinstance(value, list) and value and isinstance(value[0], (dict, list)):
        return "[\n" + ",\n".join(f"{indent} {_encode(one)}" for one in value) + f"\n{indent}]"
    return _encode(value)


_encode = json.JSONEncoder(sort_keys=True).encode


def render(plan: Plan) -> str:
    """Return a plan for people: the commands of each node, then the processes with their times."""
    lines = [f"# digest {plan.digest}", f"# seed {plan.seed}"]
    titles = {node.name: f"{node.name}, inside {node.inside}" if node.inside else node.name for node in plan.nodes}
    for name in (ROOT, *(node.name for node in plan.nodes)):
        commands = [shlex.join(command.argv) for command in plan.build if command.node == name]
        if commands:
            lines += ["", f"[{titles.get(name, 'build')}]", *commands]
    if plan.switch_programs:
        lines += ["", "[switches]", *(_render_process(process) for process in plan.switch_programs)]
        lines += [f"{command.node}: {shlex.join(command.argv)}" for command in plan.switching]
    if plan.faults:
        lines += ["", "[faults of packets, without ICMP]", *map(_render_fault, plan.faults)]
    if plan.reseed:
        moment = f"{plan.reseed.at_ns / 1e9:g} s after time zero"
        lines += ["", "[random numbers]", f"{moment}: those of seed {plan.reseed.seed}"]
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
    if plan.tracepoints:
        lines += ["", "[trace events of the kernel]", *plan.tracepoints]
    if plan.changes:
        lines += ["", "[changes, from time zero]"]
        for change in plan.changes:
            at = f"{format_seconds(change.at_ns)} {change.name}:"
            lines += [f"{at} {command.node}: {shlex.join(command.argv)}" for command in change.commands]
    return "\n".join(lines) + "\n"


def _render_fault(fault: PlannedFault) -> str:
    what = {
        "drop": "is dropped",
        "delay": f"is delayed by {fault.value} ns",
        "duplicate": f"arrives again after {fault.value} ns",
        "strip": f"loses its TCP options of kind {fault.value}",
    }
    return f"{fault.node}: packet {fault.packet} of those that arrive on {fault.interface} {what[fault.action]}"


def _render_process(process: Process) -> str:
    at = "" if process.at_ns is None else f"{format_seconds(process.at_ns)} "
    if at and process.after is not None:
        at += f"after the {process.after[1]} of {process.after[0]} "
    env = "".join(f"{name}={shlex.quote(value)} " for name, value in process.env.items())
    output = f" > {process.output}" if process.output else ""
    output += f" (until {format_seconds(process.lasts_ns)} later)" if process.is_endless and process.lasts_ns else ""
    lines = [f"{at}{process.node}: {env}{shlex.join(process.argv)}{output}"]
    return "\n".join(lines + [line for file in process.files for line in _render_file(file)])


def _render_file(file: File) -> list[str]:
    if file.size_bytes is not None:
        return [f"    {file.path}: {file.size_bytes} bytes of zeros"]
    lines = file.text.splitlines()
    more = [f"        ... {len(lines) - MOST_LINES} lines more"] if len(lines) > MOST_LINES else []
    return [f"    {file.path}:", *(f"        {line}" for line in lines[:MOST_LINES]), *more]


def format_seconds(ns: int) -> str:
    """Return nanoseconds as seconds without rounding: `0.25s`, `10s`."""
    whole, rest = divmod(ns, 1_000_000_000)
    return f"{whole}.{rest:09d}".rstrip("0").rstrip(".") + "s"
