# SPDX-License-Identifier: Apache-2.0
"""Checks that a program which mprun built on this machine has not changed since, before mprun executes it.

The digest of each program is stored when it is built. Hashing an experiment kernel takes 12 ms. So a file is hashed
again only if its inode, size or times have changed. The user's cache keeps the digests and these values.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pwd
import stat
import time
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from mprun.errors import MachineError, MprunError
from mprun.machine.cache import cache
from mprun.safety.folder import Folder

# A file that changed less than this ago may change again without a change of its times, which have limited resolution.
SETTLED_NS = 1_000_000_000
SEEN = "seen.json"

# Device, inode, size, time of the last change of content, time of the last change of status (ns).
_State = list[int]


def digest_files(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """Return the SHA-256 of each existing file by its name, in hexadecimal."""
    return {name: _hash(folder / name) for name in names if (folder / name).is_file()}


def find_change(folder: Path, digests: Mapping[str, str], names: Iterable[str]) -> str | None:
    """Return the fault of the first file that is not the built file; None if all files are unchanged.

    digests: the SHA-256 of each built file by name, in hexadecimal.
    """
    for name in names:
        path = folder / name
        if not os.access(path, os.R_OK | os.X_OK):
            return f"{path} is no program"
        if _digest(path) != digests.get(name):
            return f"{path} is not the file that was built"
    return None


def find_stranger(folder: Path, names: Iterable[str], owners: Collection[int]) -> str | None:
    """Return how a user other than `owners` (user ids) could replace one of the files; None if no other user could.

    The files, their folder and its parent folder are checked. The message names the first faulty one.
    """
    folder = folder.resolve()
    for path in (folder.parent, folder, *(folder / name for name in names)):
        status = path.lstat()
        if status.st_uid not in owners:
            whose = " or ".join("you" if owner == os.geteuid() else _name(owner) for owner in sorted(set(owners)))
            return f"{path} belongs to {_name(status.st_uid)}, not to {whose}"
        if status.st_mode & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX:
            return f"{path} can be written by every user"
    return None


def _name(user: int) -> str:
    with contextlib.suppress(KeyError):
        return pwd.getpwuid(user).pw_name
    return f"user {user}"


def _digest(path: Path) -> str:
    """Return the SHA-256 of a file. If the file has not changed since it was last hashed, use the known digest."""
    path = path.resolve()
    seen = _read_seen()
    state = _state(path)
    if (known := seen.get(str(path))) and known[:-1] == state:
        return str(known[-1])
    digest = _hash(path)
    if _state(path) == state and max(state[3:]) < time.time_ns() - SETTLED_NS:
        kept = {name: one for name, one in seen.items() if os.path.exists(name)}
        _write_seen({**kept, str(path): [*state, digest]})
    return digest


def _state(path: Path) -> _State:
    status = path.stat()
    return [status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read_seen() -> dict[str, list[int | str]]:
    """Return the states and digests of files hashed before; none if another user could have written them."""
    with contextlib.suppress(OSError, ValueError, TypeError, MachineError):
        cache_file = cache(SEEN, of_root=True)
        if find_stranger(cache_file.parent, (SEEN,), (os.geteuid(), 0)) is None:
            found = json.loads(cache_file.read_text())
            return {str(path): list(one) for path, one in found.items()} if isinstance(found, dict) else {}
    return {}


def _write_seen(seen: Mapping[str, list[int | str]]) -> None:
    """Store the states and digests, completely or not at all.

    If the cache cannot be written, nothing is stored, and files are hashed each time.
    """
    with contextlib.suppress(OSError, MprunError):
        cache_file = cache(SEEN, of_root=True)
        with Folder(cache_file.parent).whole(cache_file.name, 0o600) as file:
            file.write(json.dumps(seen).encode())
