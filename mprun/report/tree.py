# SPDX-License-Identifier: Apache-2.0
"""Where the nodes of a tree stand, for lines that need no room for labels.

`dot` draws any graph well, but pulls the layers of a fat-tree together and mixes its pods; here
leaves stand in line and everything else over the middle of what it leads to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from mprun.report.layout import Ends

# Points: between neighbours, and more between those that hang from different nodes.
GAP = 8.0
FAMILY_GAP = 6.0
# How much of the width of the leaves an upper layer takes at least.
SPREAD = 0.75


def place(layers: Sequence[Sequence[str]], edges: Sequence[Ends], sizes: Mapping[str, float]) -> dict[str, float]:
    """Centres along the layers. layers: leaves first, each in its order; sizes: along the layers."""
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
    """Ascending places at least `step` apart, nearest to the wishes by least squares.

    Less their distances the places need only not descend: pool adjacent violators.
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
