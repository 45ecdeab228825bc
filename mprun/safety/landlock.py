# SPDX-License-Identifier: Apache-2.0
"""Landlock: limits on the files that a process may open, set by itself before it starts a program (landlock(7)).

Each version of Landlock (ABI) knows more rights. Rights that this kernel does not know are left out. Rules name
existing files and folders. All other files are refused, for the process and all its descendants.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import stat
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
CREATE_RULESET_VERSION = 1
RULE_PATH_BENEATH = 1
PR_SET_NO_NEW_PRIVS = 38

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR, REMOVE_DIR, REMOVE_FILE = (1 << bit for bit in range(6))
MAKE_CHAR, MAKE_DIR, MAKE_REG, MAKE_SOCK, MAKE_FIFO, MAKE_BLOCK, MAKE_SYM = (1 << bit for bit in range(6, 13))
REFER, TRUNCATE, IOCTL_DEV = (1 << bit for bit in range(13, 16))
# The number of file-system rights that each ABI knows. Later versions know all rights.
_KNOWN_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15}
_ALL_RIGHTS = 16
# TCP bind and connect (from ABI 4 on) are refused unless the network is allowed. Abstract sockets and signals to
# processes outside (from ABI 6 on) are always refused.
_NETWORK, _SCOPES = 3, 3
_RIGHTS_OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV

READ = READ_FILE | READ_DIR
RUN = READ | EXECUTE
USE_DEVICE = READ_FILE | WRITE_FILE | IOCTL_DEV
OWN = (1 << _ALL_RIGHTS) - 1 & ~(EXECUTE | MAKE_CHAR | MAKE_BLOCK)

# The folders of programs and their data, and the folder of their settings, which may be secret.
PROGRAM_FOLDERS = ("/usr", "/lib", "/lib32", "/lib64", "/libx32", "/bin", "/sbin", "/opt")
SETTINGS_FOLDER = "/etc"

_libc = ctypes.CDLL(None, use_errno=True)


def abi() -> int:
    """Return the version of this kernel's Landlock; 0 if it has none or Landlock is switched off."""
    return max(0, int(_libc.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), CREATE_RULESET_VERSION)))


@contextlib.contextmanager
def ruleset(rights: Mapping[Path, int], with_network: bool = False) -> Iterator[int | None]:
    """Yield the descriptor of a set of Landlock rules for `restrict`; None if the kernel has no Landlock.

    - rights: for each path, the allowed rights on the path and on everything below it: bits of LANDLOCK_ACCESS_FS.
    - with_network: TCP connections are allowed.

    Paths that do not exist are left out. Raises OSError if the kernel refuses a rule.
    """
    version = abi()
    if not version:
        yield None
        return
    known = (1 << _KNOWN_RIGHTS.get(version, _ALL_RIGHTS)) - 1
    values = [known, *([0 if with_network else _NETWORK] if version >= 4 else []), *([_SCOPES] if version >= 6 else [])]
    handle = system_call("landlock", CREATE_RULESET, struct.pack(f"={len(values)}Q", *values), 8 * len(values), 0)
    try:
        for path, right in rights.items():
            try:
                at = os.open(path, os.O_PATH | os.O_CLOEXEC)
            except OSError:
                continue
            try:
                is_folder = stat.S_ISDIR(os.fstat(at).st_mode)
                allowed = right & known & (known if is_folder else _RIGHTS_OF_FILES)
                system_call("landlock", ADD_RULE, handle, RULE_PATH_BENEATH, struct.pack("=Qi", allowed, at), 0)
            finally:
                os.close(at)
        yield handle
    finally:
        os.close(handle)


def readable_by_all(folder: Path) -> list[Path]:
    """Return the folder if every user may read everything in it, or else its largest parts of this kind.

    Root could read the other parts too, so rules must name only these. Links are left out, since their targets have
    their own rules. Files that vanish meanwhile and folders that cannot be listed are left out too.
    """
    try:
        with os.scandir(folder) as listed:
            entries = [Path(entry.path) for entry in listed if not entry.is_symlink()]
    except OSError:
        return []
    found = {path: _parts_of_entry(path) for path in entries}
    is_whole = all(parts == [path] for path, parts in found.items())
    return [folder] if is_whole else [part for parts in found.values() for part in parts]


def _parts_of_entry(path: Path) -> list[Path]:
    try:
        mode = path.lstat().st_mode
    except OSError:
        return []
    if not stat.S_ISDIR(mode):
        return [path] if mode & stat.S_IROTH else []
    return readable_by_all(path) if mode & stat.S_IROTH and mode & stat.S_IXOTH else []


def restrict(handle: int | None) -> None:
    """Apply the rules of `ruleset` to this process and all its descendants, permanently. Raises OSError.

    None of them can gain privileges any more (prctl(2), PR_SET_NO_NEW_PRIVS).
    """
    if _libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")
    if handle is not None:
        system_call("landlock", RESTRICT_SELF, handle, 0)


def system_call(what: str, number: int, *arguments: int | bytes) -> int:
    """Call the kernel and return its answer. Raises OSError, whose text begins with `what`."""
    words = [one if isinstance(one, bytes) else ctypes.c_long(one) for one in arguments]
    result = int(_libc.syscall(ctypes.c_long(number), *words))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")
    return result
