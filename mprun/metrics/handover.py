# SPDX-License-Identifier: Apache-2.0
"""Hand-overs: how long a connection's data stood still after the failure of a path, and when it flowed again. Pure.

For MPTCP, both ends are sampled every 10 ms after a failure. A sample shows how much in-order data an end has, and if
the other end lacks data (mptcpi_rcv_nxt, mptcpi_write_seq, mptcpi_snd_una of linux/mptcp.h).

For other transports, the flow's own program records standstills of 10 ms and more.

After a failure, a sender may send one chunk at a time and wait for a timer after each, until it considers the path
lost. So the longest standstill alone does not show when the data flows again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from mprun.metrics.connection import Connection, addresses_at, goes_forward, subflows_of
from mprun.metrics.evidence import Evidence
from mprun.metrics.observation import DataProgress
from mprun.metrics.readings import Readings, name_metrics
from mprun.model.frozen import Frozen
from mprun.model.grouping import gather
from mprun.model.intent import AddressedFlow, Intent
from mprun.model.intent.failure import PathFailure, find_failures
from mprun.model.metric import OF_HANDOVER
from mprun.model.spec import HostSpec
from mprun.workloads.tool import Movement

# The shortest retransmission timeout (TCP_RTO_MIN of linux/tcp.h). A longer standstill is a wait for a timer.
TIMEOUT_NS = 200_000_000
STALE_LOSSES = "net.mptcp.stale_loss_cnt"
DEFAULT_STALE_LOSSES = 4
MAINLINE_SCHEDULER = "default"
# A longer wait after a failure is reported if a smaller stale_loss_cnt would have shortened it.
LATE_NS = 1_000_000_000


class Handover(Frozen):
    """The course of a connection after a failure.

    - gap_ns: the longest standstill.
    - time_ns: from the failure until the data no longer waited for timers.
    - is_over: the data flowed again before the last sample. If not, both times end with the last sample.
    """

    gap_ns: int
    time_ns: int
    is_over: bool


def find_handover(
    one: Sequence[DataProgress], other: Sequence[DataProgress], begin_ns: int, end_ns: int
) -> Handover | None:
    """Return the hand-over between two ends in a span that begins with a failure; None without two samples."""
    inside = gather((state.at_ns, state) for state in (*one, *other) if begin_ns <= state.at_ns <= end_ns)
    if len(inside) < 2:
        return None
    return _judge(list(_standstills(inside, begin_ns)), begin_ns, max(inside))


def find_handover_of(movement: Movement, begin_ns: int, end_ns: int) -> Handover | None:
    """Return the hand-over of data whose standstills are known; None if no data was in transit in the span."""
    end_ns = min(end_ns, movement.ended_ns)
    if end_ns <= max(begin_ns, movement.began_ns):
        return None
    inside = [(max(since, begin_ns), min(until, end_ns)) for since, until in movement.standstills_ns]
    return _judge([(since, until) for since, until in inside if since < until], begin_ns, end_ns)


def _judge(stood: Sequence[tuple[int, int]], begin_ns: int, looked_until_ns: int) -> Handover:
    """Return the hand-over with these standstills. stood: begin and end of each, in order."""
    resumed_ns = None
    for began_ns, ended_ns in stood:
        if ended_ns - began_ns < TIMEOUT_NS:
            continue
        if resumed_ns is not None and began_ns - resumed_ns >= TIMEOUT_NS:
            break
        resumed_ns = ended_ns
    gap_ns = max((ended_ns - began_ns for began_ns, ended_ns in stood), default=0)
    return Handover(gap_ns, (resumed_ns or begin_ns) - begin_ns, resumed_ns is None or resumed_ns < looked_until_ns)


def _standstills(inside: Mapping[int, Sequence[DataProgress]], begin_ns: int) -> Iterator[tuple[int, int]]:
    """Yield each time in which an end waited and nothing arrived. The last may end with the samples."""
    since_ns, last, is_waiting = begin_ns, None, False
    for at_ns, states in sorted(inside.items()):
        expected = [state.expected for state in states]
        if last is not None and expected != last and is_waiting:
            yield since_ns, at_ns
        if last is not None and (expected != last or not is_waiting):
            since_ns = at_ns
        last, is_waiting = expected, any(state.is_waiting for state in states)
    if is_waiting:
        yield since_ns, max(inside)


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
    every = subflows_of(connections)
    name = flow.source if goes_forward(every) else flow.destination
    return _tell_handover(flow, handovers, evidence.intent.host(name), name)


def _tell_handover(
    flow: AddressedFlow, handovers: Sequence[tuple[PathFailure, Handover]], sender: HostSpec | None, name: str = ""
) -> Readings:
    """Return handover.gap and handover.time, the largest of all hand-overs.

    sender: the settings of the host that sent more over MPTCP; None for other transports. name: of this host.
    """
    if not handovers:
        return Readings()
    failure, worst = max(handovers, key=lambda one: one[1].time_ns)
    given: tuple[str | None, str | None, str] = (None, None, "")
    if sender is not None:
        given = (dict(sender.sysctl).get(STALE_LOSSES), sender.mptcp.scheduler, name)
    backups = [path.name for path in flow.paths if path.backup]
    text = explain_handover(failure.path, worst.time_ns, worst.is_over, backups, *given)
    values = {"handover.gap": max(one.gap_ns for _, one in handovers) / 1e9, "handover.time": worst.time_ns / 1e9}
    warnings = (f"{flow.name}: {text}",) if text else ()
    return Readings(name_metrics(flow.name, values, OF_HANDOVER), warnings=warnings)


def explain_handover(
    path: str,
    time_ns: int,
    is_over: bool,
    backups: Sequence[str],
    stale_losses: str | None = None,
    scheduler: str | None = None,
    host: str = "",
) -> str | None:
    """Return why the data of a connection waited long after the failure of a path; None if it did not.

    A scheduler of mprun leaves a subflow at its first time-out; that of mainline Linux, when the subflow is stale.
    stale_losses, scheduler: settings of the sender's host; None for another transport than MPTCP.
    """
    allowed = int(stale_losses) if stale_losses and stale_losses.isdigit() else DEFAULT_STALE_LOSSES
    is_patient = scheduler == MAINLINE_SCHEDULER and allowed != 1
    if is_over and (time_ns < LATE_NS or not is_patient):
        return None
    waited = f"after {path} had failed its data waited for time-outs for {time_ns / 1e9:.2f} s"
    waited += "" if is_over else ", and still did when it was last looked at"
    if not is_patient:
        return waited
    others = ", ".join(name for name in backups if name != path)
    instead = f"backup {others} gets" if others else "others get"
    meanwhile = f"{instead} only what timers send again"
    if not allowed:
        return f"{waited}: with {STALE_LOSSES}=0 a subflow never counts as stale, and {meanwhile}"
    return (
        f"{waited}: a subflow counts as stale after {allowed} of them in a row ({STALE_LOSSES}={allowed} of '{host}', "
        f"which sends), and until then {meanwhile}"
    )
