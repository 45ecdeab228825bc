# SPDX-License-Identifier: Apache-2.0
"""The capacity of a flow's paths, from the rates of their links."""

from __future__ import annotations

from collections.abc import Iterator

from mprun.model.frozen import Frozen
from mprun.model.intent import AddressedFlow, FlowPath, Intent
from mprun.model.network import LinkWay, walk


class Capacity(Frozen):
    """Rates on the wire, in bit/s.

    - total: of all paths together. A bottleneck that several paths share counts once.
    - best: of the fastest path.
    - best_paths: the names of the paths with the best rate.
    """

    total: float
    best: float
    best_paths: tuple[str, ...]


def find_capacity(intent: Intent, flow: AddressedFlow, is_forward: bool) -> Capacity | None:
    """Return what a flow's paths carry in one direction; None if a path has no rate, or a rate that changes.

    is_forward: from the flow's source to its destination.
    """
    changing = {change.link for change in intent.changes}
    slowest: dict[tuple[str, str], float] = {}
    of_path: dict[str, float] = {}
    for path in flow.paths:
        rates = []
        for one in cross(intent, flow, path, is_forward):
            rate = one.way.rate_bit_per_s
            if rate is not None and one.link.name in changing:
                return None
            if rate is not None:
                rates.append((rate, (one.link.name, one.direction)))
        if not rates:
            return None
        rate, bottleneck = min(rates)
        slowest[bottleneck] = of_path[path.name] = rate
    if not slowest:
        return None
    best = max(slowest.values())
    return Capacity(sum(slowest.values()), best, tuple(name for name, rate in of_path.items() if rate == best))


def cross(intent: Intent, flow: AddressedFlow, path: FlowPath, is_forward: bool) -> Iterator[LinkWay]:
    """Yield the directions of links that packets cross on a path, from the source's link on.

    is_forward: from the flow's source to its destination.
    """
    for there in walk(intent.links, flow.source, path.links):
        forward, reverse = there.link.ways
        yield forward if (there.direction == "forward") == is_forward else reverse
