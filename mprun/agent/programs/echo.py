# SPDX-License-Identifier: Apache-2.0
"""Send ICMP echo requests at times counted from the first one (RFC 792, RFC 4443). It runs as a program of its own.

    python3 echo.py SOURCE DESTINATION count=N interval_ns=NS size=BYTES

Request n is due (n - 1) intervals after the first. A late request does not delay the next ones. The kernel timestamps
each answer on arrival, so the round-trip time does not depend on when this program runs.

The output has the format of ping(8). Each answer has one line. The line begins with the time of the request in brackets
(ns of CLOCK_MONOTONIC) and has a sequence number that does not wrap around. The statistics come at the end.

After the last request the program waits for missing answers. It waits twice the longest round-trip time, or 10 s if
there is no answer yet. SIGTERM ends the program early, with the statistics so far. The exit status is 1 if no answer
came or a socket cannot be opened.

The program needs only Python's library, because mprun's package is not available where it runs.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import socket
import struct
import sys
import time

PR_SET_TIMERSLACK = 29
SO_TIMESTAMPNS = 35
# ICMP_FILTER of raw(7): a set bit of 32 drops a type. ICMP6_FILTER (RFC 3542 3.2): the same with 256 bits.
SOL_RAW, ICMP_FILTER, ICMP6_FILTER = 255, 1, 1
TYPES = {socket.AF_INET: (8, 0), socket.AF_INET6: (128, 129)}
# Type, code, checksum, identifier, sequence number.
HEAD = struct.Struct("!BBHHH")
STAMP = struct.Struct("@qq")
ROUND = 1 << 16
LINGER_NS = 10_000_000_000


def open_socket(source: str, family: socket.AddressFamily) -> socket.socket:
    """Open a raw socket that sends from one address and receives only echo replies, with their time and hop limit."""
    answer = TYPES[family][1]
    if family == socket.AF_INET6:
        opened = socket.socket(family, socket.SOCK_RAW, socket.IPPROTO_ICMPV6)
        dropped = (1 << 256) - 1 ^ 1 << answer
        words = (dropped >> shift & 0xFFFFFFFF for shift in range(0, 256, 32))
        opened.setsockopt(socket.IPPROTO_ICMPV6, ICMP6_FILTER, struct.pack("=8I", *words))
        opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVHOPLIMIT, 1)
    else:
        opened = socket.socket(family, socket.SOCK_RAW, socket.IPPROTO_ICMP)
        opened.setsockopt(SOL_RAW, ICMP_FILTER, struct.pack("=I", 0xFFFFFFFF ^ 1 << answer))
    opened.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    opened.bind((source, 0))
    opened.setblocking(False)
    return opened


def sum_up(message: bytes) -> int:
    """Return the Internet checksum (RFC 1071)."""
    words: tuple[int, ...] = struct.unpack(f"!{(len(message) + 1) // 2}H", message + bytes(len(message) % 2))
    total = sum(words)
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


class Echo:
    """The requests of one run of the program, and their answers."""

    def __init__(self, source: str, destination: str, size: int) -> None:
        self._family = socket.AF_INET6 if ":" in destination else socket.AF_INET
        self._destination = destination
        self._payload = bytes(size)
        self._identifier = os.getpid() % ROUND
        self._socket = open_socket(source, self._family)
        # for each request: CLOCK_MONOTONIC for its time, CLOCK_REALTIME for its round trip, as the kernel timestamps
        # answers
        self._sent: list[tuple[int, int]] = []
        self._answered: set[int] = set()
        self.delays_ns: list[int] = []
        self.duplicates = 0

    @property
    def sent(self) -> int:
        """The number of requests sent."""
        return len(self._sent)

    @property
    def is_complete(self) -> bool:
        """True if every request has an answer."""
        return len(self._answered) == len(self._sent)

    def send(self) -> None:
        """Send the next request. A request that cannot be sent counts as sent; standard error has the reason."""
        request, _ = TYPES[self._family]
        parts = (self._identifier, (self.sent + 1) % ROUND)
        # the kernel fills in the checksum of ICMPv6 (RFC 3542 3.1)
        checksum = 0 if self._family == socket.AF_INET6 else sum_up(HEAD.pack(request, 0, 0, *parts) + self._payload)
        message = HEAD.pack(request, 0, checksum, *parts) + self._payload
        self._sent.append((time.monotonic_ns(), time.time_ns()))
        try:
            self._socket.sendto(message, (self._destination, 0))
        except OSError as error:
            print(f"icmp_seq={self.sent}: {error.strerror}", file=sys.stderr)

    def receive_until(self, moment_ns: int) -> None:
        """Receive answers until a time of CLOCK_MONOTONIC.

        select(2) may be late by a thousandth of its time-out, but a sleep is not. The last hundredth is therefore
        slept.
        """
        while (left_ns := moment_ns - time.monotonic_ns()) > 0:
            if not select.select([self._socket], [], [], left_ns / 1e9 * 0.99)[0]:
                time.sleep(max(0, moment_ns - time.monotonic_ns()) / 1e9)
                return
            self._receive()

    def finish(self) -> None:
        """Receive the answers that are still missing, and any that arrived while this program waited for a CPU."""
        last_ns = self._sent[-1][0]
        while not self.is_complete:
            linger_ns = 2 * max(self.delays_ns) if self.delays_ns else LINGER_NS
            left_ns = last_ns + linger_ns - time.monotonic_ns()
            if not select.select([self._socket], [], [], max(0, left_ns) / 1e9)[0]:
                return
            self._receive()

    def _receive(self) -> None:
        message, ancillary, _, (sender, *_) = self._socket.recvmsg(ROUND, 256)
        said = {(level, kind): value for level, kind, value in ancillary}
        seconds, ns = STAMP.unpack(said[socket.SOL_SOCKET, SO_TIMESTAMPNS])
        if self._family == socket.AF_INET6:
            hops = int.from_bytes(said[socket.IPPROTO_IPV6, socket.IPV6_HOPLIMIT], sys.byteorder)
        else:
            # the IP header comes before the message (raw(7)); its length in words is in its first byte
            hops, message = message[8], message[4 * (message[0] & 0xF) :]
        _, _, _, identifier, low = HEAD.unpack_from(message)
        number = self.sent - (self.sent - low) % ROUND
        if identifier != self._identifier or sender != self._destination or number < 1:
            return
        sent_ns, stamped_ns = self._sent[number - 1]
        delay_ns = seconds * 1_000_000_000 + ns - stamped_ns
        is_first = number not in self._answered
        self._answered.add(number)
        self.duplicates += not is_first
        self.delays_ns += [delay_ns] if is_first else []
        words = f"{len(message)} bytes from {sender}: icmp_seq={number} ttl={hops} time={delay_ns / 1e6:.3f} ms"
        say(f"[{sent_ns}] {words}{'' if is_first else ' (DUP!)'}")

    def tell(self) -> None:
        """Print the statistics in the format of ping(8)."""
        received = len(self._answered)
        again = f"+{self.duplicates} duplicates, " if self.duplicates else ""
        lost = 100 * (self.sent - received) / self.sent if self.sent else 0
        took_ms = (self._sent[-1][0] - self._sent[0][0]) // 1_000_000 if self._sent else 0
        say(f"\n--- {self._destination} ping statistics ---")
        counts = f"{self.sent} packets transmitted, {received} received"
        say(f"{counts}, {again}{lost:.6g}% packet loss, time {took_ms}ms")
        if self.delays_ns:
            mean = sum(self.delays_ns) / received
            mdev = (sum((delay - mean) ** 2 for delay in self.delays_ns) / received) ** 0.5
            times = (min(self.delays_ns), mean, max(self.delays_ns), mdev)
            say("rtt min/avg/max/mdev = " + "/".join(f"{ns / 1e6:.3f}" for ns in times) + " ms")


def say(line: str) -> None:
    """Write a line at once, so that no measurement is lost if the run is stopped."""
    os.write(1, f"{line}\n".encode())


def main(arguments: list[str]) -> None:
    """Send the requests. Return the exit status."""
    # wake at the requested nanosecond; by default timers may be 50 us late (prctl(2))
    ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)
    source, destination, *pairs = arguments
    facts = {name: int(value) for name, value in (pair.split("=", 1) for pair in pairs)}
    try:
        echo = Echo(source, destination, facts["size"])
    except OSError as error:
        sys.exit(f"{source}: {error.strerror}")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    say(f"PING {destination} from {source} : {facts['size']} bytes of data.")
    try:
        start_ns = time.monotonic_ns()
        for number in range(facts["count"]):
            echo.receive_until(start_ns + number * facts["interval_ns"])
            echo.send()
        echo.finish()
    except KeyboardInterrupt:
        pass
    echo.tell()
    sys.exit(0 if echo.delays_ns else 1)


if __name__ == "__main__":
    main(sys.argv[1:])
