# SPDX-License-Identifier: Apache-2.0
"""Compute the places of a tree's nodes, for drawings without labels on links.

`dot` draws any graph well, but it pulls the layers of a fat tree together and mixes its pods. Here the leaves are in
line, and every other node is above the middle of the nodes below it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from mprun.reports.layout import EdgeEnds

# Points: between neighbours, and in addition between neighbours with different parents.
GAP = 8.0
FAMILY_GAP = 6.0
# The least share of the leaves' width that an upper layer has.
SPREAD = 0.75


def lay_out(layers: Sequence[Sequence[str]], edges: Sequence[EdgeEnds], sizes: Mapping[str, float]) -> dict[str, float]:
    """Return the centres of nodes along the layers. layers: leaves first, each in order. sizes: along the layers."""
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
