# SPDX-License-Identifier: Apache-2.0
"""Send a train (a series of frames) over a link and measure the frames' arrival, for a calibration.

Frames have the EtherType that IEEE 802 reserves for local experiments, so no protocol takes them. Arrival times are the
kernel's (SO_TIMESTAMPNS, socket(7)). Sending times are read from the clock just before the call.
"""

from __future__ import annotations

import socket
import statistics
import struct
import time
from collections.abc import Callable
from itertools import accumulate, pairwise
from typing import Any

from mprun.model.agent_report import Arrivals, Delays

ETHERTYPE = 0x88B5
SO_TIMESTAMPNS = 35
SO_SNDBUFFORCE, SO_RCVBUFFORCE = 32, 33
SOL_PACKET, PACKET_STATISTICS = 263, 6
BUFFER_BYTES = 256 << 20
# Arrivals are read at this interval, because a wake-up for each frame would be expensive.
LOOK_NS = 20_000_000
_NUMBER = struct.Struct("!Q")
_TIME = struct.Struct("=qq")

Inside = Callable[[str], Any]


def open_socket(interface: str) -> socket.socket:
    """Open a packet socket on an interface of the current namespace, with large buffers in both directions."""
    opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_NONBLOCK, socket.htons(ETHERTYPE))
    opened.bind((interface, ETHERTYPE))
    # a frame that waits in a queue counts against its sender's buffer
    for force, plain in ((SO_RCVBUFFORCE, socket.SO_RCVBUF), (SO_SNDBUFFORCE, socket.SO_SNDBUF)):
        try:
            opened.setsockopt(socket.SOL_SOCKET, force, BUFFER_BYTES)
        except PermissionError:
            opened.setsockopt(socket.SOL_SOCKET, plain, BUFFER_BYTES)
    opened.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    return opened


def send_train(train: dict[str, Any], inside: Inside) -> Arrivals:
    """Send a train of the plan and measure it. Return counts, and times in ns.

    - delay_ns of the result: for each received frame, the time from its sending to its arrival.
    - first_ns, last_ns: the first and the last arrival, counted from the first sending.

    inside: enters the namespace of a node.
    """
    with inside(train["node"]):
        sender = open_socket(train["interface"])
    with inside(train["peer_node"]):
        receiver = open_socket(train["peer_interface"])
    try:
        arrivals: list[tuple[int, int]] = []
        sent_ns, took_ns = _send(train, sender, receiver, arrivals)
        _drain_until(receiver, arrivals, time.monotonic_ns() + train["tail_ns"])
        _, dropped = struct.unpack("=II", receiver.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))
    finally:
        sender.close()
        receiver.close()
    return _sum_up(sent_ns, arrivals, took_ns, dropped)


def _send(
    train: dict[str, Any], sender: socket.socket, receiver: socket.socket, arrivals: list[tuple[int, int]]
) -> tuple[list[int], int]:
    """Send all frames. Return the sending time of each frame, and the duration of sending, in ns."""
    head = bytes.fromhex(train["peer_mac"].replace(":", "")) + b"\x02" + bytes(5) + struct.pack("!H", ETHERTYPE)
    padding = bytes(train["frame_bytes"] - len(head) - _NUMBER.size)
    sent_ns: list[int] = []
    begin_ns = due_ns = look_ns = time.monotonic_ns()
    while len(sent_ns) < train["count"]:
        for _ in range(min(train["batch"], train["count"] - len(sent_ns))):
            frame = head + _NUMBER.pack(len(sent_ns)) + padding
            sent_ns.append(time.clock_gettime_ns(time.CLOCK_REALTIME))
            _send_one(sender, frame)
        if not train["gap_ns"]:
            continue
        due_ns += train["gap_ns"]
        if due_ns - look_ns >= LOOK_NS:
            _drain(receiver, arrivals)
            look_ns = due_ns
        remaining = due_ns - time.monotonic_ns()
        if remaining > 0:
            time.sleep(remaining / 1e9)
    return sent_ns, time.monotonic_ns() - begin_ns


def _send_one(sender: socket.socket, frame: bytes) -> None:
    """Send a frame. While the send buffer is full, wait: it drains as frames pass the delay."""
    while True:
        try:
            sender.send(frame)
            return
        except BlockingIOError:
            time.sleep(0.000_1)


def _drain_until(receiver: socket.socket, arrivals: list[tuple[int, int]], end_ns: int) -> None:
    while (now_ns := time.monotonic_ns()) < end_ns:
        time.sleep(min(LOOK_NS, end_ns - now_ns) / 1e9)
        _drain(receiver, arrivals)


def _drain(receiver: socket.socket, arrivals: list[tuple[int, int]]) -> None:
    """Add (number, arrival time) of every waiting frame to `arrivals`."""
    while True:
        try:
            data, extra, _, _ = receiver.recvmsg(22, 64)
        except BlockingIOError:
            return
        seconds, nanoseconds = _TIME.unpack(extra[0][2][: _TIME.size])
        arrivals.append((_NUMBER.unpack_from(data, 14)[0], seconds * 1_000_000_000 + nanoseconds))


def _sum_up(sent_ns: list[int], arrivals: list[tuple[int, int]], took_ns: int, unseen: int) -> Arrivals:
    numbers = [number for number, _ in arrivals if number < len(sent_ns)]
    delays = [moment - sent_ns[number] for number, moment in arrivals if number < len(sent_ns)]
    moments = [moment for _, moment in arrivals]
    return Arrivals(
        sent=len(sent_ns),
        received=len(numbers),
        distinct=len(set(numbers)),
        late=sum(number < highest for number, highest in zip(numbers, accumulate(numbers, max), strict=True)),
        delay_ns=Delays(
            median=statistics.median(delays),
            mean=statistics.fmean(delays),
            deviation=statistics.pstdev(delays),
            correlation=_correlation([delay for _, delay in sorted(zip(numbers, delays, strict=True))]),
        )
        if delays
        else None,
        first_ns=min(moments) - sent_ns[0] if moments else None,
        last_ns=max(moments) - sent_ns[0] if moments else None,
        took_ns=took_ns,
        unseen=unseen,
    )


def _correlation(values: list[int]) -> float:
    """Return the correlation of each value with the previous one; 0 if there are too few different values."""
    if len(set(values)) < 2 or len(values) < 3:
        return 0.0
    mean = statistics.fmean(values)
    variance = sum((value - mean) ** 2 for value in values)
    return sum((a - mean) * (b - mean) for a, b in pairwise(values)) / variance
