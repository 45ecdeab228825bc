# SPDX-License-Identifier: Apache-2.0
"""The program behind `ping`: which answers it takes."""

from __future__ import annotations

import socket

from mprun.agent.programs.echo import Echo


class OneRequest(Echo):
    """An echo that sent its only request long ago. Each byte of its socket is the answer."""

    def __init__(self, opened: socket.socket) -> None:
        self._socket = opened
        self._sent = [(0, 0)]
        self._answered = set()
        self.delays_ns = [1000]

    def _receive(self) -> None:
        self._socket.recv(1)
        self._answered.add(1)


def test_an_answer_that_waits_is_taken_however_late_the_program_is() -> None:
    """On a slow machine the program may have the CPU again only when its wait is over."""
    here, there = socket.socketpair()
    with here, there:
        there.send(b"x")
        echo = OneRequest(here)
        echo.finish()
        assert echo.is_complete


def test_an_answer_that_does_not_come_is_not_waited_for() -> None:
    here, there = socket.socketpair()
    with here, there:
        echo = OneRequest(here)
        echo.finish()
        assert not echo.is_complete
