# SPDX-License-Identifier: Apache-2.0
"""Limits of a connection at one moment: a congestion window, a buffer, a receive window, the scheduler. Pure.

A sample describes the sending end at one time: the data that the connection holds and has in transit, and how full the
window of each subflow is (struct tcp_info). A connection of TCP is one with a single subflow. While the congestion
window of the best path is full, the path gets as much as it can carry. While this window has room, something else holds
the data back, and the sample shows the limit.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal

from mprun.model.frozen import Frozen

# A full packet. Less unsent data waits for the rest of its packet.
PACKET_BYTES = 1500
# A window counts as full if this share of it is in use, or if no packet fits.
FULL = 0.95

Limit = Literal["program", "congestion", "buffer", "window", "scheduler", "unknown"]


class ConnectionState(Frozen):
    """The data that the sending end of a connection held at a time, in ns from time zero.

    - buffer_bytes: the size of the send buffer; None if it is not sampled.
    - held_bytes: the part of the buffer that is in use.
    - flying_bytes: given to subflows, and not acknowledged by DATA_ACK.
    - unsent_bytes: written by the program, and given to no subflow.
    """

    at_ns: int
    buffer_bytes: int | None
    held_bytes: int
    flying_bytes: int
    unsent_bytes: int

    @property
    def is_full(self) -> bool:
        """Return whether the program has to wait (sk_stream_is_writeable() of include/net/sock.h).

        A program that sends as fast as it can waits if its buffer is not sampled.
        """
        return self.buffer_bytes is None or self.buffer_bytes - self.held_bytes < self.held_bytes / 2

    def fills(self, window_bytes: int) -> bool:
        return self.flying_bytes + PACKET_BYTES > window_bytes or self.flying_bytes >= FULL * window_bytes


class SubflowState(Frozen):
    """The state of the sending end of a subflow at the same time.

    - window_packets, flying_packets: the congestion window, and the part of it that is in use.
    - unsent_bytes: waits in this subflow.
    - peer_window_bytes: the last announcement of the receive window. All subflows share one window, so the newest
      announcement counts.
    - acknowledged_ms: the age of this announcement.
    """

    path: str | None
    window_packets: int
    flying_packets: int
    unsent_bytes: int
    peer_window_bytes: int
    acknowledged_ms: int

    @property
    def is_idle(self) -> bool:
        """Return whether no packet waits for the congestion window."""
        return self.unsent_bytes < PACKET_BYTES

    @property
    def has_room(self) -> bool:
        """Return whether a quarter of its congestion window is empty, and no packet waits to fill it."""
        return self.is_idle and self.flying_packets <= 0.75 * self.window_packets


class Sample(Frozen):
    """A connection and its subflows at one moment."""

    connection: ConnectionState
    subflows: Sequence[SubflowState]


def find_limit(sample: Sample, best: Collection[str]) -> Limit | None:
    """Return the limit that a sample shows; None if no subflow is on a best path yet. best: the fastest paths."""
    state = sample.connection
    mine = [one for one in sample.subflows if one.path in best]
    if not mine:
        return None
    newest_ms = min(one.acknowledged_ms for one in sample.subflows)
    windows = [one.peer_window_bytes for one in sample.subflows if one.acknowledged_ms == newest_ms]
    # these subflows have sent all their data, so only the receive window can hold back more
    if state.unsent_bytes and all(one.is_idle for one in mine) and state.fills(max(windows)):
        return "window"
    if not any(one.has_room for one in mine):
        return "congestion"
    if state.unsent_bytes < PACKET_BYTES:
        return "buffer" if state.flying_bytes and state.is_full else "program"
    # if several windows were announced at the same time, the smallest may be the valid one
    return "unknown" if state.fills(min(windows)) else "scheduler"
