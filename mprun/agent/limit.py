# SPDX-License-Identifier: Apache-2.0
"""Limits of what all programs of a run use together: processes, memory, and space on the host's disk.

The experiment kernel ends an entry that exceeds a limit, with all processes that the entry has started, and reports
which limit it was (`kernel/src/mprun_limit.c`). It identifies an entry by the pid of its first process. Other kernels
report nothing.
"""

from __future__ import annotations

from contextlib import suppress

ENDED = "/proc/mprun_limits"

_REASONS = {
    "tasks": "had most of the {most} processes and threads that a run may have at one time, and wanted more",
    "memory": "needed more than what was left of the {size} of memory that all programs of a run have together, with "
    "their files in /tmp, /run and /dev/shm",
    "bytes": "wrote more than what was left of the {size} that a run may write to its directory: of a capture keep "
    "less, by 'snaplen' or 'size'",
    "files": "made more than what was left of the {most} files that a run may have in its directory",
}


def read() -> dict[int, str]:
    """Return the reason why each ended entry was ended, by the pid of its first process."""
    with suppress(FileNotFoundError), open(ENDED) as file:
        return {int(pid): describe(bound, int(most)) for pid, bound, most in map(str.split, file)}
    return {}


def describe(bound: str, most: int) -> str:
    """Return in words why an entry was ended. bound: the name of the limit in the kernel's file. most: its value."""
    size = f"{most / 1e9:.1f} GB" if most >= 10**10 else f"{most / 1e6:.0f} MB"
    return _REASONS[bound].format(most=most, size=size)
