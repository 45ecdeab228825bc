# SPDX-License-Identifier: Apache-2.0
"""gdb on the kernel of a run: start it, attach it to the stopped kernel, and notice when it holds the kernel.

The kernel starts as in any other run, and stops before its first instruction (`mprun.engines.guest`). gdb is not
confined as the kernel is: it belongs to the user, and reads the kernel's symbols. `mprun.kernel.gdb` is its part.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import mprun
from mprun.engines.agent_process import die_with, end, terminal_lent
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


class Debugger(Frozen):
    """A gdb that stops the kernel of a run.

    - program: the path of gdb.
    - facts: the content of the file that `mprun.kernel.gdb.command.start` reads.
    - commands: the commands that gdb executes at the stop. None: the user types them.
    """

    program: str
    facts: Any
    commands: Sequence[str] | None = None


class Hold:
    """gdb's hold on the kernel's process."""

    def __init__(self, kernel: int, gdb: subprocess.Popen[bytes]) -> None:
        self._kernel = kernel
        self._gdb = gdb

    def is_held(self) -> bool:
        """Return whether the kernel is stopped by gdb, or waits for gdb.

        Raises RunError if gdb has ended and left the kernel stopped.
        """
        status = self._gdb.poll()
        state = _state_of(self._kernel)
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
def attached(debugger: Debugger, kernel: Kernel, process: int) -> Iterator[Hold]:
    """Attach gdb to the stopped process of a kernel. At the end of the block, wait for the end of gdb.

    The user keeps the terminal if the user types the commands. If the block raises an error, gdb is killed.
    """
    is_interactive = debugger.commands is None
    parent = os.getpid()
    with scratch("mprun-gdb-") as folder, terminal_lent() if is_interactive else nullcontext():
        (folder / "facts").write_text(json.dumps(debugger.facts))
        (folder / "start").write_text("\n".join(_start(debugger, kernel, process, folder / "facts")) + "\n")
        invoking_user.give(folder)
        gdb = subprocess.Popen(
            [debugger.program, "-q", *_options(debugger), "-x", str(folder / "start"), *_commands(debugger)],
            stdin=None if is_interactive else subprocess.DEVNULL,
            preexec_fn=lambda: _before_exec(parent),
        )
        try:
            yield Hold(process, gdb)
            gdb.wait()
        finally:
            end(gdb)


def _before_exec(parent: int) -> None:
    """Give up root's rights from sudo: gdb executes what the user's settings say."""
    invoking_user.become()
    die_with(parent)


def _options(debugger: Debugger) -> list[str]:
    """Return gdb's options. Without a user, settings of the user do not count."""
    shared = ["-iex", "set debuginfod enabled off", "-iex", "set auto-load no"]
    return shared if debugger.commands is None else ["-nx", "-batch", *shared]


def _commands(debugger: Debugger) -> list[str]:
    return [word for command in debugger.commands or () for word in ("-ex", command)]


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
