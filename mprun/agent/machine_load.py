# SPDX-License-Identifier: Apache-2.0
"""Watch in real time whether the machine of a run keeps up with the run.

CPU pressure and stolen time are the kernel's own counts (/proc/pressure/cpu, /proc/stat: proc(5)). The lateness of
timers is measured on the agent's own timers. In simulated time a machine is never too slow.
"""

from __future__ import annotations

import time

from mprun.model.agent_report import MachineLoad

# The number of the latest timers that are recorded.
WORST = 20


class MachineWatch:
    """The load of the machine from the creation of this object until `sum_up`."""

    def __init__(self) -> None:
        self._began_ns = time.monotonic_ns()
        self._stall_us = read_stall_us()
        self._steal, self._total = read_cpu_ticks()
        self._late_ns: list[int] = []

    def note_late(self, late_ns: int) -> None:
        """Record how late a timer of the agent came, in ns."""
        self._late_ns.append(late_ns)

    def sum_up(self) -> MachineLoad:
        """Return the load since the creation: shares from 0 to 1, and times in ns."""
        elapsed_us = max(1, (time.monotonic_ns() - self._began_ns) // 1000)
        steal, total = read_cpu_ticks()
        stall_us = read_stall_us()
        late = sorted(self._late_ns)
        return MachineLoad(
            cpu_pressure=None if stall_us is None else (stall_us - (self._stall_us or 0)) / elapsed_us,
            steal=(steal - self._steal) / max(1, total - self._total),
            timers=len(late),
            late_median_ns=late[len(late) // 2] if late else 0,
            late_most_ns=late[-1] if late else 0,
            late_worst_ns=tuple(late[: -WORST - 1 : -1]),
        )


def read_stall_us() -> int | None:
    """Return how long some task has waited for a CPU, in us since boot; None if the kernel does not count it."""
    try:
        with open("/proc/pressure/cpu") as file:
            return int(file.readline().rsplit("total=", 1)[1])
    except (OSError, IndexError, ValueError):
        return None


def read_cpu_ticks() -> tuple[int, int]:
    """Return (ticks stolen by the hypervisor, all ticks) of all CPUs since boot."""
    with open("/proc/stat") as file:
        ticks = [int(word) for word in file.readline().split()[1:9]]
    return ticks[7], sum(ticks)
