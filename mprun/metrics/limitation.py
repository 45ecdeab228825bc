# SPDX-License-Identifier: Apache-2.0
"""Causes that hold MPTCP below the rate of its best path: a buffer, a window, the scheduler, its program. Pure.

A sample describes the sending end at one time: the data that the connection holds and has in transit (struct
mptcp_info, and the memory of its socket), and how full the window of each subflow is (struct tcp_info). While the
congestion window of the best path is full, the path gets as much as it can carry. While this window has room, something
else holds the data back, and the sample shows the cause. At most the whole rate of the path is missing at this time. So
a cause is named only if its share of the samples is at least half of the missing share of the rate.

Packets that the queue of any path drops fill buffers and windows too, as later data waits for them. So a queue that is
too short comes first, unless the file gives the size that was full, or the program had nothing to send. If samples show
no full buffer or window, only a short queue of a best path is a cause.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Literal

from mprun.model.frozen import Frozen

# With this efficiency, a connection used its best path as well as TCP does.
GOOD = 0.9
# Fewer samples do not show a cause.
LEAST_SAMPLES = 5
# A cause must account for at least this part of the missing share.
LEAST_PART = 0.5
# A cause in fewer samples may be chance.
LEAST_SHOWN = 3
# A limit is no cause if it is larger than the size in use by this factor. The window is half of its buffer.
NO_LIMIT = 4
# A full packet. Less unsent data waits in a subflow for the rest of its packet.
PACKET_BYTES = 1500

Cause = Literal["program", "congestion", "buffer", "window", "scheduler", "unknown"]
CAUSES: tuple[Cause, ...] = ("buffer", "window", "scheduler")


class ConnectionState(Frozen):
    """The data that the sending end of a connection held at a time, in ns from time zero.

    - buffer_bytes: the size of the send buffer.
    - held_bytes: the part of the buffer that is in use.
    - flying_bytes: given to subflows, and not acknowledged by DATA_ACK.
    - unsent_bytes: written by the program, and given to no subflow.
    """

    at_ns: int
    buffer_bytes: int
    held_bytes: int
    flying_bytes: int
    unsent_bytes: int

    @property
    def is_full(self) -> bool:
        """Return whether the program has to wait (sk_stream_is_writeable() of include/net/sock.h)."""
        return self.buffer_bytes - self.held_bytes < self.held_bytes / 2


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


class LimitedFlow(Frozen):
    """The facts of a flow for the explanation.

    - pressures: the number of times that TCP came under memory pressure.
    - is_left_alone: the receiver has fallen back to TCP, and the sender still uses MPTCP.
    - own_key: the key of the flow that fixes its buffers, so that the hosts' sysctls have no effect; empty without one.
    - is_disturbed: the file asks for losses, or for packets out of order, on the best path.
    - short_queues: the sentence for queues that are too short on any of its paths; None without one.
    - has_short_best: one of these queues is on a best path.
    - send_sizes, receive_sizes: net.ipv4.tcp_wmem of the sender and net.ipv4.tcp_rmem of the receiver in bytes, if the
      file gives them.
    """

    sender: str
    receiver: str
    scheduler: str
    pressures: int
    is_left_alone: bool = False
    own_key: str = ""
    is_disturbed: bool = False
    short_queues: str | None = None
    has_short_best: bool = False
    send_sizes: tuple[int, ...] = ()
    receive_sizes: tuple[int, ...] = ()


def find_cause(sample: Sample, best: Collection[str]) -> Cause | None:
    """Return the cause that a sample shows; None if no subflow is on a best path yet. best: the fastest paths."""
    state = sample.connection
    mine = [one for one in sample.subflows if one.path in best]
    if not mine:
        return None
    newest_ms = min(one.acknowledged_ms for one in sample.subflows)
    windows = [one.peer_window_bytes for one in sample.subflows if one.acknowledged_ms == newest_ms]
    # these subflows have sent all their data, so only the receive window can hold back more
    if state.unsent_bytes and all(one.is_idle for one in mine) and state.flying_bytes + PACKET_BYTES > max(windows):
        return "window"
    if not any(one.has_room for one in mine):
        return "congestion"
    if not state.unsent_bytes:
        return "buffer" if state.flying_bytes and state.is_full else "program"
    # if several windows were announced at the same time, the smallest may be the valid one
    return "scheduler" if state.flying_bytes + PACKET_BYTES <= min(windows) else "unknown"


def explain_rate(
    efficiency: float, samples: Sequence[Sample], best: Sequence[str], limits: LimitedFlow
) -> tuple[str, bool]:
    """Return why a connection got less than its best path, as a sentence, and True if a cause was found.

    The causes are a fallback of one end, memory, a queue, a send buffer, the receive window and the scheduler.
    efficiency: the connection's rate, divided by that of the best path. best: the paths with the highest rate.
    """
    found = [(find_cause(sample, best), sample.connection) for sample in samples]
    known = [(cause, state) for cause, state in found if cause is not None]
    counts = Counter(cause for cause, _ in known)
    paths = " and ".join(best)
    if limits.is_left_alone:
        return (
            f"{limits.receiver} has fallen back to TCP and {limits.sender} still uses MPTCP: it waits for DATA_ACKs "
            "that never come, and sends acknowledged data again (docs/networks.md, strip)"
        ), True
    if limits.pressures:
        return (
            f"memory: TCP came under memory pressure {limits.pressures} times (TCPMemoryPressures), which makes "
            "buffers and windows small. Remedy: give smaller buffers"
        ), True
    total = len(known)
    cause = max(CAUSES, key=lambda name: counts[name])
    least = max(LEAST_PART * (1 - efficiency) * total, LEAST_SHOWN)
    is_idle = total >= LEAST_SAMPLES and counts["program"] >= max(least, counts[cause])
    is_shown = total >= LEAST_SAMPLES and counts[cause] >= least and not is_idle
    states = [state for one, state in known if one == cause]
    may_be_queue = is_shown or total < LEAST_SAMPLES or limits.has_short_best
    if limits.short_queues and may_be_queue and not is_idle and not (is_shown and _is_given(cause, states, limits)):
        return limits.short_queues, True
    if total < LEAST_SAMPLES:
        few = f"too few samples of its sockets ({total})"
        return f"no cause found: {few}; write 'sample: {{sockets: 10ms}}', or let it last longer", False
    if not is_shown:
        return _explain_nothing(counts, total, least, paths, limits), False

    def mean(name: str) -> str:
        size_kb = _average(states, name) / 1e3
        return f"{size_kb / 1e3:.1f} MB" if size_kb >= 1e3 else f"{size_kb:.0f} kB"

    seen = f"in {counts[cause]} of {total} samples"
    room = f"{seen} {paths} had room in its congestion window"
    if cause == "buffer":
        return (
            f"its send buffer: {room}, all data written had been sent, and {limits.sender}'s buffer was full "
            f"({mean('held_bytes')} held, of {mean('buffer_bytes')}). {_advise(cause, states, limits)}"
        ), True
    if cause == "window":
        return (
            f"its receive window: {seen} {mean('unsent_bytes')} waited, and {mean('flying_bytes')} under way filled "
            f"the window. {_advise(cause, states, limits)}"
        ), True
    return (
        f"scheduler {limits.scheduler}: {room}, {mean('unsent_bytes')} waited, and neither a buffer nor the receive "
        "window was full"
    ), True


def _average(states: Sequence[ConnectionState], name: str) -> float:
    return float(sum(getattr(state, name) for state in states)) / len(states)


def _limit(cause: Cause, states: Sequence[ConnectionState], limits: LimitedFlow) -> tuple[Sequence[int], float]:
    """Return the sizes that the file gives for a buffer, and the largest size that may have limited the flow."""
    if cause == "buffer":
        return limits.send_sizes, NO_LIMIT * _average(states, "buffer_bytes")
    return limits.receive_sizes, NO_LIMIT * 2 * _average(states, "flying_bytes")


def _is_given(cause: Cause, states: Sequence[ConnectionState], limits: LimitedFlow) -> bool:
    """Return whether the file gives the size of the buffer or window that was full."""
    if cause not in ("buffer", "window"):
        return False
    sizes, most = _limit(cause, states, limits)
    return bool(limits.own_key) or bool(sizes and sizes[-1] <= most)


def _advise(cause: Cause, states: Sequence[ConnectionState], limits: LimitedFlow) -> str:
    """Return the remedy for a buffer or window that was full, without values that were larger already."""
    if limits.own_key:
        return f"Remedy: raise or remove '{limits.own_key}' of the flow"
    is_buffer = cause == "buffer"
    setting = f"net.ipv4.tcp_wmem of {limits.sender}" if is_buffer else f"net.ipv4.tcp_rmem of {limits.receiver}"
    page = f"(docs/mptcp.md, {'send buffer' if is_buffer else 'receive window'})"
    sizes, most = _limit(cause, states, limits)
    if not sizes or sizes[-1] <= most:
        return f"Remedy: raise {setting}{', its middle value too' if is_buffer else ''} {page}"
    if sizes[1] <= most:
        return f"Remedy: raise the middle value of {setting} {page}"
    return f"{setting} allows more already {page}"


def _explain_nothing(counts: Counter[Cause], total: int, least: float, paths: str, limits: LimitedFlow) -> str:
    """Return the sentence for samples where no cause was found."""
    if counts["program"] >= least:
        return f"its program had nothing to send in {counts['program']} of {total} samples"
    full = f"the congestion window on {paths} was full in {counts['congestion']} of {total} samples"
    if limits.is_disturbed:
        return f"{full}, and losses or reordered packets, which the file asks for there, make it smaller"
    return f"no cause found among queue, send buffer, receive window, memory and scheduler: {full}"
