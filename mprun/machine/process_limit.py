# SPDX-License-Identifier: Apache-2.0
"""The limits of this process (setrlimit(2)) that libraries and runs need."""

from __future__ import annotations

import os
import resource

from mprun.errors import MachineError

# Python and the library for tables open about forty files at once and start about twenty threads. Together with the
# experiment kernel they map 2 GB of addresses.
LEAST_FILES = LEAST_PROCESSES = 64
LEAST_ADDRESSES = 2 << 30
# The CPU time that a short run takes on a slow machine, and the CPU time to end a run in order.
LEAST_CPU_S = 20
END_S = 5


def check_limits() -> None:
    """Raise MachineError if limits of this process are so low that libraries would fail."""
    kinds = (resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC, resource.RLIMIT_AS)
    files, processes, addresses = (resource.getrlimit(kind)[0] for kind in kinds)
    if files < LEAST_FILES:
        raise MachineError(f"only {files} files may be open at once, and mprun needs {LEAST_FILES}: see `ulimit -n`")
    # this limit does not apply to root
    if processes != resource.RLIM_INFINITY and processes < LEAST_PROCESSES and os.geteuid() != 0:
        told = f"{processes} processes and threads may run, and mprun needs {LEAST_PROCESSES}"
        raise MachineError(f"only {told}: see `ulimit -u`")
    if addresses != resource.RLIM_INFINITY and addresses < LEAST_ADDRESSES:
        told = f"{addresses >> 20} MB of addresses are allowed, and mprun needs {LEAST_ADDRESSES >> 20} MB"
        raise MachineError(f"only {told}: see `ulimit -v`")
    cpu, most = resource.getrlimit(resource.RLIMIT_CPU)
    if cpu != resource.RLIM_INFINITY:
        if cpu < LEAST_CPU_S:
            raise MachineError(
                f"only {cpu} s of CPU time are allowed, and mprun needs {LEAST_CPU_S} s: see `ulimit -t`"
            )
        if cpu == most:
            # at the hard limit, the machine kills mprun without a word
            resource.setrlimit(resource.RLIMIT_CPU, (cpu - END_S, most))
