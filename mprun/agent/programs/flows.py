# SPDX-License-Identifier: Apache-2.0
"""Short flows that begin independently of earlier flows (open loop). One program sends all flows of a host.

    python3 flows.py receive FILE ...
    python3 flows.py send FILE ...

Each FILE is JSON and describes one flow of the experiment: a series of connections between two hosts.

- address, port, protocol (tcp, mptcp).
- congestion: tcp_congestion_control; empty for the host's own.
- request_bytes: the size of the request for each flow; null if the sender sends the data without a request.
- record (receiver only): the file that the receiver writes.
- name (sender only).
- starts_ns, sizes_bytes (sender only): when each connection begins and how large it is.

Instead of starts_ns and sizes_bytes, the sender may get the values to draw them from:

- arrivals: poisson, uniform or constant.
- interval_ns (the mean), duration_ns.
- starts_key: a text.
- size_bytes (N), range_bytes ([least, most]) or distribution ([[bytes, share of flows up to that size], ...]).

Sizes follow from MPRUN_SEED in the environment and the name. Start times follow from MPRUN_SEED and the key.

Each flow begins with its number (56 bits, little endian) and its size. The size has 8 bits if it is below 16 bytes.
Otherwise these 8 bits are 0 and 64 bits follow. Zeros fill the flow up to its size, or the request up to the request's
size.

Over both transports, the end that receives the announced size closes first. A FIN of the sender is therefore never
counted as a loss of the flow, and MPTCP has time to open subflows. Linux opens no subflows for a connection whose
opener has closed its direction.

The sender prints one line for each flow when the flow ends:

- name, number, size, bytes received
- start, end of the handshake, end (ns of CLOCK_MONOTONIC); the end is 0 if the flow failed
- counts of tcp_info: retransmitted segments, duplicates among them, time-outs, and segments retransmitted during the
  handshake
- local port

On SIGTERM the receiver writes number, bytes, time of the last byte, and its own three counts.

The program needs only Python's library, because mprun's package is not available where it runs.
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
from typing import Any

IPPROTO_MPTCP = 262
PR_SET_TIMERSLACK = 29
HEAD = struct.Struct("<QQ")
# The bits of the number in the head. A size below the head's size is stored above these bits.
NUMBER_BITS = 56
RECORD = struct.Struct("<QQQIII")
BLOCK = bytes(64 * 1024)
BACKLOG = 4096
# A receiver is woken when this many bytes wait, or all that is still missing. The value is well below the initial
# window of a connection (64 kB). With a larger value, the receiver could wait for more than the peer may send.
MOST_AT_ONCE = 16 * 1024
# Offsets in struct tcp_info (linux/tcp.h): tcpi_total_retrans, tcpi_dsack_dups, and (from Linux 6.7 on) tcpi_total_rto.
INFO_BYTES = 248
RETRANSMITS, DUPLICATES, TIMEOUTS = (100, "=I"), (216, "=I"), (240, "=H")

Counts = tuple[int, int, int]


def open_socket(flow: dict[str, Any]) -> socket.socket:
    """Return a non-blocking TCP or MPTCP socket with the flow's congestion control."""
    family = socket.AF_INET6 if ":" in flow["address"] else socket.AF_INET
    protocol = IPPROTO_MPTCP if flow["protocol"] == "mptcp" else socket.IPPROTO_TCP
    made = socket.socket(family, socket.SOCK_STREAM, protocol)
    made.setblocking(False)
    # a last packet that is not full does not wait for the acknowledgement of the one before (tcp(7))
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if flow["congestion"]:
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, flow["congestion"].encode())
    return made


def announce(number: int, size: int) -> bytes:
    """Return the first bytes of a flow or of its request. They hold the number and the size."""
    return HEAD.pack(number | (size << NUMBER_BITS if size < HEAD.size else 0), size)


def read_announced(head: bytes) -> tuple[int, int] | None:
    """Return the number and the size in the first bytes of a flow; None if too few bytes have arrived."""
    first = int.from_bytes(head[:8], "little")
    number, small = first & ((1 << NUMBER_BITS) - 1), first >> NUMBER_BITS
    if len(head) >= 8 and small:
        return number, small
    return (number, HEAD.unpack(head)[1]) if len(head) == HEAD.size else None


def address_of(flow: dict[str, Any]) -> str:
    """Return the flow's address and port as text for people."""
    return f"{flow['address']} port {flow['port']}"


def count(connection: socket.socket) -> Counts:
    """Return retransmitted segments, duplicates among them, and time-outs. For MPTCP: those of the initial subflow."""
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, INFO_BYTES)
    read = [
        struct.unpack_from(form, info, at)[0] if at + struct.calcsize(form) <= len(info) else 0
        for at, form in (RETRANSMITS, DUPLICATES, TIMEOUTS)
    ]
    return read[0], read[1], read[2]


def draw(flow: dict[str, Any]) -> list[tuple[int, int]]:
    """Return (start in ns from now, size in bytes) of each connection."""
    if "starts_ns" in flow:
        return list(zip(flow["starts_ns"], flow["sizes_bytes"], strict=True))
    starts, sizes = (random.Random(f"{os.environ['MPRUN_SEED']} {key}") for key in (flow["starts_key"], flow["name"]))
    return [(start_ns, draw_size(flow, sizes)) for start_ns in draw_starts(flow, starts)]


def draw_starts(flow: dict[str, Any], generator: random.Random) -> Iterator[int]:
    """Yield start times in ns. The first is one interval after the beginning; all are before the duration ends."""
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
    """Return a size in bytes. A distribution is linear between its points."""
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
    """Wakes the reader of a socket for every 16 kB, not for every packet, until all data has arrived."""

    def __init__(self, connection: socket.socket, size: int) -> None:
        self._socket = connection
        self._size = size
        self._low_water = 1

    def expect(self, received: int) -> None:
        """Set the amount of waiting data at which the reader wakes. received: the bytes read until now."""
        wanted = max(1, min(self._size - received, MOST_AT_ONCE))
        if wanted != self._low_water:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, wanted)
            self._low_water = wanted


class Outgoing:
    """The bytes that a socket has to send: a head, then zeros."""

    def __init__(self, head: bytes, size: int) -> None:
        self._head = head[:size]
        self._left = size

    def send(self, connection: socket.socket) -> bool:
        """Send what can be sent now. Return True when all bytes are sent."""
        while self._left:
            try:
                # the head goes into one packet with the bytes that follow
                sent = connection.send((self._head + BLOCK)[: self._left] if self._head else BLOCK[: self._left])
            except BlockingIOError:
                return False
            self._head = self._head[sent:]
            self._left -= sent
        return True


class Sending:
    """A connection at its sender."""

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
        # SO_ERROR does not report a connection that is refused at once
        self._error = 0 if error == errno.EINPROGRESS else error

    @property
    def address(self) -> str:
        """The destination, as people write it."""
        return address_of(self._flow)

    def send(self) -> bool:
        """Send what can be sent. Return True when all bytes are sent. Raises OSError if the connection fails."""
        if not self._connected_ns:
            error = self._error or self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if error:
                raise OSError(error, os.strerror(error))
            self._connected_ns = time.monotonic_ns()
            # all retransmissions so far are of the handshake
            self._refused = count(self.socket)[0]
        return self._out.send(self.socket)

    def receive(self) -> bool:
        """Read what has arrived. Return True when the flow is over. Raises OSError if the connection fails.

        A flow with a request is over when the whole answer has arrived. Any other flow is over when the peer has
        closed.
        """
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
        """Print the flow's line. end_ns is 0 if the flow failed."""
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
    """Start each connection at its time and serve the open ones in between. Return the number of failed connections.

    On SIGTERM, print all open connections as failed.
    """
    selector = selectors.DefaultSelector()
    try:
        return serve(flows, selector)
    except KeyboardInterrupt:
        under_way = list(selector.get_map().values())
        for key in under_way:
            key.data.say(0)
        return len(under_way)


def serve(flows: list[dict[str, Any]], selector: selectors.BaseSelector) -> int:
    """Serve until all connections have ended. Return the number of failed connections."""
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
                sys.exit(f"{address_of(flows[n])}: {error.strerror}")
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
                print(f"{sending.address}: {error.strerror}", file=sys.stderr)
            selector.unregister(sending.socket)
            sending.socket.close()
    return failed


def wait(selector: selectors.BaseSelector, left_ns: int | None) -> list[tuple[selectors.SelectorKey, int]]:
    """Return the events until `left_ns` has passed. epoll counts milliseconds, so the rest is slept."""
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
    """A connection at its receiver."""

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
        self._refused, _, self._refusals = count(connection)

    def go_on(self, selector: selectors.BaseSelector) -> bool:
        """Read the waiting data and answer a request. Return True when the flow is over and in the records."""
        try:
            if self._out is None and not self._read(selector):
                return False
            if self._out is not None and not self._answer(selector):
                return False
        except ConnectionError:
            # the record shows that the flow is incomplete
            self._end_ns = time.monotonic_ns()
        number, _ = read_announced(self._head) or (0, 0)
        retransmits, duplicates, timeouts = count(self.socket)
        # the peer counts a lost handshake, so its SYN-ACKs that were sent again are no losses or time-outs of this end
        counts = (retransmits, duplicates + self._refused, timeouts - self._refusals)
        self._records.append((number, self._bytes, self._end_ns, *counts))
        return True

    def _read(self, selector: selectors.BaseSelector) -> bool:
        """Read. Return True when all announced bytes are read, or no more can come."""
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
        """Send the answer. Return True when the answer is sent and its reader has closed."""
        assert self._out is not None
        if selector.get_key(self.socket).events == selectors.EVENT_WRITE:
            if self._out.send(self.socket):
                selector.modify(self.socket, selectors.EVENT_READ, self)
            return False
        return not self.socket.recv(1)


def receive(flows: list[dict[str, Any]]) -> None:
    """Accept connections until SIGTERM, then write the records."""
    selector = selectors.DefaultSelector()
    records: list[list[tuple[int, ...]]] = [[] for _ in flows]
    for n, flow in enumerate(flows):
        try:
            listener = open_socket(flow)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            # any address, as a join to another address than the flow's must find a listener, too
            listener.bind(("::" if ":" in flow["address"] else "", flow["port"]))
            listener.listen(BACKLOG)
        except OSError as error:
            sys.exit(f"{address_of(flow)}: {error.strerror}")
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
    except KeyboardInterrupt:
        for flow, some in zip(flows, records, strict=True):
            with open(flow["record"], "wb") as file:
                file.write(b"".join(RECORD.pack(*record) for record in some))


def main(arguments: list[str]) -> None:
    """Run one role. The exit status is 1, with the reason on standard error, if connections fail."""
    # wake at the requested nanosecond; by default timers may be 50 us late (prctl(2))
    ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    role, *paths = arguments
    flows = []
    for path in paths:
        with open(path) as file:
            flows.append(json.load(file))
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if role == "send":
        sys.exit(1 if send(flows) else 0)
    receive(flows)


if __name__ == "__main__":
    main(sys.argv[1:])
