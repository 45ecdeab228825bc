# SPDX-License-Identifier: Apache-2.0
"""The user's cache: folders of built programs and kernels, and locks that allow one builder at a time."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from mprun.errors import MachineError
from mprun.machine import invoking_user


def find_base(variable: str, name: str) -> Path:
    """Return the folder that an environment variable names, or `name` in the home directory if the variable is not set.

    Raises MachineError if the user has no home directory.
    """
    if base := os.environ.get(variable):
        return Path(base)
    home = invoking_user.home()
    if home is None:
        raise MachineError(f"this user has no home directory: set HOME or {variable}")
    return home / name


def cache(kind: str, of_root: bool = False) -> Path:
    """Return the folder of the cache for one kind of files, such as `kernels` or `tools`. The folder need not exist.

    The cache is in XDG_CACHE_HOME, or else in `~/.cache` (XDG Base Directory Specification).

    of_root: under sudo, use root's cache instead of the user's. Raises MachineError if the user has no home directory.
    """
    if of_root and invoking_user.is_root_for_user() and not os.environ.get("XDG_CACHE_HOME"):
        return invoking_user.home_of_root() / ".cache" / "mprun" / kind
    return find_base("XDG_CACHE_HOME", ".cache") / "mprun" / kind


# A function that is called with the current task and the share of it that is done.
Progress = Callable[[str, float], None]


@contextmanager
def locked(
    folder: Path, on_wait: Callable[[], None] = lambda: None, of_root: bool = False, part: str = ""
) -> Iterator[None]:
    """Make a folder if it is missing, and lock it for the block.

    If another process has the lock, call `on_wait` once and wait. Afterwards the folder's files belong to the user whom
    mprun works for. With `of_root`, they stay root's. part: lock only what has this name in the folder.
    """
    if of_root:
        folder.mkdir(parents=True, exist_ok=True)
    else:
        invoking_user.make_folder(folder)
    with (folder / (f".lock-{part}" if part else ".lock")).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_wait()
            fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield
        finally:
            if not of_root:
                invoking_user.give(folder)
