# SPDX-License-Identifier: Apache-2.0
"""Start the agent, watch it, and end it: the functions that both engines use.

Inside an engine, the run directory is always /run/mprun/run and the agent's code is in /run/mprun/lib. So paths of
this machine do not enter a result.
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
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, Literal

import mprun
from mprun.engines.held_prompt import HeldPrompt
from mprun.engines.standstill import Computing
from mprun.errors import Interrupted, MachineError, RunError
from mprun.machine import mininet_library
from mprun.machine.scratch import scratch
from mprun.model import engine_paths
from mprun.model.frozen import Frozen
from mprun.model.plan import Plan
from mprun.safety.folder import Folder, UnsafeError
from mprun.storage.run_directory import RunDirectory
from mprun.workloads.built import PROGRAMS, program_store

# The search path for programs, the same for every user: an ordinary user's path lacks the sbin folders.
PROGRAM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ENVIRONMENT = {
    "PATH": PROGRAM_PATH,
    "LANG": "C.UTF-8",
    "HOME": engine_paths.ROOT,
    "USER": "root",
    "TERM": "dumb",
    "TZ": "UTC",
}
# Real time without progress after which a run is considered hung. Programs that compute have their own limits.
HANG_S = 300.0
# Real time without progress after which the CPU time of programs is read, and the interval between two readings.
STILL_S, LOOK_S = 1.0, 0.25
# The interval at which the progress of a run is read (a small network is built in 20 ms), and a report's maximal size.
POLL_S = 0.005
REPORT_BYTES = 1 << 16
# The keys of a report, with the types of their values.
_REPORT = {"text": str, "done_ns": int, "end_ns": int}
# The time that a run has to stop in order after a request.
STOP_S = 10.0

PR_SET_PDEATHSIG = 1
# sys/personality.h
ADDR_NO_RANDOMIZE = 0x0040000
# The signals that end a run in order.
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_libc = ctypes.CDLL(None, use_errno=True)

Shell = Literal["before", "after", "only"]
RunProgress = Callable[[str, float, str], None]


class Library(Frozen):
    """The folders of the agent's Python code: mprun's package and Mininet's package."""

    package: Path
    mininet: Path


def find_library() -> Library:
    """Return the folders of the agent's code. Raises MachineError if Mininet is not installed."""
    found = mininet_library.find()
    if found is None or found.origin is None:
        raise MachineError("Mininet is not installed: apt-get install mininet")
    return Library(Path(mprun.__file__).parent, Path(found.origin).parent)


def interpreter() -> Path:
    """Return the Python interpreter for the agent: the current interpreter, outside of any virtual environment."""
    return Path(os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable))


def unshare_command(namespaces: Sequence[str]) -> list[str]:
    """Return the `unshare` command for new namespaces, as root or as an ordinary user.

    An ordinary user keeps the own user id, with all capabilities. If the user were mapped to root, tcpdump would try to
    change to another user, which a namespace with one user does not have.
    """
    rootless = [] if os.geteuid() == 0 else ["--user", "--map-current-user", "--keep-caps"]
    return ["unshare", *rootless, *namespaces, "--"]


def run_in_namespace(argv: Sequence[str], lines: Iterable[str] = ()) -> subprocess.CompletedProcess[str]:
    """Run a program in a temporary network namespace, with lines as its input. Return its status and output."""
    text = "".join(f"{line}\n" for line in lines)
    words = [*unshare_command(["--net"]), *argv]
    return subprocess.run(words, input=text, capture_output=True, text=True, env=ENVIRONMENT)


class Channel(Frozen):
    """Folders for messages between mprun and the agent.

    They lie outside the run directory, where programs of a run cannot reach or change them.

    - reports: the agent writes `progress` here.
    - orders: the agent reads this folder. The file `stop` ends the run.
    """

    reports: Folder
    orders: Folder


@contextmanager
def channel() -> Iterator[Channel]:
    """Make both folders for the time of a run."""
    with scratch("mprun-channel-") as path:
        folder = Folder(path)
        yield Channel(folder.make("reports"), folder.make("orders"))


def agent_command(shell: Shell | None, options: Sequence[str], reports: str, orders: str, start: str = "") -> list[str]:
    """Return the agent's command line inside an engine.

    Python's options -I -S -B ignore environment variables and site packages, and write no compiled files.

    - options: options of the agent.
    - reports, orders: the paths of the channel's folders inside the engine.
    - start: Python statements to begin with.
    """
    start += f"import sys; sys.path.insert(0, '{engine_paths.LIBRARY}'); "
    start += "import mprun.agent.main as agent; sys.exit(agent.main(sys.argv[1:]))"
    options = [*options, "--shell", shell] if shell else options
    return [str(interpreter()), "-I", "-S", "-B", "-c", start, engine_paths.RUN, reports, orders, *options]


def die_with(parent: int) -> None:
    """Let the kernel kill this process when its parent ends for any reason (prctl(2)). Call it in a child before exec.

    The kernel sends the signal only if the parent ends from now on. If the parent has ended already, this process has
    another parent, and kills itself.
    """
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def place_as_linked() -> None:
    """Give the next program of this process the same addresses in each run (personality(2)). Call it before exec.

    An experiment kernel puts its memory behind its heap. If this place were random, the size of the memory and the
    addresses that the kernel prints would differ in each run.
    """
    _libc.personality(ADDR_NO_RANDOMIZE)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Delay Ctrl-C and the other stop signals until the end of the block.

    Otherwise a signal could arrive while a process is being started, and nobody would end that process. Python allows
    signal handlers only in the main thread. In other threads, this does nothing.
    """
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
    """Kill a process if it still runs. If it leads a session, kill its process group."""
    if process.poll() is None:
        if os.getsid(process.pid) == process.pid:
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    process.wait()


def environment(shell: Shell | None) -> dict[str, str]:
    """Return the environment variables of a run. With a shell, TERM has the value of the user's terminal."""
    return {**ENVIRONMENT, "TERM": os.environ.get("TERM", "dumb")} if shell else ENVIRONMENT


def find_program(name: str, as_user: bool = False) -> str | None:
    """Return the path at which a run finds a program; None if it is not installed. Programs that mprun built count.

    as_user: the program will run without root's rights, also under sudo. Raises MachineError if a program that mprun
    built was changed.
    """
    built = program_store.find_executable(name, as_user)
    return built.path if built else shutil.which(name, path=PROGRAM_PATH)


def find_built(plan: Plan, as_user: bool = False) -> dict[str, Path]:
    """Return the folders of the built programs that a plan starts, by their paths inside the engine.

    as_user: as in `find_program`. Raises MachineError if a program is not built.
    """
    words = [process.argv[0] for process in (*plan.preparations, *plan.daemons, *plan.flows)]
    found = {}
    for name in PROGRAMS:
        inner = f"{engine_paths.TOOLS}/{name}"
        if any(word.startswith(inner + "/") for word in words):
            installed = program_store.find(name, as_user)
            if installed is None:
                raise MachineError(f"this run needs the tool '{name}', and it is not built: mprun tools install {name}")
            found[inner] = installed.directory
    return found


def watch(
    process: subprocess.Popen[bytes],
    run: RunDirectory,
    progress: RunProgress,
    interactive: bool,
    talk: Channel,
    computing: Computing | None = None,
    is_held: Callable[[], bool] | None = None,
    prompt: HeldPrompt | None = None,
) -> None:
    """Show progress until the agent's process has ended. If the user has a shell in the terminal, only wait.

    - talk: the folders for messages with the agent.
    - computing: the programs of an experiment kernel in simulated time, whose CPU time is read while nothing happens.
    - is_held: returns whether a debugger holds the process. This time counts for no limit.
    - prompt: gets the user's lines while the agent waits for them.

    Raises Interrupted on Ctrl-C, after the run had time to stop in order, and RunError if nothing happens for HANG_S.
    """
    started = time.monotonic()
    phases: list[dict[str, object]] = []
    try:
        if interactive:
            with terminal_lent():
                process.wait()
        else:

            def show(text: str, done: float, note: str) -> None:
                progress(text, done, note)
                if prompt:
                    prompt.serve(process, run, talk.orders, text)

            _follow(process, talk.reports, show, started, phases, computing, is_held)
    except KeyboardInterrupt:
        _stop_in_order(process, talk.orders)
        raise Interrupted(f"interrupted; the results so far are in {run.path}") from None
    finally:
        end(process)
        phases.append({"wall_s": round(time.monotonic() - started, 3), "text": "ended"})
        run.folder.write_json("wall.json", phases)


def _follow(
    process: subprocess.Popen[bytes],
    reports: Folder,
    progress: RunProgress,
    started: float,
    phases: list[dict[str, object]],
    computing: Computing | None,
    is_held: Callable[[], bool] | None,
) -> None:
    shown, done = b"", 0.0
    moved = looked = started
    with _awaited(process.pid) as ended, closing(_Report(reports)) as report:
        while not ended.poll(POLL_S * 1000):
            is_new = (text := report.read()) != shown
            if is_new:
                _note(phases, _state(text), round(time.monotonic() - started, 3))
                done = _show(text, progress, done)
                shown = text
            now = time.monotonic()
            if is_new or (is_held and is_held()):
                moved, looked = now, now + STILL_S
                if computing:
                    computing.reset()
                continue
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
    """Record when a phase began, and the time of its last report."""
    if not state:
        return
    if not phases or phases[-1]["text"] != state["text"]:
        phases.append({"wall_s": wall_s, "text": state["text"]})
    phases[-1]["last_s"] = wall_s


@contextmanager
def terminal_lent() -> Iterator[None]:
    """Leave Ctrl-C to the program in the terminal, and restore the terminal's settings afterwards."""
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    settings = termios.tcgetattr(0) if os.isatty(0) else None
    try:
        yield
    finally:
        if settings is not None:
            termios.tcsetattr(0, termios.TCSADRAIN, settings)
        signal.signal(signal.SIGINT, handler)


def _stop_in_order(process: subprocess.Popen[bytes], orders: Folder) -> None:
    """Ask the agent to end, and wait for it. Return early after STOP_S or on a second Ctrl-C."""
    orders.create("stop").close()
    with suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
        process.wait(STOP_S)


@contextmanager
def _awaited(pid: int) -> Iterator[select.poll]:
    """Yield a poll that returns an event once a process has ended. It does not reap the process."""
    descriptor = os.pidfd_open(pid)
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    try:
        yield poll
    finally:
        os.close(descriptor)


class _Report:
    """The agent's report, in a file that the agent overwrites. It is read often, so the file is opened only once.

    If the guest puts anything but a regular file in its place, there is no report.
    """

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._file: BinaryIO | None = None

    def read(self) -> bytes:
        """Return the current report; empty if there is none yet."""
        if self._file is None:
            try:
                self._file = self._folder.open("progress")
            except (FileNotFoundError, UnsafeError):
                return b""
        return os.pread(self._file.fileno(), REPORT_BYTES, 0)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()


def _state(text: bytes) -> dict[str, Any]:
    """Return the agent's last report, from one line of JSON; empty if the line is no whole report.

    A line that is read while the agent overwrites it can be JSON with the name of a key that has a letter twice. The
    guest may have written any line.
    """
    try:
        state = json.loads(text.partition(b"\n")[0])
    except (ValueError, RecursionError):
        return {}
    if not isinstance(state, dict) or {key: type(value) for key, value in state.items()} != _REPORT:
        return {}
    return state if max(abs(state["done_ns"]), abs(state["end_ns"])) < 1 << 63 else {}


def _show(text: bytes, progress: RunProgress, before: float) -> float:
    """Report progress, and return the share that is done. before: the share until now, below which none falls."""
    if not (state := _state(text)):
        return before
    # the end is 0 if no flow has a duration, and too early if only some have one
    end_ns = state["end_ns"]
    done = max(before, min(1.0, state["done_ns"] / end_ns) if end_ns else 0.0)
    of = f" of {end_ns / 1e9:g}" if end_ns >= max(1, state["done_ns"]) else ""
    note = f"{state['done_ns'] / 1e9:.1f}{of} s" if state["done_ns"] else ""
    progress(state["text"], done, note)
    return done


def _last_sign(text: bytes) -> str:
    state = _state(text)
    return f"'{state['text']}' at {state['done_ns'] / 1e9:g} s" if state else "none"
