# SPDX-License-Identifier: Apache-2.0
"""Filters of system calls (seccomp(2)): one for the experiment kernel, one for commands of a file in the real engine.

A filter is a classic BPF program (struct sock_filter). Programs in the experiment kernel make no system calls on this
machine, because the experiment kernel handles their calls. The experiment kernel's filter refuses the calls that it
never makes. Like the experiment kernel, this filter exists only for x86-64.

Both filters refuse to make a set-user-ID file in the run directory. On this machine, such a file is a program that runs
with the rights of the user who runs mprun, whoever starts it.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct
from collections.abc import Iterable, Mapping

PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 22, 2
AUDIT_ARCH_X86_64, AUDIT_ARCH_AARCH64 = 0xC000003E, 0xC00000B7
# System calls with numbers from here on belong to the x32 ABI.
X32 = 0x40000000
AF_UNIX = 1
SOCKET = 41

_LOAD, _JUMP_EQUAL, _JUMP_AT_LEAST, _JUMP_IF_BITS, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NR, _ARCH, _FIRST_ARGUMENT = 0, 4, 16
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000

# Numbers from Linux's arch/x86/entry/syscalls/syscall_64.tbl.
REFUSED = {
    **{"adjtimex": 159, "chroot": 161, "acct": 163, "settimeofday": 164, "mount": 165, "umount2": 166, "swapon": 167},
    **{"swapoff": 168, "reboot": 169, "sethostname": 170, "setdomainname": 171, "iopl": 172, "ioperm": 173},
    **{"init_module": 175, "delete_module": 176, "pivot_root": 155, "quotactl": 179, "clock_settime": 227},
    **{"kexec_load": 246, "add_key": 248, "request_key": 249, "keyctl": 250, "unshare": 272, "perf_event_open": 298},
    **{"open_by_handle_at": 304, "clock_adjtime": 305, "setns": 308, "finit_module": 313, "kexec_file_load": 320},
    **{"bpf": 321, "userfaultfd": 323, "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427},
    **{"open_tree": 428, "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433},
    **{"mount_setattr": 442},
}
# chown, fchown, lchown, fchownat
OWNERS = (92, 93, 94, 260)
# Calls that give a file its mode, and the index of the mode among their arguments: of the machines whose system calls
# mprun knows, with their number in seccomp(2).
MODES = {
    "x86_64": (
        AUDIT_ARCH_X86_64,
        # open, creat, chmod, fchmod, mknod, openat, mknodat, fchmodat, fchmodat2
        {2: 2, 85: 1, 90: 1, 91: 1, 133: 1, 257: 3, 259: 2, 268: 2, 452: 2},
    ),
    # openat, fchmod, mknodat, fchmodat, fchmodat2
    "aarch64": (AUDIT_ARCH_AARCH64, {56: 3, 52: 1, 33: 2, 53: 2, 452: 2}),
}
# Calls whose mode a filter cannot see: openat2, and the calls of an io_uring. Programs do without them.
UNSEEN = (437, 425)

_libc = ctypes.CDLL(None, use_errno=True)
_Instruction = tuple[int, int, int, int]


def program() -> bytes:
    """Return the filter of the experiment kernel, as the bytes of its instructions (struct sock_filter).

    Calls in REFUSED fail with EPERM, as do a change of an owner and a set-user-ID bit. Sockets other than AF_UNIX fail
    with EAFNOSUPPORT.
    """
    architecture, modes = MODES["x86_64"]
    return _assemble(
        *_begin(architecture, _KILL),
        *_refuse((*REFUSED.values(), *OWNERS), errno.EPERM),
        # the experiment kernel keeps set-group-ID bits away, except from folders that have inherited theirs
        *_refuse_modes(modes, stat.S_ISUID),
        (_JUMP_EQUAL, 0, 3, SOCKET),
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
        (_JUMP_EQUAL, 1, 0, AF_UNIX),
        (_RETURN, 0, 0, _ERRNO | errno.EAFNOSUPPORT),
        (_RETURN, 0, 0, _ALLOW),
    )


def program_of_commands() -> bytes:
    """Return the filter of commands of a file in the real engine, as the bytes of its instructions.

    A call that would set a set-ID bit fails with EPERM. Raises OSError for a machine whose system calls are not known.
    """
    if os.uname().machine not in MODES:
        raise OSError(errno.ENOSYS, f"no filter of system calls for {os.uname().machine}")
    architecture, modes = MODES[os.uname().machine]
    return _assemble(
        *_begin(architecture, _ERRNO | errno.ENOSYS),
        *_refuse(UNSEEN, errno.ENOSYS),
        *_refuse_modes(modes, stat.S_ISUID | stat.S_ISGID),
        (_RETURN, 0, 0, _ALLOW),
    )


def _begin(architecture: int, of_others: int) -> list[_Instruction]:
    """Return the beginning of a filter, after which the number of the call is loaded.

    of_others: the answer to calls of another architecture.
    """
    return [
        (_LOAD, 0, 0, _ARCH),
        (_JUMP_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, of_others),
        (_LOAD, 0, 0, _NR),
        (_JUMP_AT_LEAST, 0, 1, X32),
        (_RETURN, 0, 0, _ERRNO | errno.ENOSYS),
    ]


def _refuse(numbers: Iterable[int], error: int) -> list[_Instruction]:
    return [one for number in numbers for one in ((_JUMP_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ERRNO | error))]


def _refuse_modes(modes: Mapping[int, int], bits: int) -> list[_Instruction]:
    """Return the part that lets calls fail with EPERM if one of some bits is in the mode."""
    code = []
    for number, argument in modes.items():
        code += [
            (_JUMP_EQUAL, 0, 4, number),
            (_LOAD, 0, 0, _FIRST_ARGUMENT + 8 * argument),
            (_JUMP_IF_BITS, 0, 1, bits),
            (_RETURN, 0, 0, _ERRNO | errno.EPERM),
            (_RETURN, 0, 0, _ALLOW),
        ]
    return code


def _assemble(*code: _Instruction) -> bytes:
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in code)


def restrict(filter_program: bytes) -> None:
    """Apply a filter to this process and all its descendants, permanently. Raises OSError.

    The process needs PR_SET_NO_NEW_PRIVS or root's rights.
    """
    text = ctypes.create_string_buffer(filter_program, len(filter_program))
    told = struct.pack("HxxxxxxP", len(filter_program) // 8, ctypes.addressof(text))
    if _libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, told, 0, 0) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"seccomp: {os.strerror(code)}")
