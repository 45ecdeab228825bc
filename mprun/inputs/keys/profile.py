# SPDX-License-Identifier: Apache-2.0
"""Named link profiles: rate, delay, jitter and loss. Other keys of a link override the profile.

Forward is the uplink, from the user to the network. The first four profiles come from a comparison of CMT-SCTP and
MPTCP over emulated wireless links (2011): rates, one-way delays, losses. The delay of a GEO satellite is the time of
2 x 35 786 km at the speed of light and some processing. The delay of a LEO constellation is the delay that its users
measure. The rates, the jitter and the losses of both satellites are assumptions.
"""

from __future__ import annotations

from mprun.model.frozen import Frozen
from mprun.model.spec import Chance, Direction, Jitter
from mprun.model.units import NS_PER_MS

_MBIT = 1_000_000


def _pair(
    up_mbit: int, down_mbit: int, delay_ms: int, loss: float = 0.0, jitter_ms: int = 0
) -> tuple[Direction, Direction]:
    up, down = (
        Direction(
            rate_bit_per_s=rate * _MBIT,
            delay_ns=delay_ms * NS_PER_MS,
            jitter=Jitter(jitter_ms * NS_PER_MS) if jitter_ms else None,
            loss=Chance(loss) if loss else None,
        )
        for rate in (up_mbit, down_mbit)
    )
    return up, down


class LinkProfile(Frozen):
    """A profile: its meaning in a line, and its properties forward and reverse."""

    meaning: str
    directions: tuple[Direction, Direction]


PROFILES: dict[str, LinkProfile] = {
    "ethernet": LinkProfile("a wired access", _pair(100, 100, 2, 0.01)),
    "wifi-802.11g": LinkProfile("a wireless LAN", _pair(54, 54, 2, 0.02)),
    "3g-hspa+": LinkProfile("a mobile network of the third generation", _pair(22, 56, 80, 0.09)),
    "4g-lte": LinkProfile("a mobile network of the fourth generation", _pair(100, 100, 30, 0.05)),
    "satellite-leo": LinkProfile("a constellation in low orbit", _pair(20, 200, 20, 0.001, jitter_ms=5)),
    "satellite-geo": LinkProfile("a satellite in geostationary orbit", _pair(5, 50, 270, 0.001)),
}
