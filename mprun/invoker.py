# SPDX-License-Identifier: Apache-2.0
"""Whom mprun works for: under sudo the user who called that, whose cache is used and who owns what is made."""

from __future__ import annotations

import atexit
import os
import pwd
from pathlib import Path


def _ids() -> tuple[int, int] | None:
    """User and group of the one who called sudo; None where that is root, or nobody did."""
    uid, gid = os.environ.get("SUDO_UID", ""), os.environ.get("SUDO_GID", "")
    if os.geteuid() != 0 or not uid.isdigit() or not gid.isdigit() or int(uid) == 0:
        return None
    return int(uid), int(gid)


def home() -> Path:
    """The home directory."""
    if ids := _ids():
        try:
            return Path(pwd.getpwuid(ids[0]).pw_dir)
        except KeyError:
            pass
    return Path.home()


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
