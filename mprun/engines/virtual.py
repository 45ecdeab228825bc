# SPDX-License-Identifier: Apache-2.0
"""The virtual engine: a run inside a private Linux kernel that is an ordinary process.

The kernel is User-Mode Linux in time-travel mode: no root, no module, no virtual machine; idle time
is skipped, and with a seed the same plan gives the same bytes. The host's files are its read-only
root, home directories are hidden except what the run needs, only the run directory is writable.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib.util
import os
import py_compile
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from mprun.engines.engine import (
    INSIDE,
    PROGRAM_PATH,
    Library,
    Progress,
    Shell,
    agent_command,
    die_with_parent,
    environment,
    find_built,
    find_library,
    find_program,
    interpreter,
    watch,
)
from mprun.errors import HostError, RunError
from mprun.kernel.store import Kernel, find_kernel, store
from mprun.plan import Plan
from mprun.rundir import RunDirectory

NAME = "virtual"
# 2023-11-14 22:13:20 UTC: what the clock of every simulated run says at its boot.
START_NS = 1_700_000_000_000_000_000
MEMORY_MIB = 1024
MEMORY_PER_NODE_MIB = 1


def run_plan(
    plan: Plan,
    run: RunDirectory,
    kernel: Kernel,
    progress: Progress,
    shell: Shell | None = None,
    real_time: bool = False,
) -> None:
    """Boot the kernel and run the agent in it; its record is then in the run directory.

    With a shell, or with `real_time`, time is that of the wall clock: simulated time would jump
    while a person types. Raises HostError, RunError (the kernel died or hung) or Interrupted.
    """
    real_time = real_time or shell is not None
    console = run.path / "logs" / "console.log"
    with _scratch() as scratch, _own_cpu() as cpu:
        _write_boot_file(Path(scratch), plan, run, kernel, shell, is_simulated=not real_time)
        argv = _kernel_command(Path(scratch), plan, kernel, shell, real_time)
        with console.open("wb") as output:
            process = subprocess.Popen(
                argv,
                stdin=None if shell else subprocess.DEVNULL,
                stdout=None if shell else output,
                stderr=subprocess.STDOUT if not shell else None,
                start_new_session=not shell,
                env={"TMPDIR": _memory_directory(), "PATH": PROGRAM_PATH, "TERM": environment(shell)["TERM"]},
                preexec_fn=lambda: _before_exec(cpu),
            )
            watch(process, run, progress, interactive=bool(shell))
    if not (run.path / "agent.json").exists():
        raise RunError(f"the experiment kernel ended before the run did (see {console}):\n{_tail(console)}")


def _kernel_command(scratch: Path, plan: Plan, kernel: Kernel, shell: Shell | None, real_time: bool) -> list[str]:
    memory = MEMORY_MIB + MEMORY_PER_NODE_MIB * len(plan.nodes)
    words = [kernel.path, f"mem={memory}M", "rootfstype=hostfs", "rootflags=/", "ro", "root=none"]
    words += [f"init={scratch}/init", f"MPRUN_BOOT={scratch}/boot", f"uml_dir={scratch}/", "umid=uml"]
    words += ["con=null", "con0=fd:0,fd:1" if shell else "con0=null,fd:1", "quiet", "panic=-1"]
    words.append(f"mprun_seed={plan.seed}")
    if not real_time:
        words += ["time-travel=inf-cpu", f"time-travel-start={START_NS}"]
    return words


def _compile_agent(library: Library) -> None:
    """Compile the agent's modules where that is not done: inside, nothing can be written, and each
    run would compile them again."""
    folders = [library.package / "agent", library.package]
    for path in (path for folder in folders for path in folder.glob("*.py")):
        compiled = Path(importlib.util.cache_from_source(str(path)))
        if not compiled.exists() or compiled.stat().st_mtime < path.stat().st_mtime:
            with contextlib.suppress(OSError):
                py_compile.compile(str(path), cfile=str(compiled), quiet=1)


def _write_boot_file(
    scratch: Path, plan: Plan, run: RunDirectory, kernel: Kernel, shell: Shell | None, is_simulated: bool
) -> None:
    """What our init obeys (see kernel/guest/init.c)."""
    library = find_library()
    _compile_agent(library)
    (scratch / "init").symlink_to(kernel.directory / "init")
    lines: list[tuple[str, ...]] = [("hide", home) for home in _homes()]
    lines += [("show", str(path), str(path)) for path in _needed_below_homes()]
    lines += [
        ("open", str(run.path.resolve()), f"{INSIDE}/run"),
        ("show", str(kernel.directory), f"{INSIDE}/kernel"),
        ("show", str(library.package), f"{INSIDE}/lib/mprun"),
        ("show", str(library.mininet), f"{INSIDE}/lib/mininet"),
        *(("show", str(outside), inside) for inside, outside in find_built(plan).items()),
        ("cwd", f"{INSIDE}/run"),
    ]
    lines += [("env", f"{name}={value}") for name, value in environment(shell).items()]
    lines += [("arg", word) for word in agent_command(shell, is_simulated)]
    if not shell:
        lines.append(("log", f"{INSIDE}/run/logs/agent.log"))
    for line in lines:
        if any("\n" in word or "\t" in word for word in line):
            raise HostError(f"a path with a tab or a line break cannot be used here: {line[1]!r}")
    (scratch / "boot").write_text("".join("\t".join(line) + "\n" for line in lines))


def _homes() -> list[str]:
    """Directories that a run must not see."""
    homes = {"/home", "/root", os.path.realpath(Path.home())}
    below = {home for home in homes if any(home.startswith(other + "/") for other in homes)}
    return sorted(home for home in homes - below - {"/"} if os.path.isdir(home))


def _needed_below_homes() -> list[Path]:
    """The interpreter's own files, where they are in a home directory."""
    prefix = interpreter().parent.parent
    return [prefix] if any(str(prefix).startswith(home + "/") for home in _homes()) else []


def _memory_directory() -> str:
    """Where the kernel's memory file goes: a place that allows it to be mapped executable."""
    shared = "/dev/shm"
    if os.access(shared, os.W_OK) and not os.statvfs(shared).f_flag & os.ST_NOEXEC:
        free = os.statvfs(shared)
        if free.f_bavail * free.f_frsize > MEMORY_MIB << 20:
            return shared
    return tempfile.gettempdir()


def _plain_temporary() -> str:
    """Where temporary files go, if that can stand on a kernel's command line."""
    temporary = tempfile.gettempdir()
    return temporary if not set(temporary) & set(' \t"') else "/tmp"


@contextlib.contextmanager
def _scratch() -> Iterator[str]:
    """A temporary directory; those of runs that were killed are removed on the way."""
    parent = _plain_temporary()
    for stale in Path(parent).glob("mprun-run-*"):
        with contextlib.suppress(OSError), (stale / "lock").open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(stale)
    with (
        tempfile.TemporaryDirectory(prefix="mprun-run-", dir=parent) as scratch,
        Path(scratch, "lock").open("w") as lock,
    ):
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield scratch


@contextlib.contextmanager
def _own_cpu() -> Iterator[int]:
    """A CPU that no other run of this user has, if there is one.

    Pinned, a system call of the experiment costs a sixth: tracer and traced share a cache.
    """
    cpus = sorted(os.sched_getaffinity(0))
    folder = store().parent / "cpus"
    folder.mkdir(parents=True, exist_ok=True)
    for cpu in [*cpus[1:], cpus[0]]:
        with (folder / str(cpu)).open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            yield cpu
            return
    yield cpus[os.getpid() % len(cpus)]


def _before_exec(cpu: int) -> None:
    """In the child: stay on one CPU."""
    os.sched_setaffinity(0, {cpu})
    die_with_parent()


def _tail(path: Path, lines: int = 10) -> str:
    text = path.read_text(errors="replace").strip()
    return "\n".join(text.splitlines()[-lines:]) or "(it said nothing)"


def missing(kernel_name: str) -> str | None:
    """Why this engine cannot be used here; None if it can."""
    if os.uname().machine != "x86_64":
        return f"the virtual engine needs x86-64, this is {os.uname().machine}"
    try:
        find_kernel(kernel_name)
        find_library()
    except HostError as error:
        return str(error)
    if not find_program("tc"):
        return "iproute2 is not installed: apt-get install iproute2"
    return None
