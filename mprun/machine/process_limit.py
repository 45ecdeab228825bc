# SPDX-License-Identifier: Apache-2.0
"""The limits of this process (setrlimit(2)) that libraries and runs need."""

from __future__ import annotations

import os
import resource

from mprun.errors import MachineError

# The CPU time to end a run in order.
END_S = 5
# Kind, least value, the unit of a message, its words, the option of ulimit(1). Python and the library for tables open
# about forty files at once and start about twenty threads. Together with the experiment kernel they map 2 GB of
# addresses. The least CPU time is that of a short run on a slow machine.
_LEAST = (
    (resource.RLIMIT_NOFILE, 64, 1, "{} files may be open at once, and mprun needs {}", "n"),
    (resource.RLIMIT_NPROC, 64, 1, "{} processes and threads may run, and mprun needs {}", "u"),
    (resource.RLIMIT_AS, 2 << 30, 1 << 20, "{} MB of addresses are allowed, and mprun needs {} MB", "v"),
    (resource.RLIMIT_CPU, 20, 1, "{} s of CPU time are allowed, and mprun needs {} s", "t"),
)


def check_limits() -> None:
    """Raise MachineError if limits of this process are so low that libraries would fail."""
    for kind, least, unit, what, option in _LEAST:
        allowed = resource.getrlimit(kind)[0]
        # the limit of processes does not apply to root
        is_limited = allowed != resource.RLIM_INFINITY and (kind != resource.RLIMIT_NPROC or os.geteuid() != 0)
        if is_limited and allowed < least:
            told = what.format(allowed // unit, least // unit)
            raise MachineError(f"only {told}: see `ulimit -{option}`")
    cpu, most = resource.getrlimit(resource.RLIMIT_CPU)
    if cpu == most != resource.RLIM_INFINITY:
        # at the hard limit, the machine kills mprun without a word
        resource.setrlimit(resource.RLIMIT_CPU, (cpu - END_S, most))
