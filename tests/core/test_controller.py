# SPDX-License-Identifier: Apache-2.0
"""The controller of reactive switches, tested without a switch: its answers to packets."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from mprun.agent.programs import controller
from mprun.agent.programs.controller import Agenda, ConnectedSwitch, fields_of, match_of, output

ONE, OTHER = b"\2\0\0\0\0\1", b"\2\0\0\0\0\2"
TCP = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 40, 0, 0, 64, 6, 0, bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2]))
PORTS = struct.pack("!HH", 40000, 5201) + bytes(16)
THERE = OTHER + ONE + b"\x08\x00" + TCP + PORTS
BACK = ONE + OTHER + b"\x08\x00" + TCP[:12] + TCP[16:20] + TCP[12:16] + PORTS[2:4] + PORTS[:2] + bytes(16)


class Peer:
    """The switch's end of a connection."""

    def __init__(self, path: str, switch: ConnectedSwitch, agenda: Agenda) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.connect(path)
        self._switch = switch
        self._agenda = agenda
        switch.accept()
        assert [kind for kind, _ in self.answers()] == [controller.HELLO]

    def say(self, kind: int, body: bytes = b"") -> list[tuple[int, bytes]]:
        self._socket.sendall(struct.pack("!BBHI", 4, kind, 8 + len(body), 7) + body)
        self._switch.read()
        return self.answers()

    def packet(self, port: int, frame: bytes) -> list[tuple[int, bytes]]:
        match = match_of(controller.field(controller.IN_PORT, struct.pack("!I", port)))
        head = struct.pack("!IHBBQ", controller.NO_BUFFER, len(frame), 0, 0, 0)
        return self.say(controller.PACKET_IN, head + match + bytes(2) + frame)

    def answers(self) -> list[tuple[int, bytes]]:
        self._agenda.do_due()
        self._socket.setblocking(False)
        try:
            data = self._socket.recv(1 << 16)
        except BlockingIOError:
            return []
        found = []
        while data:
            _, kind, length, _ = struct.unpack_from("!BBHI", data)
            found.append((kind, data[8:length]))
            data = data[length:]
        return found

    def close(self) -> None:
        self._socket.close()
        self._switch.read()
        self._switch.listener.close()


@pytest.fixture
def peer(tmp_path: Path) -> Iterator[Peer]:
    agenda = Agenda()
    path = str(tmp_path / "s1.controller")
    peer = Peer(path, controller.parse_switch(f"{path},delay_ns=0,idle_timeout=10,match=connection", agenda), agenda)
    yield peer
    peer.close()


def test_handshake(peer: Peer, capsys: pytest.CaptureFixture[str]) -> None:
    assert [kind for kind, _ in peer.say(controller.HELLO)] == [controller.BARRIER_REQUEST]
    assert "connected" not in capsys.readouterr().err
    assert peer.say(controller.BARRIER_REPLY) == []
    assert capsys.readouterr().err == "s1: connected\n"
    assert peer.say(controller.ECHO_REQUEST, b"are you there") == [(controller.ECHO_REPLY, b"are you there")]


def test_flow_is_installed_once_both_ends_are_known(peer: Peer) -> None:
    (kind, body), *rest = peer.packet(1, THERE)
    assert (kind, rest) == (controller.PACKET_OUT, [])
    assert output(controller.FLOOD) in body
    assert body.endswith(THERE)
    first, second, (kind, body) = peer.packet(2, BACK)
    assert (first[0], second[0], kind) == (controller.FLOW_MOD, controller.FLOW_MOD, controller.PACKET_OUT)
    assert match_of(fields_of(THERE, "connection")) in first[1]
    assert first[1].endswith(output(2))
    assert match_of(fields_of(BACK, "connection")) in second[1]
    assert second[1].endswith(output(1))
    assert output(1) in body
    assert body.endswith(BACK)


def test_message_in_two_pieces(peer: Peer) -> None:
    message = struct.pack("!BBHI", 4, controller.ECHO_REQUEST, 12, 7) + b"abcd"
    peer._socket.setblocking(True)
    peer._socket.sendall(message[:5])
    peer._switch.read()
    assert peer.answers() == []
    peer._socket.sendall(message[5:])
    peer._switch.read()
    assert peer.answers() == [(controller.ECHO_REPLY, b"abcd")]


def test_broadcast_is_flooded_and_no_flow_is_kept_for_it(peer: Peer) -> None:
    arp = b"\xff" * 6 + ONE + b"\x08\x06" + bytes(28)
    assert [kind for kind, _ in peer.packet(1, arp)] == [controller.PACKET_OUT]
    assert [kind for kind, _ in peer.packet(2, BACK)] == [controller.FLOW_MOD, controller.PACKET_OUT]


def kinds_of(fields: bytes) -> list[int]:
    found, at = [], 0
    while at < len(fields):
        found.append(fields[at + 2] >> 1)
        at += 4 + fields[at + 3]
    return found


def test_fields_of_a_flow() -> None:
    assert kinds_of(fields_of(THERE, "connection")) == [3, 4, 5, 10, 11, 12, 13, 14]
    assert kinds_of(fields_of(THERE, "hosts")) == [3, 4]
    fragment = THERE[:20] + b"\x00\x10" + THERE[22:]
    assert kinds_of(fields_of(fragment, "connection")) == [3, 4, 5, 10, 11, 12]
    six = OTHER + ONE + b"\x86\xdd" + bytes(6) + b"\x11\x40" + bytes(32) + bytes(8)
    assert kinds_of(fields_of(six, "connection")) == [3, 4, 5, 10, 26, 27, 15, 16]
    assert kinds_of(fields_of(OTHER + ONE + b"\x08\x06" + bytes(28), "connection")) == [3, 4, 5]
