# SPDX-License-Identifier: Apache-2.0
"""Run a command with what a container takes away: `container.py KIND[,KIND] COMMAND...`.

- capabilities: none, and none can be gained (docker run --cap-drop ALL --security-opt no-new-privileges)
- seccomp: the calls that Docker's default profile refuses, as its documentation lists them
- ptrace: refused, as by Docker on kernels before 4.8
- shm: /dev/shm with noexec
- root: everything is read-only but the working directory (docker run --read-only)

Needs root for shm and root, in a mount namespace of its own.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import subprocess
import sys

from mprun.safety.seccomp import AUDIT_ARCH_X86_64, REFUSED, restrict

LOAD, JUMP_EQUAL, JUMP_SET, RETURN = 0x20, 0x15, 0x45, 0x06
ALLOW, KILL, ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
NUMBER, ARCHITECTURE, FIRST_ARGUMENT = 0, 4, 16
CLONE, PTRACE, PERSONALITY, CLONE3 = 56, 101, 135, 435
# the calls of the list that mprun's own filter does not refuse (arch/x86/entry/syscalls/syscall_64.tbl)
MORE = {"uselib": 134, "ustat": 136, "sysfs": 139, "lookup_dcookie": 212, "mbind": 237, "set_mempolicy": 238}
MORE |= {"get_mempolicy": 239, "move_pages": 279, "kcmp": 312}
CLONE_NEWNS = 0x20000
NAMESPACES = 0x7E020000
PERSONALITIES = (0x0, 0x8, 0x20000, 0x20008, 0xFFFFFFFF)
PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, CAPABILITY_VERSION_3 = 24, 38, 0x20080522

_libc = ctypes.CDLL(None, use_errno=True)


def profile(with_ptrace: bool, with_rest: bool) -> bytes:
    """Return a filter. with_ptrace: refuse ptrace. with_rest: refuse what Docker's default profile refuses."""
    refuse = (RETURN, 0, 0, ERRNO | errno.EPERM)
    code = [
        (LOAD, 0, 0, ARCHITECTURE),
        (JUMP_EQUAL, 1, 0, AUDIT_ARCH_X86_64),
        (RETURN, 0, 0, KILL),
        (LOAD, 0, 0, NUMBER),
    ]
    numbers = [PTRACE] if with_ptrace else []
    if with_rest:
        numbers += [*REFUSED.values(), *MORE.values()]
    for number in numbers:
        code += [(JUMP_EQUAL, 0, 1, number), refuse]
    if with_rest:
        code += [(JUMP_EQUAL, 0, 1, CLONE3), (RETURN, 0, 0, ERRNO | errno.ENOSYS)]
        code += [(JUMP_EQUAL, 0, 3, CLONE), (LOAD, 0, 0, FIRST_ARGUMENT), (JUMP_SET, 0, 1, NAMESPACES), refuse]
        code += [
            (LOAD, 0, 0, NUMBER),
            (JUMP_EQUAL, 0, 2 + len(PERSONALITIES), PERSONALITY),
            (LOAD, 0, 0, FIRST_ARGUMENT),
        ]
        for n, value in enumerate(PERSONALITIES):
            code.append((JUMP_EQUAL, len(PERSONALITIES) - n, 0, value))
        code.append(refuse)
    code.append((RETURN, 0, 0, ALLOW))
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in code)


def drop_capabilities() -> None:
    for capability in range(41):
        _libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    header = ctypes.create_string_buffer(struct.pack("Ii", CAPABILITY_VERSION_3, 0))
    if _libc.capset(header, ctypes.create_string_buffer(24)) != 0:
        raise OSError(ctypes.get_errno(), "capset")


def mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True)


def enter(kinds: set[str]) -> None:
    if kinds & {"shm", "root"}:
        if _libc.unshare(CLONE_NEWNS) != 0:
            raise OSError(ctypes.get_errno(), "unshare")
        mount("--make-rprivate", "/")
    if "shm" in kinds:
        mount("-t", "tmpfs", "-o", "noexec,nosuid", "tmpfs", "/dev/shm")
    if "root" in kinds:
        here = os.getcwd()
        mount("--bind", here, here)
        # / itself is busy for a remount; a bind of it is not
        mount("-o", "remount,ro,bind", "/")
        os.chdir(here)
        if not os.statvfs("/etc").f_flag & os.ST_RDONLY:
            raise OSError(errno.EINVAL, "/ can still be written")
    _libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if "capabilities" in kinds:
        drop_capabilities()
    if kinds & {"seccomp", "ptrace"}:
        restrict(profile("ptrace" in kinds, "seccomp" in kinds))


if __name__ == "__main__":
    enter(set(sys.argv[1].split(",")))
    os.execvp(sys.argv[2], sys.argv[2:])
