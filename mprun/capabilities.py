# SPDX-License-Identifier: Apache-2.0
"""What a machine can do, as far as a plan depends on it: an explicit, recorded input of `compile`.

`engines` find it out; nothing here reads the machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

# A bucket of exactly one frame makes the experiment kernel's tbf send bit by bit (kernel/src/mprun_line.c).
SIMULATED_SLACK_NS = 0


@dataclass(frozen=True)
class Capabilities:
    """Tools and limits of the place where a plan will run.

    iperf3_speaks_mptcp: `--mptcp` exists (iperf3 3.19); else mptcp_library is preloaded.
    mptcp_library: libmptcpwrap of the package mptcpize.
    bulk_library: wakes bulk receivers every 8 kB instead of at every packet; None: not here.
    is_simulated: whether time is simulated there, so that waiting is free and computing takes no time.
    timer_slack_ns: how late a wake-up may come; a shaper's burst must make up for it. 0: frames are sent bit by bit.
    kernel_wide: values of the sysctls that hold for the whole kernel; None: it is ours to set them.
    """

    iperf3_speaks_mptcp: bool = False
    mptcp_library: str = "/usr/lib/x86_64-linux-gnu/mptcpize/libmptcpwrap.so.0"
    bulk_library: str | None = "/run/mprun/kernel/bulk.so"
    is_simulated: bool = True
    timer_slack_ns: int = SIMULATED_SLACK_NS
    kernel_wide: Mapping[str, str] | None = None
    versions: Mapping[str, str] = field(default_factory=dict)


# What a plan is bound to when nobody asks for a machine: the virtual engine on Debian 12.
REFERENCE = Capabilities()
