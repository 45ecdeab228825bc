# SPDX-License-Identifier: Apache-2.0
"""Decide in which direction a network is drawn, and which of its nodes are left out.

A drawing language places nodes along its edges. So this module only decides which end of a link comes first. It knows
nothing of values or words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise

from mprun.model.frozen import Frozen
from mprun.model.grouping import gather
from mprun.model.path import count_steps, search
from mprun.model.spec import LinkSpec, TopologySpec

# A run of equal nodes is cut if it is this long. This number of nodes is kept at each end.
LONG_RUN = 7
KEPT = 2

EdgeEnds = tuple[str, str]


class Layout(Frozen):
    """The direction of links in a drawing.

    - turned: links whose second end comes first.
    - level: links whose ends are side by side.
    - is_tree: every link leads from one layer to the next, and hosts are the last layer.
    """

    turned: frozenset[str] = frozenset()
    level: frozenset[str] = frozenset()
    is_tree: bool = False

    def ends(self, link: LinkSpec) -> EdgeEnds:
        """Return the first and the second end of a link as drawn."""
        a, b = link.ends
        return (b, a) if link.name in self.turned else (a, b)


def lay_out(topology: TopologySpec) -> Layout:
    """Return the layout of a topology.

    It follows the links' own direction if this distinguishes sources from sinks. In a tree it leads from the top to the
    hosts. Otherwise it leads away from the first host.
    """
    if _has_sources_and_sinks(topology):
        return Layout()
    hosts = [name for name, kind in topology.nodes.items() if kind == "host"]
    heights = _distances(topology, hosts)
    layers = {abs(heights.get(a, 0) - heights.get(b, 0)) for a, b in (link.ends for link in topology.links)}
    if len(hosts) > 2 and max(heights.values()) > 1 and layers == {1}:
        return _away(topology, {name: -height for name, height in heights.items()}, is_tree=True)
    return _away(topology, _distances(topology, hosts[:1] or list(topology.nodes)[:1]), is_tree=False)


def _has_sources_and_sinks(topology: TopologySpec) -> bool:
    """Return True if some hosts are only first ends, some are only second ends, and the links have no cycle."""
    hosts = {name for name, kind in topology.nodes.items() if kind == "host"}
    firsts, seconds = ({link.ends[side] for link in topology.links} & hosts for side in (0, 1))
    if not firsts - seconds or not seconds - firsts:
        return False
    try:
        sort([link.ends for link in topology.links])
    except CycleError:
        return False
    return True


def _distances(topology: TopologySpec, starts: Iterable[str]) -> dict[str, int]:
    """Return the hops to the nearest of `starts`. Unreachable parts are counted from a node of their own, at 0."""
    around = gather((a, (b, link)) for link in topology.links for a, b in (link.ends, link.ends[::-1]))
    distances: dict[str, int] = {}
    for group in (starts, *([name] for name in topology.nodes)):
        fresh = [name for name in group if name not in distances]
        distances |= count_steps(search(fresh, lambda here: around.get(here, ())))
    return distances


def _away(topology: TopologySpec, ranks: Mapping[str, int], is_tree: bool) -> Layout:
    """Return the layout in which links lead from lower to higher ranks."""
    steps = {link.name: ranks[link.ends[1]] - ranks[link.ends[0]] for link in topology.links}
    return Layout(
        turned=frozenset(name for name, step in steps.items() if step < 0),
        level=frozenset(name for name, step in steps.items() if step == 0),
        is_tree=is_tree,
    )


def sort(edges: Sequence[EdgeEnds]) -> list[str]:
    """Return the nodes, each after all nodes that lead to it. Raises CycleError."""
    sorter: TopologicalSorter[str] = TopologicalSorter()
    for tail, head in edges:
        sorter.add(head, tail)
    return list(sorter.static_order())


def longest_way(edges: Sequence[tuple[EdgeEnds, float]]) -> float:
    """Return the largest sum of lengths along a way through the graph, which has no cycle."""
    leading: dict[str, list[tuple[str, float]]] = {}
    for (tail, head), length in edges:
        leading.setdefault(head, []).append((tail, length))
    ways: dict[str, float] = {}
    for node in sort([ends for ends, _ in edges]):
        ways[node] = max((ways[tail] + length for tail, length in leading.get(node, [])), default=0.0)
    return max(ways.values(), default=0.0)


def order_layers(nodes: Iterable[str], edges: Sequence[EdgeEnds]) -> list[tuple[str, ...]]:
    """Return the layers of a tree, from the leaves up. Leaves keep their order; others are above their own leaves."""
    below: dict[str, list[str]] = {name: [] for name in nodes}
    for tail, head in edges:
        below[tail].append(head)
    layer = tuple(name for name, heads in below.items() if not heads)
    layers = []
    while layer:
        layers.append(layer)
        positions = {name: position for position, name in enumerate(layer)}
        middles = {
            name: sum(positions[head] for head in heads) / len(heads)
            for name, heads in below.items()
            if heads and heads[0] in positions
        }
        layer = tuple(sorted(middles, key=lambda name: middles[name]))
    return layers


def find_runs(
    topology: TopologySpec, layout: Layout, is_alike: Callable[[LinkSpec, LinkSpec], bool]
) -> list[tuple[str, ...]]:
    """Return the middles of long chains of equal nodes joined by equal links, in drawing order.

    A chain's nodes have the same kind and are neither hosts nor middleboxes. Each has one link in and one link out.
    """
    into: dict[str, list[LinkSpec]] = {name: [] for name in topology.nodes}
    out: dict[str, list[LinkSpec]] = {name: [] for name in topology.nodes}
    for link in topology.links:
        tail, head = layout.ends(link)
        out[tail].append(link)
        into[head].append(link)

    def is_inner(node: str) -> bool:
        return (
            topology.nodes[node] != "host"
            and node not in topology.middleboxes
            and len(into[node]) == len(out[node]) == 1
            and is_alike(into[node][0], out[node][0])
        )

    def follow(node: str) -> Iterable[str]:
        while is_inner(node):
            yield node
            after = layout.ends(out[node][0])[1]
            if any(of.get(after) != of.get(node) for of in (topology.nodes, topology.switches)):
                return
            node = after

    runs = []
    for node, kind in topology.nodes.items():
        before = layout.ends(into[node][0])[0] if len(into[node]) == 1 else None
        if before is not None and topology.nodes[before] == kind and is_inner(before):
            continue
        run = tuple(follow(node))
        if len(run) >= LONG_RUN:
            runs.append(run[KEPT:-KEPT])
    return runs


# Points: between neighbours, and in addition between neighbours with different parents.
GAP = 8.0
FAMILY_GAP = 6.0
# The least share of the leaves' width that an upper layer has.
SPREAD = 0.75


def lay_out_tree(
    layers: Sequence[Sequence[str]], edges: Sequence[EdgeEnds], sizes: Mapping[str, float]
) -> dict[str, float]:
    """Return the centres of a tree's nodes along the layers, for drawings without labels on links.

    `dot` draws any graph well, but it pulls the layers of a fat tree together and mixes its pods. Here the leaves are
    in line, and every other node is above the middle of the nodes below it. layers: leaves first. sizes: along them.
    """
    below: dict[str, list[str]] = {}
    above: dict[str, str] = {}
    for tail, head in edges:
        below.setdefault(tail, []).append(head)
        above.setdefault(head, tail)
    leaves = layers[0]
    centres = {leaves[0]: 0.0}
    for left, right in pairwise(leaves):
        gap = GAP if above.get(left) == above.get(right) else GAP + FAMILY_GAP
        centres[right] = centres[left] + (sizes[left] + sizes[right]) / 2 + gap
    span = centres[leaves[-1]]
    for layer in layers[1:]:
        step = max(max(sizes[node] for node in layer) + GAP, SPREAD * span / len(layer))
        wishes = [sum(centres[head] for head in below[node]) / len(below[node]) for node in layer]
        centres |= zip(layer, _space(wishes, step), strict=True)
    return centres


def _space(wishes: Sequence[float], step: float) -> list[float]:
    """Return ascending places at least `step` apart, nearest to the wishes by least squares.

    Minus their distances, the places must only not descend. The algorithm is pool adjacent violators.
    """
    pools: list[tuple[float, int]] = []
    for number, wish in enumerate(wishes):
        mean, count = wish - number * step, 1
        while pools and pools[-1][0] > mean:
            earlier, size = pools.pop()
            mean, count = (earlier * size + mean * count) / (size + count), size + count
        pools.append((mean, count))
    flat = [mean for mean, count in pools for _ in range(count)]
    return [mean + number * step for number, mean in enumerate(flat)]
