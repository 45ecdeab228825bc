# SPDX-License-Identifier: Apache-2.0
"""Whom mprun works for: under sudo the user who called that, whose cache is used and who owns what is made."""

from __future__ import annotations

import atexit
import os
import pwd
import subprocess
from pathlib import Path


def _ids() -> tuple[int, int] | None:
    """User and group of the one who called sudo; None where that is root, or nobody did."""
    uid, gid = os.environ.get("SUDO_UID", ""), os.environ.get("SUDO_GID", "")
    if os.geteuid() != 0 or not uid.isdigit() or not gid.isdigit() or int(uid) == 0:
        return None
    return int(uid), int(gid)


def user() -> int:
    """Return the id of the user whom mprun works for."""
    ids = _ids()
    return ids[0] if ids else os.geteuid()


def is_root_for_user() -> bool:
    """Tell whether this is root, called by a user with sudo."""
    return _ids() is not None


def become() -> None:
    """In a child: give up the rights of root that sudo gave, for good."""
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
    """Tell whether the user whom mprun works for can write into a folder, under sudo without the rights of root."""
    if not is_root_for_user():
        return os.access(path, os.W_OK)
    done = subprocess.run(["/usr/bin/test", "-w", path], preexec_fn=become)
    return done.returncode == 0


def home() -> Path:
    """The home directory."""
    if ids := _ids():
        try:
            return Path(pwd.getpwuid(ids[0]).pw_dir)
        except KeyError:
            pass
    return Path.home()


def home_of_root() -> Path:
    """The home directory of root."""
    return Path(pwd.getpwuid(0).pw_dir)


def give(path: Path) -> None:
    """Make what is at `path`, and below, the invoker's."""
    if not (ids := _ids()):
        return
    os.lchown(path, *ids)
    for folder, folders, files in os.walk(path):
        for name in (*folders, *files):
            os.lchown(os.path.join(folder, name), *ids)


def give_at_exit(path: Path) -> None:
    """The same when this process ends, however it was ended short of being killed."""
    if _ids():
        atexit.register(give, path)


def make_folder(path: Path) -> None:
    """Make a folder, and those above it that are missing, the invoker's."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    if ids := _ids():
        for folder in missing:
            os.lchown(folder, *ids)
