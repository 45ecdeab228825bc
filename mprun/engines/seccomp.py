# SPDX-License-Identifier: Apache-2.0
"""A filter that refuses system calls which the experiment kernel never makes on this machine (seccomp(2)).

Programs inside make no system calls on this machine, because the experiment kernel handles their calls. The filter is a
classic BPF program (struct sock_filter). Like the experiment kernel, it exists only for x86-64.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct

PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 22, 2
AUDIT_ARCH_X86_64 = 0xC000003E
# System calls with numbers from here on belong to the x32 ABI.
X32 = 0x40000000
AF_UNIX = 1
SOCKET = 41

_LOAD, _JUMP_EQUAL, _JUMP_AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
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

_libc = ctypes.CDLL(None, use_errno=True)


def program() -> bytes:
    """Return the filter. Calls in REFUSED fail with EPERM. Sockets other than AF_UNIX fail with EAFNOSUPPORT."""
    code = [
        (_LOAD, 0, 0, _ARCH),
        (_JUMP_EQUAL, 1, 0, AUDIT_ARCH_X86_64),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NR),
        (_JUMP_AT_LEAST, 0, 1, X32),
        (_RETURN, 0, 0, _ERRNO | errno.ENOSYS),
    ]
    for number in REFUSED.values():
        code += [(_JUMP_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ERRNO | errno.EPERM)]
    code += [
        (_JUMP_EQUAL, 0, 3, SOCKET),
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
        (_JUMP_EQUAL, 1, 0, AF_UNIX),
        (_RETURN, 0, 0, _ERRNO | errno.EAFNOSUPPORT),
        (_RETURN, 0, 0, _ALLOW),
    ]
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in code)


def restrict(filter_program: bytes) -> None:
    """Apply the filter to this process and all its descendants, for good. Raises OSError.

    The process needs PR_SET_NO_NEW_PRIVS or root's rights.
    """
    text = ctypes.create_string_buffer(filter_program, len(filter_program))
    told = struct.pack("HxxxxxxP", len(filter_program) // 8, ctypes.addressof(text))
    if _libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, told, 0, 0) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"seccomp: {os.strerror(code)}")
