# SPDX-License-Identifier: Apache-2.0
"""Temporary directories that do not stay behind, not even those of processes that were killed."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from mprun import invoker
from mprun.errors import HostError


def temporary() -> Path:
    """Where temporary files go: the first place of Python's list (`tempfile.gettempdir`) that may be written to.

    Python tries each place by writing a file, which stays if it is killed at that moment. Raises HostError.
    """
    named = [os.environ[name] for name in ("TMPDIR", "TEMP", "TMP") if os.environ.get(name)]
    places = [Path(place).absolute() for place in (*named, "/tmp", "/var/tmp", "/usr/tmp", ".")]
    for place in places:
        if place.is_dir() and os.access(place, os.W_OK | os.X_OK):
            return place
    raise HostError(f"no folder for temporary files can be written to ({', '.join(map(str, places))}): set TMPDIR")


@contextlib.contextmanager
def scratch(prefix: str, parent: Path | None = None) -> Iterator[Path]:
    """A directory in `parent` (default: where temporary files go); whoever makes one removes those of the same prefix
    whose processes were killed: nobody holds them."""
    folder = parent or temporary()
    for stale in folder.glob(f"{prefix}*"):
        with contextlib.suppress(OSError), _held(stale, fcntl.LOCK_EX | fcntl.LOCK_NB):
            shutil.rmtree(stale)
    while True:
        with (
            tempfile.TemporaryDirectory(prefix=prefix, dir=folder, ignore_cleanup_errors=True) as made,
            contextlib.ExitStack() as holding,
        ):
            # another process may have held it first, and taken it for one that was left behind
            with contextlib.suppress(FileNotFoundError):
                holding.enter_context(_held(Path(made), fcntl.LOCK_EX))
            if Path(made).exists():
                # programs in it run without the rights of root that sudo gave
                invoker.give(Path(made))
                yield Path(made)
                return


@contextlib.contextmanager
def _held(folder: Path, how: int) -> Iterator[None]:
    """Raises OSError where it is not there, or where another process holds it and we do not wait."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, how)
        yield
    finally:
        os.close(handle)
