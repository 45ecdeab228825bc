# SPDX-License-Identifier: Apache-2.0
"""Boot an experiment kernel with one program in it.

The kernel is a process of the user. The host's files are its read-only root. Home directories are hidden, except for
the folders that the program is given. The kernel ends when the program or the calling process ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import BinaryIO

from mprun.engines import agent_process
from mprun.engines.debugger import expect_debugger, leave_stopped
from mprun.errors import MachineError
from mprun.kernel.store import Kernel
from mprun.machine import invoking_user
from mprun.machine.cache import cache
from mprun.machine.scratch import scratch, temporary
from mprun.model.frozen import Frozen
from mprun.safety import landlock, seccomp

# The time at which every simulated run boots: 2023-11-14 22:13:20 UTC.
START_NS = 1_700_000_000_000_000_000
MEMORY_MIB = 1024
_FILTER = seccomp.program()
# The folders of home directories. OWN below: the folders that each run has for itself (kernel/guest/init.c).
HOMES = ("/home", "/root")
# Files of this machine and devices that the kernel's process may open. It may also open the files that it is given, and
# programs with their data. The host refuses all other files, whatever a program inside does (safety/landlock.py).
MACHINE_FILES = ("/proc/cpuinfo", "/proc/meminfo", "/sys/devices/system/cpu")
DEVICES = ("/dev/null", "/dev/zero", "/dev/urandom", "/dev/tty")
OWN = ("/dev", "/run", "/tmp")
# Paths of this machine that a kernel holds get leading slashes up to this length (see `_at_length`).
PATH_LENGTH = 240


class GuestLimits(Frozen):
    """Limits on all programs of a guest together, apart from its memory (`kernel/src/mprun_limit.c`).

    - tasks: the number of processes and threads.
    - written_bytes: the number of bytes by which the host's files may grow.
    - files: the number of files, folders and links that they may make on the host.
    """

    tasks: int
    written_bytes: int
    files: int


class Guest(Frozen):
    """A program inside an experiment kernel, and the files that it finds there.

    - argv: the program's path and arguments.
    - cwd, log: paths inside. Without a log, the program writes to the console.
    - opened: writable folders, as folder of the host -> path inside.
    - shown: read-only folders, as folder of the host -> path inside. What the program has once seen of them stays.
    - live: read-only folders in which the program sees changes.
    - seed: the seed of all random numbers of the kernel.
    - is_simulated: time is simulated; otherwise it is the time of the wall clock.
    """

    argv: Sequence[str]
    cwd: str
    log: str | None = None
    opened: Mapping[Path, str] = field(default_factory=dict)
    shown: Mapping[Path, str] = field(default_factory=dict)
    live: Mapping[Path, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=lambda: agent_process.ENVIRONMENT)
    seed: int = 1
    memory_mib: int = MEMORY_MIB
    is_simulated: bool = True
    bounds: GuestLimits | None = None


@contextlib.contextmanager
def booted(
    kernel: Kernel, guest: Guest, console: BinaryIO | None, for_debugger: bool = False
) -> Iterator[subprocess.Popen[bytes]]:
    """Boot the kernel, yield its process, and kill what is left of it at the end.

    The process has a CPU of its own if one is free.

    - console: the file for the kernel's console; None gives it the user's terminal.
    - for_debugger: the process stops before its first instruction, until a debugger attaches to it.

    Raises MachineError for a path that the boot file cannot express.
    """
    with (
        scratch("mprun-run-", _plain_temporary()) as folder,
        scratch("mprun-memory-", Path(_memory_directory())) as memory,
        _own_cpu() as cpu,
        landlock.ruleset(_rights(folder, memory, guest, kernel)) as rules,
    ):
        _write_boot_file(folder, guest, kernel)
        _hand_over([folder, *guest.opened])
        process = None
        mprun = os.getpid()
        try:
            with agent_process.uninterrupted(), _told_of(kernel):
                process = subprocess.Popen(
                    _command(folder, guest, kernel, console),
                    stdin=None if console is None else subprocess.DEVNULL,
                    stdout=console,
                    stderr=None if console is None else subprocess.STDOUT,
                    start_new_session=console is not None,
                    env={"TMPDIR": str(memory), "PATH": agent_process.PROGRAM_PATH, "TERM": guest.environment["TERM"]},
                    preexec_fn=lambda: _before_exec(mprun, cpu, rules, for_debugger),
                )
                if for_debugger:
                    leave_stopped(process.pid)
            yield process
        finally:
            if process is not None:
                agent_process.end(process)


def _hand_over(folders: Sequence[Path]) -> None:
    """Make the folders that the kernel writes belong to its user. Under sudo, this is the user who called sudo.

    Raises MachineError if this user cannot write there.
    """
    for folder in folders:
        invoking_user.give(folder)
        if not invoking_user.can_write(folder):
            raise MachineError(
                f"{folder}: under sudo the experiment kernel runs as the user who called sudo, who cannot write there: "
                "give another directory with -o, or run without sudo"
            )


@contextlib.contextmanager
def _told_of(kernel: Kernel) -> Iterator[None]:
    """Turn the error of a kernel that does not start into a MachineError with a remedy."""
    try:
        yield
    except OSError as error:
        raise MachineError(
            f"{kernel.path} does not start ({error.strerror}): if it was changed, remove {kernel.directory} and run "
            "`mprun kernel build`"
        ) from error


def _command(folder: Path, guest: Guest, kernel: Kernel, console: BinaryIO | None) -> list[str]:
    words = [kernel.path, f"mem={guest.memory_mib}M", "rootfstype=hostfs", "rootflags=/", "ro", "root=none"]
    words += [f"init={_at_length(folder / 'init')}", f"MPRUN_BOOT={_at_length(folder / 'boot')}"]
    words += [f"uml_dir={folder}/", "umid=uml"]
    words += ["con=null", "con0=fd:0,fd:1" if console is None else "con0=null,fd:1", "quiet", "panic=-1"]
    # On a terminal, the kernel prints nothing unless it dies, which raises the level (panic()). A file also gets its
    # warnings with their times, because they are all that is left of the log of a kernel that died.
    words += ["loglevel=0"] if console is None else ["loglevel=5", "printk.time=1"]
    words.append(f"mprun_seed={guest.seed}")
    # All hosts share this kernel. By default it gives TCP 6 % of the memory, too little for the buffers of a few hosts.
    # Here TCP saves memory above one half, and gets three quarters at most (in pages; tcp(7)).
    pages = guest.memory_mib * 256
    words.append(f'sysctl.net.ipv4.tcp_mem="{pages * 3 // 8} {pages // 2} {pages * 3 // 4}"')
    if bounds := guest.bounds:
        words += [f"mprun_tasks={bounds.tasks}", f"mprun_bytes={bounds.written_bytes}", f"mprun_files={bounds.files}"]
    if guest.is_simulated:
        words += ["time-travel=inf-cpu", f"time-travel-start={START_NS}"]
    return words


def _write_boot_file(folder: Path, guest: Guest, kernel: Kernel) -> None:
    """Write the boot file, which mprun's init reads (kernel/guest/init.c)."""
    (folder / "init").symlink_to(kernel.directory / "init")
    lines: list[tuple[str, ...]] = [("hide", home) for home in HOMES if os.path.isdir(home)]
    needed = _needed_below_homes()
    for number, home in enumerate(_homes()):
        below = [path for path in needed if path.is_relative_to(home)]
        if below or home not in HOMES:
            lines.append(("show", _at_length(_skeleton(folder / f"home{number}", home, below)), home))
    lines += [("show", _at_length(path), str(path)) for path in needed]
    for verb, folders in (("open", guest.opened), ("show", guest.shown), ("live", guest.live)):
        lines += [(verb, _at_length(path.resolve()), inside) for path, inside in folders.items()]
    lines.append(("cwd", guest.cwd))
    lines += [("env", f"{name}={value}") for name, value in guest.environment.items()]
    lines += [("arg", word) for word in guest.argv]
    if guest.log:
        lines.append(("log", guest.log))
    for line in lines:
        if any("\n" in word or "\t" in word for word in line):
            raise MachineError(f"a path with a tab or a line break cannot be used here: {line[1]!r}")
    (folder / "boot").write_text("".join("\t".join(line) + "\n" for line in lines))


def _at_length(path: Path) -> str:
    """Return a path with as many leading slashes as make it `PATH_LENGTH` long.

    The length of a path decides how much memory the kernel takes for it. With one length for all, the addresses of the
    kernel's objects do not depend on the folder of a run.
    """
    return str(path).rjust(PATH_LENGTH, "/")


def _homes() -> list[str]:
    """Return the home directories that a run must not see."""
    own = Path(os.path.realpath(invoking_user.home() or "/"))
    is_seen = own.is_dir() and own != Path("/") and not any(own.is_relative_to(folder) for folder in (*HOMES, *OWN))
    return [*HOMES, str(own)] if is_seen else [*HOMES]


def _skeleton(folder: Path, home: str, needed: list[Path]) -> Path:
    """Make a home directory that contains only the folders on the way to the needed ones; return it.

    It is made on the host and not inside. A file system in memory takes its UUID from the kernel's random numbers, and
    each directory in it takes its generation. So the place of a home or of Python would change every run.
    """
    folder.mkdir()
    for path in needed:
        (folder / path.relative_to(home)).mkdir(parents=True, exist_ok=True)
    return folder


def _needed_below_homes() -> list[Path]:
    """Return the interpreter's folder if it is in a home directory."""
    prefix = agent_process.interpreter().parent.parent
    return [prefix] if any(prefix.is_relative_to(home) for home in _homes()) else []


def lacking_memory(memory_mib: int) -> str | None:
    """Return a message if the file with the kernel's memory cannot grow to its size; None if it can."""
    for command, number in (("ulimit -f", resource.RLIMIT_FSIZE), ("ulimit -v", resource.RLIMIT_AS)):
        most = resource.getrlimit(number)[0]
        if most != resource.RLIM_INFINITY and most < memory_mib << 20:
            return f"its memory is a file of {memory_mib} MiB at most, and `{command}` allows {most >> 10} kB"
    folder = _memory_directory()
    free_mib = shutil.disk_usage(folder).free >> 20
    if free_mib >= memory_mib:
        return None
    return (
        f"its memory is a file in {folder}, of {memory_mib} MiB at most, and {free_mib} MiB are free there: make room"
    )


def _memory_directory() -> str:
    """Return the folder for the kernel's memory file. It must allow an executable mapping."""
    shared = "/dev/shm"
    is_usable = os.access(shared, os.W_OK) and not os.statvfs(shared).f_flag & os.ST_NOEXEC
    if is_usable and shutil.disk_usage(shared).free > MEMORY_MIB << 20:
        return shared
    return str(temporary())


def _plain_temporary() -> Path:
    """Return the folder for temporary files, or /tmp if a kernel's command line cannot contain its path."""
    folder = temporary()
    return folder if not set(str(folder)) & set(' \t"') else Path("/tmp")


@contextlib.contextmanager
def _own_cpu() -> Iterator[int]:
    """Reserve a CPU that no other run of this user has; yield its number. If all are taken, share one.

    On one CPU, a system call of the experiment takes a sixth of the time, because tracer and traced share a cache.
    """
    cpus = sorted(os.sched_getaffinity(0))
    folder = cache("cpus")
    with contextlib.ExitStack() as locks:
        taken = cpus[os.getpid() % len(cpus)]
        # even if the cache cannot be written, its kernels can be used
        with contextlib.suppress(OSError):
            invoking_user.make_folder(folder)
            for cpu in [*cpus[1:], cpus[0]]:
                lock = locks.enter_context((folder / str(cpu)).open("w"))
                invoking_user.give(folder / str(cpu))
                with contextlib.suppress(BlockingIOError):
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    taken = cpu
                    break
        yield taken


def _rights(folder: Path, memory: Path, guest: Guest, kernel: Kernel) -> dict[Path, int]:
    """Return the rights of the kernel's process on this machine, by path.

    The paths are programs and their data, the folders of the guest, the folder of the boot, and a folder for memory.
    """
    return {
        **dict.fromkeys(map(Path, landlock.PROGRAM_FOLDERS), landlock.RUN),
        **dict.fromkeys(landlock.readable_by_all(Path(landlock.SETTINGS_FOLDER)), landlock.RUN),
        **dict.fromkeys(map(Path, MACHINE_FILES), landlock.READ),
        **dict.fromkeys(map(Path, DEVICES), landlock.USE_DEVICE),
        **dict.fromkeys((kernel.directory, *map(Path.resolve, guest.shown), *_needed_below_homes()), landlock.RUN),
        **dict.fromkeys(map(Path.resolve, guest.live), landlock.READ),
        **dict.fromkeys((folder, memory, *map(Path.resolve, guest.opened)), landlock.OWN),
    }


def _before_exec(parent: int, cpu: int, rules: int | None, for_debugger: bool) -> None:
    """Restrict the child before exec.

    It stays on one CPU, has the same addresses in each run, gives up root's rights from sudo, ends with its parent, and
    may open only what the rules allow. for_debugger: as for `booted`.
    """
    os.sched_setaffinity(0, {cpu})
    # the kernel keeps each file of this machine open that a program inside has opened
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    agent_process.place_as_linked()
    invoking_user.become()
    # only now: a change of user would undo it
    agent_process.die_with(parent)
    landlock.restrict(rules)
    seccomp.restrict(_FILTER)
    if for_debugger:
        expect_debugger(parent)
