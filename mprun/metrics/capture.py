# SPDX-License-Identifier: Apache-2.0
"""Captures: when each was live, what it holds, and what it lacks. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from mprun.captures.pcapng import CaptureContent
from mprun.metrics.evidence import Evidence
from mprun.metrics.readings import Readings, join
from mprun.model import agent_report
from mprun.model.run_summary import CaptureFacts
from mprun.model.spec import Capture
from mprun.safety.text import name_some
from mprun.workloads import tcpdump

# The largest number of ports that a warning names.
MOST_PORTS = 5
# A port in a filter.
_PORT = re.compile(r"\bport (\d+)")


def read_captures(evidence: Evidence) -> tuple[dict[str, CaptureFacts], Readings]:
    """Return the facts of each capture by its name, and what the captures lack."""
    told: dict[str, CaptureFacts] = {}
    found = []
    zero_ns = evidence.agent.zero_ns
    for wanted in evidence.intent.captures:
        process = f"{tcpdump.PREFIX}{wanted.name}"
        seen, held = evidence.agent.captures.get(process), evidence.captured.get(wanted.name)
        if seen is None or held is None:
            continue
        log = evidence.logs(process, "err")
        facts = CaptureFacts(
            node=wanted.node,
            link=wanted.link,
            # to the millisecond, as steps before time zero are in simulated time
            ready_s=None if zero_ns is None else round((seen.ready_ns - zero_ns) / 1e9, 3),
            first_s=None if held.first_ns is None else held.first_ns / 1e9,
            packets=held.packets,
            passed=tcpdump.passed(log),
            lost=tcpdump.lost(log),
        )
        told[wanted.name] = facts
        ports = sorted({port for flow in evidence.intent.traffic for port in flow.endpoints.all_ports})
        found.append(_judge_capture(wanted, seen, held, facts, zero_ns or 0, ports))
    return told, join(found)


def _judge_capture(
    wanted: Capture,
    seen: agent_report.Captured,
    held: CaptureContent,
    facts: CaptureFacts,
    zero_ns: int,
    ports: Sequence[int],
) -> Readings:
    """Report what a capture lacks."""
    where = f"capture of {wanted.name}"
    passed, lost = facts.passed, facts.lost
    failures = []
    warnings = [f"{where}: {text}" for text in (held.problem, *held.warnings) if text]
    if lost is None or passed is None:
        warnings.append(f"{where}: tcpdump did not report how many packets it lost")
        return Readings(warnings=warnings)
    if wanted.filter and not passed:
        asked = _PORT.findall(wanted.filter)
        used = name_some([str(port) for port in ports], MOST_PORTS)
        noun = "port" if len(ports) == 1 else "ports"
        is_other = asked and ports and {*map(int, asked)}.isdisjoint(ports)
        has = f"the servers of the flows use {noun} {used}; " if is_other else ""
        warnings.append(f"{where}: no packet passed its filter '{wanted.filter}': {has}see pcap-filter(7)")
    if lost:
        missing = "1 packet that passed is" if lost == 1 else f"{lost} packets that passed are"
        warnings.append(f"{where}: {missing} not in it")
    if seen.ended_ns is not None:
        ended_s = (seen.ended_ns - zero_ns) / 1e9
        failures.append(f"{where}: ended at {ended_s:g} s, when the disk was nearly full; the run continued")
    elif held.packets < passed and wanted.size_bytes is not None:
        which = f"{wanted.keep} {held.packets} of {passed} packets"
        warnings.append(f"{where}: reached its size, and holds the {which}")
    elif held.packets < passed and not held.problem:
        failures.append(f"{where}: holds {held.packets} of {passed} packets: the disk was full")
    return Readings(failures=failures, warnings=warnings)
