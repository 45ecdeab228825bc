# SPDX-License-Identifier: Apache-2.0
"""Short flows that begin whatever becomes of those before (open loop): all of a host in one program.

    python3 flows.py receive ADDRESS PORT protocol=P congestion=C FILE
    python3 flows.py send ADDRESS PORT protocol=P congestion=C name=N SCHEDULE

SCHEDULE is a file of JSON: {"starts_ns": [...], "sizes_bytes": [...]}, or what to draw them from: {"arrivals":
"poisson", "uniform" or "constant", "interval_ns": mean, "duration_ns": ..., and one of "size_bytes": n, "range_bytes":
[least, most], "distribution": [[bytes, share of flows up to that size], ...]}. Drawn numbers follow from the
environment's MPRUN_SEED and the name. Each flow is a connection of its own, TCP or MPTCP: it carries its number
(64 bits, little endian) and zeros up to its size, and ends.

The sender prints a line for each flow: number, size, start, end of the handshake (ns of CLOCK_MONOTONIC), retransmits,
local port. The receiver writes down number, bytes and the moment of the last byte when it is told to end (TERM).
Needs nothing but Python's library: it is no part of mprun's package where it runs.
"""

from __future__ import annotations

import ctypes
import json
import os
import random
import resource
import selectors
import signal
import socket
import struct
import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from types import FrameType
from typing import Any

IPPROTO_MPTCP = 262
PR_SET_TIMERSLACK = 29
NUMBER = struct.Struct("<Q")
RECORD = struct.Struct("<QQQ")
BLOCK = bytes(64 * 1024)
BACKLOG = 4096
# tcpi_total_retrans in struct tcp_info (linux/tcp.h).
TOTAL_RETRANSMITS = 100


class Ended(Exception):
    """The receiver is told to end."""


def open_socket(address: str, facts: dict[str, str]) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    protocol = IPPROTO_MPTCP if facts["protocol"] == "mptcp" else socket.IPPROTO_TCP
    made = socket.socket(family, socket.SOCK_STREAM, protocol)
    made.setblocking(False)
    if facts["congestion"]:
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, facts["congestion"].encode())
    return made


def draw(schedule: dict[str, Any], name: str) -> list[tuple[int, int]]:
    """(start in ns from now, size in bytes) of each flow."""
    if "starts_ns" in schedule:
        return list(zip(schedule["starts_ns"], schedule["sizes_bytes"], strict=True))
    generator = random.Random(f"{os.environ['MPRUN_SEED']} {name}")
    return [(start_ns, draw_size(schedule, generator)) for start_ns in draw_starts(schedule, generator)]


def draw_starts(schedule: dict[str, Any], generator: random.Random) -> Iterator[int]:
    """The first a time after the beginning, the last before the duration is over."""
    mean_ns, at_ns = schedule["interval_ns"], 0
    while True:
        if schedule["arrivals"] == "poisson":
            at_ns += round(generator.expovariate(1 / mean_ns))
        elif schedule["arrivals"] == "uniform":
            at_ns += round(generator.uniform(0, 2 * mean_ns))
        else:
            at_ns += mean_ns
        if at_ns >= schedule["duration_ns"]:
            return
        yield at_ns


def draw_size(schedule: dict[str, Any], generator: random.Random) -> int:
    """Bytes; of a distribution linear between its points."""
    if "size_bytes" in schedule:
        return int(schedule["size_bytes"])
    if "range_bytes" in schedule:
        return generator.randint(*schedule["range_bytes"])
    drawn = generator.random()
    points: list[tuple[int, float]] = schedule["distribution"]
    for (low, before), (high, share) in pairwise(points):
        if drawn <= share:
            return max(NUMBER.size, round(low + (high - low) * (drawn - before) / (share - before)))
    return int(points[-1][0])


class Sending:
    """One flow at its sender."""

    def __init__(self, number: int, size: int, place: tuple[str, int], facts: dict[str, str]) -> None:
        self.socket = open_socket(place[0], facts)
        self._number, self._size = number, size
        self._head = NUMBER.pack(number)[:size]
        self._left = size
        self._connected_ns = 0
        self._start_ns = time.monotonic_ns()
        self.socket.connect_ex(place)

    def go_on(self) -> bool:
        """Send what can be sent; whether all is. Raises OSError where the connection fails."""
        if not self._connected_ns:
            error = self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if error:
                raise OSError(error, os.strerror(error))
            self._connected_ns = time.monotonic_ns()
        while self._left:
            try:
                sent = self.socket.send(self._head or BLOCK[: self._left])
            except BlockingIOError:
                return False
            self._head = self._head[sent:]
            self._left -= sent
        self.socket.shutdown(socket.SHUT_WR)
        return True

    def say(self) -> None:
        """The receiver has closed, so all has arrived."""
        info = self.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TOTAL_RETRANSMITS + 4)
        retransmits = struct.unpack_from("=I", info, TOTAL_RETRANSMITS)[0] if len(info) > TOTAL_RETRANSMITS else 0
        port = self.socket.getsockname()[1]
        line = (self._number, self._size, self._start_ns, self._connected_ns, retransmits, port)
        os.write(1, (" ".join(map(str, line)) + "\n").encode())


def send(place: tuple[str, int], facts: dict[str, str], flows: list[tuple[int, int]]) -> None:
    """Begin each flow at its moment and serve those that are under way in between."""
    selector = selectors.DefaultSelector()
    begin_ns = time.monotonic_ns()
    waiting = sorted((start_ns, number, size) for number, (start_ns, size) in enumerate(flows))
    waiting.reverse()
    while waiting or selector.get_map():
        left_ns = begin_ns + waiting[-1][0] - time.monotonic_ns() if waiting else None
        if left_ns is not None and left_ns <= 0:
            _, number, size = waiting.pop()
            flow = Sending(number, size, place, facts)
            selector.register(flow.socket, selectors.EVENT_WRITE, flow)
            continue
        for key, events in wait(selector, left_ns):
            flow = key.data
            if events & selectors.EVENT_WRITE:
                if flow.go_on():
                    selector.modify(flow.socket, selectors.EVENT_READ, flow)
            elif not flow.socket.recv(1):
                flow.say()
                selector.unregister(flow.socket)
                flow.socket.close()


def wait(selector: selectors.BaseSelector, left_ns: int | None) -> list[tuple[selectors.SelectorKey, int]]:
    """What happens until then. epoll counts milliseconds: the rest is slept while nothing else is under way."""
    if left_ns is None:
        return selector.select()
    if not selector.get_map():
        time.sleep(left_ns / 1e9)
        return []
    if left_ns < 1_000_000:
        ready = selector.select(0)
        if not ready:
            time.sleep(left_ns / 1e9)
        return ready
    return selector.select(left_ns // 1_000_000 / 1e3)


class Receiving:
    """One flow at its receiver."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self._head = b""
        self._bytes = 0

    def take(self) -> tuple[int, int, int] | None:
        """Read what is there; number, bytes and the moment of the last one when it has ended."""
        while True:
            try:
                data = self.socket.recv(len(BLOCK))
            except BlockingIOError:
                return None
            except ConnectionError:
                data = b""
            if not data:
                number = int.from_bytes(self._head[: NUMBER.size], "little")
                return number, self._bytes, time.monotonic_ns()
            self._head = (self._head + data)[: NUMBER.size]
            self._bytes += len(data)


def receive(place: tuple[str, int], facts: dict[str, str], path: str) -> None:
    """Take all flows until TERM comes, then write down when each had arrived."""

    def end(number: int, frame: FrameType | None) -> None:
        raise Ended

    listener = open_socket(place[0], facts)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(place)
    listener.listen(BACKLOG)
    selector = selectors.DefaultSelector()
    selector.register(listener, selectors.EVENT_READ)
    records: list[tuple[int, int, int]] = []
    signal.signal(signal.SIGTERM, end)
    try:
        while True:
            for key, _ in selector.select():
                if key.fileobj is listener:
                    connection, _ = listener.accept()
                    connection.setblocking(False)
                    selector.register(connection, selectors.EVENT_READ, Receiving(connection))
                elif record := key.data.take():
                    records.append(record)
                    selector.unregister(key.data.socket)
                    key.data.socket.close()
    except Ended:
        with open(path, "wb") as file:
            file.write(b"".join(RECORD.pack(*record) for record in records))


def main(arguments: list[str]) -> None:
    """Exit status 1, and why, where connections cannot be had."""
    # wake at the nanosecond asked for, not up to 50 us later (prctl(2))
    ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    role, address, port, *pairs, path = arguments
    facts = dict(pair.split("=", 1) for pair in pairs)
    place = (address, int(port))
    try:
        if role == "receive":
            receive(place, facts, path)
        else:
            with open(path) as file:
                send(place, facts, draw(json.load(file), facts["name"]))
    except OSError as error:
        sys.exit(f"{address} port {port}: {error.strerror}")


if __name__ == "__main__":
    main(sys.argv[1:])
