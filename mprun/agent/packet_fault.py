# SPDX-License-Identifier: Apache-2.0
"""Faults of single packets, which the experiment kernel causes (`kernel/src/mprun_packet.c`).

The kernel's file for faults belongs to the network namespace of the thread that opens the file. It is opened, read and
written by single system calls. Python's own files make more calls, which could let a moment of simulated time pass.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

FILE = "/proc/thread-self/net/mprun_packets"
_BLOCK = 1 << 16


def cause(faults: Sequence[Mapping[str, Any]], index: Callable[[str], int]) -> None:
    """Order the kernel to cause faults in the network namespace of this thread.

    - faults: the faults of a plan.
    - index: returns the kernel's index of an interface by its name.

    Raises FileNotFoundError in a kernel that cannot cause faults.
    """
    file = os.open(FILE, os.O_WRONLY)
    try:
        for one in faults:
            # the kernel reads one line at a time
            os.write(file, f"{index(one['interface'])} {one['packet']} {one['action']} {one['value']}".encode())
    finally:
        os.close(file)


def read_done() -> list[bool]:
    """Return for each fault whether its packet has arrived, in the order of the faults."""
    file = os.open(FILE, os.O_RDONLY)
    text = b""
    try:
        while block := os.read(file, _BLOCK):
            text += block
    finally:
        os.close(file)
    return [line.endswith(b" 1") for line in text.splitlines()]
