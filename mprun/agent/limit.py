# SPDX-License-Identifier: Apache-2.0
"""Limits of programs: the CPU time of each, and what all of a run use together (processes, memory, disk).

The experiment kernel counts the CPU time that a program uses while simulated time stands still against RLIMIT_RTTIME
(getrlimit(2)). At the limit it ends the program with SIGXCPU (`kernel/src/mprun_time.c`). A program without a system
call lets no simulated time pass, so nothing else would end it.

The kernel also ends an entry that exceeds a limit of all programs, with all processes that the entry has started, and
reports which limit it was (`kernel/src/mprun_limit.c`). It identifies an entry by the pid of its first process. Other
kernels report nothing.
"""

from __future__ import annotations

import ctypes
import signal
from contextlib import suppress

from mprun.agent.namespace import call

RLIMIT_RTTIME = 15
_UNLIMITED = (1 << 64) - 1
# A shell reports a signal as 128 plus its number.
ENDED_BY_LIMIT = (-signal.SIGXCPU, 128 + signal.SIGXCPU)
ENDED = "/proc/mprun_limits"

_REASONS = {
    "tasks": "had most of the {most} processes and threads that a run may have at one time, and wanted more",
    "memory": "needed more than what was left of the {size} of memory that all programs of a run have together, with "
    "their files in /tmp, /run and /dev/shm",
    "bytes": "wrote more than what was left of the {size} that a run may write to its directory: of a capture keep "
    "less, by 'snaplen' or 'size'",
    "files": "made more than what was left of the {most} files that a run may have in its directory",
}

_limits = ctypes.c_uint64 * 2
_allowed_s: list[int] = []


def allow_cpu(seconds: int) -> None:
    """Set the limit for programs that are started from now on, in seconds of CPU time."""
    if _allowed_s == [seconds]:
        return
    call("prlimit", 0, RLIMIT_RTTIME, _limits(seconds * 1_000_000, _UNLIMITED), None)
    _allowed_s[:] = [seconds]


def explain_cpu(status: int | None, seconds: int) -> str | None:
    """Return the reason why a program with this status ended, if the limit of `seconds` ended it; else None."""
    if status not in ENDED_BY_LIMIT:
        return None
    return (
        f"used {seconds} s of CPU time while simulated time stood still: either it spins (waits in a loop without a "
        "system call, which never ends in simulated time), or it computes for long: then raise its limit, as in "
        f"'compute: {12 * seconds}s'"
    )


def read() -> dict[int, str]:
    """Return the reason why each ended entry was ended, by the pid of its first process."""
    with suppress(FileNotFoundError), open(ENDED) as file:
        return {int(pid): describe(bound, int(most)) for pid, bound, most in map(str.split, file)}
    return {}


def describe(bound: str, most: int) -> str:
    """Return in words why an entry was ended. bound: the name of the limit in the kernel's file. most: its value."""
    size = f"{most / 1e9:.1f} GB" if most >= 10**10 else f"{most / 1e6:.0f} MB"
    return _REASONS[bound].format(most=most, size=size)
