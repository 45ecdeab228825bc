# SPDX-License-Identifier: Apache-2.0
"""Notice that files of this machine change during a run, for example by an upgrade in the background.

A run reads programs, libraries and settings of this machine when its programs start. The kernel reports changes in
their folders (inotify(7)), which costs nothing while nothing changes.
"""

from __future__ import annotations

import ctypes
import os
import struct
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

# inotify(7): a file is written, gets other attributes or another name, appears or disappears.
_CHANGES = 0x002 | 0x004 | 0x040 | 0x080 | 0x100 | 0x200
_EVENT = struct.Struct("iIII")
_MOST_BYTES = 1 << 16
# Of these folders, only some files decide what a program does. Others change at any time.
_FEW = {"/etc": ("ld.so.cache", "ld.so.conf", "nsswitch.conf", "hosts", "passwd", "group", "services", "protocols")}
_libc = ctypes.CDLL(None, use_errno=True)


class FileChanges(NamedTuple):
    """Files that have changed, by path. `problem`: why changes may have been missed, or empty."""

    paths: tuple[str, ...] = ()
    problem: str = ""


class FileWatch:
    """A watch of files, and of the files that lie directly in some folders."""

    def __init__(self, folders: Collection[Path]) -> None:
        """Begin to watch. Files and folders that do not exist are left out."""
        self._problem = ""
        self._folders: dict[int, str] = {}
        self._file = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC) if folders else -1
        if folders and self._file < 0:
            self._problem = os.strerror(ctypes.get_errno())
            return
        for folder in sorted({os.path.realpath(folder) for folder in folders if os.path.exists(folder)}):
            number = _libc.inotify_add_watch(self._file, os.fsencode(folder), _CHANGES)
            if number < 0:
                self._problem = f"{folder}: {os.strerror(ctypes.get_errno())}"
            else:
                self._folders[number] = folder

    def take(self) -> FileChanges | None:
        """Return the files that have changed, in order of time; None if nothing has changed."""
        found: dict[str, None] = {}
        with suppress(BlockingIOError):
            while self._file >= 0:
                found |= dict.fromkeys(self._read(os.read(self._file, _MOST_BYTES)))
        return FileChanges(tuple(found), self._problem) if found or self._problem else None

    def _read(self, events: bytes) -> Iterator[str]:
        at = 0
        while at < len(events):
            number, _kind, _cookie, length = _EVENT.unpack_from(events, at)
            name = os.fsdecode(events[at + _EVENT.size : at + _EVENT.size + length].rstrip(b"\0"))
            at += _EVENT.size + length
            folder = self._folders.get(number)
            if folder is not None and (folder not in _FEW or name in _FEW[folder]):
                yield f"{folder}/{name}" if name else folder

    def close(self) -> None:
        """End the watch."""
        if self._file >= 0:
            # the kernel takes up to 10 ms to forget the folders
            threading.Thread(target=os.close, args=(self._file,), daemon=True).start()


@contextmanager
def watched(folders: Collection[Path]) -> Iterator[FileWatch]:
    """Watch the files in some folders during a block."""
    watch = FileWatch(folders)
    try:
        yield watch
    finally:
        watch.close()
