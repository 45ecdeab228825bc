# SPDX-License-Identifier: Apache-2.0
"""Doubts about hosts: a slow machine, an overloaded kernel, cut logs, lost packets, and links in real time. Pure.

The links of the virtual engine's kernel send bit by bit. `tell_real_links` tells where a run in real time differs: it
has the host kernel's tbf, whose bucket holds one frame (tc-tbf(8)), and only netem's delay stage takes a packet from
its socket's account (tc-netem(8), LIMITATIONS).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mprun.metrics.evidence import Evidence
from mprun.metrics.interference import NONE, Interference
from mprun.metrics.observation import Observation
from mprun.metrics.path_use import warn_of_ways
from mprun.metrics.readings import Readings
from mprun.metrics.subflow import MPTCP_OPENED
from mprun.metrics.trace_event_tables import warn_of_lost_events
from mprun.model.agent_report import AgentReport, MachineLoad
from mprun.model.capabilities import NO_COMPUTING
from mprun.model.intent import Intent
from mprun.model.network import Link
from mprun.model.path import used_paths
from mprun.model.span import find_spans
from mprun.model.spec import LinkChange, Mptcp
from mprun.model.units import TIME
from mprun.safety.text import name_some
from mprun.workloads.own_result import own_metrics
from mprun.workloads.tool import Result

# Above these values, a run in real time gets a warning. A timer that is 10 ms late delays what a link sends in this
# time. A program that waits for a CPU may be one that sends or receives.
LATE_NS = 10_000_000
MOST_STEAL = 0.02
MOST_PRESSURE = 0.3
# The largest number of links or flows that a note names.
MOST_NAMES = 3
# A host's counters of packets that it did not deliver (nstat(8)), and their meaning. Full sockets have a warning of
# their own.
HOST_LOSSES = {
    **dict.fromkeys(("IpReasmFails", "Ip6ReasmFails"), "whose fragments did not all arrive"),
    **dict.fromkeys(("IpOutNoRoutes", "Ip6OutNoRoutes", "Ip6InNoRoutes"), "without a route"),
    **dict.fromkeys(("UdpNoPorts", "Udp6NoPorts"), "to a port where no program listens"),
    **dict.fromkeys(("IpInDiscards", "Ip6InDiscards", "IpOutDiscards", "Ip6OutDiscards"), "discarded"),
}


def find_doubts(evidence: Evidence, results: Mapping[str, Result]) -> Readings:
    """Return what a reader must know of the machine, the kernels and the network of a run."""
    intent, agent, observation = evidence.intent, evidence.agent, evidence.observation
    return Readings(
        warnings=(
            *(
                f"logs/{log} is cut off: its program printed {printed_bytes / 1e6:.0f} MB"
                for ended in agent.processes.values()
                for log, printed_bytes in ended.cut.items()
            ),
            *_doubt_machine(agent.host),
            *_warn_of_untaken(intent, observation),
            *_warn_of_missing_packets(intent, agent, observation),
            *account_for_losses(results, intent, agent, observation),
            *_warn_of_late_changes(intent, agent),
            *(
                f"{name}: more sockets closed at once than the kernel could report: some counts are missing"
                for name, host in observation.hosts.items()
                if host.has_lost_sockets
            ),
            *warn_of_ways(intent),
            *_warn_of_idle_settings(evidence),
            *_warn_of_missing_sctp(evidence),
            *_warn_of_counters(agent),
            *warn_of_lost_events(observation.trace),
        ),
        notes=(
            *_tell_idle_changes(intent),
            *(_tell_no_computing(intent, results) if evidence.is_simulated else tell_real_links(intent)),
        ),
    )


def _warn_of_idle_settings(evidence: Evidence) -> Iterator[str]:
    """Warn of a command over TCP between hosts with settings of MPTCP, if no host opened an MPTCP connection.

    If a parameter chooses TCP, other runs of the files may be over MPTCP.
    """
    counters = evidence.agent.counters
    flow = next((one for one in evidence.intent.traffic if (one.tool, one.protocol) == ("exec", "tcp")), None)
    if flow is None or "tcp" in evidence.parameters.values():
        return
    hosts = [name for name in (flow.source, flow.destination) if evidence.intent.mptcp_of(name) != Mptcp()]
    if hosts and {*hosts} <= counters.keys() and not any(one.get(MPTCP_OPENED) for one in counters.values()):
        told = f"'mptcp' of {' and '.join(hosts)} had no effect, as no MPTCP connection was opened"
        yield f"{flow.name}: {told}: write 'protocol: mptcp'"


def _warn_of_missing_sctp(evidence: Evidence) -> Iterator[str]:
    """Warn of a command over SCTP whose hosts had no SCTP packet. The experiment kernel counts all of them."""
    counters = evidence.agent.counters
    for flow in evidence.intent.traffic:
        counted = [name for host in (flow.source, flow.destination) for name in counters.get(host, {})]
        is_asked = (flow.tool, flow.protocol) == ("exec", "sctp") and evidence.is_simulated and evidence.agent.complete
        if is_asked and not any(name.startswith("Sctp") for name in counted):
            used = "tcp" if "TcpActiveOpens" in counted else "udp"
            told = f"its programs sent no SCTP packet: write 'protocol: {used}', if they use {used.upper()}"
            yield f"{flow.name}: {told}, or open their sockets with IPPROTO_SCTP"


def _tell_idle_changes(intent: Intent) -> Iterator[str]:
    """Yield the links that change and that no flow crosses."""
    flows = [(one.name, used_paths(one.protocol, one.paths)) for one in intent.traffic]
    crossed = {link for _, paths in flows for path in paths for link in path.links}
    idle = dict.fromkeys(one.link for one in intent.changes if isinstance(one, LinkChange) and one.link not in crossed)
    # a program may use any path, and one of equal ways is chosen for each connection
    is_known = all(one.tool != "exec" and all(path.ways < 2 for path in one.paths) for one in intent.traffic)
    if idle and flows and is_known:
        over = name_some([f"{name} is over {path.name}" for name, paths in flows for path in paths], MOST_NAMES)
        yield f"events change {name_some([*idle], MOST_NAMES)}, which no flow crosses: {over}"


def _tell_no_computing(intent: Intent, results: Mapping[str, Result]) -> Iterator[str]:
    """Yield the times of 0 that own programs measured, probably those of a computation."""
    for flow in intent.traffic:
        values = results[flow.name].values if flow.name in results else {}
        for name, own in own_metrics(flow).items():
            if own.unit == "time" and values.get(name) == 0:
                yield f"{flow.name}.{name} is 0: {NO_COMPUTING}"


def _doubt_machine(load: MachineLoad | None) -> Iterator[str]:
    """Yield why the machine may have limited a run in real time more than the network."""
    if load is None:
        return
    reasons = []
    if load.late_most_ns > LATE_NS:
        reasons.append(f"a timer came {load.late_most_ns / 1e6:.0f} ms late")
    if load.steal > MOST_STEAL:
        reasons.append(f"its hypervisor took {load.steal:.0%} of the time")
    if (load.cpu_pressure or 0) > MOST_PRESSURE:
        reasons.append(f"some program waited for a CPU {load.cpu_pressure:.0%} of the time")
    if reasons:
        yield f"this machine could not keep up: {'; '.join(reasons)}"


def _warn_of_untaken(intent: Intent, observation: Observation) -> Iterator[str]:
    """Warn of losses that no queue counts and no file asks for. A link that goes down loses packets as asked."""
    cut = {change.link for change in intent.changes if isinstance(change, LinkChange) and not change.is_up}
    for (link, direction), packets in sorted(observation.counters.find_untaken().items()):
        if link not in cut:
            yield (
                f"link '{link}' {direction}: {packets} packets lost outside its queue: the kernel had too many to take "
                "in (net.core.netdev_max_backlog)"
            )


def _warn_of_missing_packets(intent: Intent, agent: AgentReport, observation: Observation) -> Iterator[str]:
    """Warn of faults whose packet never arrived, with the number of packets that did, of any kind."""
    if not agent.complete:
        return
    seen = observation.counters.interfaces.frame()
    for node, link in dict.fromkeys((fault.node, fault.link) for fault in intent.faults):
        asked = [fault.packet for fault in intent.faults if (fault.node, fault.link) == (node, link) and fault.packet]
        interfaces = [end.name for one in intent.links if one.name == link for end in one.ends if end.node == node]
        come = sum(agent.faults.get(node, {}).get(name, 0) for name in interfaces)
        if come < len(asked):
            few = f"{come} of {len(asked)} faults" if len(asked) > 1 else "no fault"
            arrived: Any = seen.filter(node=node, link=link)["rx_packets"].max()
            only = f"only {arrived or 0} packets arrived, with those of ICMP and ARP, which do not count"
            yield f"faults: {few} at '{node}' from link '{link}': packet {max(asked)} never arrived; {only}"


def account_for_losses(
    results: Mapping[str, Result], intent: Intent, agent: AgentReport, observation: Observation
) -> Iterator[str]:
    """Yield where the packets of flows were lost that did not arrive and that no link dropped.

    The counts of links and hosts include other flows, so they can be larger than the losses of these flows. If a link
    corrupts packets, nothing is reported, because no counter has a packet with a corrupt Ethernet address.
    """
    missing = {name: result.lost_packets for name, result in results.items() if result.lost_packets}
    counters = observation.counters
    asked = sum(packets for come in agent.faults.values() for packets in come.values())
    at_sockets = sum(count_full_sockets(counted) for counted in agent.counters.values())
    told = sum(counters.lost.values()) + sum(counters.find_untaken().values()) + asked + at_sockets
    rest = sum(missing.values()) - told
    changes = [change for change in intent.changes if isinstance(change, LinkChange)]
    states: list[Link | LinkChange] = [*intent.links, *changes]
    if rest <= 0 or not agent.complete or any(one.forward.corrupt or one.reverse.corrupt for one in states):
        return
    held = sum(counters.held.values())
    parts = [f"{held} still under way at the end"] if held else []
    rest -= held
    for name, counted in agent.counters.items():
        for meaning in dict.fromkeys(HOST_LOSSES.values()):
            packets = sum(value for counter, value in counted.items() if HOST_LOSSES.get(counter) == meaning)
            if packets > 0:
                parts.append(f"{packets} {meaning} at '{name}'")
                rest -= packets
    if box := Interference(agent.filtered).blame("firewall.refused", "nat.unsolicited"):
        parts.append(box)
        rest = 0
    if not all(change.is_up for change in changes) and rest > 0:
        parts.append(f"{rest} while a link was down")
        rest = 0
    if rest > 0:
        parts.append(f"{rest} that nothing counts")
    flows = ", ".join(f"{name} ({packets})" for name, packets in missing.items())
    yield f"packets did not arrive that no link dropped: of {flows}: {'; '.join(parts)}"


def _warn_of_late_changes(intent: Intent, agent: AgentReport) -> Iterator[str]:
    """Warn of links and addresses whose changes all came after the last flow, if the files do not tell its end."""
    ends = [one.ended_ns for one in agent.processes.values() if one.role == "flow"]
    is_known = all(span.end_ns is not None for span in find_spans(intent.traffic).values())
    if is_known or not ends or not agent.complete or agent.zero_ns is None:
        return
    end_ns = max(ends) - agent.zero_ns
    first: dict[tuple[str, str], int] = {}
    for change in intent.changes:
        first.setdefault((getattr(change, "host", ""), change.link), change.at_ns)
    for (host, link), at_ns in first.items():
        if at_ns >= end_ns:
            what = f"address of '{host}' on '{link}'" if host else f"link '{link}'"
            yield (
                f"events: no change of {what} had an effect: the first is at {TIME.render(at_ns)}, and the last flow "
                f"ended at {end_ns / 1e9:.3f} s; write an earlier time, or let the flows last longer"
            )


def _warn_of_counters(agent: AgentReport) -> Iterator[str]:
    """Warn of data that a host dropped, and of memory pressure there."""
    interference = Interference(agent.filtered)
    for host, counters in agent.counters.items():
        texts = (
            explain_dropped_data(counters, interference),
            explain_memory_pressure(counters),
            explain_full_sockets(counters),
        )
        yield from (f"{host}: {text}" for text in texts if text)


def explain_dropped_data(counters: Mapping[str, int], interference: Interference = NONE) -> str | None:
    """Explain what a host's MPTCP dropped because it lay beyond the announced window; None if nothing.

    The sender learns of it only by a time-out, and then sends one fragment of its data again.
    """
    if not (dropped := counters.get("MPTcpExtNoDSSInWindow")):
        return None
    some = "1 segment" if dropped == 1 else f"{dropped} segments"
    if culprit := interference.blame("alter.mp_capable"):
        return f"dropped {some}, as it counts data from another key than their sender does: {culprit}"
    return (
        f"dropped {some} that arrived beyond its MPTCP receive window (NoDSSInWindow), each to be sent "
        "again after a time-out: net.ipv4.tcp_rmem may be too small for the sum of the paths' rates times the longest "
        "RTT with full queues (docs/mptcp.md, receive window)"
    )


def explain_memory_pressure(counters: Mapping[str, int]) -> str | None:
    """Explain windows that are small because the kernel lacked memory for TCP; None if it did not."""
    if not counters.get("TcpExtTCPMemoryPressures"):
        return None
    return (
        "TCP came under memory pressure (TCPMemoryPressures): net.ipv4.tcp_mem is too small for the buffers of all "
        "hosts together, and windows were made smaller than the network asks for; give smaller buffers"
    )


def explain_full_sockets(counters: Mapping[str, int]) -> str | None:
    """Explain losses of UDP in the sockets of a host; None if there are none."""
    dropped = count_full_sockets(counters)
    if not dropped:
        return None
    return (
        f"dropped {dropped} UDP packets at full sockets (UdpRcvbufErrors), after all links had carried them: "
        "its programs read too slowly; offer less, or raise net.core.rmem_default"
    )


def count_full_sockets(counters: Mapping[str, int]) -> int:
    """Return the number of UDP packets that a host dropped at full sockets (nstat(8))."""
    return sum(counters.get(f"{name}RcvbufErrors", 0) for name in ("Udp", "Udp6"))


def tell_real_links(intent: Intent) -> Iterator[str]:
    """Yield notes on links that pass a frame early, and on senders that see the queue of their link."""
    limited = [link.name for link in intent.links if link.forward.rate_bit_per_s or link.reverse.rate_bit_per_s]
    if limited:
        yield (
            f"links {name_some(limited, 4)} let a frame pass at once where they are idle, up to a full frame's time "
            "early; the virtual engine sends bit by bit"
        )
    hosts = {node.name for node in intent.nodes if node.kind == "host"}
    seen = [
        f"'{link.name}' from {sender.node}"
        for link in intent.links
        for way, sender in zip((link.forward, link.reverse), link.ends, strict=True)
        if sender.node in hosts and way.rate_bit_per_s and not (way.delay_ns or way.jitter)
    ]
    if seen:
        yield (
            f"links {name_some(seen, 4)} have a rate and no delay: the sender's sockets see their queue, and may hold "
            "packets back; write a delay, or run with --engine virtual"
        )
