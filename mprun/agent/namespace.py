# SPDX-License-Identifier: Apache-2.0
"""Network namespaces of this process: make one, enter one (namespaces(7)).

Python has these calls since 3.12; before, they are the C library's.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

CLONE_NEWNET = 0x40000000
PR_SET_TIMERSLACK = 29

_libc = ctypes.CDLL(None, use_errno=True)


def call(name: str, *arguments: Any) -> None:
    """Call a function of the C library. Raises OSError where it does not return 0."""
    if getattr(_libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def open_current() -> int:
    """A descriptor of the network namespace that this process is in."""
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def create() -> int:
    """Make a namespace, enter it, and return its descriptor; it lives while that is open."""
    call("unshare", CLONE_NEWNET)
    return open_current()


def enter(fd: int) -> None:
    """Move this process into a namespace."""
    call("setns", fd, CLONE_NEWNET)


@contextmanager
def inside(fd: int, home: int) -> Iterator[None]:
    """Be in namespace `fd` for a while, then in `home`."""
    enter(fd)
    try:
        yield
    finally:
        enter(home)


def be_punctual() -> None:
    """Wake at the nanosecond asked for; the default lets timers be 50 us late (prctl(2))."""
    call("prctl", PR_SET_TIMERSLACK, 1, 0, 0, 0)
