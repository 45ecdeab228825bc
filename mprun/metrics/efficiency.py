# SPDX-License-Identifier: Apache-2.0
"""Efficiency: how a scheduler used a flow's paths over time, and why a flow got less than its best path gives. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from mprun.metrics.capacity import find_capacity
from mprun.metrics.connection import addresses_at, goes_forward
from mprun.metrics.evidence import Evidence
from mprun.metrics.limitation import GOOD, LimitedFlow, Sample, SubflowState, explain_rate
from mprun.metrics.observation import ENDS, Observation
from mprun.metrics.preference import carry, find_flapping, share_deviations
from mprun.metrics.readings import Readings, measured
from mprun.metrics.series import FlowConnections
from mprun.model.metric import OF_CONNECTIONS
from mprun.model.run_summary import MetricValue

if TYPE_CHECKING:
    import polars


def measure_preference(one: FlowConnections, sockets: polars.DataFrame) -> Readings:
    """Return flapping and share.stdev, of the flow's time without what it omits."""
    flow = one.flow
    began_ns, ended_ns = _find_span(one)
    mine = sockets.filter(flow=flow.name, host=flow.source).sort("time_ns", maintain_order=True)
    columns = ("time_ns", "connection", "path", *ENDS, "bytes_acked" if _is_forward(one) else "bytes_received")
    samples = ((row[0], (row[1], row[2], row[3:-1]), row[-1]) for row in mine.select(columns).iter_rows())
    of_paths = carry(samples, began_ns, ended_ns)
    metrics = {}
    flapping = find_flapping(of_paths)
    if flapping is not None:
        metrics[f"{flow.name}.flapping"] = measured(flapping, OF_CONNECTIONS["flapping"].unit)
    for path, deviation in share_deviations(of_paths, [path.name for path in flow.paths]).items():
        metrics[f"{flow.name}.share.stdev.{path}"] = measured(deviation, OF_CONNECTIONS["share.stdev"].unit)
    return Readings(metrics)


def explain_efficiency(
    one: FlowConnections, sockets: polars.DataFrame, efficiency: MetricValue | None, evidence: Evidence
) -> Readings:
    """Explain why a flow of MPTCP got less than its best path gives: a warning if a cause is known, else a note.

    efficiency: the flow's efficiency.best; None if it has none.
    """
    flow, is_forward = one.flow, _is_forward(one)
    capacity = find_capacity(evidence.intent, flow, is_forward)
    if efficiency is None or efficiency.value >= GOOD or capacity is None:
        return Readings()
    sender, receiver = (flow.source, flow.destination)[:: 1 if is_forward else -1]
    limits = LimitedFlow(
        sender,
        receiver,
        evidence.intent.mptcp_of(sender).scheduler,
        sum(evidence.agent.counters_of(host).get("TcpExtTCPMemoryPressures", 0) for host in (sender, receiver)),
    )
    samples = list(_find_samples(one, sockets, evidence.observation))
    text, is_known = explain_rate(efficiency.value, samples, capacity.best_paths, limits)
    told = f"{flow.name}: {efficiency.value:.1%} of its best path's rate".replace("%", " %")
    if is_known:
        return Readings(warnings=(f"{told}: {text}",))
    # notes on the members of a group, of which there may be hundreds, are not read
    return Readings(notes=(f"{told}: {text}",) if flow.group is None else ())


def _find_span(one: FlowConnections) -> tuple[int, int]:
    """Return the begin and end of the part of a flow that counts, from time zero: without what the flow omits."""
    omit = one.flow.options.get("omit")
    first_ns, last_ns = (omit["start_ns"], omit["end_ns"]) if isinstance(omit, Mapping) else (0, 0)
    began_ns, ended_ns = one.began_ns + first_ns, one.ended_ns - last_ns
    if one.flow.duration_ns is not None:
        ended_ns = min(ended_ns, one.began_ns + one.flow.duration_ns - last_ns)
    return began_ns, ended_ns


def _is_forward(one: FlowConnections) -> bool:
    """Check whether the flow's client sent more than its server did."""
    return goes_forward(subflow for connection in one.connections for subflow in connection.subflows)


def _find_samples(one: FlowConnections, sockets: polars.DataFrame, observation: Observation) -> Iterator[Sample]:
    """Yield each moment at which a sending end of the flow's connections and its subflows were sampled."""
    flow, is_forward = one.flow, _is_forward(one)
    sender = flow.source if is_forward else flow.destination
    began_ns, ended_ns = _find_span(one)
    of_subflow = ("snd_cwnd_packets", "unacked_packets", "notsent_bytes", "snd_wnd_bytes", "last_ack_recv_ms")
    mine = sockets.filter(flow=flow.name, host=sender).sort("time_ns", maintain_order=True)
    moments: dict[tuple[int, int], list[SubflowState]] = {}
    for number, time_ns, path, *values in mine.select("connection", "time_ns", "path", *of_subflow).iter_rows():
        # older kernels do not tell all of it
        if None not in values:
            moments.setdefault((number, time_ns), []).append(SubflowState(path, *values))
    for number, connection in enumerate(one.connections):
        for held in observation.states.get((sender, addresses_at(connection, flow.paths, is_forward)), ()):
            subflows = moments.get((number, held.at_ns))
            if subflows and began_ns <= held.at_ns < ended_ns:
                yield Sample(held, subflows)
