# SPDX-License-Identifier: Apache-2.0
"""Safe access to files below a folder that a stranger may have made.

mprun opens such files only with this module. It walks a name component by component from the folder's descriptor, and
never follows symbolic links (openat(2), O_NOFOLLOW). So nothing outside the folder is ever read or written. Only
regular files are opened. A new file first has a random name, and gets its own name when it is complete.
"""

from __future__ import annotations

import contextlib
import errno
import fnmatch
import json
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from io import BufferedReader
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from mprun.errors import MprunError

# A value costs up to 72 bytes in memory and is copied once: 5 million values take less than 1 GB.
MOST_JSON_VALUES = 5_000_000
MOST_JSON_BYTES = 128 << 20
MOST_TEXT_BYTES = 64 << 20
# f_type in statfs(2) of file systems whose files come from the kernel. Reading such a file may block or have effects.
_OF_THE_KERNEL = {
    0x9FA0: "proc",
    0x62656572: "sysfs",
    0x64626720: "debugfs",
    0x74726163: "tracefs",
    0x27E0EB: "cgroup",
    0x63677270: "cgroup",
    0x73636673: "securityfs",
    0x6165676C: "pstore",
    0xCAFE4A11: "bpf",
}

_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# tmpfs, ramfs
_IN_MEMORY = (0x01021994, 0x858458F6)


class UnsafeError(MprunError):
    """A failure because a name leads out of its folder, or to something other than a regular file or folder."""


class Folder:
    """A folder, and the files below it. Names are relative to it, with `/` between components.

    - path: the folder's path, for messages.
    - root: the folder at which each walk begins. The components between root and path are walked like a name.
    """

    def __init__(self, path: Path, root: Path | None = None) -> None:
        self.path = path
        self.root = root or path

    def below(self, name: str) -> Folder:
        """Return a folder inside this one, which need not exist. Raises UnsafeError if the name leads out of it."""
        return Folder(self.path.joinpath(*self._parts(name)), self.root)

    def open(self, name: str) -> BufferedReader:
        """Open a regular file for reading. Raises FileNotFoundError or UnsafeError."""
        with self._parent(name) as (folder, last):
            return open_regular(last, self.path / name, folder)

    def read_bytes(self, name: str, most: int = MOST_TEXT_BYTES) -> bytes:
        """Return a file's content. Raises FileNotFoundError, or UnsafeError if it has more than `most` bytes."""
        with self.open(name) as file:
            data = file.read(most + 1)
        if len(data) > most:
            raise UnsafeError(f"{self.path / name}: has more than {most >> 20} MB, the most that is read")
        return data

    def read_text(self, name: str, most: int = MOST_TEXT_BYTES) -> str:
        """Return a file's text. Bytes that are not UTF-8 become U+FFFD."""
        return self.read_bytes(name, most).decode(errors="replace").replace("\r\n", "\n")

    def read_json(self, name: str) -> Any:
        """Return the value in a JSON file. Raises FileNotFoundError, UnsafeError, or ValueError."""
        return parse_json(self.read_bytes(name, MOST_JSON_BYTES))

    def has(self, name: str) -> bool:
        """Return whether a regular file of this name exists and is reached without links."""
        found = self._stat(name)
        return found is not None and stat.S_ISREG(found.st_mode)

    def stat(self, name: str) -> os.stat_result:
        """Return the status of a file or folder. Raises FileNotFoundError if none is reached without links."""
        found = self._stat(name)
        if found is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self.path / name))
        return found

    def size(self, name: str) -> int:
        """Return a file's size in bytes."""
        return self.stat(name).st_size

    def find(self, pattern: str, folders: bool = False) -> list[str]:
        """Return the names of regular files that match a pattern, or of folders, in order.

        `*` matches a part of one component, and `**` matches any number of folders.
        """
        return sorted(self._find((), [*PurePosixPath(pattern).parts], folders), key=lambda name: name.split("/"))

    @contextlib.contextmanager
    def whole(self, name: str, mode: int = 0o666, finish: Callable[..., None] = os.replace) -> Iterator[BinaryIO]:
        """Yield a new file for writing, which gets this name at the end of the block if no error occurred.

        A file or link with this name is replaced; the link is not followed. Raises UnsafeError if a folder has the
        name. finish: `os.link` to replace nothing.
        """
        with self._parent(name) as (folder, last):
            partial = f".{os.urandom(8).hex()}.partial"
            try:
                with os.fdopen(os.open(partial, _NEW_FILE, mode, dir_fd=folder), "wb") as file:
                    yield file
                finish(partial, last, src_dir_fd=folder, dst_dir_fd=folder)
            except IsADirectoryError:
                raise UnsafeError(f"{self.path / name}: is a folder: remove it") from None
            except OSError as error:
                if error.errno is not None and error.filename in (None, partial):
                    error.filename = str(self.path / name)
                raise
            finally:
                with contextlib.suppress(OSError):
                    os.unlink(partial, dir_fd=folder)

    def write_bytes(self, name: str, content: bytes) -> None:
        """Write a file, completely or not at all."""
        with self.whole(name) as file:
            file.write(content)

    def write_text(self, name: str, text: str) -> None:
        """Write a text file, completely or not at all."""
        self.write_bytes(name, text.encode())

    def write_json(self, name: str, value: object, sort: bool = True) -> None:
        """Write a JSON file, completely or not at all. sort: order the keys of mappings by name."""
        self.write_text(name, json.dumps(value, indent=1, sort_keys=sort) + "\n")

    def create(self, name: str) -> BinaryIO:
        """Open a new file for writing. Raises FileExistsError if anything has the name, a link included."""
        with self._parent(name) as (folder, last):
            return os.fdopen(os.open(last, _NEW_FILE, 0o666, dir_fd=folder), "wb")

    def create_private(self, name: str, content: bytes) -> None:
        """Write a new file that only its owner may read. Raises FileExistsError if anything has the name."""
        with self.whole(name, 0o600, os.link) as file:
            file.write(content)

    def make(self, name: str) -> Folder:
        """Make a folder and its missing parents; return the folder.

        Raises UnsafeError if a link or a file has one of the names.
        """
        parts = self._parts(name)
        for n in range(1, len(parts) + 1):
            with self._walk(parts[: n - 1]) as folder, contextlib.suppress(FileExistsError):
                os.mkdir(parts[n - 1], dir_fd=folder)
        with self._walk(parts):
            return self.below(name)

    def remove(self, name: str) -> None:
        """Remove a file or a link if it exists."""
        with contextlib.suppress(FileNotFoundError, UnsafeError), self._parent(name) as (folder, last):
            os.unlink(last, dir_fd=folder)

    def remove_tree(self, name: str) -> None:
        """Remove a folder with its content, or a link, or a file, if it exists."""
        with contextlib.suppress(FileNotFoundError), self._parent(name) as (folder, last):
            if stat.S_ISDIR(os.stat(last, dir_fd=folder, follow_symlinks=False).st_mode):
                # if something cannot be removed, the next use of its name fails with a message
                shutil.rmtree(last, ignore_errors=True, dir_fd=folder)
            else:
                os.unlink(last, dir_fd=folder)

    def link(self, name: str, target: str) -> None:
        """Replace a file by another name of a file below this folder (a hard link)."""
        partial = f".{os.urandom(8).hex()}.partial"
        with self._parent(name) as (source, old), self._parent(target) as (folder, new):
            os.link(old, partial, src_dir_fd=source, dst_dir_fd=folder, follow_symlinks=False)
            os.replace(partial, new, src_dir_fd=folder, dst_dir_fd=folder)

    def move(self, name: str, target: str) -> None:
        """Rename a file or folder below this folder."""
        with self._parent(name) as (source, old), self._parent(target) as (folder, new):
            os.rename(old, new, src_dir_fd=source, dst_dir_fd=folder)

    @contextlib.contextmanager
    def locked(self, name: str, operation: int, create: bool = True) -> Iterator[None]:
        """Hold a lock on a file during the block (flock(2)).

        Raises BlockingIOError if another process holds the lock and `operation` does not wait. create: make the file
        if it is missing; otherwise raise FileNotFoundError.
        """
        import fcntl

        with self._parent(name) as (folder, last):
            flags = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | (os.O_CREAT if create else 0)
            try:
                try:
                    # NFS gives an exclusive lock only for a file that is open for writing (flock(2))
                    access = os.O_RDWR if operation & fcntl.LOCK_EX else os.O_RDONLY
                    handle = os.open(last, flags | access, 0o666, dir_fd=folder)
                except PermissionError:
                    handle = os.open(last, flags | os.O_RDONLY, 0o666, dir_fd=folder)
            except OSError as error:
                raise _explain(error, self.path / name) from None
        try:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise _refuse(self.path / name)
            fcntl.flock(handle, operation)
            yield
        finally:
            os.close(handle)

    def _parts(self, name: str) -> tuple[str, ...]:
        parts = tuple(part for part in name.split("/") if part not in ("", "."))
        if name.startswith("/") or ".." in parts or "\0" in name:
            raise UnsafeError(f"{self.path}: the name {name!r} leads out of this folder")
        return parts

    @contextlib.contextmanager
    def _walk(self, parts: tuple[str, ...]) -> Iterator[int]:
        """Yield the descriptor of a folder. Raises FileNotFoundError or UnsafeError."""
        handle = os.open(self.root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        path = self.root
        try:
            for part in (*self.path.relative_to(self.root).parts, *parts):
                path = path / part
                try:
                    inner = os.open(part, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=handle)
                except OSError as error:
                    raise _explain(error, path, handle, part) from None
                os.close(handle)
                handle = inner
            yield handle
        finally:
            os.close(handle)

    @contextlib.contextmanager
    def _parent(self, name: str) -> Iterator[tuple[int, str]]:
        """Yield the descriptor of the folder that contains a file, and the file's name in it."""
        parts = self._parts(name)
        if not parts:
            raise UnsafeError(f"{self.path}: {name!r} names no file")
        with self._walk(parts[:-1]) as folder:
            yield folder, parts[-1]

    def _stat(self, name: str) -> os.stat_result | None:
        with contextlib.suppress(FileNotFoundError, UnsafeError), self._parent(name) as (folder, last):
            return os.stat(last, dir_fd=folder, follow_symlinks=False)
        return None

    def _find(self, begin: tuple[str, ...], parts: list[str], folders: bool) -> Iterator[str]:
        if not parts:
            return
        try:
            with self._walk(begin) as folder:
                # a folder cannot be listed with a descriptor opened with O_PATH
                readable = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
                try:
                    with os.scandir(readable) as entries:
                        found = [
                            (one.name, one.is_dir(follow_symlinks=False), one.is_file(follow_symlinks=False))
                            for one in entries
                        ]
                finally:
                    os.close(readable)
        except (FileNotFoundError, UnsafeError):
            return
        first, *rest = parts
        if first == "**":
            yield from self._find(begin, rest, folders)
        for name, is_folder, is_file in found:
            if first == "**":
                if is_folder:
                    yield from self._find((*begin, name), parts, folders)
            elif fnmatch.fnmatchcase(name, first):
                if not rest and (is_folder if folders else is_file):
                    yield "/".join((*begin, name))
                elif rest and is_folder:
                    yield from self._find((*begin, name), rest, folders)


def open_regular(
    path: Path | str, shown: Path | str, folder: int | None = None, follow: bool = False
) -> BufferedReader:
    """Open a regular file for reading. It never waits, and never opens anything else.

    - shown: the file's name in messages.
    - folder: the descriptor at which a relative path begins.
    - follow: follow a symbolic link.

    Raises FileNotFoundError, other OSErrors, or UnsafeError.
    """
    try:
        # check the mode first, because opening a device or a FIFO may have an effect
        mode = os.stat(path, dir_fd=folder, follow_symlinks=follow).st_mode
        if not stat.S_ISREG(mode):
            raise _refuse(shown, mode)
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
        handle = os.open(path, flags, dir_fd=folder)
    except OSError as error:
        raise _explain(error, shown, folder) from None
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise _refuse(shown)
        # a file that the kernel generates has no blocks, so other files need no further check
        if not os.fstat(handle).st_blocks and (kind := _OF_THE_KERNEL.get(_file_system(handle))):
            raise UnsafeError(f"{shown}: is a file of the kernel ({kind}), not a regular one")
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def parse_json(data: bytes) -> Any:
    """Return the value of a JSON text. Raises ValueError, also for too many values or levels."""
    # each value but the first follows a comma or an opening bracket; such characters in strings are counted too
    if sum(data.count(sign) for sign in (b",", b"[", b"{")) >= MOST_JSON_VALUES:
        raise ValueError(f"has more than {MOST_JSON_VALUES} values")
    try:
        return json.loads(data)
    except RecursionError:
        raise ValueError("is nested too deep") from None


def free_bytes(path: Path) -> int:
    """Return the number of bytes that are free for new files in a folder.

    For a file system in memory, this is at most half of the available memory.
    """
    free = shutil.disk_usage(path).free
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        kind = _file_system(handle)
    finally:
        os.close(handle)
    if kind in _IN_MEMORY:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                free = min(free, int(line.split()[1]) * 1024 // 2)
    return free


def _file_system(handle: int) -> int:
    """Return the type of the file system of an open file: f_type in statfs(2), 0 if it is not known."""
    import ctypes

    answer = (ctypes.c_long * 64)()
    return 0 if ctypes.CDLL(None).fstatfs(handle, answer) else answer[0] & 0xFFFFFFFF


def _refuse(shown: Path | str, mode: int = 0) -> UnsafeError:
    what = {
        stat.S_IFLNK: "is a symbolic link",
        stat.S_IFDIR: "is a folder",
        stat.S_IFIFO: "is a pipe",
        stat.S_IFSOCK: "is a socket",
    }.get(stat.S_IFMT(mode), "is a device" if mode else "is no longer what it was")
    return UnsafeError(f"{shown}: {what}, not a regular file: remove it")


def _explain(error: OSError, shown: Path | str, folder: int | None = None, name: str | None = None) -> Exception:
    """Turn an OSError about a link, or about a file in place of a folder, into an error with a clear message."""
    if name is not None and error.errno in (errno.ENOTDIR, errno.ELOOP):
        with contextlib.suppress(OSError):
            if stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                return UnsafeError(f"{shown}: is a symbolic link, not a folder: remove it")
        return UnsafeError(f"{shown}: is not a folder: remove it")
    if error.errno == errno.ELOOP:
        return UnsafeError(f"{shown}: is a symbolic link, not a regular file: remove it")
    return type(error)(error.errno, error.strerror, str(shown))
