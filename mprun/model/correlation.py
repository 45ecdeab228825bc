# SPDX-License-Identifier: Apache-2.0
"""Correlated values: the number of them that tells as much as one independent value."""

from __future__ import annotations

import math

from mprun.model.spec import Chance, FourState, GilbertElliott, Loss


def burstiness(loss: Loss) -> float:
    """Return how many times wider losses in bursts spread than single ones: (1 + l) / (1 - l).

    l is the part of its state that a model keeps from one packet to the next.
    """
    kept = 0.0
    if isinstance(loss, GilbertElliott):
        kept = 1 - loss.p - loss.r
    elif isinstance(loss, FourState):
        kept = 1 - loss.p13 - loss.p31
    elif isinstance(loss, Chance):
        kept = loss.correlation
    return inflation(min(max(kept, 0.0), 0.999))


def inflation(correlation: float) -> float:
    """Return the number of values, each so correlated with the one before, that tell as much as an independent one."""
    return (1 + correlation) / (1 - correlation) if correlation < 1 else math.inf
