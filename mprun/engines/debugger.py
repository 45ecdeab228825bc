# SPDX-License-Identifier: Apache-2.0
"""gdb on the kernel of a run: start it, attach it to the stopped kernel, and notice when it holds the kernel.

The kernel starts as in any other run, and stops before its first instruction (ptrace(2)). gdb is not confined as the
kernel is: it belongs to the user, and reads the kernel's symbols. `mprun.kernel.gdb` is its part.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, TypedDict

import mprun
from mprun.engines.agent_process import Shell, die_with, end, terminal_lent
from mprun.engines.held_prompt import HeldPrompt
from mprun.errors import MachineError, RunError
from mprun.kernel.store import Kernel
from mprun.kernel.symbols import find_symbols
from mprun.machine import invoking_user
from mprun.machine.scratch import scratch
from mprun.model.frozen import Frozen

PACKAGE = "apt-get install gdb"
# The signals that User-Mode Linux uses itself.
PASSED = ("SIGSEGV", "SIGALRM", "SIGUSR1", "SIGIO", "SIGWINCH", "SIGCHLD", "SIGXCPU", "SIGHUP", "SIGTERM")
# The state of a process that a debugger has stopped, and of a process that a signal has stopped (proc(5)).
TRACED, STOPPED = "t", "T"
PTRACE_TRACEME, PTRACE_DETACH = 0, 17
# Of the security module Yama. Without the module, the call fails, and every process of the user may attach.
PR_SET_PTRACER = 0x59616D61

_libc = ctypes.CDLL(None, use_errno=True)


class Debugger(Frozen):
    """A gdb that stops the kernel of a run.

    - program: the path of gdb.
    - facts: the content of the file that `mprun.kernel.gdb.command.start` reads.
    - commands: the commands that gdb executes at the stop. None: the user types them.
    """

    program: str
    facts: Any
    commands: Sequence[str] | None = None


class Attended(TypedDict, total=False):
    """Options of a run that a user attends.

    - shell: when the run stops at a prompt; None: it does not stop.
    - debugger: gdb, which stops the kernel. Only an engine that boots a kernel takes it.
    - prompt: a prompt at a simulated time. Only an engine with simulated time takes it.
    """

    shell: Shell | None
    debugger: Debugger | None
    prompt: HeldPrompt | None


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


def _is_held(kernel: int, gdb: subprocess.Popen[bytes]) -> bool:
    """Return whether a kernel's process is stopped by gdb, or waits for gdb.

    Raises RunError if gdb has ended and left the kernel stopped.
    """
    status = gdb.poll()
    state = _state_of(kernel)
    if status is not None and state == STOPPED:
        raise RunError(f"gdb ended with status {status} and left the kernel stopped; see what it printed")
    return state in (TRACED, STOPPED)


def find_gdb() -> str:
    """Return the path of a gdb with Python. Raises MachineError with the package to install."""
    path = shutil.which("gdb")
    if path is None:
        raise MachineError(f"debugging a run needs gdb: {PACKAGE}")
    # gdb returns the status 1 for a failed command
    tried = subprocess.run(
        [path, "-nx", "-q", "-batch", "-ex", "python pass"], stdin=subprocess.DEVNULL, capture_output=True
    )
    if tried.returncode or b"not supported" in tried.stderr:
        raise MachineError(f"{path} has no Python, which mprun's commands for gdb need: {PACKAGE}")
    return path


@contextmanager
def attached(debugger: Debugger, kernel: Kernel, process: int) -> Iterator[Callable[[], bool]]:
    """Attach gdb to the stopped process of a kernel. Yield a function that returns whether gdb holds the process.

    At the end of the block, wait for the end of gdb. The user keeps the terminal if the user types the commands. If the
    block raises an error, gdb is killed.
    """
    is_interactive = debugger.commands is None
    # without a user, settings of the user do not count
    batch = [] if is_interactive else ["-nx", "-batch"]
    options = [*batch, "-iex", "set debuginfod enabled off", "-iex", "set auto-load no"]
    commands = [word for command in debugger.commands or () for word in ("-ex", command)]
    parent = os.getpid()
    with scratch("mprun-gdb-") as folder, terminal_lent() if is_interactive else nullcontext():
        (folder / "facts").write_text(json.dumps(debugger.facts))
        (folder / "start").write_text("\n".join(_start(debugger, kernel, process, folder / "facts")) + "\n")
        invoking_user.give(folder)
        gdb = subprocess.Popen(
            [debugger.program, "-q", *options, "-x", str(folder / "start"), *commands],
            stdin=None if is_interactive else subprocess.DEVNULL,
            preexec_fn=lambda: _before_exec(parent),
        )
        try:
            yield partial(_is_held, process, gdb)
            gdb.wait()
        finally:
            end(gdb)


def _before_exec(parent: int) -> None:
    """Give up root's rights from sudo: gdb executes what the user's settings say."""
    invoking_user.become()
    die_with(parent)


def _start(debugger: Debugger, kernel: Kernel, process: int, facts: Path) -> Iterator[str]:
    """Yield the commands that attach gdb and go to the wanted time."""
    yield "set pagination off"
    yield "set print inferior-events off"
    yield "set print thread-events off"
    # the libraries of the kernel's process are of no interest
    yield "set auto-solib-add off"
    yield f"handle {' '.join(PASSED)} nostop noprint pass"
    # the signals that stopped the kernel until now and end this
    yield "handle SIGSTOP SIGCONT nostop noprint nopass"
    # the kernel starts a process for each program inside, and traces it itself
    yield "set follow-fork-mode parent"
    yield "set detach-on-fork on"
    yield f"exec-file {kernel.path}"
    yield f"symbol-file {find_symbols(kernel)}"
    yield "python import sys"
    # root under sudo must not own files in mprun's folder, and neither must gdb's version of Python
    yield "python sys.dont_write_bytecode = True"
    yield f"python sys.path.insert(0, {str(Path(mprun.__file__).parents[1])!r})"
    yield "python import mprun.kernel.gdb.command"
    yield f"python mprun.kernel.gdb.command.start({process}, {str(facts)!r})"
    if debugger.commands is None:
        yield "set pagination on"


def _state_of(process: int) -> str:
    """Return the state of a process; empty if it has ended."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""
