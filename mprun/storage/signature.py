# SPDX-License-Identifier: Apache-2.0
"""A mark on each run of a sweep by which its user's mprun recognises it.

A resumed sweep counts the runs in its folder. In a folder from somebody else, these runs may contain anything, so mprun
names them first. The mark is a keyed digest of the summary. The key belongs to this user and is in the cache.
"""

from __future__ import annotations

import contextlib
import hmac
import os

from mprun.errors import MachineError
from mprun.machine.cache import cache
from mprun.safety.folder import Folder, UnsafeError

FILE = ".made"
_KEY_BYTES = 32


def sign(run: Folder) -> None:
    """Mark a run. Without a cache there is no key, and then no mark."""
    key = _read_key(make=True)
    if key is not None:
        run.write_text(FILE, _digest(run, key))


def is_ours(run: Folder) -> bool:
    """Return True if a run has the mark of this user's mprun."""
    key = _read_key(make=False)
    try:
        return key is not None and hmac.compare_digest(run.read_text(FILE), _digest(run, key))
    except (FileNotFoundError, UnsafeError, TypeError):
        return False


def _digest(run: Folder, key: bytes) -> str:
    return hmac.digest(key, run.read_bytes("summary.json"), "sha256").hex()


def _read_key(make: bool) -> bytes | None:
    with contextlib.suppress(OSError, MachineError, UnsafeError):
        path = cache("key")
        folder = Folder(path.parent)
        if make and not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(FileExistsError):
                folder.create_private(path.name, os.urandom(_KEY_BYTES))
        key = folder.read_bytes(path.name)
        return key if len(key) == _KEY_BYTES else None
    return None
