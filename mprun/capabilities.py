# SPDX-License-Identifier: Apache-2.0
"""What a machine can do, as far as a plan depends on it: an explicit, recorded input of `compile`.

`engines` find it out; nothing here reads the machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mprun import inside

# The scheduler that a new namespace has, and the only one of mainline.
DEFAULT_SCHEDULER = "default"
# A bucket of exactly one frame makes the experiment kernel's tbf send bit by bit (kernel/src/mprun_line.c).
SIMULATED_SLACK_NS = 0


@dataclass(frozen=True)
class SchedulerChoice:
    """The MPTCP packet schedulers that a kernel offers.

    names: the schedulers that the kernel is known to have.
    has_sysctl: `net.mptcp.scheduler` exists; Linux has it from 6.6 on.
    takes_any_name: the kernel accepts the name of a scheduler that it does not have, and runs the default one. Early
        releases of Linux 6.6 to 6.9 do so.
    """

    names: tuple[str, ...] = (DEFAULT_SCHEDULER,)
    has_sysctl: bool = True
    takes_any_name: bool = False


@dataclass(frozen=True)
class Capabilities:
    """Tools and limits of the place where a plan will run.

    iperf3_speaks_mptcp: `--mptcp` exists (iperf3 3.19); else mptcp_library is preloaded.
    mptcp_library: libmptcpwrap of the package mptcpize.
    bulk_library: wakes bulk receivers every 8 kB instead of at every packet; None: not here.
    is_simulated: whether time is simulated there, so that waiting is free and computing takes no time.
    timer_slack_ns: how late a wake-up may come; a shaper's burst must make up for it. 0: frames are sent bit by bit.
    kernel_wide: values of the sysctls that hold for the whole kernel; None: it is ours to set them.
    schedulers: the MPTCP packet schedulers of the host's kernel; None: the kernel is ours, and the agent asks it.
    buffers_captures: stdbuf can give tcpdump a larger buffer; an AppArmor profile of tcpdump may refuse its library.
    """

    iperf3_speaks_mptcp: bool = False
    mptcp_library: str = "/usr/lib/x86_64-linux-gnu/mptcpize/libmptcpwrap.so.0"
    bulk_library: str | None = inside.BULK_LIBRARY
    is_simulated: bool = True
    timer_slack_ns: int = SIMULATED_SLACK_NS
    kernel_wide: Mapping[str, str] | None = None
    schedulers: SchedulerChoice | None = None
    buffers_captures: bool = True
    versions: Mapping[str, str] = field(default_factory=dict)


# What a plan is bound to when nobody asks for a machine: the virtual engine on Debian 12.
REFERENCE = Capabilities()
