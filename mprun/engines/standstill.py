# SPDX-License-Identifier: Apache-2.0
"""Limits on programs that compute while simulated time stands still.

While a program makes no system call, no simulated time passes. Only its CPU time increases, and only the host can
measure this. For each second of CPU time, the host sends SIGXCPU to the host process in which the program runs. The
experiment kernel counts these signals and ends a program beyond its limit (`kernel/src/mprun_time.c`).

Programs that only wake or start each other never reach that limit. A second limit therefore applies to the CPU time of
all programs and of the kernel together.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
# The fields utime and stime of /proc/PID/stat, counted after the program's name (proc(5)).
UTIME, STIME = 11, 12


class Computing:
    """The programs of one experiment kernel: the process `kernel` and its children.

    most_s: the CPU time that all of them together may use while simulated time stands still.
    """

    def __init__(self, kernel: int, most_s: int) -> None:
        self._kernel = kernel
        self.most_s = most_s
        # CPU time in ticks: of all since simulated time last advanced, and of each process at the last look
        self._together = 0
        self._counted: dict[int, int] = {}
        # process -> CPU time in ticks: at the last look, and as reported to the kernel
        self._seen: dict[int, int] = {}
        self._told: dict[int, int] = {}

    def reset(self) -> None:
        """Forget the CPU time used until now, because simulated time has advanced."""
        self._seen.clear()
        self._told.clear()
        self._counted.clear()
        self._together = 0

    @property
    def is_over(self) -> bool:
        """Return whether all programs together have used more CPU time than allowed."""
        return self._together > self.most_s * TICKS_PER_S

    def look(self) -> bool:
        """Read the CPU time of the programs, and send the kernel a signal for each whole second of it.

        Return whether a program used the CPU since the last look.
        """
        used = {pid: ticks for pid in self._programs() if (ticks := _cpu_ticks(pid)) is not None}
        counted = {**used, self._kernel: _cpu_ticks(self._kernel) or 0}
        if self._counted:
            # all CPU time of a new process counts
            self._together += sum(max(0, ticks - self._counted.get(pid, 0)) for pid, ticks in counted.items())
        self._counted = counted
        is_computing = any(ticks > self._seen.get(pid, ticks) for pid, ticks in used.items())
        self._told = {pid: self._told.get(pid, ticks) for pid, ticks in used.items()}
        self._seen = used
        for pid, ticks in used.items():
            if ticks - self._told[pid] >= TICKS_PER_S:
                self._told[pid] += TICKS_PER_S
                with suppress(OSError):
                    os.kill(pid, signal.SIGXCPU)
        return is_computing

    def _programs(self) -> list[int]:
        """Return the kernel's child processes. Each address space of a program inside is one process on the host."""
        with suppress(OSError):
            return [int(pid) for pid in Path(f"/proc/{self._kernel}/task/{self._kernel}/children").read_text().split()]
        return []


def _cpu_ticks(pid: int) -> int | None:
    """Return the CPU time of a process in ticks; None if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return int(fields[UTIME]) + int(fields[STIME])
