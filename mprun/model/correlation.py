# SPDX-License-Identifier: Apache-2.0
"""The number of correlated values that measure a mean as well as one independent value."""

from __future__ import annotations

import math

from mprun.model.spec import Chance, FourState, GilbertElliott, Loss


def burstiness(loss: Loss) -> float:
    """Return the number of packets with losses in bursts that measure a loss as well as one with independent losses.

    This is (1 + l) / (1 - l), where l is the correlation of the state of a packet with that of the previous packet.
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
    """Return the number of values that measure a mean as well as one independent value.

    correlation: of each value with the previous value.
    """
    return (1 + correlation) / (1 - correlation) if correlation < 1 else math.inf
