# SPDX-License-Identifier: Apache-2.0
"""Repeat a run with gdb on its kernel, and compare the results with the undisturbed run."""

from __future__ import annotations

from collections.abc import Sequence

from mprun.captures.pcapng import read_packet
from mprun.engines.debugger import Debugger, find_gdb
from mprun.errors import MachineError, RunError, SpecError, refusing
from mprun.kernel.store import find_by_digest, find_kernel, list_kernels
from mprun.kernel.symbols import find_symbols
from mprun.labs.steps import measured_by
from mprun.machine.scratch import scratch
from mprun.metrics.first_time import find_onset_ns
from mprun.model.engine_name import DEFAULT_ENGINE
from mprun.model.frozen import Frozen
from mprun.model.permission import Consent
from mprun.model.units import TIME, QuantityError
from mprun.runs.difference import first_difference
from mprun.runs.repetition import repeat
from mprun.statements.expression import ExpressionError, parse
from mprun.storage.damage import reading
from mprun.storage.run_directory import RunDirectory


class StopMoment(Frozen):
    """A moment at which the kernel of a run stops.

    - at_ns: the time on the agent's monotonic clock.
    - reason: the event at this time, for people; empty if the user gave a time.
    - packet: the interface and the content of a packet, in hexadecimal, from the network header on; None without one.
    """

    at_ns: int
    reason: str = ""
    packet: dict[str, str] | None = None


def parse_time(run: RunDirectory, text: str) -> StopMoment:
    """Return the moment of a time from time zero. Raises SpecError if the run ended before, RunError in real time."""
    zero_ns, end_ns = _find_span(run)
    with refusing("--at", QuantityError):
        at_ns = TIME.parse(text)
    if zero_ns + at_ns > end_ns:
        raise SpecError(f"--at {text} is after the end of the run, {(end_ns - zero_ns) / 1e9:.9f} s")
    return StopMoment(zero_ns + at_ns)


def parse_packet(run: RunDirectory, text: str) -> StopMoment:
    """Return the moment of a packet, from a text such as `client.pcap:120`. Raises as `parse_time`."""
    _find_span(run)
    name, colon, digits = text.rpartition(":")
    if not colon or not digits.isdecimal() or int(digits) < 1:
        raise SpecError(f"--packet {text}: write the name of a capture and a number from 1 on, as in client.pcap:120")
    captures = run.captures()
    file = captures.get(name.removesuffix(".pcap"))
    if file is None:
        raise SpecError(f"--packet {text}: the run has no capture '{name}'; captures: {', '.join(captures) or 'none'}")
    with reading(run.path / file):
        found, count = read_packet(run.pieces(file), int(digits))
    if found is None:
        raise SpecError(f"--packet {text}: the capture has {count} packets")
    boot_ns = run.agent_report().boot_ns
    assert boot_ns is not None, "a run with time zero"
    content = {"interface": found.interface, "content": found.network_bytes.hex()}
    return StopMoment(found.at_ns - boot_ns, f", packet {digits} of {name}", content)


def parse_statement(run: RunDirectory, text: str) -> StopMoment:
    """Return the moment at which a statement is first true of the rows of tables until then. Raises as `parse_time`."""
    zero_ns, _ = _find_span(run)
    with refusing("--fail-if", ExpressionError):
        at_ns = find_onset_ns(parse(text), measured_by(run))
    if at_ns is None:
        raise SpecError(f"--fail-if {text}: is true at no time of {run.name}")
    if at_ns < 0:
        raise SpecError(f"--fail-if {text}: is true before time zero, at {at_ns / 1e9:.9f} s")
    return StopMoment(zero_ns + at_ns, f", where first {text}")


def debug(
    original: RunDirectory, moment: StopMoment, commands: Sequence[str] | None, kernel: str | None, consent: Consent
) -> str | None:
    """Repeat a run with gdb, and return the first difference from the original; None if all bytes are equal.

    commands: those of gdb; None: the user types them. kernel: its name; None: that of the original. Raises
    MachineError without gdb, without the kernel or without its symbols, and as `repeat`.
    """
    name = kernel or _find_kernel_of(original)
    find_symbols(find_kernel(name))
    nodes = {interface.name: node.name for node in original.plan().intent.nodes for interface in node.interfaces}
    zero_ns, _ = _find_span(original)
    facts = {"zero_ns": zero_ns, "nodes": nodes, **vars(moment)}
    debugger = Debugger(find_gdb(), facts, commands)
    with scratch("mprun-debug-") as folder:
        again = repeat(original, folder, DEFAULT_ENGINE, name, consent, lambda *_: None, debugger)
        return first_difference(original, again)


def _find_span(run: RunDirectory) -> tuple[int, int]:
    """Return time zero and the end of a run on the agent's clock, in ns. Raises RunError without simulated time."""
    environment = run.environment()
    if environment.real_time:
        raise RunError(
            f"{run.name} ran in real time ({environment.engine} engine): gdb can stop only a kernel in simulated "
            "time; run the files again with --engine virtual"
        )
    agent = run.agent_report()
    if agent.zero_ns is None:
        raise RunError(f"{run.name} ended before time zero; `mprun show` has the error")
    return agent.zero_ns, max((one.ended_ns for one in agent.processes.values()), default=agent.zero_ns)


def _find_kernel_of(run: RunDirectory) -> str:
    """Return the name of the kernel that a run used. Raises MachineError if it does not exist any more."""
    wanted = run.environment().kernel
    if kernel := find_by_digest(wanted.digest):
        return kernel.name
    built = ", ".join(one.name for one in list_kernels()) or "none"
    raise MachineError(
        f"the kernel of {run.name}, {wanted.label}, is not built here (built: {built}): build it again from "
        f"{wanted.source or 'its source'}, or take another kernel with --kernel"
    )
