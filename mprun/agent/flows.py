# SPDX-License-Identifier: Apache-2.0
"""Short flows that begin whatever becomes of those before (open loop): all of a host in one program.

    python3 flows.py receive FILE ...
    python3 flows.py send FILE ...

Each FILE is JSON and says of one flow of the experiment, a series of connections between two hosts: address, port,
protocol (tcp, mptcp), congestion (tcp_congestion_control; empty: as it is) and request_bytes (null: the sender sends
what is to be sent, else it asks for it). For the receiver also: record, the file that it leaves. For the sender: name;
and when connections begin, and how large each is: {"starts_ns": [...], "sizes_bytes": [...]}, or what to draw them
from: {"arrivals": "poisson", "uniform" or "constant", "interval_ns": mean, "duration_ns": ..., "starts_key": TEXT, and
one of "size_bytes": n, "range_bytes": [least, most], "distribution": [[bytes, share of flows up to that size], ...]}.
Drawn numbers follow from the environment's MPRUN_SEED and the name, and moments from the key.

Each flow begins with its number (56 bits, little endian) and its size: 8 bits if the size is below 16 bytes, else these
are 0 and 64 bits follow. Zeros fill it up to its size, or to that of the request. Over either transport, the end that
receives the announced size closes first. So no FIN of the sender is counted as a loss of the flow, and MPTCP has time
for subflows: Linux opens none for a connection whose opener has closed its direction. The sender prints a line for each
flow when it is over: name, number, size, bytes received, start, end of the handshake, end (ns of CLOCK_MONOTONIC), what
tcp_info counted (segments sent again, those among them that were duplicates, time-outs, and how many of the latter came
before the connection did), local port. One that fails has no end. The receiver writes down number, bytes, the moment of
the last byte and its own three counts when it is told to end (TERM).
Needs nothing but Python's library: it is no part of mprun's package where it runs.
"""

from __future__ import annotations

import ctypes
import errno
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
HEAD = struct.Struct("<QQ")
# The number's bits in the head. A size below that of the head stands above them.
NUMBER_BITS = 56
RECORD = struct.Struct("<QQQIII")
BLOCK = bytes(64 * 1024)
BACKLOG = 4096
# A receiver is woken when so much is there, or all that is still to come: well below the window that connections begin
# with (64 kB), as what waits for more than the peer may send would wait for ever.
MOST_AT_ONCE = 16 * 1024
# struct tcp_info (linux/tcp.h): tcpi_total_retrans, tcpi_dsack_dups, and, from Linux 6.7 on, tcpi_total_rto.
INFO_BYTES = 248
RETRANSMITS, DUPLICATES, TIMEOUTS = (100, "=I"), (216, "=I"), (240, "=H")

Counts = tuple[int, int, int]


class Ended(Exception):
    """The program is told to end."""


def end(number: int, frame: FrameType | None) -> None:
    raise Ended


def open_socket(flow: dict[str, Any]) -> socket.socket:
    family = socket.AF_INET6 if ":" in flow["address"] else socket.AF_INET
    protocol = IPPROTO_MPTCP if flow["protocol"] == "mptcp" else socket.IPPROTO_TCP
    made = socket.socket(family, socket.SOCK_STREAM, protocol)
    made.setblocking(False)
    # a last packet that is not full does not wait for an answer to the one before (tcp(7))
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if flow["congestion"]:
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, flow["congestion"].encode())
    return made


def listen_at(flow: dict[str, Any]) -> tuple[str, int]:
    """Every address of the family: a join to another address than the flow's is refused where nobody listens there."""
    return "::" if ":" in flow["address"] else "", flow["port"]


def announce(number: int, size: int) -> bytes:
    """The first bytes of a flow, or of the request for it: as many of them as the flow has say its size."""
    return HEAD.pack(number | (size << NUMBER_BITS if size < HEAD.size else 0), size)


def read_announced(head: bytes) -> tuple[int, int] | None:
    """Return the number and the size that the first bytes of a flow announce; None if too few have come."""
    first = int.from_bytes(head[:8], "little")
    number, small = first & ((1 << NUMBER_BITS) - 1), first >> NUMBER_BITS
    if len(head) >= 8 and small:
        return number, small
    return (number, HEAD.unpack(head)[1]) if len(head) == HEAD.size else None


def place_of(flow: dict[str, Any]) -> str:
    return f"{flow['address']} port {flow['port']}"


def count(connection: socket.socket) -> Counts:
    """Segments sent again, those of them that were duplicates, time-outs; of MPTCP those of the initial subflow."""
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, INFO_BYTES)
    read = [
        struct.unpack_from(form, info, at)[0] if at + struct.calcsize(form) <= len(info) else 0
        for at, form in (RETRANSMITS, DUPLICATES, TIMEOUTS)
    ]
    return read[0], read[1], read[2]


def draw(flow: dict[str, Any]) -> list[tuple[int, int]]:
    """(start in ns from now, size in bytes) of each connection."""
    if "starts_ns" in flow:
        return list(zip(flow["starts_ns"], flow["sizes_bytes"], strict=True))
    starts, sizes = (random.Random(f"{os.environ['MPRUN_SEED']} {key}") for key in (flow["starts_key"], flow["name"]))
    return [(start_ns, draw_size(flow, sizes)) for start_ns in draw_starts(flow, starts)]


def draw_starts(flow: dict[str, Any], generator: random.Random) -> Iterator[int]:
    """The first a time after the beginning, the last before the duration is over."""
    mean_ns, at_ns = flow["interval_ns"], 0
    while True:
        if flow["arrivals"] == "poisson":
            at_ns += round(generator.expovariate(1 / mean_ns))
        elif flow["arrivals"] == "uniform":
            at_ns += round(generator.uniform(0, 2 * mean_ns))
        else:
            at_ns += mean_ns
        if at_ns >= flow["duration_ns"]:
            return
        yield at_ns


def draw_size(flow: dict[str, Any], generator: random.Random) -> int:
    """Bytes; of a distribution linear between its points."""
    if "size_bytes" in flow:
        return int(flow["size_bytes"])
    if "range_bytes" in flow:
        return generator.randint(*flow["range_bytes"])
    drawn = generator.random()
    points: list[tuple[int, float]] = flow["distribution"]
    for (low, before), (high, share) in pairwise(points):
        if drawn <= share:
            return max(8, round(low + (high - low) * (drawn - before) / (share - before)))
    return int(points[-1][0])


class Incoming:
    """Wakes the reader of a socket for every 16 kB, and not for every packet, until all is there."""

    def __init__(self, connection: socket.socket, size: int) -> None:
        self._socket = connection
        self._size = size
        self._low_water = 1

    def expect(self, received: int) -> None:
        wanted = max(1, min(self._size - received, MOST_AT_ONCE))
        if wanted != self._low_water:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, wanted)
            self._low_water = wanted


class Outgoing:
    """Bytes that a socket is to send: a head and zeros."""

    def __init__(self, head: bytes, size: int) -> None:
        self._head = head[:size]
        self._left = size

    def send(self, connection: socket.socket) -> bool:
        """Send what can be sent. Return True when all is sent."""
        while self._left:
            try:
                # the head in one packet with what follows
                sent = connection.send((self._head + BLOCK)[: self._left] if self._head else BLOCK[: self._left])
            except BlockingIOError:
                return False
            self._head = self._head[sent:]
            self._left -= sent
        return True


class Sending:
    """One connection at its sender."""

    def __init__(self, number: int, size: int, flow: dict[str, Any]) -> None:
        self.socket = open_socket(flow)
        self._flow, self._number, self._size = flow, number, size
        asked = flow["request_bytes"]
        self._out = Outgoing(announce(number, size), size if asked is None else asked)
        self._answer = None if asked is None else Incoming(self.socket, size)
        self._received = 0
        self._connected_ns = 0
        self._refused = 0
        self._start_ns = time.monotonic_ns()
        error = self.socket.connect_ex((flow["address"], flow["port"]))
        # what is refused at once is in no SO_ERROR
        self._error = 0 if error == errno.EINPROGRESS else error

    @property
    def place(self) -> str:
        """Where it goes, as people write it."""
        return place_of(self._flow)

    def send(self) -> bool:
        """Whether all is sent. Raises OSError where the connection fails."""
        if not self._connected_ns:
            error = self._error or self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if error:
                raise OSError(error, os.strerror(error))
            self._connected_ns = time.monotonic_ns()
            # what was sent again so far are handshakes
            self._refused = count(self.socket)[0]
        return self._out.send(self.socket)

    def receive(self) -> bool:
        """Take what has come. Return True when the flow is over: who asks has the whole answer, or the other end has
        closed. Raises OSError where the connection fails."""
        try:
            data = self.socket.recv(len(BLOCK))
        except BlockingIOError:
            return False
        self._received += len(data)
        if self._answer is None or not data:
            return not data
        self._answer.expect(self._received)
        return self._received == self._size

    def say(self, end_ns: int) -> None:
        """A line; end_ns 0: it failed."""
        retransmits, duplicates, timeouts = count(self.socket) if self._connected_ns else (0, 0, 0)
        counts = (retransmits, duplicates, timeouts, self._refused)
        times = (self._start_ns, self._connected_ns, end_ns)
        line = (
            self._flow["name"],
            self._number,
            self._size,
            self._received,
            *times,
            *counts,
            self.socket.getsockname()[1],
        )
        os.write(1, (" ".join(map(str, line)) + "\n").encode())


def send(flows: list[dict[str, Any]]) -> int:
    """Begin each connection at its moment and serve those that are under way in between; how many failed. Told to end
    (TERM), it says of those that are under way that they failed."""
    selector = selectors.DefaultSelector()
    try:
        return serve(flows, selector)
    except Ended:
        under_way = list(selector.get_map().values())
        for key in under_way:
            key.data.say(0)
        return len(under_way)


def serve(flows: list[dict[str, Any]], selector: selectors.BaseSelector) -> int:
    """Until all are over; how many failed."""
    begin_ns = time.monotonic_ns()
    waiting = [
        (start_ns, n, number, size)
        for n, flow in enumerate(flows)
        for number, (start_ns, size) in enumerate(draw(flow))
    ]
    waiting.sort(reverse=True)
    failed = 0
    while waiting or selector.get_map():
        left_ns = begin_ns + waiting[-1][0] - time.monotonic_ns() if waiting else None
        if left_ns is not None and left_ns <= 0:
            _, n, number, size = waiting.pop()
            try:
                sending = Sending(number, size, flows[n])
            except OSError as error:
                sys.exit(f"{place_of(flows[n])}: {error.strerror}")
            selector.register(sending.socket, selectors.EVENT_WRITE, sending)
            continue
        for key, events in wait(selector, left_ns):
            sending = key.data
            try:
                if events & selectors.EVENT_WRITE:
                    if sending.send():
                        selector.modify(sending.socket, selectors.EVENT_READ, sending)
                    continue
                if not sending.receive():
                    continue
                sending.say(time.monotonic_ns())
            except OSError as error:
                failed += 1
                sending.say(0)
                print(f"{sending.place}: {error.strerror}", file=sys.stderr)
            selector.unregister(sending.socket)
            sending.socket.close()
    return failed


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
    """One connection at its receiver."""

    def __init__(self, connection: socket.socket, flow: dict[str, Any], records: list[tuple[int, ...]]) -> None:
        self.socket = connection
        self._flow = flow
        self._request_bytes: int | None = flow["request_bytes"]
        self._records = records
        self._head = b""
        self._bytes = 0
        self._in: Incoming | None = None
        self._out: Outgoing | None = None
        self._end_ns = 0

    def go_on(self, selector: selectors.BaseSelector) -> bool:
        """Read what has come, answer what is asked. Return True when the flow is over and in the records."""
        try:
            if self._out is None and not self._read(selector):
                return False
            if self._out is not None and not self._answer(selector):
                return False
        except ConnectionError:
            # what came is written down: it is not all
            self._end_ns = time.monotonic_ns()
        number, _ = read_announced(self._head) or (0, 0)
        self._records.append((number, self._bytes, self._end_ns, *count(self.socket)))
        return True

    def _read(self, selector: selectors.BaseSelector) -> bool:
        """Return True when all that was announced is read, or nothing more can come."""
        try:
            data = self.socket.recv(len(BLOCK))
        except BlockingIOError:
            return False
        self._head = (self._head + data)[: HEAD.size]
        self._bytes += len(data)
        announced = read_announced(self._head)
        if data:
            wanted = self._request_bytes or (announced[1] if announced else None)
            if wanted is None:
                return False
            self._in = self._in or Incoming(self.socket, wanted)
            self._in.expect(self._bytes)
            if self._bytes != wanted:
                return False
        self._end_ns = time.monotonic_ns()
        if announced and self._bytes == self._request_bytes:
            self._out = Outgoing(b"", announced[1])
            selector.modify(self.socket, selectors.EVENT_WRITE, self)
        return True

    def _answer(self, selector: selectors.BaseSelector) -> bool:
        """Return True when the answer is sent and its reader has closed."""
        assert self._out is not None
        if selector.get_key(self.socket).events == selectors.EVENT_WRITE:
            if self._out.send(self.socket):
                selector.modify(self.socket, selectors.EVENT_READ, self)
            return False
        return not self.socket.recv(1)


def receive(flows: list[dict[str, Any]]) -> None:
    """Take all connections until TERM comes, then write down when each had arrived."""
    selector = selectors.DefaultSelector()
    records: list[list[tuple[int, ...]]] = [[] for _ in flows]
    for n, flow in enumerate(flows):
        try:
            listener = open_socket(flow)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(listen_at(flow))
            listener.listen(BACKLOG)
        except OSError as error:
            sys.exit(f"{place_of(flow)}: {error.strerror}")
        selector.register(listener, selectors.EVENT_READ, n)
    try:
        while True:
            for key, _ in selector.select():
                if isinstance(key.data, int):
                    assert isinstance(key.fileobj, socket.socket)
                    connection, _ = key.fileobj.accept()
                    connection.setblocking(False)
                    taking = Receiving(connection, flows[key.data], records[key.data])
                    selector.register(connection, selectors.EVENT_READ, taking)
                elif key.data.go_on(selector):
                    selector.unregister(key.data.socket)
                    key.data.socket.close()
    except Ended:
        for flow, some in zip(flows, records, strict=True):
            with open(flow["record"], "wb") as file:
                file.write(b"".join(RECORD.pack(*record) for record in some))


def main(arguments: list[str]) -> None:
    """Exit status 1, and why, where connections cannot be had."""
    # wake at the nanosecond asked for, not up to 50 us later (prctl(2))
    ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    role, *paths = arguments
    flows = []
    for path in paths:
        with open(path) as file:
            flows.append(json.load(file))
    signal.signal(signal.SIGTERM, end)
    if role == "send":
        sys.exit(1 if send(flows) else 0)
    receive(flows)


if __name__ == "__main__":
    main(sys.argv[1:])
