# SPDX-License-Identifier: Apache-2.0
"""The CPU time that a program may use while simulated time stands still.

The experiment kernel counts this CPU time against RLIMIT_RTTIME (getrlimit(2)). At the limit it ends the program with
SIGXCPU (`kernel/src/mprun_time.c`). A program without a system call lets no simulated time pass, so nothing else would
end it.
"""

from __future__ import annotations

import ctypes
import signal

from mprun.agent.namespace import call

RLIMIT_RTTIME = 15
UNLIMITED = (1 << 64) - 1
# A shell reports a signal as 128 plus its number.
ENDED = (-signal.SIGXCPU, 128 + signal.SIGXCPU)

_limits = ctypes.c_uint64 * 2
_allowed_s: list[int] = []


def allow(seconds: int) -> None:
    """Set the limit for programs that are started from now on, in seconds of CPU time."""
    if _allowed_s == [seconds]:
        return
    call("prlimit", 0, RLIMIT_RTTIME, _limits(seconds * 1_000_000, UNLIMITED), None)
    _allowed_s[:] = [seconds]


def explain(status: int | None, seconds: int) -> str | None:
    """Return the reason why a program with this status ended, if the limit of `seconds` ended it; else None."""
    if status not in ENDED:
        return None
    return (
        f"used {seconds} s of CPU time while simulated time stood still: either it spins (waits in a loop without a "
        "system call, which never ends in simulated time), or it computes for long: then raise its limit, as in "
        f"'compute: {12 * seconds}s'"
    )
