# SPDX-License-Identifier: Apache-2.0
"""All processes that a process has started, directly or indirectly, even if processes in between have ended."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from contextlib import suppress
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """Make this process the parent of its descendants whose own parent ends (prctl(2))."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def reap() -> None:
    """Collect the children that have ended. The caller must not need their status."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def children(pid: int) -> list[int]:
    """Return the children of a process that have not ended."""
    found: list[int] = []
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += [int(child) for child in (task / "children").read_text().split()]
    return [child for child in found if is_alive(child)]


def below(pid: int) -> list[int]:
    """Return all descendants of a process that have not ended."""
    found = []
    for child in children(pid):
        found += [child, *below(child)]
    return found


def is_alive(pid: int) -> bool:
    """Return whether a process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def command(pid: int) -> str:
    """Return the command line of a process; empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""


def wait_gone(pids: list[int], seconds: float) -> list[int]:
    """Wait until these processes have ended. Return the processes that are left after `seconds`."""
    deadline = time.monotonic() + seconds
    while (left := [pid for pid in pids if is_alive(pid)]) and time.monotonic() < deadline:
        time.sleep(0.005)
    return left


def end(pids: list[int]) -> None:
    """Kill these processes."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
