# SPDX-License-Identifier: Apache-2.0
"""Paths: what each carried for a flow, how much of their rates the flow used, and their idle round trips. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from mprun.metrics.capacity import find_capacity
from mprun.metrics.connection import Connection, counts_forward, goes_forward, subflows_of
from mprun.metrics.evidence import Logs
from mprun.metrics.readings import Readings, measured, name_metrics
from mprun.model.agent_report import Ended
from mprun.model.intent import AddressedFlow, Intent
from mprun.model.metric import OF_PATHS, Metrics
from mprun.safety.text import name_some
from mprun.workloads import probe
from mprun.workloads.tool import PathUse

# Probes that share a link are reported if a ping keeps it busy for more than this share of the round trip.
MOST_BUSY_SHARE = 0.01
MOST_NAMES = 4
# Uses of paths by the addresses at their ends.
Uses = Mapping[tuple[str, str], PathUse]


def read_probes(processes: Mapping[str, Ended], logs: Logs, intent: Intent) -> Readings:
    """Return the idle round-trip time of each path, as its probe measured it. Warn of links where probes wait."""
    metrics: dict[str, float] = {}
    for name, ended in processes.items():
        if ended.role == "probe":
            values = probe.read_statistics(logs(name, "out"))
            if "rtt" in values:
                metrics[name.removeprefix("probe.")] = values["rtt"]
    readings = {f"{name}.rtt": measured(rtt_s, "time") for name, rtt_s in metrics.items()}
    return Readings(readings, warnings=tuple(_doubt_probes(metrics, intent)))


def _doubt_probes(rtts_s: Mapping[str, float], intent: Intent) -> Iterator[str]:
    """Yield a warning if probes of several paths wait for each other noticeably on a shaped link: the worst one.

    rtts_s: the round trip by the name of the path. All probes send at the same times.
    """
    paths = {path.name: path for flow in intent.traffic for path in flow.paths if path.name in rtts_s}
    found = []
    for link in intent.links:
        sharing = [path for path in paths.values() if link.name in path.links]
        rates = [way.rate_bit_per_s for way in (link.forward, link.reverse) if way.rate_bit_per_s]
        names = [f"{path.name}.rtt" for path in sharing]
        for path in sharing if len(sharing) > 1 and rates else ():
            bits = 8 * probe.FRAME_BYTES["ipv6" if ":" in path.source else "ipv4"]
            busy_s = sum(bits / rate for rate in rates)
            found.append((busy_s / max(rtts_s[path.name], 1e-9), link.name, busy_s, names))
    share, worst, busy_s, alike = max(found, default=(0.0, "", 0.0, []))
    if share > MOST_BUSY_SHARE:
        others = len({name for part, name, *_ in found if part > MOST_BUSY_SHARE}) - 1
        more = f" (as on {others} other link{'s' if others > 1 else ''})" if others else ""
        yield (
            f"link '{worst}': the probes of several paths meet on it, and the frames of one ping keep it busy for "
            f"{busy_s * 1e3:.3g} ms{more}: {name_some(alike, MOST_NAMES)} hold for pings that meet; "
            "a flow with 'tool: ping' measures a path alone"
        )


def carried(flow: AddressedFlow, connections: Sequence[Connection], began_ns: int) -> Uses:
    """Return what each path carried: the payload of its subflows. began_ns: the flow's begin, from time zero."""
    every = subflows_of(connections)
    is_forward = goes_forward(every)
    uses = {}
    for path in flow.paths:
        subflows = [subflow for subflow in every if subflow.path == path.name]
        senders = [s.client if is_forward else s.server for s in subflows]
        senders = [sender for sender in senders if sender.srtt_us]
        uses[path.ends] = PathUse(
            *path.ends,
            sum(s.bytes_acked for s in subflows),
            sum(s.bytes_received for s in subflows),
            joined_s=min(((s.established_ns - began_ns) / 1e9 for s in subflows), default=None),
            srtt_s=sum(s.srtt_us for s in senders) / len(senders) / 1e6 if senders else None,
            resent=sum(s.resent for s in senders) if senders else None,
            resent_bytes=sum(s.resent_bytes for s in senders) if senders else None,
        )
    return uses


def judge_paths(flow: AddressedFlow, uses: Sequence[PathUse], because: str) -> Readings:
    """Report each path that was not used as asked. because: the middlebox that may have prevented it."""
    names = {path.ends: path.name for path in flow.paths}
    where = [(f"{flow.name}: path {names[use.source, use.destination]}", use) for use in uses]
    return Readings(
        failures=tuple(f"{subject}: {use.failure}{because}" for subject, use in where if use.failure),
        warnings=tuple(f"{subject}: {use.warning}" for subject, use in where if use.warning),
    )


def tell_paths(flow: AddressedFlow, intent: Intent, uses: Uses, metrics: Metrics, goodput: float | None) -> Readings:
    """Return the metrics of each path, and the part of the paths' rates that the flow used.

    `share` is a path's part of the payload of all paths, in the direction with more payload. A tool may have a share
    for each direction. goodput: of the flow; None if its tool does not measure it.
    """
    forward, reverse = (sum(getattr(use, way) for use in uses.values()) for way in ("forward_bytes", "reverse_bytes"))
    named = [(path.name, uses.get(path.ends)) for path in flow.paths]
    told = {path: _facts(use, forward, reverse) for path, use in named if use is not None}
    asked = [metric for metric in (*OF_PATHS, "share.forward", "share.reverse") if metric in metrics]
    values = {f"{metric}.{path}": facts.get(metric) for metric in asked for path, facts in told.items()}
    capacity = find_capacity(intent, flow, counts_forward(flow, forward >= reverse))
    if len(flow.paths) > 1 and goodput is not None and capacity and "efficiency.sum" in metrics:
        values |= {"efficiency.sum": goodput / capacity.total, "efficiency.best": goodput / capacity.best}
    return Readings(name_metrics(flow.name, values, metrics))


def _facts(use: PathUse, forward: int, reverse: int) -> dict[str, float | None]:
    """Return the values of a path by the names of metrics. forward, reverse: the bytes that all paths carried."""
    shares = {"share.forward": (use.forward_bytes, forward), "share.reverse": (use.reverse_bytes, reverse)}
    shares["share"] = shares["share.forward" if forward >= reverse else "share.reverse"]
    return {
        **{metric: part / total for metric, (part, total) in shares.items() if total},
        "carried": use.forward_bytes if forward >= reverse else use.reverse_bytes,
        "joined": use.joined_s,
        "srtt": use.srtt_s,
        "resent": use.resent,
        "resent.bytes": use.resent_bytes,
    }


def warn_of_ways(intent: Intent) -> Iterator[str]:
    """Warn of each path whose flows may differ in delay, because a hash chooses the links for each flow."""
    paths = {path.name: path for flow in intent.traffic for path in flow.paths}
    for name, path in paths.items():
        if path.least_rtt_ns is not None and path.least_rtt_ns != path.rtt_ns:
            least_ms, most_ms = path.least_rtt_ns / 1e6, path.rtt_ns / 1e6
            yield (
                f"path {name}: its flows take {path.ways} ways of {least_ms:g} to {most_ms:g} ms, and {name}.rtt is "
                "that of its pings"
            )
