# SPDX-License-Identifier: Apache-2.0
"""Stop a new process before its first instruction, so that a debugger can attach to it (ptrace(2))."""

from __future__ import annotations

import ctypes
import os
import signal

from mprun.errors import RunError

PTRACE_TRACEME, PTRACE_DETACH = 0, 17
# Of the security module Yama. Without the module, the call fails, and every process of the user may attach.
PR_SET_PTRACER = 0x59616D61

_libc = ctypes.CDLL(None, use_errno=True)


def expect_debugger(parent: int) -> None:
    """Let this process stop when it executes its next program. Call it in a child before exec. Raises OSError.

    - Children of `parent` may attach to it, also where a user's processes may not attach to each other (Yama).
    - SIGCHLD stays pending. The kernel gets it for each stop of a program and does not need it, because it waits for
      its programs (waitpid(2)). Each of these signals would stop the kernel for the debugger, which takes long.
    """
    _libc.prctl(PR_SET_PTRACER, parent, 0, 0, 0)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    _trace(PTRACE_TRACEME, 0, 0)


def leave_stopped(process: int) -> None:
    """Leave a child that has called `expect_debugger` stopped by SIGSTOP. Call it in the thread that started it.

    Raises RunError if the process has ended.
    """
    _wait_for_stop(process, 0)
    _trace(PTRACE_DETACH, process, signal.SIGSTOP)
    _wait_for_stop(process, os.WUNTRACED)


def _wait_for_stop(process: int, options: int) -> None:
    _, status = os.waitpid(process, options)
    if not os.WIFSTOPPED(status):
        raise RunError(f"the experiment kernel ended before it started (status {status})")


def _trace(request: int, process: int, number: int) -> None:
    arguments = (ctypes.c_long(one) for one in (request, process, 0, number))
    if _libc.ptrace(*arguments) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"ptrace: {os.strerror(code)}")
