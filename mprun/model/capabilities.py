# SPDX-License-Identifier: Apache-2.0
"""Capabilities: the properties of a machine that a plan depends on, an explicit and recorded input of `compile`.

`mprun.engines.capability` finds them. This module does not read the machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from mprun.model import engine_paths
from mprun.model.frozen import Frozen

# The scheduler of a new namespace, and the only one in mainline Linux.
DEFAULT_SCHEDULER = "default"
# Sysctls of the whole kernel and not of a namespace: one value holds for all hosts.
KERNEL_WIDE = tuple(
    f"net.core.{name}"
    for name in (
        *("rmem_max", "wmem_max", "rmem_default", "wmem_default"),
        *("netdev_max_backlog", "netdev_budget", "netdev_budget_usecs", "dev_weight", "default_qdisc"),
    )
)
# A bucket of exactly one frame makes the experiment kernel's tbf send bit by bit (kernel/src/mprun_line.c).
SIMULATED_SLACK_NS = 0
# The reason why simulated time measures no CPU time.
NO_COMPUTING = "in simulated time computing takes no time, and --engine real measures it"


class SchedulerChoice(Frozen):
    """The MPTCP packet schedulers that a kernel offers.

    - names: the schedulers that the kernel is known to have.
    - has_sysctl: `net.mptcp.scheduler` exists; Linux has it from 6.6 on.
    - takes_any_name: the kernel accepts the name of a scheduler that it does not have, and runs the default one. Early
        releases of Linux 6.6 to 6.9 do so.
    """

    names: tuple[str, ...] = (DEFAULT_SCHEDULER,)
    has_sysctl: bool = True
    takes_any_name: bool = False


class Capabilities(Frozen):
    """Tools and limits of the place where a plan will run.

    - iperf3_speaks_mptcp: iperf3 has the option `--mptcp` (from 3.19 on). Without it, mptcp_library is preloaded.
    - mptcp_library: the path of libmptcpwrap, from the package mptcpize.
    - bulk_library: the path of a library that wakes bulk receivers every 3 ms at most; None: no
        such library exists in this place.
    - is_simulated: time is simulated. Waiting then takes no real time, and computing takes no simulated time.
    - timer_slack_ns: the largest delay of a wake-up, which a shaper's burst must compensate. 0: frames are sent bit by
        bit.
    - kernel_wide: values of the sysctls that apply to the whole kernel; None: mprun may set them.
    - schedulers: the MPTCP packet schedulers of the host's kernel; None: the kernel is mprun's, and the agent asks it.
    - buffers_captures: stdbuf can give tcpdump a larger buffer. An AppArmor profile of tcpdump may refuse its library.
    - versions: the version line of each program.
    """

    iperf3_speaks_mptcp: bool = False
    mptcp_library: str = "/usr/lib/x86_64-linux-gnu/mptcpize/libmptcpwrap.so.0"
    bulk_library: str | None = engine_paths.BULK_LIBRARY
    is_simulated: bool = True
    timer_slack_ns: int = SIMULATED_SLACK_NS
    kernel_wide: Mapping[str, str] | None = None
    schedulers: SchedulerChoice | None = None
    buffers_captures: bool = True
    versions: Mapping[str, str] = field(default_factory=dict)


# The capabilities of plans that are not compiled for a machine: the virtual engine on Debian 12.
REFERENCE = Capabilities()
