# SPDX-License-Identifier: Apache-2.0
"""Continue to a simulated time or to a packet.

The clock advances with each reading, so a stop at each advance takes long. The kernel first continues to
`update_wall_time`, which it calls at most once in each tick of 10 ms, until the time is two ticks away. From there on a
hardware watchpoint stops at each change of the clock.
"""

from __future__ import annotations

from collections.abc import Callable

import gdb

from mprun.kernel.gdb import clock
from mprun.kernel.gdb.headers import network_bytes
from mprun.kernel.gdb.structure import text

TICK_NS = 10_000_000
# The functions that pass a packet to a capture: with a shared ring, and without one.
CAPTURING = ("tpacket_rcv", "packet_rcv")


class _Breakpoint(gdb.Breakpoint):  # type: ignore[misc]
    """A breakpoint that no user sees, which stops only if a condition holds."""

    def __init__(self, function: str, condition: Callable[[], bool]) -> None:
        super().__init__(function, internal=True)
        self.silent = True
        self._condition = condition

    def stop(self) -> bool:
        return self._condition()


def is_alive() -> bool:
    """Return whether the kernel still runs under this gdb."""
    return bool(gdb.selected_inferior().pid != 0)


def go_to(wanted_ns: int) -> bool:
    """Continue until the monotonic clock reaches a time in ns. Return False if it was not reached.

    Either the kernel has ended before, or the user has interrupted it.
    """
    return _go_near(wanted_ns) and _go_exactly(wanted_ns)


def _go_near(wanted_ns: int) -> bool:
    def is_near() -> bool:
        now = clock.monotonic_ns()
        return now is not None and now >= wanted_ns - 2 * TICK_NS

    return is_near() or _continue_with([_Breakpoint("update_wall_time", is_near)], is_near)


def _go_exactly(wanted_ns: int) -> bool:
    behind = clock.behind_ns()
    assert behind is not None, "the clock runs"
    # the clock shows a time once the cycle that contains it has begun
    wanted = -(-(wanted_ns + behind) // clock.CYCLE_NS) * clock.CYCLE_NS

    def is_reached() -> bool:
        return clock.since_boot_ns() >= wanted

    if is_reached():
        return True
    watch = gdb.Breakpoint("time_travel_time", gdb.BP_WATCHPOINT, gdb.WP_WRITE, internal=True)
    watch.silent = True
    watch.condition = f"time_travel_time >= {wanted}"
    return _continue_with([watch], is_reached)


def go_to_packet(interface: str, content: bytes) -> bool:
    """Continue until a capture gets a packet. Return False if it did not.

    interface: the name of the packet's interface. content: its captured bytes from the network header on.
    """
    found = False

    def is_it() -> bool:
        nonlocal found
        skb = gdb.parse_and_eval("(struct sk_buff *)$rdi")
        device = gdb.parse_and_eval("(struct net_device *)$rsi")
        if text(device["name"]) != interface:
            return False
        linear = network_bytes(skb, len(content))
        found = bool(linear) and content.startswith(linear)
        return found

    # the address behind `*` is that of the function's first instruction, where its arguments are still in registers
    return _continue_with([_Breakpoint(f"*{function}", is_it) for function in CAPTURING], lambda: found)


def _continue_with(breakpoints: list[gdb.Breakpoint], is_reached: Callable[[], bool]) -> bool:
    """Continue to one of the breakpoints, and remove them. Return whether it was reached."""
    try:
        gdb.execute("continue", to_string=True)
    finally:
        for one in breakpoints:
            if one.is_valid():
                one.delete()
    return is_alive() and is_reached()
