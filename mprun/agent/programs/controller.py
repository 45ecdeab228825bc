# SPDX-License-Identifier: Apache-2.0
"""The controller of reactive switches: OpenFlow 1.3 over sockets. It runs as a program of its own.

    python3 controller.py SOCKET,delay_ns=N,idle_timeout=S,match=connection|hosts ...

It listens on one socket for each switch. A switch sends each packet that no flow matches to the controller. The
controller notes the port of the packet's sender. If it knows the port of the destination, it installs a flow and
forwards the packet. Otherwise it floods the packet, and installs the flow when the destination has sent a packet.

Every message between a switch and the controller is `delay_ns` late, in either direction. The program needs only
Python's library, because mprun's package is not available where it runs.
"""

from __future__ import annotations

import ctypes
import heapq
import select
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterator

OPENFLOW_13 = 4
HELLO, ERROR, ECHO_REQUEST, ECHO_REPLY, PACKET_IN, PACKET_OUT, FLOW_MOD = 0, 1, 2, 3, 10, 13, 14
BARRIER_REQUEST, BARRIER_REPLY = 20, 21
FLOOD, ANY, NO_BUFFER = 0xFFFFFFFB, 0xFFFFFFFF, 0xFFFFFFFF
PRIORITY = 1
APPLY_ACTIONS = 4
BASIC = 0x8000
IN_PORT, ETH_DST, ETH_SRC, ETH_TYPE, IP_PROTO = 0, 3, 4, 5, 10
# The OXM fields of the source and destination port, by IP protocol.
PORTS = {6: (13, 14), 17: (15, 16), 132: (17, 18)}
IPV4, IPV6 = b"\x08\x00", b"\x86\xdd"
PR_SET_TIMERSLACK = 29

Act = Callable[[], None]


def field(kind: int, value: bytes) -> bytes:
    """Return an OXM TLV of the basic class (OpenFlow 1.3 section 7.2.3.2)."""
    return struct.pack("!HBB", BASIC, kind << 1, len(value)) + value


def match_of(fields: bytes) -> bytes:
    """Return a struct ofp_match, padded."""
    length = 4 + len(fields)
    return struct.pack("!HH", 1, length) + fields + bytes(-length % 8)


def output(port: int) -> bytes:
    """Return an output action."""
    return struct.pack("!HHIH6x", 0, 16, port, 0xFFFF)


def in_port_of(match: bytes) -> int:
    """Return the port in the match of a packet-in message. Other fields are read from the packet. Raises ValueError."""
    at = 4
    (length,) = struct.unpack_from("!H", match, 2)
    while at < length:
        kind, size = match[at + 2] >> 1, match[at + 3]
        if match[at : at + 2] == b"\x80\x00" and kind == IN_PORT:
            return int.from_bytes(match[at + 4 : at + 8], "big")
        at += 4 + size
    raise ValueError("a packet-in without a port")


def fields_of(frame: bytes, match: str) -> bytes:
    """Return the match fields that all packets of a frame's flow share.

    The fields are the MAC addresses of both hosts. Unless `match` is `hosts`, they also are the IP addresses, the
    protocol and the ports, if the frame has them.
    """
    kind = frame[12:14]
    fields = field(ETH_DST, frame[0:6]) + field(ETH_SRC, frame[6:12])
    if match == "hosts":
        return fields
    fields += field(ETH_TYPE, kind)
    if kind == IPV4 and len(frame) >= 34:
        protocol, source, destination = frame[23], field(11, frame[26:30]), field(12, frame[30:34])
        is_first = not int.from_bytes(frame[20:22], "big") & 0x1FFF
        payload = 14 + (frame[14] & 15) * 4 if is_first else len(frame)
    elif kind == IPV6 and len(frame) >= 54:
        protocol, source, destination = frame[20], field(26, frame[22:38]), field(27, frame[38:54])
        payload = 54
    else:
        return fields
    fields += field(IP_PROTO, bytes([protocol])) + source + destination
    if protocol in PORTS and len(frame) >= payload + 4:
        for number, at in zip(PORTS[protocol], (payload, payload + 2), strict=True):
            fields += field(number, frame[at : at + 2])
    return fields


class Agenda:
    """Actions that wait for their times. Actions with equal times run in the order in which they were added."""

    def __init__(self) -> None:
        self._waiting: list[tuple[int, int, Act]] = []
        self._count = 0

    def put(self, moment_ns: int, act: Act) -> None:
        """Add an action for a time (ns of CLOCK_MONOTONIC)."""
        heapq.heappush(self._waiting, (moment_ns, self._count, act))
        self._count += 1

    def do_due(self) -> float | None:
        """Run the actions that are due. Return the seconds until the next one; None if no action waits."""
        while self._waiting:
            left_ns = self._waiting[0][0] - time.monotonic_ns()
            if left_ns > 0:
                return left_ns / 1e9
            heapq.heappop(self._waiting)[2]()
        return None


class ConnectedSwitch:
    """A switch: its socket, and what the controller has learned about it."""

    def __init__(self, path: str, delay_ns: int, idle_timeout: int, match: str, agenda: Agenda) -> None:
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(path)
        self.listener.listen()
        self.connection: socket.socket | None = None
        self.is_connected = False
        self._name = path.rsplit("/", 1)[-1].removesuffix(".controller")
        self._delay_ns = delay_ns
        self._idle_timeout = idle_timeout
        self._match = match
        self._agenda = agenda
        self._received = b""
        self._places: dict[bytes, int] = {}
        self._wanted: dict[bytes, dict[bytes, None]] = {}

    def accept(self) -> None:
        """Accept a new connection, which replaces the previous one."""
        if self.connection is not None:
            self.connection.close()
        self.connection, _ = self.listener.accept()
        self._received = b""
        self._send(HELLO, 0, b"")

    def read(self) -> None:
        """Read the messages that the switch has sent. Each is handled `delay_ns` later."""
        assert self.connection is not None
        try:
            data = self.connection.recv(1 << 16)
        except ConnectionError:
            data = b""
        if not data:
            self.connection.close()
            self.connection = None
            self.is_connected = False
            say(f"{self._name}: disconnected")
            return
        self._received += data
        for kind, number, body in self._messages():
            self._later(lambda kind=kind, number=number, body=body: self._handle(kind, number, body))  # type: ignore[misc]

    def _messages(self) -> Iterator[tuple[int, int, bytes]]:
        while len(self._received) >= 8:
            _, kind, length, number = struct.unpack_from("!BBHI", self._received)
            if len(self._received) < length:
                return
            body, self._received = self._received[8:length], self._received[length:]
            yield kind, number, body

    def _later(self, act: Act) -> None:
        self._agenda.put(time.monotonic_ns() + self._delay_ns, act)

    def _send(self, kind: int, number: int, body: bytes) -> None:
        message = struct.pack("!BBHI", OPENFLOW_13, kind, 8 + len(body), number) + body
        connection = self.connection

        def send() -> None:
            if connection is not None and connection is self.connection:
                connection.sendall(message)

        self._later(send)

    def _handle(self, kind: int, number: int, body: bytes) -> None:
        if kind == HELLO:
            # the switch answers a barrier only after our HELLO, so it sends packets from then on
            self._send(BARRIER_REQUEST, 0, b"")
        elif kind == BARRIER_REPLY:
            self.is_connected = True
            say(f"{self._name}: connected")
        elif kind == ECHO_REQUEST:
            self._send(ECHO_REPLY, number, body)
        elif kind == PACKET_IN:
            (length,) = struct.unpack_from("!H", body, 18)
            self._forward(in_port_of(body[16:]), body[16 + (length + 7) // 8 * 8 + 2 :])
        elif kind == ERROR:
            sys.exit(f"{self._name}: the switch refused a message: {body[:4].hex()}")

    def _forward(self, in_port: int, frame: bytes) -> None:
        destination, source = frame[0:6], frame[6:12]
        fields = fields_of(frame, self._match)
        if not source[0] & 1:
            self._places[source] = in_port
            for wanted in self._wanted.pop(source, ()):
                self._install(wanted, in_port)
        port = self._places.get(destination)
        if port is not None:
            self._install(fields, port)
        elif not destination[0] & 1:
            self._wanted.setdefault(destination, {})[fields] = None
        actions = output(FLOOD if port is None else port)
        self._send(PACKET_OUT, 0, struct.pack("!IIH6x", NO_BUFFER, in_port, len(actions)) + actions + frame)

    def _install(self, fields: bytes, port: int) -> None:
        head = struct.pack("!QQBBHHHIIIH2x", 0, 0, 0, 0, self._idle_timeout, 0, PRIORITY, NO_BUFFER, ANY, ANY, 0)
        actions = output(port)
        instruction = struct.pack("!HH4x", APPLY_ACTIONS, 8 + len(actions)) + actions
        self._send(FLOW_MOD, 0, head + match_of(fields) + instruction)


def say(text: str) -> None:
    """Write a line to standard error at once."""
    print(text, file=sys.stderr, flush=True)


def parse_switch(word: str, agenda: Agenda) -> ConnectedSwitch:
    """Return the switch that an argument `SOCKET,key=value,...` describes."""
    path, *pairs = word.split(",")
    facts = dict(pair.split("=", 1) for pair in pairs)
    return ConnectedSwitch(path, int(facts["delay_ns"]), int(facts["idle_timeout"]), facts["match"], agenda)


def main(arguments: list[str]) -> None:
    """Serve the switches of the arguments until the program is killed."""
    # wake at the requested nanosecond; by default timers may be 50 us late (prctl(2))
    ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)
    agenda = Agenda()
    switches = [parse_switch(word, agenda) for word in arguments]
    is_complete = False
    while True:
        left_s = agenda.do_due()
        if not is_complete and all(switch.is_connected for switch in switches):
            is_complete = True
            say("all switches are connected")
        readers: dict[socket.socket, Act] = {switch.listener: switch.accept for switch in switches}
        readers |= {switch.connection: switch.read for switch in switches if switch.connection is not None}
        for ready in select.select(list(readers), [], [], left_s)[0]:
            readers[ready]()


if __name__ == "__main__":
    main(sys.argv[1:])
