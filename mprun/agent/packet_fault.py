# SPDX-License-Identifier: Apache-2.0
"""Faults of single packets, by the file of an experiment kernel (`kernel/src/mprun_packet.c`).

The file belongs to the network namespace of the thread that opens it. It is opened, read and written by single system
calls: others, which Python's own files make, could let a moment of simulated time pass.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

FILE = "/proc/thread-self/net/mprun_packets"
_BLOCK = 1 << 16


def cause(faults: Sequence[Mapping[str, Any]], index: Callable[[str], int]) -> None:
    """Cause faults in the namespace of this thread. Raises FileNotFoundError in a kernel that cannot.

    faults: of a plan. index: of an interface.
    """
    file = os.open(FILE, os.O_WRONLY)
    try:
        for one in faults:
            # the kernel reads one line at a time
            os.write(file, f"{index(one['interface'])} {one['packet']} {one['action']} {one['value']}".encode())
    finally:
        os.close(file)


def read_done() -> list[bool]:
    """Return whether the packet of each fault has come, in the order of the faults."""
    file = os.open(FILE, os.O_RDONLY)
    text = b""
    try:
        while block := os.read(file, _BLOCK):
            text += block
    finally:
        os.close(file)
    return [line.endswith(b" 1") for line in text.splitlines()]
