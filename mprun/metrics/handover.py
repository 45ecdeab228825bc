# SPDX-License-Identifier: Apache-2.0
"""Hand-overs: how long a connection's data stood still after the failure of a path, and when it flowed again. Pure.

MPTCP: both ends are sampled every 10 ms after a failure. The figures are how far an end has the data in order, and
whether the other end lacks data (mptcpi_rcv_nxt, mptcpi_write_seq, mptcpi_snd_una of linux/mptcp.h).
Other transports: the flow's own program records standstills of 10 ms and more.
A sender that is not sure of a path sends one chunk and waits for its timer. It repeats that until it counts the path as
lost. The longest standstill alone therefore does not tell when data flows again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from mprun.workloads.tool import Movement

# The least time-out of a retransmission (TCP_RTO_MIN of linux/tcp.h): who stands still for so long waits for a timer.
TIMEOUT_NS = 200_000_000


@dataclass(frozen=True)
class DataProgress:
    """An end of a connection at a moment from time zero. expected: the data sequence number that it expects next.

    is_waiting: whether the other end lacks some of its data.
    """

    at_ns: int
    expected: int
    is_waiting: bool


@dataclass(frozen=True)
class Handover:
    """gap_ns: the longest standstill. time_ns: from the failure until the data flowed without waiting for timers.

    is_over: it did before the connection was last looked at, which ends both otherwise.
    """

    gap_ns: int
    time_ns: int
    is_over: bool


def find_handover(
    one: Sequence[DataProgress], other: Sequence[DataProgress], begin_ns: int, end_ns: int
) -> Handover | None:
    """Return the hand-over between the two ends in the span from a failure on; None without two samples."""
    inside: dict[int, list[DataProgress]] = {}
    for state in (*one, *other):
        if begin_ns <= state.at_ns <= end_ns:
            inside.setdefault(state.at_ns, []).append(state)
    if len(inside) < 2:
        return None
    return _judge(list(_standstills(inside, begin_ns)), begin_ns, max(inside))


def find_handover_of(movement: Movement, begin_ns: int, end_ns: int) -> Handover | None:
    """Return the hand-over of data whose standstills are known; None if no data was under way in the span."""
    end_ns = min(end_ns, movement.ended_ns)
    if end_ns <= max(begin_ns, movement.began_ns):
        return None
    inside = [(max(since, begin_ns), min(until, end_ns)) for since, until in movement.standstills_ns]
    return _judge([(since, until) for since, until in inside if since < until], begin_ns, end_ns)


def _judge(stood: Sequence[tuple[int, int]], begin_ns: int, looked_until_ns: int) -> Handover:
    """stood: from when to when, one after the other."""
    resumed_ns = None
    for began_ns, ended_ns in stood:
        if ended_ns - began_ns < TIMEOUT_NS:
            continue
        if resumed_ns is not None and began_ns - resumed_ns >= TIMEOUT_NS:
            break
        resumed_ns = ended_ns
    gap_ns = max((ended_ns - began_ns for began_ns, ended_ns in stood), default=0)
    return Handover(gap_ns, (resumed_ns or begin_ns) - begin_ns, resumed_ns is None or resumed_ns < looked_until_ns)


def _standstills(inside: Mapping[int, Sequence[DataProgress]], begin_ns: int) -> Iterator[tuple[int, int]]:
    """From when to when nothing arrived while an end waited; the last may have no end but that of the samples."""
    since_ns, last, is_waiting = begin_ns, None, False
    for at_ns, states in sorted(inside.items()):
        expected = [state.expected for state in states]
        if last is not None and expected != last and is_waiting:
            yield since_ns, at_ns
        if last is not None and (expected != last or not is_waiting):
            since_ns = at_ns
        last, is_waiting = expected, any(state.is_waiting for state in states)
    if is_waiting:
        yield since_ns, max(inside)
