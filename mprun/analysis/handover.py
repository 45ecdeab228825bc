# SPDX-License-Identifier: Apache-2.0
"""How an MPTCP connection got over the failure of a path: how long its data stood still, when it flowed again. Pure.

From samples of how far its receiver has the data in order (mptcpi_rcv_nxt of linux/mptcp.h), taken every 10 ms after a
failure, to which figures are right. A sender that is not sure of a path sends one chunk and waits for its timer, again
and again, until it counts the path as lost: so the longest standstill alone does not tell when data flows again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

# Moments from time zero, and the data sequence number that is expected next.
Samples = Sequence[tuple[int, int]]

# The least time-out of a retransmission (TCP_RTO_MIN of linux/tcp.h): who stands still for so long waits for a timer.
TIMEOUT_NS = 200_000_000


@dataclass(frozen=True)
class Handover:
    """gap_ns: the longest standstill. time_ns: from the failure until the data flowed without waiting for timers.

    is_over: it did before the connection was last looked at, which ends both otherwise.
    """

    gap_ns: int
    time_ns: int
    is_over: bool


def find_handover(samples: Samples, begin_ns: int, end_ns: int) -> Handover | None:
    """What happened in the span from a failure on; None where nobody looked twice."""
    inside = [(at_ns, expected) for at_ns, expected in samples if begin_ns <= at_ns <= end_ns]
    if len(inside) < 2:
        return None
    stood = []
    since_ns, last = inside[0]
    for at_ns, expected in inside[1:]:
        if expected != last:
            stood.append((since_ns, at_ns))
            since_ns, last = at_ns, expected
    last_ns = inside[-1][0]
    stood.append((since_ns, last_ns))
    resumed_ns = None
    for began_ns, ended_ns in stood:
        if ended_ns - began_ns < TIMEOUT_NS:
            continue
        if resumed_ns is not None and began_ns - resumed_ns >= TIMEOUT_NS:
            break
        resumed_ns = ended_ns
    gap_ns = max(ended_ns - began_ns for began_ns, ended_ns in stood)
    return Handover(
        gap_ns, (resumed_ns or begin_ns) - begin_ns, resumed_ns is None or last_ns - resumed_ns >= TIMEOUT_NS
    )


def progress(samples: Samples) -> int:
    """Bytes by which the data grew; sequence numbers have 64 bits."""
    return (samples[-1][1] - samples[0][1]) % (1 << 64) if samples else 0
