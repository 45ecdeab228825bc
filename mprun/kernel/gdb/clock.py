# SPDX-License-Identifier: Apache-2.0
"""The simulated clock of a stopped kernel.

`time_travel_time` is the simulated time since boot, in ns. The monotonic clock, on which the agent counts, is a little
behind it, because the kernel starts this clock later. Both advance equally, apart from the resolution of 256 ns that
the monotonic clock has.
"""

from __future__ import annotations

from mprun.kernel.gdb.structure import variable

# TIMER_MULTIPLIER of arch/um/kernel/time.c: nanoseconds in a cycle of the clock source.
CYCLE_NS = 256


def since_boot_ns() -> int:
    """Return the simulated time since boot, in ns."""
    return int(variable("time_travel_time"))


def behind_ns() -> int | None:
    """Return by how much the monotonic clock is behind the time since boot, in ns.

    It is None as long as the kernel boots and does not use its simulated clock yet.
    """
    base = variable("tk_core.timekeeper.tkr_mono")
    if int(base["clock"]) != int(variable("&timer_clocksource")):
        return None
    cycles = since_boot_ns() // CYCLE_NS
    passed = (cycles - int(base["cycle_last"])) * int(base["mult"]) + int(base["xtime_nsec"])
    return cycles * CYCLE_NS - (int(base["base"]) + (passed >> int(base["shift"])))


def monotonic_ns() -> int | None:
    """Return the monotonic clock in ns, not rounded to cycles; None as long as the kernel boots."""
    behind = behind_ns()
    return None if behind is None else since_boot_ns() - behind
