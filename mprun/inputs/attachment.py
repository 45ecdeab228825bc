# SPDX-License-Identifier: Apache-2.0
"""Files of a user that go into a run (`files` of an `exec` entry), as an archive whose bytes follow from the content.

An archive is a tar file (GNU format) with its members in order. Times, owners and all permissions but the right to
execute are left out, so that the same files give the same digest on every machine.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, BinaryIO, cast

from mprun.errors import RunError, SpecError
from mprun.model.spec import Attachment
from mprun.safety import landlock
from mprun.safety.folder import Folder, UnsafeError, open_regular

MOST_BYTES = 256 << 20
MOST_MEMBERS = 20_000
# Folders that are left out. Programs make them again, with other bytes each time.
LEFT_OUT = ("__pycache__",)
# Folders of which each run has its own.
OWN = ("/", "/tmp", "/var/tmp", "/run")
_BLOCK = 1 << 20


class _Hashed:
    """The digest and the size of the written data. file: receives the data; None if only the digest is needed."""

    def __init__(self, file: BinaryIO | None = None) -> None:
        self._file = file
        self.hash = hashlib.sha256()
        self.size_bytes = 0

    def write(self, data: bytes) -> int:
        self.hash.update(data)
        self.size_bytes += len(data)
        if self._file is not None:
            self._file.write(data)
        return len(data)


def examine(path: Path, archived: str | None = None) -> Attachment:
    """Return a file or folder as an attachment. Raises SpecError for what cannot go into a run.

    archived: the attachment's name, if the file is the archive of it that a run has kept.
    """
    hashed, is_archive = _Hashed(), archived is not None
    _write(path, is_archive, hashed)
    return Attachment(archived or path.name, hashed.hash.hexdigest(), hashed.size_bytes, str(path), is_archive)


def is_hidden(path: Path, may_lack: bool = False) -> bool:
    """Return True if a path is a file or folder of this machine that programs of a run do not see.

    may_lack: also a path without a file.
    """
    try:
        # a link may lead to a program that is seen, and is not seen itself
        final = path.parent.resolve(strict=not may_lack) / path.name
        if not (may_lack or os.path.lexists(final)):
            return False
    except (OSError, RuntimeError, ValueError):
        return False
    # what a run makes in its own folders
    is_made = may_lack and not os.path.lexists(final) and any(folder in map(str, final.parents) for folder in OWN[1:])
    if str(final) in OWN or is_made:
        return False
    seen = (*landlock.PROGRAM_FOLDERS, landlock.SETTINGS_FOLDER, "/proc", "/sys", "/dev")
    # a run has a /dev/shm of its own
    return Path("/dev/shm") in final.parents or not any(final.is_relative_to(folder) for folder in seen)


def keep(attachment: Attachment, file: BinaryIO) -> None:
    """Write the archive of an attachment. Raises RunError if its files have changed since they were examined."""
    hashed = _Hashed(file)
    _write(Path(attachment.source), attachment.is_archive, hashed)
    if hashed.hash.hexdigest() != attachment.sha256:
        raise RunError(f"{attachment.source}: changed while the run began: run it again")


def _write(path: Path, is_archive: bool, target: _Hashed) -> None:
    """Write the archive of a file or folder, or copy a file that is an archive. Raises SpecError."""
    try:
        if not is_archive:
            _pack(path, target)
            return
        with open_regular(path, path) as file:
            _copy(file, target)
    except UnsafeError as error:
        raise SpecError(str(error)) from None
    except OSError as error:
        what = "does not exist" if isinstance(error, FileNotFoundError) else error.strerror or str(error)
        raise SpecError(what) from None
    except RuntimeError:
        raise SpecError("is a link that leads in a circle") from None


def _copy(source: BinaryIO, target: _Hashed) -> None:
    left = MOST_BYTES + MOST_MEMBERS * tarfile.BLOCKSIZE
    while data := source.read(_BLOCK):
        left -= len(data)
        if left < 0:
            raise SpecError(f"has more than {MOST_BYTES >> 20} MB, the most that a run takes")
        target.write(data)


def _pack(path: Path, target: _Hashed) -> None:
    """Write the archive of a file or folder. Raises SpecError."""
    root = path.resolve(strict=True)
    # the name as it is in the experiment; a link at the top is resolved
    with tarfile.open(fileobj=cast(IO[bytes], target), mode="w|", format=tarfile.GNU_FORMAT) as archive:
        size_bytes = 0
        for number, relative in enumerate(_walk(root)):
            if number >= MOST_MEMBERS:
                raise SpecError(f"holds more than {MOST_MEMBERS} files and folders: name fewer")
            size_bytes += _add(archive, root, relative, path.name)
            if size_bytes > MOST_BYTES:
                raise SpecError(f"holds more than {MOST_BYTES >> 20} MB, the most that a run takes: name fewer files")


def _walk(root: Path) -> Iterator[str]:
    """Yield the relative paths of a file, or of a folder and all its content, in order."""
    yield ""
    if not root.is_dir():
        return
    waiting = [""]
    while waiting:
        relative = waiting.pop()
        names = sorted(one.name for one in os.scandir(root / relative) if one.name not in LEFT_OUT)
        folders = []
        for name in names:
            inner = f"{relative}/{name}" if relative else name
            yield inner
            if stat.S_ISDIR(os.lstat(root / inner).st_mode):
                folders.append(inner)
        waiting += reversed(folders)


def _add(archive: tarfile.TarFile, root: Path, relative: str, name: str) -> int:
    """Add a file, folder or link to an archive. Return the size of its content in bytes."""
    member = tarfile.TarInfo(f"{name}/{relative}" if relative else name)
    status = os.lstat(root / relative)
    member.mode = 0o755
    if stat.S_ISDIR(status.st_mode):
        member.type = tarfile.DIRTYPE
        archive.addfile(member)
    elif stat.S_ISLNK(status.st_mode):
        member.type = tarfile.SYMTYPE
        member.linkname = _target(root, relative)
        archive.addfile(member)
    elif stat.S_ISREG(status.st_mode):
        # no link on the way to it is followed
        with Folder(root).open(relative) if relative else open_regular(root, root) as file:
            member.size = os.fstat(file.fileno()).st_size
            member.mode = 0o755 if status.st_mode & 0o111 else 0o644
            first = b"" if relative or member.mode == 0o644 else file.readline(_BLOCK)
            if first.startswith(b"#!") and first.endswith(b"\r\n"):
                raise SpecError("has lines that end in CR LF, and Linux finds no program whose name ends in CR: use LF")
            file.seek(0)
            archive.addfile(member, file)
        return member.size
    else:
        what = f"holds '{relative}', which is" if relative else "is"
        raise SpecError(f"{what} neither a file nor a folder: remove it")
    return 0


def _target(root: Path, relative: str) -> str:
    """Return the target of a link, as the copy has it: a relative path, or the path of a program of the machine."""
    link = root / relative
    final = Path(os.path.realpath(link))
    at = Path(os.path.normpath(link.parent / os.readlink(link)))
    if at.is_relative_to(root):
        # what it leads to is a member itself, and is checked as such
        return os.path.relpath(at, link.parent)
    is_program = any(final.is_relative_to(folder) for folder in landlock.PROGRAM_FOLDERS)
    if is_program and os.access(final, os.X_OK) and final.is_file():
        return str(at)
    raise SpecError(
        f"holds the link '{relative}' to {final}, which a run does not see: replace it by a copy, or in a Python "
        "environment by the machine's own interpreter (/usr/bin/python3 -m venv)"
    )
