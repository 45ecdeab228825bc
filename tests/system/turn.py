# SPDX-License-Identifier: Apache-2.0
"""Whose turn it is on this machine: tests run beside each other, but for those in real time.

A test in real time shows what the machine can do, and looks at all of its namespaces and interfaces: it has the machine
to itself. Tests of other processes wait for it at a gate, so that it is not kept waiting for ever.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

Turn = Literal["shared", "alone"]

# The same for all processes of a run of the tests, whatever their TMPDIR.
_PLACE = f"{tempfile.gettempdir()}/mprun-tests-{os.getuid()}"
_held: list[Turn] = []


@contextlib.contextmanager
def take_turn(turn: Turn) -> Iterator[None]:
    """Wait for it, and hold it. Within a turn alone all is allowed; one that is shared cannot become one alone."""
    if _held:
        assert turn == "shared" or _held[0] == "alone", "a test in real time: mark it with pytest.mark.alone"
        yield
        return
    with Path(f"{_PLACE}.gate").open("w") as gate, Path(f"{_PLACE}.turn").open("w") as lock:
        fcntl.flock(gate, fcntl.LOCK_EX)
        fcntl.flock(lock, fcntl.LOCK_EX if turn == "alone" else fcntl.LOCK_SH)
        fcntl.flock(gate, fcntl.LOCK_UN)
        _held.append(turn)
        try:
            yield
        finally:
            _held.pop()
