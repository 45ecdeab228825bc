# SPDX-License-Identifier: Apache-2.0
"""Make and enter namespaces of this process (namespaces(7)).

Python has these calls from 3.12 on. Older versions need the C library's.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

CLONE_NEWNS, CLONE_NEWNET = 0x00020000, 0x40000000
MS_BIND, MNT_DETACH = 1 << 12, 2
PR_SET_TIMERSLACK = 29

_libc = ctypes.CDLL(None, use_errno=True)


def call(name: str, *arguments: Any) -> None:
    """Call a function of the C library. Raises OSError if it does not return 0."""
    if getattr(_libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def open_current() -> int:
    """Return a descriptor of the network namespace of this process."""
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def create() -> int:
    """Make a namespace, enter it, and return its descriptor. The namespace lives until the descriptor is closed."""
    call("unshare", CLONE_NEWNET)
    return open_current()


def enter(fd: int) -> None:
    """Move this process into a namespace."""
    call("setns", fd, CLONE_NEWNET)


@contextmanager
def inside(fd: int, home: int) -> Iterator[None]:
    """Stay in namespace `fd` during the block, then return to `home`."""
    enter(fd)
    try:
        yield
    finally:
        enter(home)


@contextmanager
def own_mounts(without: Sequence[str]) -> Iterator[None]:
    """Give processes that are started during the block a copy of the mounts, without those at some paths.

    What they mount does not change the files that this process sees.
    """
    directory = os.getcwd()
    home = os.open("/proc/thread-self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    call("unshare", CLONE_NEWNS)
    try:
        for path in without:
            call("umount2", path.encode(), MNT_DETACH)
        yield
    finally:
        call("setns", home, CLONE_NEWNS)
        os.close(home)
        # setns(2) moves this process to the root
        os.chdir(directory)


def be_punctual() -> None:
    """Wake at the requested nanosecond. By default timers may be 50 us late (prctl(2))."""
    call("prctl", PR_SET_TIMERSLACK, 1, 0, 0, 0)
