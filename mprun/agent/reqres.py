# SPDX-License-Identifier: Apache-2.0
"""Requests and answers over one TCP or MPTCP connection: client and server, a program of its own.

    python3 reqres.py server ADDRESS PORT key=value ...
    python3 reqres.py client ADDRESS PORT key=value ...

Keys: protocol (tcp, mptcp), request, response (bytes), requests (how many), think_ns (what this end waits before
it sends), congestion (tcp_congestion_control of this end; empty: as it is).

The client prints `port N`, its own, when it is connected, and then a line `START END` for each request: the
moment before it is sent and the moment when the whole answer is here, ns of CLOCK_MONOTONIC. Needs nothing
but Python's library: it is no part of mprun's package where it runs.
"""

from __future__ import annotations

import ctypes
import os
import select
import socket
import sys
import time

IPPROTO_MPTCP = 262
PR_SET_TIMERSLACK = 29
# So much at once is asked of the kernel, which wakes the reader when so much is there. Well below the window that a
# connection begins with (64 kB): what waits for more than the peer may send would wait for ever.
MOST_AT_ONCE = 16 * 1024


class ConnectionEnded(Exception):
    """The peer has closed the connection before its time."""


def open_socket(address: str, protocol: str, congestion: str) -> socket.socket:
    """A socket of the address's family; small messages leave at once (tcp(7))."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM, IPPROTO_MPTCP if protocol == "mptcp" else socket.IPPROTO_TCP)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if congestion:
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, congestion.encode())
    return made


class Receiver:
    """Takes messages of one length; is woken when there is enough to go on, not for every packet.

    It polls first: a read that blocks has taken what was there, and then sleeps on until as much as the low-water
    mark comes anew, which may be more than what is still to come.
    """

    def __init__(self, connection: socket.socket, length: int) -> None:
        self._connection = connection
        self._length = length
        self._buffer = bytearray(min(length, MOST_AT_ONCE))
        self._low_water = 0
        self._poll = select.poll()
        self._poll.register(connection, select.POLLIN)

    def receive(self) -> bool:
        """A whole message; False if the peer has closed before it began. Raises ConnectionEnded."""
        left = self._length
        while left:
            wanted = min(left, len(self._buffer))
            if wanted != self._low_water:
                self._connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, wanted)
                self._low_water = wanted
            self._poll.poll()
            try:
                count = self._connection.recv_into(self._buffer, wanted, socket.MSG_DONTWAIT)
            except BlockingIOError:
                continue
            if not count:
                if left == self._length:
                    return False
                raise ConnectionEnded
            left -= count
        return True


def wait(duration_ns: int) -> None:
    if duration_ns:
        time.sleep(duration_ns / 1e9)


def say(line: str) -> None:
    """Written at once: what was measured before a run is stopped is not lost."""
    os.write(1, f"{line}\n".encode())


def serve(listener: socket.socket, facts: dict[str, str]) -> None:
    """Answer the requests of one connection."""
    listener.listen()
    connection, _ = listener.accept()
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    receiver = Receiver(connection, int(facts["request"]))
    answer = bytes(int(facts["response"]))
    while receiver.receive():
        wait(int(facts["think_ns"]))
        connection.sendall(answer)
    connection.close()


def request(connection: socket.socket, facts: dict[str, str]) -> None:
    """Send the requests, each when the one before is answered."""
    receiver = Receiver(connection, int(facts["response"]))
    message = bytes(int(facts["request"]))
    say(f"port {connection.getsockname()[1]}")
    for number in range(1, int(facts["requests"]) + 1):
        wait(int(facts["think_ns"]))
        start_ns = time.monotonic_ns()
        connection.sendall(message)
        if not receiver.receive():
            raise ConnectionEnded(number)
        say(f"{start_ns} {time.monotonic_ns()}")
    connection.close()


def bind_everywhere(end: socket.socket, address: str, port: int) -> None:
    """On every address of the family of this one: a join to another is refused where nobody listens."""
    end.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    end.bind(("::" if ":" in address else "", port))


def main(arguments: list[str]) -> None:
    """Exit status 1, and why, where the connection or the answers cannot be had."""
    # wake at the nanosecond asked for, not up to 50 us later (prctl(2))
    ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)
    role, address, port, *pairs = arguments
    facts = dict(pair.split("=", 1) for pair in pairs)
    try:
        end = open_socket(address, facts["protocol"], facts["congestion"])
        if role == "server":
            bind_everywhere(end, address, int(port))
            serve(end, facts)
        else:
            end.connect((address, int(port)))
            request(end, facts)
    except ConnectionEnded:
        sys.exit(f"the {'client' if role == 'server' else 'server'} closed the connection within a message")
    except OSError as error:
        sys.exit(f"{address} port {port}: {error.strerror}")


if __name__ == "__main__":
    main(sys.argv[1:])
