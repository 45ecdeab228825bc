# SPDX-License-Identifier: Apache-2.0
"""Faults of single packets, by the file of an experiment kernel (`kernel/src/mprun_packet.c`).

The file belongs to the network namespace of the thread that opens it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

FILE = "/proc/thread-self/net/mprun_packets"


def cause(faults: Sequence[Mapping[str, Any]], index: Callable[[str], int]) -> None:
    """Cause faults in the namespace of this thread. Raises FileNotFoundError in a kernel that cannot.

    faults: of a plan. index: of an interface.
    """
    for one in faults:
        # one line at a time, as the kernel reads it
        with open(FILE, "w") as file:
            file.write(f"{index(one['interface'])} {one['packet']} {one['action']} {one['value']}")


def read_done() -> Iterator[bool]:
    """Yield whether the packet of each fault has come, in the order of the faults."""
    with open(FILE) as file:
        for line in file:
            yield line.split()[-1] == "1"
