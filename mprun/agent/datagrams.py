# SPDX-License-Identifier: Apache-2.0
"""Numbered UDP packets at a constant rate, and what arrives of them: sender and receiver, a program of its own.

    python3 datagrams.py receive ADDRESS PORT FILE
    python3 datagrams.py send ADDRESS PORT length=BYTES rate=BITS packets=N

Each packet begins with its number, from 0 on, and the moment when it is sent (ns of CLOCK_MONOTONIC), 64 bits
each, little endian. The sender prints how many it has sent. The receiver runs until it is told to end (TERM) and
then writes a record of three such numbers for each packet in the order of arrival: its own two, and the moment
when it was read. Both ends read one clock: they run on one kernel. Needs nothing but Python's library: it is no
part of mprun's package where it runs.
"""

from __future__ import annotations

import ctypes
import signal
import socket
import struct
import sys
import time
from types import FrameType

PR_SET_TIMERSLACK = 29
HEAD = struct.Struct("<QQ")
RECORD = struct.Struct("<QQQ")
# Room for what arrives while this program is not on a CPU, as far as the kernel gives it.
BUFFER_BYTES = 4 << 20


class Ended(Exception):
    """The receiver is told to end."""


def open_socket(address: str) -> socket.socket:
    return socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM)


def receive(address: str, port: int, path: str) -> None:
    """Gather packets until TERM comes, then write them down."""

    def end(number: int, frame: FrameType | None) -> None:
        raise Ended

    records: list[tuple[int, int, int]] = []
    receiver = open_socket(address)
    receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
    signal.signal(signal.SIGTERM, end)
    try:
        receiver.bind((address, port))
        while True:
            head = receiver.recv(HEAD.size)
            now_ns = time.monotonic_ns()
            if len(head) == HEAD.size:
                records.append((*HEAD.unpack(head), now_ns))
    except Ended:
        with open(path, "wb") as file:
            file.write(b"".join(RECORD.pack(*record) for record in records))


def send(address: str, port: int, length: int, rate: int, packets: int) -> None:
    """Each packet at its own moment, counted from the first; one that is late does not make the next ones late."""
    sender = open_socket(address)
    sender.connect((address, port))
    rest = bytes(length - HEAD.size)
    bits = length * 8
    start_ns = time.monotonic_ns()
    for number in range(packets):
        # rounded for each packet alone: a rounded interval would add up
        left_ns = start_ns + number * bits * 10**9 // rate - time.monotonic_ns()
        if left_ns > 0:
            time.sleep(left_ns / 1e9)
        sender.send(HEAD.pack(number, time.monotonic_ns()) + rest)
    print(packets)


def main(arguments: list[str]) -> None:
    """Exit status 1, and why, where packets cannot be sent or received."""
    # wake at the nanosecond asked for, not up to 50 us later (prctl(2))
    ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)
    role, address, port, *rest = arguments
    try:
        if role == "receive":
            receive(address, int(port), *rest)
        else:
            facts = dict(pair.split("=", 1) for pair in rest)
            send(address, int(port), int(facts["length"]), int(facts["rate"]), int(facts["packets"]))
    except OSError as error:
        sys.exit(f"{address} port {port}: {error.strerror}")


if __name__ == "__main__":
    main(sys.argv[1:])
