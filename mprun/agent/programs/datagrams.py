# SPDX-License-Identifier: Apache-2.0
"""Send numbered UDP packets at a constant rate and record which arrive. It runs as a program of its own.

    python3 datagrams.py receive ADDRESS PORT FILE
    python3 datagrams.py send ADDRESS PORT length=BYTES rate=BITS packets=N

Each packet begins with its number (from 0) and its sending time (ns of CLOCK_MONOTONIC), 64 bits each, little endian.
The sender prints how many packets it sent. The receiver runs until it gets SIGTERM. Then it writes one record of three
such numbers for each packet, in the order of arrival: number, sending time, time of reading. Both ends run on one
kernel and so read one clock.

The program needs only Python's library, because mprun's package is not available where it runs.
"""

from __future__ import annotations

import ctypes
import signal
import socket
import struct
import sys
import time

PR_SET_TIMERSLACK = 29
HEAD = struct.Struct("<QQ")
RECORD = struct.Struct("<QQQ")
# Room for packets that arrive while this program is not on a CPU. The kernel may grant less.
BUFFER_BYTES = 4 << 20


def open_socket(address: str) -> socket.socket:
    """Return a UDP socket of the address's family."""
    return socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM)


def receive(address: str, port: int, path: str) -> None:
    """Receive packets until SIGTERM, then write the records."""

    records: list[tuple[int, int, int]] = []
    receiver = open_socket(address)
    receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        receiver.bind((address, port))
        while True:
            head = receiver.recv(HEAD.size)
            now_ns = time.monotonic_ns()
            if len(head) == HEAD.size:
                records.append((*HEAD.unpack(head), now_ns))
    except KeyboardInterrupt:
        with open(path, "wb") as file:
            file.write(b"".join(RECORD.pack(*record) for record in records))


def send(address: str, port: int, length: int, rate: int, packets: int) -> None:
    """Send each packet at its own time, counted from the first packet. A late packet does not delay the next ones."""
    sender = open_socket(address)
    sender.connect((address, port))
    rest = bytes(length - HEAD.size)
    bits = length * 8
    start_ns = time.monotonic_ns()
    for number in range(packets):
        # rounded for each packet alone: the error of a rounded interval would add up
        left_ns = start_ns + number * bits * 10**9 // rate - time.monotonic_ns()
        if left_ns > 0:
            time.sleep(left_ns / 1e9)
        sender.send(HEAD.pack(number, time.monotonic_ns()) + rest)
    print(packets)


def main(arguments: list[str]) -> None:
    """Run one role. The exit status is 1, with the reason on standard error, if packets cannot be sent or received."""
    # wake at the requested nanosecond; by default timers may be 50 us late (prctl(2))
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
