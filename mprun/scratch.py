# SPDX-License-Identifier: Apache-2.0
"""Temporary directories that do not stay behind, not even those of processes that were killed."""

from __future__ import annotations

import contextlib
import fcntl
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def scratch(prefix: str, parent: Path | None = None) -> Iterator[Path]:
    """A directory in `parent` (default: where temporary files go); whoever makes one removes those of the same prefix
    whose processes were killed: nobody holds their locks."""
    folder = parent or Path(tempfile.gettempdir())
    for stale in folder.glob(f"{prefix}*"):
        with contextlib.suppress(OSError), (stale / "lock").open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(stale)
    while True:
        with (
            tempfile.TemporaryDirectory(prefix=prefix, dir=folder, ignore_cleanup_errors=True) as made,
            Path(made, "lock").open("w") as lock,
        ):
            fcntl.flock(lock, fcntl.LOCK_EX)
            # another process may have had the lock first, and taken this for one that was left behind
            if Path(made, "lock").exists():
                yield Path(made)
                return
