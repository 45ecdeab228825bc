# SPDX-License-Identifier: Apache-2.0
"""Bounds on what the programs of a run take together: processes, memory, and room on the host's disk.

The experiment kernel ends an entry that goes beyond one, with all that the entry has started, and tells which
(`kernel/src/mprun_limit.c`). Entries are known there by the pid of their first process. Other kernels tell nothing.
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
    """Return why each entry was ended, by the pid of its first process."""
    with suppress(FileNotFoundError), open(ENDED) as file:
        return {int(pid): describe(bound, int(most)) for pid, bound, most in map(str.split, file)}
    return {}


def describe(bound: str, most: int) -> str:
    """Return the reason in words."""
    size = f"{most / 1e9:.1f} GB" if most >= 10**10 else f"{most / 1e6:.0f} MB"
    return _REASONS[bound].format(most=most, size=size)
