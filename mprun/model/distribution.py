# SPDX-License-Identifier: Apache-2.0
"""The distributions of jitter: their range below the delay, their mean and their deviation, for an amount of 1."""

from __future__ import annotations

import math
from collections.abc import Mapping

from mprun.model.frozen import Frozen
from mprun.model.spec import Distribution, Jitter


class Shape(Frozen):
    """below: the largest distance below the delay. mean: the distance of the mean from the delay."""

    below: float
    mean: float
    deviation: float


# netem draws a uniform jitter from -1 to 1. The others are the tables that iproute2 ships (normal.dist ... in 1/8192),
# pareto's cut at 4. A test computes them again.
SHAPES: Mapping[Distribution, Shape] = {
    "uniform": Shape(1.0, 0.0, 1 / math.sqrt(3)),
    "normal": Shape(4.0, -0.0008, 1.0001),
    "pareto": Shape(0.6667, -0.0335, 0.8197),
    "paretonormal": Shape(1.5021, -0.0253, 0.8339),
}


def least_delay_ns(jitter: Jitter) -> int:
    """Return the least delay with which no packet of this jitter would arrive before it was sent."""
    return math.ceil(jitter.amount_ns * SHAPES[jitter.distribution].below)


def largest_amount_ns(distribution: Distribution, delay_ns: int) -> int:
    """Return the largest amount of a jitter that a delay has room for."""
    return math.floor(delay_ns / SHAPES[distribution].below)
