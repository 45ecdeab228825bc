# SPDX-License-Identifier: Apache-2.0
"""Efficiency: why a flow got less than its best path gives. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from mprun.metrics.capacity import cross, find_capacity
from mprun.metrics.connection import addresses_at, at_server, counts_forward, goes_forward, subflows_of
from mprun.metrics.diagnosis import is_left_alone
from mprun.metrics.evidence import Evidence
from mprun.metrics.limitation import GOOD, LEAST_SAMPLES, LimitedFlow, Sample, SubflowState, explain_rate
from mprun.metrics.observation import Observation
from mprun.metrics.readings import Readings
from mprun.metrics.series import FlowConnections
from mprun.metrics.shortfall import count_drops, disturb, explain_queues
from mprun.model.network import LinkWay
from mprun.model.run_summary import MetricValue
from mprun.model.spec import BUFFERS, HEADER_BYTES, HostSpec

if TYPE_CHECKING:
    import polars


# The first window of TCP (RFC 6928), and the headers of a frame with IPv4, TCP with timestamps, and MPTCP.
FIRST_WINDOW_BYTES, HEADERS_BYTES = 14_600, 86
# So few packets that are sent again do not hold a flow back.
FEW_RESENT = 5


def explain_efficiency(
    one: FlowConnections,
    tables: Mapping[str, polars.DataFrame],
    efficiency: MetricValue | None,
    evidence: Evidence,
) -> Readings:
    """Explain why a flow of MPTCP got less than its best path gives: a warning if a cause is known, else a note.

    tables: the samples. efficiency: the flow's efficiency.best; None if it has none.
    """
    flow, is_forward = one.flow, counts_forward(one.flow, goes_forward(subflows_of(one.connections)))
    capacity = find_capacity(evidence.intent, flow, is_forward)
    if efficiency is None or efficiency.value >= GOOD or capacity is None:
        return Readings()
    sender, receiver = (flow.source, flow.destination)[:: 1 if is_forward else -1]
    counters = [evidence.agent.counters_of(host) for host in (sender, receiver)]
    is_backup = _find_backups(one, evidence.observation)
    unused = _explain_unused(is_backup, capacity.best_paths)
    # the congestion window of a backup has room, whatever holds the data back
    best = [name for name in capacity.best_paths if not is_backup.get(name)] or capacity.best_paths
    path = next(path for path in flow.paths if path.name in best)
    there = list(cross(evidence.intent, flow, path, is_forward))
    mtu = min(crossing.link.mtu for crossing in there)
    began_ns, ended_ns = one.counted_ns
    usual = find_usual(mtu, capacity.best * path.rtt_ns / 8e9, path.rtt_ns / max(1, ended_ns - began_ns))
    is_short = efficiency.value < GOOD * usual
    ways = _find_ways(one, evidence, is_forward) if is_short and not unused else {}
    drops = count_drops(tables)
    limits = LimitedFlow(
        sender,
        receiver,
        evidence.intent.mptcp_of(sender).scheduler,
        sum(counted.get("TcpExtTCPMemoryPressures", 0) for counted in counters),
        is_left_alone(*counters),
        next((key for key in ("window", "send_buffer", "receive_buffer") if f"{key}_bytes" in flow.options), ""),
        disturb(there),
        explain_queues(ways.values(), drops),
        explain_queues((way for name, way in ways.items() if name in best), drops) is not None,
        *(
            _read_sizes(evidence.intent.host(host), name)
            for host, name in zip((sender, receiver), BUFFERS, strict=True)
        ),
    )
    samples = list(_find_samples(one, is_forward, tables["sockets"], evidence.observation))
    text, is_known = (unused, False) if unused else explain_rate(efficiency.value, samples, best, limits)
    told = f"{flow.name}: {efficiency.value:.1%} of its best path's rate".replace("%", " %")
    if is_known:
        return Readings(warnings=(f"{told}: {text}",))
    text += tell_headers(mtu)
    # a group may have hundreds of members, so they get no notes, and a short flow none of which nothing is expected
    few = len(samples) < LEAST_SAMPLES and not evidence.expects(flow.name)
    if not is_short or flow.group is not None or few:
        return Readings()
    return Readings(notes=(f"{told}: {text}",))


def _find_ways(
    one: FlowConnections, evidence: Evidence, is_forward: bool
) -> dict[str, tuple[Sequence[LinkWay], float]]:
    """Return the links and the BDP, in bytes, of each path on which the flow sent more than a few packets again.

    Leave out paths with losses that the file asks for. Other flows may have lost all packets that a queue dropped.
    """
    resent: Counter[str | None] = Counter()
    for subflow in subflows_of(one.connections):
        resent[subflow.path] += (subflow.client if is_forward else subflow.server).resent
    ways: dict[str, tuple[Sequence[LinkWay], float]] = {}
    for path in one.flow.paths:
        there = list(cross(evidence.intent, one.flow, path, is_forward))
        capacity = find_capacity(evidence.intent, replace(one.flow, paths=(path,)), is_forward)
        if resent[path.name] > FEW_RESENT and capacity and not disturb(there):
            ways[path.name] = there, capacity.best * path.rtt_ns / 8e9
    return ways


def _read_sizes(host: HostSpec, name: str) -> tuple[int, ...]:
    """Return the sizes in bytes that the file gives a host for buffers; empty without three."""
    sizes = dict(host.sysctl).get(name, "").split()
    return tuple(map(int, sizes)) if len(sizes) == 3 and all(map(str.isdecimal, sizes)) else ()


def _find_backups(one: FlowConnections, observation: Observation) -> dict[str | None, bool]:
    """Return the paths with a subflow, each with whether its subflow is a backup."""
    flow = one.flow
    ends = (event for host in (flow.source, flow.destination) for event in observation.hosts[host].events)
    marked = {event.addresses for event in ends if event.backup}
    return {
        subflow.path: not marked.isdisjoint((subflow.addresses, at_server(subflow.addresses, flow.paths)))
        for subflow in subflows_of(one.connections)
    }


def _explain_unused(is_backup: Mapping[str | None, bool], best: Collection[str]) -> str | None:
    """Return why a flow sends nothing on its best paths: they have no subflow, or only backups. None if it may send."""
    names = " and ".join(best)
    if is_backup.keys().isdisjoint(best):
        return f"it has no subflow on {names}"
    if all(is_backup.get(name, True) for name in best) and not all(is_backup.values()):
        return f"{names} is a backup, which gets data only after the other paths have failed"
    return None


def find_usual(mtu: int, bdp_bytes: float, round_trip: float) -> float:
    """Return the efficiency that headers, handshake and slow start leave. round_trip: a share of the flow's time."""
    rounds = 1 + math.log2(max(1.0, bdp_bytes / FIRST_WINDOW_BYTES))
    return (1 - _share_of_headers(mtu)) * max(0.0, 1 - rounds * round_trip)


def tell_headers(mtu: int) -> str:
    """Return the end of a sentence that names the headers, if they take much of a small MTU; else nothing."""
    headers = _share_of_headers(mtu)
    told = f"; headers take {headers:.0%} of each frame, as the MTU is {mtu} bytes".replace("%", " %")
    return told if headers > 1 - GOOD else ""


def _share_of_headers(mtu: int) -> float:
    return min(1.0, HEADERS_BYTES / (mtu + HEADER_BYTES))


def _find_samples(
    one: FlowConnections, is_forward: bool, sockets: polars.DataFrame, observation: Observation
) -> Iterator[Sample]:
    """Yield each sample of a sending connection of the flow together with its subflows."""
    flow = one.flow
    sender = flow.source if is_forward else flow.destination
    began_ns, ended_ns = one.counted_ns
    of_subflow = ("snd_cwnd_packets", "unacked_packets", "notsent_bytes", "snd_wnd_bytes", "last_ack_recv_ms")
    mine = sockets.filter(flow=flow.name, host=sender).sort("time_ns", maintain_order=True)
    moments: dict[tuple[int, int], list[SubflowState]] = {}
    for number, time_ns, path, *values in mine.select("connection", "time_ns", "path", *of_subflow).iter_rows():
        # older kernels do not report all values
        if None not in values:
            moments.setdefault((number, time_ns), []).append(SubflowState(path, *values))
    for number, connection in enumerate(one.connections):
        # a bidirectional flow has a connection for each direction
        if flow.options.get("bidirectional") and not goes_forward(connection.subflows):
            continue
        for held in observation.states.get((sender, addresses_at(connection, flow.paths, is_forward)), ()):
            subflows = moments.get((number, held.at_ns))
            if subflows and began_ns <= held.at_ns < ended_ns:
                yield Sample(held, subflows)
