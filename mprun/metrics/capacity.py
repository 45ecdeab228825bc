# SPDX-License-Identifier: Apache-2.0
"""The capacity of a flow's paths, from the rates of their links."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mprun.model.frozen import Frozen
from mprun.model.intent import AddressedFlow, FlowPath, Intent
from mprun.model.network import LinkWay, walk

# Of many cuts between the ends of many paths, this number of the least ones is followed.
MOST_CUTS = 100
# A direction of a link, by its name.
_Way = tuple[str, str]


class Capacity(Frozen):
    """Rates on the wire, in bit/s.

    - total: of all paths together. A link that several paths share counts once.
    - best: of the fastest path.
    """

    total: float
    best: float


def find_capacity(intent: Intent, flow: AddressedFlow, is_forward: bool) -> Capacity | None:
    """Return what a flow's paths carry from its source, or back; None if a path has no rate, or one that changes."""
    changing = {change.link for change in intent.changes}
    of_path: dict[str, dict[_Way, int]] = {}
    for path in flow.paths:
        rates: dict[_Way, int] = {}
        for one in cross(intent, flow, path, is_forward):
            rate = one.way.rate_bit_per_s
            if rate is not None and one.link.name in changing:
                return None
            if rate is not None:
                rates[one.link.name, one.direction] = rate
        if not rates:
            return None
        of_path[path.name] = rates
    if not of_path:
        return None
    return Capacity(_find_cut(of_path), max(min(rates.values()) for rates in of_path.values()))


def _find_cut(of_path: Mapping[str, Mapping[_Way, int]]) -> int:
    """Return the least sum of the rates of links such that each path crosses one of them.

    It is a bound: three paths that share three links in pairs carry three quarters of it.
    """
    users: dict[_Way, frozenset[str]] = {}
    for name, rates in of_path.items():
        users |= {way: users.get(way, frozenset()) | {name} for way in rates}
    cuts: dict[frozenset[str], int] = {frozenset(): 0}
    for name, rates in of_path.items():
        grown: dict[frozenset[str], int] = {}
        for cut, total in cuts.items():
            wider = [(cut | users[way], total + rate) for way, rate in rates.items()]
            for one, sum_of_one in [(cut, total)] if name in cut else wider:
                grown[one] = min(grown.get(one, sum_of_one), sum_of_one)
        cuts = dict(sorted(grown.items(), key=lambda item: item[1])[:MOST_CUTS])
    return min(cuts.values())


def cross(intent: Intent, flow: AddressedFlow, path: FlowPath, is_forward: bool) -> Iterator[LinkWay]:
    """Yield the directions of links that packets cross on a path from its source, or (not is_forward) back to it."""
    for there in walk(intent.links, flow.source, path.links):
        forward, reverse = there.link.ways
        yield forward if (there.direction == "forward") == is_forward else reverse
