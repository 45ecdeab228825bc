# SPDX-License-Identifier: Apache-2.0
"""Losses of flows, compared with the packets that links and hosts count as lost. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mprun.metrics.interference import Interference
from mprun.metrics.observation import Observation
from mprun.model.agent_report import AgentReport
from mprun.model.intent import Intent
from mprun.model.network import Link
from mprun.model.spec import LinkChange
from mprun.workloads.tool import Result

# A host's counters of packets that it did not deliver (nstat(8)), and their meaning. Full sockets have a warning of
# their own.
HOST_LOSSES = {
    **dict.fromkeys(("IpReasmFails", "Ip6ReasmFails"), "whose fragments did not all arrive"),
    **dict.fromkeys(("IpOutNoRoutes", "Ip6OutNoRoutes", "Ip6InNoRoutes"), "without a route"),
    **dict.fromkeys(("UdpNoPorts", "Udp6NoPorts"), "to a port where no program listens"),
    **dict.fromkeys(("IpInDiscards", "Ip6InDiscards", "IpOutDiscards", "Ip6OutDiscards"), "discarded"),
}


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
    told = counters.count_lost() + sum(counters.find_untaken().values()) + asked + at_sockets
    rest = sum(missing.values()) - told
    states: list[Link | LinkChange] = [
        *intent.links,
        *(change for change in intent.changes if isinstance(change, LinkChange)),
    ]
    if rest <= 0 or not agent.complete or any(one.forward.corrupt or one.reverse.corrupt for one in states):
        return
    held = counters.count_held()
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
    if any(isinstance(change, LinkChange) and not change.is_up for change in intent.changes) and rest > 0:
        parts.append(f"{rest} while a link was down")
        rest = 0
    if rest > 0:
        parts.append(f"{rest} that nothing counts")
    flows = ", ".join(f"{name} ({packets})" for name, packets in missing.items())
    yield f"packets did not arrive that no link dropped: of {flows}: {'; '.join(parts)}"


def count_full_sockets(counters: Mapping[str, int]) -> int:
    """Return the number of UDP packets that a host dropped at full sockets (nstat(8))."""
    return sum(counters.get(f"{name}RcvbufErrors", 0) for name in ("Udp", "Udp6"))
