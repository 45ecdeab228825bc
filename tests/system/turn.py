# SPDX-License-Identifier: Apache-2.0
"""Turns on this machine: tests run in parallel, except for tests in real time.

A test in real time measures the machine and checks all of its namespaces and interfaces, so it runs alone. Tests of
other processes wait at a gate until it has run, so its own wait ends.
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

# The same path for all processes of a run of the tests, whatever their TMPDIR.
_PLACE = f"{tempfile.gettempdir()}/mprun-tests-{os.getuid()}"
_held: list[Turn] = []


@contextlib.contextmanager
def take_turn(turn: Turn) -> Iterator[None]:
    """Wait for a turn and hold it. A turn "alone" permits all nested turns. A shared turn cannot become "alone"."""
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
