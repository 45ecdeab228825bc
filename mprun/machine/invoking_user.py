# SPDX-License-Identifier: Apache-2.0
"""The invoker: the user whom mprun works for, whose cache it uses and who owns the files that it makes.

Under sudo, this is the user who called sudo.
"""

from __future__ import annotations

import atexit
import os
import pwd
import subprocess
from contextlib import suppress
from pathlib import Path


def _ids() -> tuple[int, int] | None:
    """Return user id and group id of the user who called sudo; None without sudo, or if root called it."""
    uid, gid = os.environ.get("SUDO_UID", ""), os.environ.get("SUDO_GID", "")
    if os.geteuid() != 0 or not uid.isdigit() or not gid.isdigit() or int(uid) == 0:
        return None
    return int(uid), int(gid)


def user() -> int:
    """Return the id of the user whom mprun works for."""
    ids = _ids()
    return ids[0] if ids else os.geteuid()


def is_root_for_user() -> bool:
    """Return whether this process has root's rights because a user called it with sudo."""
    return _ids() is not None


def become() -> None:
    """Give up root's rights from sudo permanently. Call this only in a child process.

    Without sudo, nothing changes.
    """
    if ids := _ids():
        os.setgroups(_groups(*ids))
        os.setresgid(ids[1], ids[1], ids[1])
        os.setresuid(ids[0], ids[0], ids[0])


def _groups(uid: int, gid: int) -> list[int]:
    try:
        return os.getgrouplist(pwd.getpwuid(uid).pw_name, gid)
    except KeyError:
        return [gid]


def can_write(path: Path) -> bool:
    """Return whether the invoker can write to a folder. The rights that sudo adds do not count."""
    if not is_root_for_user():
        return os.access(path, os.W_OK)
    done = subprocess.run(["/usr/bin/test", "-w", path], preexec_fn=become)
    return done.returncode == 0


def home() -> Path | None:
    """Return the invoker's home directory; None if neither HOME nor the user database names one."""
    if ids := _ids():
        with suppress(KeyError):
            return Path(pwd.getpwuid(ids[0]).pw_dir)
    with suppress(RuntimeError):
        return Path.home()
    return None


def home_of_root() -> Path:
    """Return root's home directory."""
    return Path(pwd.getpwuid(0).pw_dir)


def give(path: Path) -> None:
    """Make the invoker the owner of `path` and of everything below it."""
    if not (ids := _ids()):
        return
    os.lchown(path, *ids)
    for folder, folders, files in os.walk(path):
        for name in (*folders, *files):
            os.lchown(os.path.join(folder, name), *ids)


def give_at_exit(path: Path) -> None:
    """Make the invoker the owner of `path`, and of everything below it, when this process exits, if it still exists."""
    if _ids():
        atexit.register(lambda: give(path) if path.exists() else None)


def make_folder(path: Path) -> None:
    """Make a folder and its missing parents, with the invoker as the owner."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    if ids := _ids():
        for folder in missing:
            os.lchown(folder, *ids)
