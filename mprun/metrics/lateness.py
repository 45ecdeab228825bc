# SPDX-License-Identifier: Apache-2.0
"""Late timers in real time, and the times that they explain. Pure.

The delay stages of a path hold a packet until a timer expires. On a slow or loaded machine, timers expire late and
lengthen an idle round trip. The agent measures the lateness of its own timers while it measures the idle paths, and
again while there is traffic.
"""

from __future__ import annotations

from collections.abc import Mapping

from mprun.model.agent_report import MachineLoad
from mprun.model.frozen import Frozen
from mprun.model.intent import FlowPath, Intent
from mprun.model.network import Link
from mprun.model.units import NS_PER_S

# The metric that `spec.metric.OF_PATH` names.
ROUND_TRIP = "rtt"
# The two ends of an exchange. Each waits for a processor, as the agent does when its timer has expired.
ENDS = 2


class Allowance(Frozen):
    """The time by which late timers may lengthen a mean of round trips.

    - timers: the number of timers that one round trip waits for, one after the other.
    - round_trips: the number of measured round trips.
    - late_ns: the lateness of the agent's latest timers, the latest first.
    """

    timers: int
    round_trips: int
    late_ns: tuple[int, ...]

    @property
    def most_s(self) -> float:
        """The allowance in s: the mean if the latest timers had all been those of the round trips.

        All other timers were at most as late as the last one in `late_ns`.
        """
        waited = self.timers * self.round_trips
        worst = self.late_ns[:waited]
        rest = (waited - len(worst)) * worst[-1]
        return (sum(worst) + rest) / self.round_trips / NS_PER_S

    def explain(self, metric: str, value_s: float, maximum_s: float) -> str:
        return (
            f"{metric} is {value_s * 1e3:.3f} ms, above {maximum_s * 1e3:g} ms: each of its packets waits for "
            f"{self.timers} timers, and this machine's came late by up to {self.late_ns[0] / 1e6:.1f} ms, "
            f"which explains {self.most_s * 1e3:.1f} ms"
        )


def find_allowances(intent: Intent, idle: MachineLoad | None) -> Mapping[str, Allowance]:
    """Return the allowance of each path's round trip, by metric. idle: the load before the traffic, in real time."""
    if idle is None or not idle.late_worst_ns:
        return {}
    links = {link.name: link for link in intent.links}
    paths = {path.name: path for flow in intent.traffic for path in flow.paths}
    found = {}
    for name, path in paths.items():
        if timers := _count_timers(path, links):
            found[f"{name}.{ROUND_TRIP}"] = Allowance(timers, intent.probe_pings, idle.late_worst_ns)
    return found


def find_exchange_allowance(intent: Intent, traffic: MachineLoad | None) -> Allowance | None:
    """Return the allowance of a request and its answer over the path with the most delay stages, in real time."""
    if traffic is None or not traffic.late_worst_ns:
        return None
    links = {link.name: link for link in intent.links}
    timers = [_count_timers(path, links) for flow in intent.traffic for path in flow.paths]
    return Allowance(max(timers, default=0) + ENDS, 1, traffic.late_worst_ns)


def _count_timers(path: FlowPath, links: Mapping[str, Link]) -> int:
    """Return the number of delay stages that a packet and its answer pass on a path."""
    ways = [way for link in path.links for way in (links[link].forward, links[link].reverse)]
    return sum(bool(way.delay_ns) for way in ways)
