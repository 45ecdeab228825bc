# SPDX-License-Identifier: Apache-2.0
"""Open files of the run directory, where programs of the run may have put something else.

Opening a pipe may wait for ever. The agent does not wait, and follows no symbolic link.
"""

from __future__ import annotations

import os
import stat
from typing import IO, Any


def create(path: str, mode: str = "w") -> IO[Any]:
    """Open a file to write its whole content. A pipe or a link in its place is removed. Raises OSError."""
    try:
        return open(path, mode.replace("w", "x"))
    except FileExistsError:
        if not stat.S_ISREG(os.lstat(path).st_mode):
            os.unlink(path)
        return open(path, mode, opener=_open)


def read(path: str, last_bytes: int | None = None) -> bytes:
    """Return the content of a file, or its last bytes. The result is empty if no regular file has this path."""
    try:
        with open(path, "rb", opener=_open) as file:
            if last_bytes is not None:
                file.seek(max(0, os.fstat(file.fileno()).st_size - last_bytes))
            return file.read() or b""
    except OSError:
        return b""


def _open(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOFOLLOW, 0o666)
