# SPDX-License-Identifier: Apache-2.0
"""Requests and answers over one TCP or MPTCP connection: client and server. It runs as a program of its own.

    python3 reqres.py server ADDRESS PORT key=value ...
    python3 reqres.py client ADDRESS PORT key=value ...

- protocol: tcp or mptcp.
- request, response: sizes in bytes.
- requests: the number of requests.
- think_ns: the time that this end waits before it sends.
- congestion: tcp_congestion_control of this end; empty for the host's own.

The client prints `port N`, its own port, when it is connected. For each request it prints a line `START END`: the time
before the request is sent, and the time when the whole answer has arrived (ns of CLOCK_MONOTONIC).

The program needs only Python's library, because mprun's package is not available where it runs.
"""

from __future__ import annotations

import ctypes
import os
import select
import socket
import sys
import time
from collections.abc import Callable, Mapping

IPPROTO_MPTCP = 262
PR_SET_TIMERSLACK = 29
# The most bytes that one read asks for; the kernel wakes the reader when they are there. The value is well below the
# initial window of a connection (64 kB). With a larger value, the receiver could wait for more than the peer may send.
MOST_AT_ONCE = 16 * 1024


class ConnectionEnded(Exception):
    """The peer has closed the connection too early."""


# A role with its socket and the facts of the arguments.
EndRole = Callable[[socket.socket, dict[str, str]], None]


def open_socket(address: str, protocol: str, congestion: str) -> socket.socket:
    """Return a socket of the address's family that sends small messages at once (tcp(7))."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM, IPPROTO_MPTCP if protocol == "mptcp" else socket.IPPROTO_TCP)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if congestion:
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, congestion.encode())
    return made


class Receiver:
    """Receives messages of one length. It is woken when enough data waits, not for every packet.

    It polls before it reads. A blocking read takes the data that is there, and then sleeps until the low-water mark is
    reached again. The low-water mark may be more than the missing data.
    """

    def __init__(self, connection: socket.socket, length: int) -> None:
        self._connection = connection
        self._length = length
        self._buffer = bytearray(min(length, MOST_AT_ONCE))
        self._low_water = 0
        self._poll = select.poll()
        self._poll.register(connection, select.POLLIN)

    def receive(self) -> bool:
        """Receive a whole message. Return False if the peer closed before the message began. Raises ConnectionEnded."""
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
    """Sleep for a time in ns; do nothing for 0."""
    if duration_ns:
        time.sleep(duration_ns / 1e9)


def say(line: str) -> None:
    """Write a line at once, so that no measurement is lost if the run is stopped."""
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
    """Send the requests, each after the answer to the previous one."""
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


def be_punctual() -> None:
    """Wake at the requested nanosecond. By default, timers may be 50 us late (prctl(2))."""
    ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)


def run_role(arguments: list[str], roles: Mapping[str, EndRole], lost: str) -> None:
    """Run the role of the arguments: `server` listens at the address, every other role connects to it.

    lost: the reason if the connection ends within a message; `{peer}` is the other role. The exit status is 1, with the
    reason on standard error, if the connection fails.
    """
    be_punctual()
    role, address, port, *pairs = arguments
    facts = dict(pair.split("=", 1) for pair in pairs)
    try:
        end = open_socket(address, facts["protocol"], facts["congestion"])
        if role == "server":
            end.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            # every address of the family, as a join to another address is refused without a listener there
            end.bind(("::" if ":" in address else "", int(port)))
        else:
            end.connect((address, int(port)))
        roles[role](end, facts)
    except ConnectionEnded:
        sys.exit(lost.format(peer="client" if role == "server" else "server"))
    except OSError as error:
        sys.exit(f"{address} port {port}: {error.strerror}")


def main(arguments: list[str]) -> None:
    """Serve or ask, as the arguments say."""
    roles = {"server": serve, "client": request}
    run_role(arguments, roles, "the {peer} closed the connection within a message")


if __name__ == "__main__":
    main(sys.argv[1:])
