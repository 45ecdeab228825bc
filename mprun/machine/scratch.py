# SPDX-License-Identifier: Apache-2.0
"""Temporary directories that do not remain, even if their processes were killed."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from mprun.errors import MachineError
from mprun.machine import invoking_user


def temporary() -> Path:
    """Return the folder for temporary files: the first writable folder of Python's list (`tempfile.gettempdir`).

    Python's function itself is not used. It tries each folder by writing a file, which remains if Python is killed at
    that moment. Raises MachineError.
    """
    named = [os.environ[name] for name in ("TMPDIR", "TEMP", "TMP") if os.environ.get(name)]
    folders = [Path(folder).absolute() for folder in (*named, "/tmp", "/var/tmp", "/usr/tmp", ".")]
    for folder in folders:
        if folder.is_dir() and os.access(folder, os.W_OK | os.X_OK):
            return folder
    raise MachineError(f"no folder for temporary files can be written to ({', '.join(map(str, folders))}): set TMPDIR")


@contextlib.contextmanager
def scratch(prefix: str, parent: Path | None = None) -> Iterator[Path]:
    """Make a temporary directory for the block, in `parent` or in the folder for temporary files. Yield its path.

    At the end of the block, the directory is removed. Directories with the same prefix that no process locks any more
    belong to killed processes, and are removed too.
    """
    folder = parent or temporary()
    for stale in folder.glob(f"{prefix}*"):
        with contextlib.suppress(OSError), _held(stale, fcntl.LOCK_EX | fcntl.LOCK_NB):
            shutil.rmtree(stale)
    while True:
        with (
            tempfile.TemporaryDirectory(prefix=prefix, dir=folder, ignore_cleanup_errors=True) as made,
            contextlib.ExitStack() as holding,
        ):
            # another process may have locked it first, and removed it as a leftover
            with contextlib.suppress(FileNotFoundError):
                holding.enter_context(_held(Path(made), fcntl.LOCK_EX))
            if Path(made).exists():
                # programs that use it run without root's rights from sudo
                invoking_user.give(Path(made))
                yield Path(made)
                return


@contextlib.contextmanager
def _held(folder: Path, how: int) -> Iterator[None]:
    """Lock a folder for the block (flock(2)).

    Raises OSError if the folder does not exist, or if another process has the lock and `how` does not wait.
    """
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, how)
        yield
    finally:
        os.close(handle)
