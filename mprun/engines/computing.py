# SPDX-License-Identifier: Apache-2.0
"""Programs that compute while simulated time stands still.

A program that makes no system call lets no simulated time pass. Its CPU time is all that moves, and only the host sees
that. The experiment kernel is told of each second of it by SIGXCPU to the process on the host in which the program
runs, and ends the program beyond its limit (`kernel/src/mprun_time.c`).

Programs that only wake each other, or that start each other, stay below that limit for ever. So there is a second
limit: on the CPU time of all of them and of the kernel together.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
# Fields of /proc/PID/stat behind the name: utime and stime (proc(5)).
UTIME, STIME = 11, 12


class Computing:
    """The programs of one experiment kernel: the process `kernel` and its children. most_s: CPU time that all of them
    may use while simulated time stands still."""

    def __init__(self, kernel: int, most_s: int) -> None:
        self._kernel = kernel
        self.most_s = most_s
        # what all have used since simulated time last moved, and what of it each had at the last look, in ticks
        self._together = 0
        self._counted: dict[int, int] = {}
        # process -> CPU time in ticks: when last looked at, and up to where the kernel was told
        self._seen: dict[int, int] = {}
        self._told: dict[int, int] = {}

    def reset(self) -> None:
        """Simulated time has moved: what was used until now does not count."""
        self._seen.clear()
        self._told.clear()
        self._counted.clear()
        self._together = 0

    @property
    def is_over(self) -> bool:
        """Tell if all together have used more than they may."""
        return self._together > self.most_s * TICKS_PER_S

    def look(self) -> bool:
        """Tell the kernel of each whole second since the first look; return whether a program used the CPU since the
        last look."""
        used = {pid: ticks for pid in self._programs() if (ticks := _cpu_ticks(pid)) is not None}
        self._count({**used, self._kernel: _cpu_ticks(self._kernel) or 0})
        is_computing = any(ticks > self._seen.get(pid, ticks) for pid, ticks in used.items())
        self._told = {pid: self._told.get(pid, ticks) for pid, ticks in used.items()}
        self._seen = used
        for pid, ticks in used.items():
            if ticks - self._told[pid] >= TICKS_PER_S:
                self._told[pid] += TICKS_PER_S
                with suppress(OSError):
                    os.kill(pid, signal.SIGXCPU)
        return is_computing

    def _count(self, used: dict[int, int]) -> None:
        """Add what was used since the last look; a process that was not there then has used it all since."""
        if self._counted:
            self._together += sum(max(0, ticks - self._counted.get(pid, 0)) for pid, ticks in used.items())
        self._counted = used

    def _programs(self) -> list[int]:
        """The kernel's children: a process for each address space of a program inside."""
        with suppress(OSError):
            return [int(pid) for pid in Path(f"/proc/{self._kernel}/task/{self._kernel}/children").read_text().split()]
        return []


def _cpu_ticks(pid: int) -> int | None:
    """The CPU time of a process; None if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return int(fields[UTIME]) + int(fields[STIME])
