# SPDX-License-Identifier: Apache-2.0
"""Confine a command of a file (`exec`) that runs on the kernel of the user's machine (the real engine).

- The command sees the file tree of the run. Only the run's own files are writable.
- It keeps only the capabilities of the network, and cannot gain others.
- It obeys Landlock if the kernel has it.
- It makes no set-ID files, which on the machine would be programs with the rights of their owner.

If the kernel refuses any of these steps, the command is not started. `docs/limits.md` says what remains.
"""

from __future__ import annotations

import ctypes
import os
import struct
from contextlib import ExitStack
from pathlib import Path

from mprun.agent.namespace import CLONE_NEWNS, MS_BIND, call
from mprun.model import engine_paths
from mprun.safety import landlock, seccomp

MS_RDONLY, MS_NOSUID, MS_MOVE, MS_REC, MS_PRIVATE = 1, 2, 1 << 13, 1 << 14, 1 << 18
# mount_setattr(2), from Linux 5.12 on; the number is the same on all architectures.
MOUNT_SETATTR = 442
AT_FDCWD, AT_RECURSIVE = -100, 0x8000
READ_ONLY, NO_SUID, NO_DEVICES = 1, 2, 4
# prctl(2), capabilities(7), capget(2)
PR_CAPBSET_READ, PR_CAPBSET_DROP = 23, 24
MOST_CAPABILITIES = 64
CAPABILITY_VERSION_3 = 0x20080522
# CAP_NET_BIND_SERVICE, CAP_NET_BROADCAST, CAP_NET_ADMIN, CAP_NET_RAW
OF_NETWORK = (10, 11, 12, 13)

NET_SYSCTLS = "/proc/sys/net"
# Paths that stay writable: network settings of the command's own node, and the run's directory and folder in memory.
WRITABLE = (NET_SYSCTLS, "/run", engine_paths.RUN)
# Of the run: the messages between mprun and its agent. Of the machine: home folders and root's secrets.
HIDDEN = (engine_paths.REPORTS, engine_paths.ORDERS, "/home", "/root", "/etc/ssh", "/etc/ssl/private")
HIDDEN_FILES = ("/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-")
TEMPORARY = ("/tmp", "/var/tmp")
TEMPORARY_SIZE = "size=256m"
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
LINKS = {"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2", "ptmx": "pts/ptmx"}

_OWN = landlock.OWN | landlock.EXECUTE
RIGHTS = {
    **dict.fromkeys(map(Path, landlock.PROGRAM_FOLDERS), landlock.RUN),
    Path("/sys"): landlock.READ,
    Path("/proc"): landlock.READ | landlock.WRITE_FILE | landlock.TRUNCATE,
    Path("/dev"): landlock.READ | landlock.USE_DEVICE,
    **dict.fromkeys(map(Path, ("/dev/shm", "/run", *TEMPORARY)), _OWN),
}

_libc = ctypes.CDLL(None, use_errno=True)


def confine() -> None:
    """Confine this process, a child that is about to become the command. Raises OSError."""
    call("unshare", CLONE_NEWNS)
    _mount("none", "/", None, MS_REC | MS_PRIVATE)
    _mount(NET_SYSCTLS, NET_SYSCTLS, None, MS_BIND)
    _set_attributes("/", READ_ONLY | NO_SUID | NO_DEVICES, 0, AT_RECURSIVE)
    for path in WRITABLE:
        _set_attributes(path, 0, READ_ONLY)
    for path in filter(os.path.isdir, HIDDEN):
        _mount("hidden", path, "tmpfs", MS_RDONLY | MS_NOSUID, "mode=755")
    for path in filter(os.path.isfile, HIDDEN_FILES):
        # a device that cannot be opened on this mount
        _mount("/dev/null", path, None, MS_BIND)
    for path in filter(os.path.isdir, TEMPORARY):
        _mount("temporary", path, "tmpfs", MS_NOSUID, f"mode=1777,{TEMPORARY_SIZE}")
    _make_devices(f"{TEMPORARY[0]}/dev")
    rights = RIGHTS | dict.fromkeys(landlock.readable_by_all(Path(landlock.SETTINGS_FOLDER)), landlock.RUN)
    with ExitStack() as opened:
        landlock.restrict(opened.enter_context(landlock.ruleset(rights, with_network=True)))
    _drop_capabilities()
    seccomp.restrict(seccomp.program_of_commands())


def _make_devices(staging: str) -> None:
    """Replace the machine's `/dev` by one that has the devices that every program needs, and no disks."""
    os.mkdir(staging)
    _mount("dev", staging, "tmpfs", MS_NOSUID, "mode=755,size=64k")
    for name in DEVICES:
        inner = f"{staging}/{name}"
        os.close(os.open(inner, os.O_WRONLY | os.O_CREAT, 0o600))
        _mount(f"/dev/{name}", inner, None, MS_BIND)
        _set_attributes(inner, 0, READ_ONLY | NO_DEVICES)
    for name, target in LINKS.items():
        os.symlink(target, f"{staging}/{name}")
    for name, kind, words in (("shm", "tmpfs", f"mode=1777,{TEMPORARY_SIZE}"), ("pts", "devpts", "ptmxmode=666")):
        os.mkdir(f"{staging}/{name}")
        _mount(name, f"{staging}/{name}", kind, MS_NOSUID, words)
    _mount(staging, "/dev", None, MS_MOVE)
    os.rmdir(staging)
    _set_attributes("/dev", READ_ONLY, 0)


def _drop_capabilities() -> None:
    """Drop all capabilities except those for networks, also from the bounding set. Raises OSError."""
    for number in range(MOST_CAPABILITIES):
        if number not in OF_NETWORK and _libc.prctl(PR_CAPBSET_READ, number, 0, 0, 0) == 1:
            call("prctl", PR_CAPBSET_DROP, number, 0, 0, 0)
    header = struct.pack("=Ii", CAPABILITY_VERSION_3, 0)
    # effective, permitted and inheritable sets of the first 32 capabilities, then those of the others
    data = ctypes.create_string_buffer(24)
    call("capget", header, data)
    wanted = sum(1 << number for number in OF_NETWORK)
    permitted = struct.unpack_from("=I", data, 4)[0] & wanted
    # ambient capabilities that are no longer inheritable are dropped too
    call("capset", header, struct.pack("=6I", permitted, permitted, permitted, 0, 0, 0))


def _mount(source: str, target: str, kind: str | None, flags: int, words: str | None = None) -> None:
    *names, data = (None if text is None else text.encode() for text in (source, target, kind, words))
    call("mount", *names, flags, data)


def _set_attributes(path: str, on: int, off: int, how: int = 0) -> None:
    """Set and clear attributes of a mount. With AT_RECURSIVE, also of all mounts below it. Raises OSError."""
    attributes = struct.pack("=4Q", on, off, 0, 0)
    arguments = (AT_FDCWD, path.encode(), how, attributes, len(attributes))
    landlock.system_call(f"mount_setattr {path}", MOUNT_SETATTR, *arguments)
