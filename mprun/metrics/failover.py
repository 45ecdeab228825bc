# SPDX-License-Identifier: Apache-2.0
"""Failover: the hand-overs of a flow's connections after failures of its paths. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from mprun.metrics.connection import Connection, addresses_at, goes_forward
from mprun.metrics.diagnosis import STALE_LOSSES, explain_handover
from mprun.metrics.evidence import Evidence
from mprun.metrics.handover import Handover, find_handover, find_handover_of
from mprun.metrics.readings import Readings, measured
from mprun.model.intent import AddressedFlow, Intent
from mprun.model.intent.failure import PathFailure, find_failures
from mprun.model.spec import HostSpec
from mprun.workloads.tool import Movement


def tell_handovers_seen(flow: AddressedFlow, intent: Intent, movement: Movement) -> Readings:
    """Return the hand-overs that a flow's own program recorded."""
    failures = find_failures(flow, intent.changes)
    spans = ((failure, failure.begin_ns, failure.watched_until_ns) for failure in failures)
    known = ((failure, find_handover_of(movement, begin, end)) for failure, begin, end in spans)
    return _tell_handover(flow, [(failure, handover) for failure, handover in known if handover], None)


def measure_handover(flow: AddressedFlow, connections: Sequence[Connection], evidence: Evidence) -> Readings:
    """Return the hand-overs of all connections of an MPTCP flow after all failures of its paths."""
    failures = find_failures(flow, evidence.intent.changes)
    handovers: list[tuple[PathFailure, Handover]] = []
    for connection in connections:
        at_client, at_server = (
            evidence.observation.progress.get((host, addresses_at(connection, flow.paths, host == flow.source)), [])
            for host in (flow.source, flow.destination)
        )
        for failure in failures:
            handover = find_handover(at_client, at_server, failure.begin_ns, failure.watched_until_ns)
            if handover is not None:
                handovers.append((failure, handover))
    every = [subflow for connection in connections for subflow in connection.subflows]
    sender = evidence.intent.host(flow.source if goes_forward(every) else flow.destination)
    return _tell_handover(flow, handovers, sender)


def _tell_handover(
    flow: AddressedFlow, handovers: Sequence[tuple[PathFailure, Handover]], sender: HostSpec | None
) -> Readings:
    """Return handover.gap and handover.time, the largest of all hand-overs.

    sender: the settings of the host that sent more over MPTCP; None for other transports.
    """
    if not handovers:
        return Readings()
    failure, worst = max(handovers, key=lambda one: one[1].time_ns)
    given: tuple[str | None, ...] = ()
    if sender is not None:
        given = (dict(sender.sysctl).get(STALE_LOSSES), sender.mptcp.scheduler)
    backups = [path.name for path in flow.paths if path.backup]
    text = explain_handover(failure.path, worst.time_ns, worst.is_over, backups, *given)
    return Readings(
        metrics={
            f"{flow.name}.handover.gap": measured(max(one.gap_ns for _, one in handovers) / 1e9, "time"),
            f"{flow.name}.handover.time": measured(worst.time_ns / 1e9, "time"),
        },
        warnings=(f"{flow.name}: {text}",) if text else (),
    )
