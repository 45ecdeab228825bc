# SPDX-License-Identifier: Apache-2.0
"""Unpack the files of an entry before a run, and keep what a build has made of them. It runs as a program of its own.

    python3 unpack.py unpack FOLDER ARCHIVE ...
    python3 unpack.py keep FOLDER TARGET ARCHIVE ...

`unpack` fills FOLDER from archives (tar files). `keep` copies the files in FOLDER that are not in an archive, or that
differ from it, to TARGET. All files get one time, because times of a machine are no part of a result. It needs only
Python's library, because mprun's package is not available where it runs.
"""

from __future__ import annotations

import os
import shutil
import sys
import tarfile

# The time of all files, in s since 1970. Programs that compare times, as make(1) does, find no file newer than another.
TIME_S = 946_684_800


def unpack(folder: str, archives: list[str]) -> None:
    """Fill a folder from archives.

    Raises ValueError for a member that leads out of the folder, or that is no file, folder or symbolic link.
    """
    os.makedirs(folder)
    links = []
    for name in archives:
        with tarfile.open(name, "r:") as archive:
            for member in archive:
                inside = path_of(folder, member)
                if member.isdir():
                    os.mkdir(inside)
                elif member.issym():
                    # made at the end, so that no member of any archive is written through a link
                    links.append((member.linkname, inside))
                elif member.type == tarfile.REGTYPE and (source := archive.extractfile(member)) is not None:
                    with open(inside, "xb") as target:
                        shutil.copyfileobj(source, target)
                    os.chmod(inside, member.mode & 0o755)
                else:
                    raise ValueError(f"{member.name}: no file, folder or symbolic link")
    for target_name, inside in links:
        os.symlink(target_name, inside)
    for path, folders, names in os.walk(folder):
        for one in (path, *(os.path.join(path, name) for name in (*folders, *names))):
            os.utime(one, (TIME_S, TIME_S), follow_symlinks=False)


def path_of(folder: str, member: tarfile.TarInfo) -> str:
    """Return the path of a member below a folder. Raises ValueError if it leads out of it."""
    parts = member.name.split("/")
    if not all(part and part not in (".", "..") for part in parts):
        raise ValueError(f"{member.name}: leads out of its folder")
    return os.path.join(folder, *parts)


def keep(folder: str, target: str, archives: list[str]) -> None:
    """Copy the files of a folder that differ from the archives."""
    known = {}
    for name in archives:
        with tarfile.open(name, "r:") as archive:
            for member in archive:
                source = archive.extractfile(member) if member.isreg() else None
                known[member.name] = source.read() if source is not None else None
    for path, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            full = os.path.join(path, name)
            relative = os.path.relpath(full, folder)
            if os.path.islink(full) or not os.path.isfile(full):
                continue
            with open(full, "rb") as file:
                if file.read() == known.get(relative):
                    continue
            os.makedirs(os.path.dirname(os.path.join(target, relative)), exist_ok=True)
            shutil.copyfile(full, os.path.join(target, relative))


if __name__ == "__main__":
    if sys.argv[1] == "unpack":
        unpack(sys.argv[2], sys.argv[3:])
    else:
        keep(sys.argv[2], sys.argv[3], sys.argv[4:])
