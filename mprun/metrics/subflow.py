# SPDX-License-Identifier: Apache-2.0
"""Subflows: how many a flow's connections have, and why some are missing. Pure."""

from __future__ import annotations

import errno
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from mprun.metrics.capacity import cross
from mprun.metrics.connection import JOIN_ROUND_TRIPS, Connection, Subflow, at_server, find_brief, find_refused
from mprun.metrics.diagnosis import count_fallbacks, explain_missing_subflows, explain_plain_tcp, has_fallen_back
from mprun.metrics.evidence import Evidence
from mprun.metrics.interference import on_paths
from mprun.metrics.observation import Tuple4
from mprun.metrics.readings import Readings, join, measured
from mprun.model.intent import AddressedFlow

# A host's counter of the connections for which it sent MP_CAPABLE.
MPTCP_OPENED = "MPTcpExtMPCapableSYNTX"


def count_subflows(flow: AddressedFlow, connections: Sequence[Connection], evidence: Evidence) -> Readings:
    """Return the subflows of the data connection with the fewest. Fewer than the endpoints allow are a failure."""
    if not connections:
        texts = (f"{flow.name}: the kernel reported nothing about its connection",)
        return Readings(failures=texts) if flow.protocol == "mptcp" else Readings(warnings=texts)
    if flow.protocol != "mptcp":
        return Readings()
    client, server = (evidence.agent.counters_of(host) for host in (flow.source, flow.destination))
    has_fallen = count_fallbacks(client, server) > 0
    # no later than its program, whether the kernel reported its end or not
    end_ns = max((one.ended_ns for one in evidence.agent.ended("flow", flow.name).values()), default=0)
    end_ns -= evidence.agent.zero_ns or 0
    whole = [
        one
        if one.lived_ns is not None or end_ns <= 0
        else replace(one, lived_ns=end_ns - one.subflows[0].established_ns)
        for one in connections
        if one.is_known or not has_fallen
    ]
    brief = frozenset(find_brief(whole, max((path.rtt_ns for path in flow.paths), default=0), flow.subflows))
    lasting = [one for one in whole if one not in brief]
    is_plain = not whole or any(one.token is None for one in connections)
    judged = _judge_count(flow, is_plain, lasting, evidence)
    uncounted = Readings(warnings=tuple(_tell_uncounted(flow, connections, whole, brief)))
    others = *_tell_astray(flow, connections), *_tell_reset(flow, connections, evidence)
    return join((uncounted, judged, Readings(warnings=others)))


def tell_unopened(flow: AddressedFlow, evidence: Evidence) -> Readings:
    """Warn of a flow of MPTCP whose connections are not looked up, and on whose host nothing opened MPTCP."""
    host = str(flow.options.get("on", flow.source))
    counters = evidence.agent.counters.get(host)
    if flow.protocol != "mptcp" or counters is None or counters.get(MPTCP_OPENED):
        return Readings()
    told = f"{flow.name}: asked for MPTCP, and no MPTCP connection was opened on '{host}'"
    return Readings(warnings=(f"{told}: its command opened plain TCP, or none",))


def tell_refused(flow: AddressedFlow, evidence: Evidence) -> Readings:
    """Warn of a command without a server whose host could not open a TCP connection, even if its program ended well."""
    host = str(flow.options.get("on", flow.source))
    counters = evidence.agent.counters_of(host)
    failed = counters.get("TcpAttemptFails", 0)
    flows = [one for one in evidence.intent.traffic if host in (one.source, one.destination, one.options.get("on"))]
    # the kernel counts for a whole host, and a connection that is tried again may succeed
    is_own = len(flows) == 1 and failed == counters.get("TcpActiveOpens")
    if flow.tool != "exec" or flow.options.get("server") or not failed or not is_own:
        return Readings()
    told = f"{failed} TCP connection{'s' * (failed > 1)} of '{host}' got no answer or a reset (TcpAttemptFails)"
    return Readings(warnings=(f"{flow.name}: {told}: the entry has no 'server' that listens on '{flow.destination}'",))


def _tell_uncounted(
    flow: AddressedFlow, connections: Sequence[Connection], whole: Sequence[Connection], brief: Collection[Connection]
) -> Iterator[str]:
    """Warn of connections that do not count. whole: without fallback; brief: ended before a join was possible."""
    if 0 < len(whole) < len(connections):
        yield (
            f"{flow.name}: {len(connections) - len(whole)} of {len(connections)} connections continued as TCP "
            "after their handshake (fallback, RFC 8684 3.7): their subflows are not counted"
        )
    if brief:
        longest_ns = max(one.lived_ns or 0 for one in brief)
        yield (
            f"{flow.name}: {len(brief)} of {len(connections)} connections ended {longest_ns / 1e6:.0f} ms after their "
            f"handshake at most, before all {flow.subflows} subflows were established: they are not counted"
        )


def _judge_count(flow: AddressedFlow, is_plain: bool, lasting: Sequence[Connection], evidence: Evidence) -> Readings:
    """Count the subflows of connections that lasted, and explain missing ones. is_plain: a connection is plain TCP."""
    client, server = (evidence.agent.counters_of(host) for host in (flow.source, flow.destination))
    cut = find_cut(flow, lasting, evidence)
    got = min((sum(one not in cut for one in connection.subflows) for connection in lasting), default=0)
    metrics = {f"{flow.name}.subflows": measured(got, "count")} if lasting else {}
    interference = on_paths(flow, evidence.agent.filtered)
    if is_plain or has_fallen_back(client, server):
        cause = explain_plain_tcp(client, server, interference)
        return Readings(metrics, failures=(f"{flow.name}: asked for MPTCP and got TCP: {cause}",))
    if cut and got < flow.subflows:
        causes = "; ".join(dict.fromkeys(cut.values()))
        return Readings(metrics, failures=(f"{flow.name}: {got} of {flow.subflows} subflows: {causes}",))
    if lasting and got < flow.subflows:
        accepted = evidence.intent.mptcp_of(flow.source).add_addr_accepted
        refused = find_refused(evidence.observation.hosts[flow.source], lasting)
        cause = explain_missing_subflows(client, server, flow.subflows, got, accepted, interference, refused)
        return Readings(metrics, failures=(f"{flow.name}: {got} of {flow.subflows} subflows: {cause}",))
    return Readings(metrics)


def find_cut(flow: AddressedFlow, connections: Sequence[Connection], evidence: Evidence) -> Mapping[Subflow, str]:
    """Return the additional subflows that were reset before they carried payload, each with a sentence about it.

    A reset at the end of its connection, or on a path that changes, does not count.
    """
    resets = _find_resets(flow.source, evidence) | _find_resets(flow.destination, evidence)
    changing = {change.link for change in evidence.intent.changes}
    paths = {path.name: path for path in flow.paths if changing.isdisjoint(path.links)}
    cut = {}
    for connection in connections:
        end_ns = connection.subflows[0].established_ns + (connection.lived_ns or 0)
        for one in connection.subflows[1:]:
            ends = one.addresses, at_server(one.addresses, flow.paths)
            at_ns = min((resets[end] for end in ends if end in resets), default=end_ns)
            path = paths.get(one.path or "")
            if path is None or not one.is_sampled or one.bytes_acked or one.bytes_received:
                continue
            if at_ns + JOIN_ROUND_TRIPS * path.rtt_ns < end_ns:
                after_ns = at_ns - one.established_ns
                cut[one] = f"that over '{path.name}' was reset {after_ns / 1e6:.0f} ms after its handshake"
                both = (each.way for forward in (True, False) for each in cross(evidence.intent, flow, path, forward))
                if any(way.jitter or way.reorder for way in both):
                    cut[one] += ": Linux does so if the first data overtakes the last packet of the handshake"
    return cut


def _tell_astray(flow: AddressedFlow, connections: Sequence[Connection]) -> Iterator[str]:
    """Warn of subflows between addresses that no path joins."""
    astray = {(one.addresses[0], one.addresses[2]) for each in connections for one in each.subflows if not one.path}
    where = "that goes where the routes of both hosts send it, and no path's share has its bytes"
    for one, other in sorted(astray):
        yield f"{flow.name}: no path joins {one} and {other}, between which it had a subflow: {where}"


def find_reset(flow: AddressedFlow, connections: Sequence[Connection], evidence: Evidence) -> list[tuple[Subflow, int]]:
    """Return initial subflows that were reset at both ends, and when, ns. Linux clears their counts then."""
    at_client, at_peer = (_find_resets(host, evidence) for host in (flow.source, flow.destination))
    initial = [one.subflows[0] for one in connections]
    return [
        (first, at_client[first.addresses])
        for first in initial
        if first.addresses in at_client and at_server(first.addresses, flow.paths) in at_peer
    ]


def _find_resets(host: str, evidence: Evidence) -> dict[Tuple4, int]:
    """Return the times at which a host saw resets of subflows, by the addresses of the subflow, ns."""
    events = evidence.observation.hosts[host].events
    return {event.addresses: event.at_ns for event in events if event.error == errno.ECONNRESET}


def _tell_reset(flow: AddressedFlow, connections: Sequence[Connection], evidence: Evidence) -> Iterator[str]:
    for first, at_ns in find_reset(flow, connections, evidence):
        lost = "lack what it carried after its last sample" if first.is_sampled else "are unknown"
        yield (
            f"{flow.name}: its initial subflow, over '{first.path}', was reset at {at_ns / 1e9:.3f} s, which clears "
            f"its counts: `share` and `carried` {lost}. Remedy: 'sample: {{sockets: 10ms}}'"
        )


def count_reinjected(flow: AddressedFlow, evidence: Evidence) -> Readings:
    """Return the count of data that was sent again over another path.

    The kernel counts for a whole host. So the count is that of a flow only if no other MPTCP flow uses its hosts.
    """
    ends = {flow.source, flow.destination}
    flows = [one for one in evidence.intent.traffic if one.protocol == "mptcp"]
    counters = evidence.agent.counters
    if sum(not ends.isdisjoint((one.source, one.destination)) for one in flows) == 1 and ends <= counters.keys():
        total = sum(counters[host].get("MPTcpExtMPTCPRetrans", 0) for host in ends)
        return Readings({f"{flow.name}.reinjected": measured(total, "count")})
    return Readings()
