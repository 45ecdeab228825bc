# SPDX-License-Identifier: Apache-2.0
"""Find the flows that got less than their best path carries, and the evidence of the cause. Pure.

A flow of MPTCP over several paths is compared in all its time (`efficiency.best`). For another flow only the last third
counts, and only if slow start is over by then. The flow must send as fast as it can, and no change, middlebox or choice
of ways may be on its path.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from mprun.metrics.capacity import cross, find_capacity
from mprun.metrics.cause import (
    GOOD,
    LEAST_SAMPLES,
    Shortfall,
    UsedPath,
    find_cause,
    rate_of,
    share_of_headers,
    tell_headers,
)
from mprun.metrics.connection import addresses_at, at_server, counts_forward, goes_forward, subflows_of
from mprun.metrics.evidence import Evidence
from mprun.metrics.limitation import ConnectionState, Sample, SubflowState, find_limit
from mprun.metrics.readings import Readings, SummaryMetrics
from mprun.metrics.series import FlowConnections
from mprun.model.intent import AddressedFlow, FlowPath
from mprun.workloads.tool import Result

if TYPE_CHECKING:
    import polars

# The first window of TCP (RFC 6928).
FIRST_WINDOW_BYTES = 14_600
# Headers of a packet with all options that a transport uses.
MOST_HEADERS_BYTES = 100
# The smallest growth of a window in a round trip of slow start, from the smallest first window (RFC 9260 7.2.1).
GROWTH, FIRST_BYTES = 1.5, 4380
# Flows of these tools leave nearly the whole rate to other flows.
_LIGHT = ("ping",)
_OF_SOCKETS = (
    *("snd_cwnd_packets", "unacked_packets", "notsent_bytes", "snd_wnd_bytes", "last_ack_recv_ms"),
    *("bytes_sent", "bytes_retransmitted", "bytes_acked"),
)


def explain_shortfall(
    flow: AddressedFlow,
    connections: FlowConnections | None,
    results: Mapping[str, Result],
    tables: Mapping[str, polars.DataFrame],
    metrics: SummaryMetrics,
    evidence: Evidence,
) -> Readings:
    """Explain why a flow got less than its best path carries: a warning if a cause is known, else a note.

    connections: of the flow, if they are known. tables: the samples.
    """
    is_several = flow.protocol == "mptcp" and len(flow.paths) > 1
    efficiency = metrics.get(f"{flow.name}.efficiency.best")
    if not is_several:
        found = _compare_third(flow, connections, results, evidence)
    elif connections is None or efficiency is None or "sockets" not in tables:
        return Readings()
    else:
        found = _compare_whole(connections, efficiency.value, results[flow.name], evidence)
    if found is None:
        return Readings()
    best = [used.path.name for used in found.best]
    limits = [(find_limit(sample, best), sample.connection) for sample in _find_samples(found, connections, tables)]
    known = [(limit, state) for limit, state in limits if limit is not None]
    found = replace(found, drops=_count_drops(tables), limits=known)
    cause, is_warning = find_cause(found)
    if is_warning:
        return Readings(warnings=(f"{found.told}: {cause}",))
    # a group may have hundreds of members, so they get no notes, and a short flow none of which nothing is expected
    few = flow.protocol != "sctp" and len(limits) < LEAST_SAMPLES and not evidence.expects(flow.name)
    # a file that asks for losses on the only path explains itself
    is_plain = not is_several and found.best[0].is_disturbed
    if flow.group is not None or few or is_plain or not found.is_unusual:
        return Readings()
    return Readings(notes=(f"{found.told}: {cause}{tell_headers(found.mtu)}",))


def _compare_whole(one: FlowConnections, efficiency: float, result: Result, evidence: Evidence) -> Shortfall | None:
    """Compare a flow over several paths with the best of them, in all its time."""
    flow, is_forward = one.flow, counts_forward(one.flow, goes_forward(subflows_of(one.connections)))
    paths = _find_paths(flow, flow.paths, is_forward, one, evidence)
    if efficiency >= GOOD or not paths:
        return None
    told = f"{flow.name}: {efficiency:.1%} of its best path's rate".replace("%", " %")
    found = Shortfall(flow, told, is_forward, paths, efficiency, one.counted_ns, result, evidence)
    used, (began_ns, ended_ns) = found.best[0], one.counted_ns
    usual = find_usual(found.mtu, used.bdp_bytes, used.path.rtt_ns / max(1, ended_ns - began_ns))
    return replace(found, is_unusual=efficiency < GOOD * usual)


def _compare_third(
    flow: AddressedFlow, one: FlowConnections | None, results: Mapping[str, Result], evidence: Evidence
) -> Shortfall | None:
    """Compare the last third of a flow with its path, or that of an association with the best of its paths."""
    intent, options = evidence.intent, flow.options
    result = results.get(flow.name, Result())
    mine = result.portions.get("goodput", ())
    is_greedy = flow.protocol in ("tcp", "mptcp", "sctp") and "rate_bit_per_s" not in options
    paths = flow.paths if options.get("cmt", "off") != "off" else flow.paths[:1]
    touched = {change.link for change in intent.changes} | {fault.link for fault in intent.faults}
    if not mine or not is_greedy or options.get("bidirectional"):
        return None
    if any(path.ways > 1 or path.middleboxes or touched & {*path.links} for path in paths):
        return None
    is_forward = not options.get("reverse")
    sharing = _find_paths(flow, paths, is_forward, one, evidence)
    used = max(sharing, key=lambda path: path.rate, default=None)
    begin_ns = min(one.begin_ns for one in mine)
    end_ns = min(max(one.end_ns for one in mine), begin_ns + (flow.duration_ns or math.inf))
    third_ns = (end_ns - begin_ns) / 3
    late_ns = end_ns - third_ns
    if used is None or not used.path.rtt_ns or max(one.end_ns - one.begin_ns for one in mine) > third_ns:
        return None
    rounds = math.log(max(1.0, used.bdp_bytes / FIRST_BYTES), GROWTH)
    got = rate_of(mine, late_ns, end_ns)
    told = f"{flow.name}: {got / 1e6:.3g} of {used.rate / 1e6:.4g} Mbit/s on {used.path.name} in its last third"
    span_ns = late_ns, end_ns
    found = Shortfall(flow, told, is_forward, [used], got / used.rate, span_ns, result, evidence, sharing=sharing)
    least = GOOD * used.rate * (found.mtu - MOST_HEADERS_BYTES) / (found.mtu + MOST_HEADERS_BYTES)
    if begin_ns + rounds * used.path.rtt_ns > late_ns or got + _rate_of_others(found, results, evidence) >= least:
        return None
    return found


def _find_paths(
    flow: AddressedFlow, paths: Sequence[FlowPath], is_forward: bool, one: FlowConnections | None, evidence: Evidence
) -> list[UsedPath]:
    """Return paths in the direction of the data; empty if one of them has no rate, or a rate that changes."""
    hosts = evidence.observation.hosts
    ends = [event for host in (flow.source, flow.destination) for event in hosts[host].events] if one else []
    marked = {event.addresses for event in ends if event.backup}
    found = []
    for path in paths:
        capacity = find_capacity(evidence.intent, replace(flow, paths=(path,)), is_forward)
        if capacity is None:
            return []
        there, back = (tuple(cross(evidence.intent, flow, path, way)) for way in (is_forward, not is_forward))
        used = UsedPath(path, capacity.best, there, back)
        if one is not None:
            mine = [subflow for subflow in subflows_of(one.connections) if subflow.path == path.name]
            backups = [
                not marked.isdisjoint((subflow.addresses, at_server(subflow.addresses, flow.paths))) for subflow in mine
            ]
            resent = sum((subflow.client if is_forward else subflow.server).resent for subflow in mine)
            used = replace(used, resent=resent, is_backup=all(backups) if backups else None)
        found.append(used)
    return found


def find_usual(mtu: int, bdp_bytes: float, round_trip: float) -> float:
    """Return the efficiency that headers, handshake and slow start leave. round_trip: a share of the flow's time."""
    rounds = 1 + math.log2(max(1.0, bdp_bytes / FIRST_WINDOW_BYTES))
    return (1 - share_of_headers(mtu)) * max(0.0, 1 - rounds * round_trip)


def _rate_of_others(found: Shortfall, results: Mapping[str, Result], evidence: Evidence) -> float:
    """Return the payload of other flows on links of the path, in bit/s; infinite if it is not known."""
    links, (begin_ns, end_ns), total = set(found.best[0].path.links), found.span_ns, 0.0
    for other in evidence.intent.traffic:
        if other.name == found.flow.name or other.tool in _LIGHT or other.name not in results:
            continue
        if links.isdisjoint(link for path in other.paths for link in path.links):
            continue
        zero_ns, ended = evidence.agent.zero_ns or 0, evidence.agent.ended("flow", other.name).values()
        if not any(one.started_ns - zero_ns < end_ns and one.ended_ns - zero_ns > begin_ns for one in ended):
            continue
        portions = [one for some in results[other.name].portions.values() for one in some]
        total += rate_of(portions, begin_ns, end_ns) if portions else math.inf
    return total


def _count_drops(tables: Mapping[str, polars.DataFrame]) -> Counter[tuple[str, str]]:
    """Return the packets that the queue of each direction of a link dropped."""
    drops: Counter[tuple[str, str]] = Counter()
    if "queues" in tables:
        for link, direction, packets in tables["queues"].select("link", "direction", "drops_packets").iter_rows():
            drops[link, direction] = max(drops[link, direction], packets or 0)
    return drops


def _find_samples(
    found: Shortfall, one: FlowConnections | None, tables: Mapping[str, polars.DataFrame]
) -> Iterator[Sample]:
    """Yield each sample of a sending connection of the flow together with its subflows."""
    flow, sender, (begin_ns, end_ns) = found.flow, found.hosts[0], found.span_ns
    if one is None or flow.protocol == "sctp" or "sockets" not in tables:
        return
    mine = tables["sockets"].filter(flow=flow.name, host=sender).sort("time_ns", maintain_order=True)
    moments: dict[tuple[int, int], list[tuple[str | None, list[int]]]] = {}
    for number, at_ns, path, *values in mine.select("connection", "time_ns", "path", *_OF_SOCKETS).iter_rows():
        # older kernels do not report all values
        if begin_ns <= at_ns < end_ns and None not in values:
            moments.setdefault((number, at_ns), []).append((path, values))
    for number, connection in enumerate(one.connections):
        # a bidirectional flow has a connection for each direction
        if flow.options.get("bidirectional") and not goes_forward(connection.subflows):
            continue
        ends = sender, addresses_at(connection, flow.paths, found.is_forward)
        for held in found.evidence.observation.states.get(ends, ()):
            if rows := moments.get((number, held.at_ns)):
                yield Sample(held, [SubflowState(path, *values[:5]) for path, values in rows])
    for (_, at_ns), rows in moments.items() if flow.protocol == "tcp" else ():
        for path, (cwnd, unacked, unsent, window, age_ms, sent, again, acked) in rows:
            held = ConnectionState(at_ns, None, 0, sent - again - acked, unsent)
            yield Sample(held, [SubflowState(path, cwnd, unacked, 0, window, age_ms)])
