# SPDX-License-Identifier: Apache-2.0
"""This user's cache: where what was built once is kept, and who may build there now."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


def cache(kind: str) -> Path:
    """The folder of one kind of thing, which need not exist (XDG Base Directory Specification)."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "mprun" / kind


# Told what is being done and which share of it is done.
Progress = Callable[[str, float], None]


@contextmanager
def locked(folder: Path, on_wait: Callable[[], None]) -> Iterator[None]:
    """Nobody else is in here for this folder, which is made; on_wait is called once if somebody is."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_wait()
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
