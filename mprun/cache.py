# SPDX-License-Identifier: Apache-2.0
"""This user's cache: where what was built once is kept, and who may build there now."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from mprun import invoker
from mprun.errors import HostError


def find_home() -> Path | None:
    """The user's home directory; None where neither HOME nor the list of users tells of one."""
    try:
        return invoker.home()
    except RuntimeError:
        return None


def find_base(variable: str, name: str) -> Path:
    """Where a user's files of one purpose are: what the variable says, else this name in the home directory.

    Raises HostError where there is none.
    """
    if base := os.environ.get(variable):
        return Path(base)
    home = find_home()
    if home is None:
        raise HostError(f"this user has no home directory: set HOME or {variable}")
    return home / name


def cache(kind: str, of_root: bool = False) -> Path:
    """The folder of one kind of thing, which need not exist (XDG Base Directory Specification).

    of_root: root's own, also under sudo. Raises HostError where the user has no home directory.
    """
    if of_root and invoker.is_root_for_user() and not os.environ.get("XDG_CACHE_HOME"):
        return invoker.home_of_root() / ".cache" / "mprun" / kind
    return find_base("XDG_CACHE_HOME", ".cache") / "mprun" / kind


# Told what is being done and which share of it is done.
Progress = Callable[[str, float], None]


@contextmanager
def locked(folder: Path, on_wait: Callable[[], None], of_root: bool = False) -> Iterator[None]:
    """Nobody else is in here for this folder, which is made; on_wait is called once if somebody is. What is made in it
    is the invoker's, or with `of_root` stays root's."""
    if of_root:
        folder.mkdir(parents=True, exist_ok=True)
    else:
        invoker.make_folder(folder)
    with (folder / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_wait()
            fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield
        finally:
            if not of_root:
                invoker.give(folder)
