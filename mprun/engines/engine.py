# SPDX-License-Identifier: Apache-2.0
"""What both engines do: give the agent a place with fixed paths, watch it, end it.

Inside an engine a run finds its directory at /run/mprun/run and the agent at /run/mprun/lib,
whatever they are called outside, so that names of this machine do not enter a result.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal

import mprun
from mprun import inside, mininet_library
from mprun.engines.computing import Computing
from mprun.errors import HostError, Interrupted, RunError
from mprun.folder import Folder, UnsafeError
from mprun.plan import Plan
from mprun.programs import PROGRAMS, store
from mprun.rundir import RunDirectory
from mprun.scratch import scratch

# Where programs are looked for and run from, whoever calls: an ordinary user's path lacks the sbin's.
PROGRAM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ENVIRONMENT = {
    "PATH": PROGRAM_PATH,
    "LANG": "C.UTF-8",
    "HOME": inside.ROOT,
    "USER": "root",
    "TERM": "dumb",
    "TZ": "UTC",
}
# Real time without a sign of progress after which a run counts as hung; programs that compute have own limits.
HANG_S = 300.0
# Real time without a sign of progress after which programs are looked at, and how often.
STILL_S, LOOK_S = 1.0, 0.25
# How often the progress of a run is looked at: a small network is built in 20 ms. What a report takes at most.
POLL_S = 0.005
REPORT_BYTES = 1 << 16
# After being asked to stop a run gets this long to put its things in order.
STOP_S = 10.0

PR_SET_PDEATHSIG = 1
# The signals that end a run in order.
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_libc = ctypes.CDLL(None, use_errno=True)

Shell = Literal["before", "after", "only"]
Progress = Callable[[str, float, str], None]


@dataclass(frozen=True)
class Library:
    """Where the agent's Python code is: our package and Mininet's."""

    package: Path
    mininet: Path


def find_library() -> Library:
    """Raises HostError where Mininet is not installed."""
    found = mininet_library.find()
    if found is None or found.origin is None:
        raise HostError("Mininet is not installed: apt-get install mininet")
    return Library(Path(mprun.__file__).parent, Path(found.origin).parent)


def interpreter() -> Path:
    """The Python that runs the agent: the one that runs us, not the environment around it."""
    return Path(os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable))


def unshare_command(namespaces: Sequence[str]) -> list[str]:
    """`unshare` for a user with or without root.

    Without, the user stays who they are and keeps the capabilities: as root of a namespace with one
    user in it tcpdump would try to become another, and fail.
    """
    rootless = [] if os.geteuid() == 0 else ["--user", "--map-current-user", "--keep-caps"]
    return ["unshare", *rootless, *namespaces, "--"]


@dataclass(frozen=True)
class Channel:
    """Folders by which mprun and the agent talk, outside the run directory, where programs of a run cannot reach them
    or change nothing. reports: the agent writes `progress` there; orders: the agent reads it, and `stop` ends the run.
    """

    reports: Folder
    orders: Folder


@contextmanager
def channel() -> Iterator[Channel]:
    """Both folders, for as long as a run lasts."""
    with scratch("mprun-channel-") as path:
        folder = Folder(path)
        yield Channel(folder.make("reports"), folder.make("orders"))


def agent_command(shell: Shell | None, options: Sequence[str], reports: str, orders: str) -> list[str]:
    """The agent's command line inside an engine. -I -S -B: no user site, no environment, nothing written.

    options: of the agent. reports, orders: where the folders of the channel are inside.
    """
    start = f"import sys; sys.path.insert(0, '{inside.LIBRARY}'); import mprun.agent.main as agent; "
    start += "sys.exit(agent.main(sys.argv[1:]))"
    options = [*options, "--shell", shell] if shell else options
    return [str(interpreter()), "-I", "-S", "-B", "-c", start, inside.RUN, reports, orders, *options]


def die_with(parent: int) -> None:
    """In a child before exec: be killed when `parent`, the process that started it, ends, whatever ends it (prctl(2)).

    The signal is sent for a parent that ends from now on. One that has ended already has left its child to another.
    """
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Ctrl-C, and what ends a run as it does, waits until this is over: a process that is just being started would be
    nobody's. Then it is as the caller wants it. Only the main thread is interrupted, and may say so."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    heard = [number for number in STOPPING if signal.getsignal(number) != signal.SIG_IGN]
    handlers = {number: signal.signal(number, lambda number, _: came.append(number)) for number in heard}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    if came:
        signal.raise_signal(came[0])


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill a process, and all of its session if it leads one, unless it has ended."""
    if process.poll() is None:
        if os.getsid(process.pid) == process.pid:
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    process.wait()


def environment(shell: Shell | None) -> dict[str, str]:
    """The environment of a run; a person's terminal keeps its name."""
    return {**ENVIRONMENT, "TERM": os.environ.get("TERM", "dumb")} if shell else ENVIRONMENT


def find_program(name: str, as_user: bool = False) -> str | None:
    """Return the path at which a run will find a program, our built ones too; None if it is not installed.

    as_user: it will run without the rights of root that sudo gave. Raises HostError for one of ours that was changed.
    """
    built = store.find_executable(name, as_user)
    return built.path if built else shutil.which(name, path=PROGRAM_PATH)


def find_built(plan: Plan, as_user: bool = False) -> dict[str, Path]:
    """The folders of the built programs that a plan starts, by where they are found inside. as_user: as in
    `find_program`."""
    words = [process.argv[0] for process in (*plan.preparations, *plan.daemons, *plan.flows)]
    found = {}
    for name in PROGRAMS:
        place = f"{inside.TOOLS}/{name}"
        if any(word.startswith(place + "/") for word in words):
            installed = store.find(name, as_user)
            if installed is None:
                raise HostError(f"this run needs the tool '{name}', and it is not built: mprun tools install {name}")
            found[place] = installed.directory
    return found


def watch(
    process: subprocess.Popen[bytes],
    run: RunDirectory,
    progress: Progress,
    interactive: bool,
    talk: Channel,
    computing: Computing | None = None,
) -> None:
    """Show progress until the process has ended; while a person has the terminal, only wait.

    computing: the programs of an experiment kernel in simulated time, which are looked at while nothing happens.
    Raises Interrupted on Ctrl-C, after the run had its chance to stop in order; RunError if nothing happens for HANG_S.
    """
    started = time.monotonic()
    phases: list[dict[str, object]] = []
    try:
        if interactive:
            with _terminal_lent():
                process.wait()
        else:
            _follow(process, talk.reports, progress, started, phases, computing)
    except KeyboardInterrupt:
        _stop_in_order(process, talk.orders)
        raise Interrupted(f"interrupted; the results so far are in {run.path}") from None
    finally:
        end(process)
        phases.append({"wall_s": round(time.monotonic() - started, 3), "text": "ended"})
        run.write("wall.json", phases)


def _follow(
    process: subprocess.Popen[bytes],
    reports: Folder,
    progress: Progress,
    started: float,
    phases: list[dict[str, object]],
    computing: Computing | None,
) -> None:
    shown = b""
    moved = looked = started
    with _pidfd(process.pid) as ended, _Report(reports) as report:
        while not ended.wait(POLL_S):
            text = report.read()
            if text != shown:
                shown, moved = text, time.monotonic()
                looked = moved + STILL_S
                if computing:
                    computing.reset()
                _note(phases, _state(text), round(moved - started, 3))
                _show(text, progress)
                continue
            now = time.monotonic()
            if computing and now - looked >= LOOK_S:
                looked = now
                if computing.look():
                    moved = now
                if computing.is_over:
                    raise RunError(
                        f"simulated time stood still while programs used {computing.most_s} s of CPU time together "
                        f"(last sign: {_last_sign(shown)}): either they wake each other without end, or they compute "
                        "for long: then raise the limit of an `exec` entry by 'compute'"
                    )
            if now - moved > HANG_S:
                raise RunError(f"nothing happened for {HANG_S:g} s of real time (last sign: {_last_sign(shown)})")


def _note(phases: list[dict[str, object]], state: dict[str, Any], wall_s: float) -> None:
    """Note when a phase began, and its last sign."""
    if not state:
        return
    if not phases or phases[-1]["text"] != state["text"]:
        phases.append({"wall_s": wall_s, "text": state["text"]})
    phases[-1]["last_s"] = wall_s


@contextmanager
def _terminal_lent() -> Iterator[None]:
    """Leave Ctrl-C to the prompt, and take the terminal back as it was."""
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    settings = termios.tcgetattr(0) if os.isatty(0) else None
    try:
        yield
    finally:
        if settings is not None:
            termios.tcsetattr(0, termios.TCSADRAIN, settings)
        signal.signal(signal.SIGINT, handler)


def _stop_in_order(process: subprocess.Popen[bytes], orders: Folder) -> None:
    """Ask the agent to end; a second Ctrl-C or STOP_S ends it at once."""
    orders.create("stop").close()
    with suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
        process.wait(STOP_S)


class _pidfd:
    """Waits for a process without reaping it."""

    def __init__(self, pid: int) -> None:
        self._descriptor = os.pidfd_open(pid)
        self._poll = select.poll()
        self._poll.register(self._descriptor, select.POLLIN)

    def wait(self, seconds: float) -> bool:
        return bool(self._poll.poll(seconds * 1000))

    def __enter__(self) -> _pidfd:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)


class _Report:
    """The report of the agent, in a file that it writes over; looked at often, so it is opened once. The guest may put
    something else in its place: then there is no report."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._file: BinaryIO | None = None

    def read(self) -> bytes:
        """The report as it stands; empty before there is one."""
        if self._file is None:
            try:
                self._file = self._folder.open("progress")
            except (FileNotFoundError, UnsafeError):
                return b""
        return os.pread(self._file.fileno(), REPORT_BYTES, 0)

    def __enter__(self) -> _Report:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()


def _state(text: bytes) -> dict[str, Any]:
    """What the agent last reported, a line; empty while it has said nothing whole."""
    try:
        return dict(json.loads(text.partition(b"\n")[0]))
    except ValueError:
        return {}


def _show(text: bytes, progress: Progress) -> None:
    if not (state := _state(text)):
        return
    end_ns = state["end_ns"] or 1
    done = min(1.0, state["done_ns"] / end_ns)
    note = f"{state['done_ns'] / 1e9:.1f} of {end_ns / 1e9:g} s" if state["done_ns"] else ""
    progress(state["text"], done, note)


def _last_sign(text: bytes) -> str:
    state = _state(text)
    return f"'{state['text']}' at {state['done_ns'] / 1e9:g} s" if state else "none"
