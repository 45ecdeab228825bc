# SPDX-License-Identifier: Apache-2.0
"""The capacity of a flow's paths, from the rates of their links."""

from __future__ import annotations

from dataclasses import dataclass

from mprun.intent import Intent, PlacedFlow


@dataclass(frozen=True)
class Capacity:
    """Rates on the wire, bit/s: of all paths together, a bottleneck that several share counted once; of the best.

    best_paths: the names of the paths that have the best rate.
    """

    total: float
    best: float
    best_paths: tuple[str, ...]


def find_capacity(intent: Intent, flow: PlacedFlow, is_forward: bool) -> Capacity | None:
    """Return what a flow's paths carry in one direction; None where a path has no rate, or one that changes.

    is_forward: from the flow's source to its destination.
    """
    links = {link.name: link for link in intent.links}
    changing = {change.link for change in intent.changes}
    slowest: dict[tuple[str, str], float] = {}
    of_path: dict[str, float] = {}
    for path in flow.paths:
        rates = []
        node = flow.source
        for name in path.links:
            link = links[name]
            ends = [end.node for end in link.ends]
            along = node == ends[0]
            node = ends[1] if along else ends[0]
            direction = "forward" if along == is_forward else "reverse"
            rate = (link.forward if direction == "forward" else link.reverse).rate_bit_per_s
            if rate is not None and name in changing:
                return None
            if rate is not None:
                rates.append((rate, (name, direction)))
        if not rates:
            return None
        rate, bottleneck = min(rates)
        slowest[bottleneck] = of_path[path.name] = rate
    if not slowest:
        return None
    best = max(slowest.values())
    return Capacity(sum(slowest.values()), best, tuple(name for name, rate in of_path.items() if rate == best))
