# SPDX-License-Identifier: Apache-2.0
"""The virtual engine: a run inside a private Linux kernel that is an ordinary process.

The kernel is User-Mode Linux in time-travel mode. It needs no root, no kernel module and no virtual machine. Idle time
is skipped. With the same seed, the same plan gives the same bytes. On the host, only the run directory is writable.
`mprun.engines.guest` boots the kernel.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import threading
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Unpack, cast

import mprun
from mprun.agent import shaping
from mprun.engines import agent_code, agent_process
from mprun.engines.agent_process import Channel, RunProgress, Shell
from mprun.engines.capability import tc_knows
from mprun.engines.debugger import Attended, attached
from mprun.engines.guest import MEMORY_MIB, Guest, GuestLimits, booted, lacking_memory
from mprun.engines.standstill import Computing
from mprun.errors import MachineError, RunError
from mprun.kernel import store
from mprun.kernel.log import find_reports, read_console
from mprun.kernel.store import Kernel
from mprun.machine.changed_files import watched
from mprun.machine.machine_kind import identify
from mprun.model import engine_paths
from mprun.model.capabilities import Capabilities
from mprun.model.discipline import DISCIPLINES
from mprun.model.engine_name import EngineName
from mprun.model.plan import Plan
from mprun.safety.folder import Folder, UnsafeError
from mprun.storage.run_directory import RunDirectory

NAME: EngineName = "virtual"
IS_SIMULATED = True
IS_ON_MACHINE_KERNEL = False
# The paths of the channel's folders inside. They are mounted over existing folders. A new folder in a file system in
# memory would take one of the kernel's random numbers, and so change the later random numbers of every run.
REPORTS, ORDERS = "/sys/firmware", "/sys/fs"
MEMORY_PER_NODE_MIB = 1
# The space for files of an entry, as a multiple of their size.
FILES_TIMES = 2
# Limits on all programs of a run together: a number for each process of the plan, and a base for whatever an `exec`
# entry starts. A plan has fewer than 100,000 flows. So no run that does what its files say reaches a limit, except for
# captures without 'size' or 'snaplen'.
TASKS, TASKS_EACH = 1000, 4
FILES, FILES_EACH = 100_000, 4
WRITTEN_BYTES = 16 << 30
# CPU time that a run may use while simulated time stands still. It is needed to build the network, and to send the
# packets of half a second of simulated time. The time that its programs may compute is added.
STILL_S, STILL_PER_NODE_S = 600, 1
# The machine's folders of libraries (ld.so(8)).
LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/local/lib")
# Each program maps the file of the names of libraries first (ld.so(8)). Its size moves the program's addresses, which
# changes runs with dozens of connections. In a run it is a multiple of this size, whatever packages a machine has.
LIBRARY_NAMES_BYTES = 1 << 20
# The last message of an experiment kernel without memory.
OUT_OF_MEMORY = "System is deadlocked on memory"
# What a kernel says when the file with its memory cannot grow.
NO_ROOM = "mount likely just ran out of space"
# What it says if ptrace(2) is refused (arch/um/os-Linux/start_up.c).
UNTRACED = "check_ptrace : expected SIGSTOP"


def run_plan(
    plan: Plan,
    run: RunDirectory,
    kernel: Kernel | None,
    progress: RunProgress,
    real_time: bool = False,
    **attended: Unpack[Attended],
) -> None:
    """Boot the kernel and run the agent in it. Afterwards, the run directory has the agent's raw results.

    With a shell or with `real_time`, time is that of the wall clock, because simulated time would jump while a person
    types. Raises MachineError, RunError (the kernel died or hung) or Interrupted.
    """
    assert kernel is not None, "the kernel of `find_kernel`"
    if refusal := lacking_discipline(plan, kernel) or lacking_events(plan, kernel):
        raise MachineError(refusal)
    shell, debugger, prompt = attended.get("shell"), attended.get("debugger"), attended.get("prompt")
    real_time = real_time or shell is not None
    with agent_process.channel() as talk, run.folder.create("logs/console.log") as output:
        guest = _guest(plan, run, talk, kernel, shell, real_time, prompt.at_ns if prompt else None)
        with (
            watched(_read_folders(guest)) as files,
            booted(kernel, guest, None if shell else output, debugger is not None) as process,
            attached(debugger, kernel, process.pid) if debugger else contextlib.nullcontext() as is_held,
        ):
            # The tables of the run need polars afterwards. Work on another CPU does not disturb simulated time.
            threading.Thread(target=import_module, args=("polars",), daemon=True).start()
            computing = None if real_time else Computing(process.pid, _most_still_s(plan))
            agent_process.watch(process, run, progress, bool(shell), talk, computing, is_held, prompt)
            if changed := files.take():
                run.folder.write_json("changed.json", changed._asdict())
    if not run.has("agent.json"):
        reports = find_reports(read_console(run.log("console", "log")))
        # the agent's last output explains more than the kernel's message that it powered down
        told = "agent" if run.log("agent", "log").strip() and not reports else "console"
        report = reports[-1].describe() if reports else ""
        cause = next(_find_causes(run, guest, process.returncode, report), "")
        ended = f"the experiment kernel ended before the run did (see {run.path}/logs/{told}.log)"
        raise RunError(f"{ended}{f'; {cause}' if cause else ''}:\n{_tail(run.log(told, 'log'))}")


def _guest(
    plan: Plan,
    run: RunDirectory,
    talk: Channel,
    kernel: Kernel,
    shell: Shell | None,
    real_time: bool,
    hold_ns: int | None,
) -> Guest:
    """Return the agent as a guest program, with the folders that it finds inside."""
    library = agent_process.find_library()
    options = [*([] if real_time else ["--simulated"]), *([] if hold_ns is None else ["--hold", str(hold_ns)])]
    start = agent_code.prepare(library, talk.orders, ORDERS)
    _write_library_names(talk.orders)
    processes = len(plan.processes)
    return Guest(
        argv=agent_process.agent_command(shell, options, REPORTS, ORDERS, start),
        cwd=engine_paths.RUN,
        log=None if shell else f"{engine_paths.RUN}/logs/agent.log",
        opened={run.path: engine_paths.RUN, talk.reports.path: REPORTS},
        shown={
            kernel.directory: engine_paths.KERNEL,
            library.package: f"{engine_paths.LIBRARY}/mprun",
            library.mininet: f"{engine_paths.LIBRARY}/mininet",
            **{outside: place for place, outside in agent_process.find_built(plan, as_user=True).items()},
        },
        live={talk.orders.path: ORDERS},
        environment=agent_process.environment(shell),
        seed=plan.seed,
        memory_mib=MEMORY_MIB + MEMORY_PER_NODE_MIB * len(plan.nodes) + _files_mib(plan),
        is_simulated=not real_time,
        bounds=GuestLimits(
            tasks=TASKS + TASKS_EACH * (len(plan.nodes) + processes),
            written_bytes=WRITTEN_BYTES,
            files=FILES + FILES_EACH * processes,
        ),
    )


def _write_library_names(orders: Folder) -> None:
    """Write a copy of this machine's names of libraries, filled up with zeros, which the agent gives to programs."""
    names = Path(engine_paths.LIBRARY_NAMES)
    folder = Folder(names.parent)
    with contextlib.suppress(FileNotFoundError, UnsafeError):
        content = folder.read_bytes(names.name)
        with orders.create(names.name) as copy:
            copy.write(content)
            copy.truncate(-(-len(content) // LIBRARY_NAMES_BYTES) * LIBRARY_NAMES_BYTES)


def _read_folders(guest: Guest) -> list[Path]:
    """Return the folders with the files of this machine that a run reads: programs, libraries, Python, mprun itself.

    Of the kernel's folder, they are its programs alone, because other commands write there what a run does not read.
    A run in real time does not repeat, and none of its folders is returned.
    """
    if not guest.is_simulated:
        return []
    standard = agent_code.standard_library()
    return [
        *map(Path, agent_process.PROGRAM_PATH.split(":")),
        *(folder for place in LIBRARIES for folder in (Path(place), *Path(place).glob("*-linux-gnu"))),
        Path("/etc"),
        standard,
        *(path for path in standard.glob("[!_]*") if path.is_dir() and not path.name.endswith("-packages")),
        *(path for folder, place in guest.shown.items() for path in _list_read(folder, place)),
        *(Path(mprun.__file__).parent / name for name in agent_code.FOLDERS),
    ]


def _list_read(folder: Path, place: str) -> Sequence[Path]:
    return [folder / name for name in store.PROGRAMS] if place == engine_paths.KERNEL else [folder]


def _files_mib(plan: Plan) -> int:
    """Return the additional memory in MiB for files that entries take with them, and for the products of builds.

    They lie in /run, which has a tenth of the memory (kernel/guest/init.c).
    """
    attached = [one for flow in plan.intent.traffic for one in cast(Any, flow.options.get("attachments", ()))]
    size_bytes: int = sum(one["size_bytes"] for one in attached)
    return -(-FILES_TIMES * 10 * size_bytes // (1 << 20))


def _most_still_s(plan: Plan) -> int:
    """Return the CPU time that all programs of a run may use together while simulated time stands still."""
    return STILL_S + STILL_PER_NODE_S * len(plan.nodes) + sum(process.compute_s for process in plan.processes)


def _find_causes(run: RunDirectory, guest: Guest, status: int, report: str) -> Iterator[str]:
    """Yield why an experiment kernel ended before its run did, the most certain cause first.

    status: the end of its process. report: the last fault that it reported on its console, or empty.
    """
    console = run.log("console", "log")
    if OUT_OF_MEMORY in console:
        memory = f"its {guest.memory_mib} MiB of memory"
        yield f"the programs of the run, with their files in /tmp, /run and /dev/shm, needed more than {memory}"
    lacking = lacking_memory(guest.memory_mib)
    if lacking and NO_ROOM in console:
        yield lacking
    if report:
        yield f"it reported {report}"
    if lacking:
        yield lacking
    if UNTRACED in console:
        yield f"this machine, or its container, refuses it to trace programs: {identify().trace_remedy}"
    allowed = resource.getrlimit(resource.RLIMIT_CPU)[0]
    if allowed != resource.RLIM_INFINITY and status in (-signal.SIGXCPU, -signal.SIGKILL):
        yield f"it may use {allowed} s of CPU time: see `ulimit -t`"


def _tail(text: str) -> str:
    return "\n".join(text.strip().splitlines()[-10:]) or "(it said nothing)"


def find_kernel(name: str) -> Kernel:
    """Return the kernel to boot. Raises MachineError with the command that builds one."""
    if os.uname().machine != "x86_64":
        raise MachineError(f"the virtual engine needs x86-64, this is {os.uname().machine}")
    return store.find_kernel(name)


# The option of a kernel with trace events.
TRACE_EVENTS = "CONFIG_EVENT_TRACING=y"


def lacking_discipline(plan: Plan, kernel: Kernel) -> str | None:
    """Return the queue discipline of a plan that an experiment kernel lacks, with a remedy; None if it has all."""
    commands = [*plan.build, *(command for change in plan.changes for command in change.commands)]
    for known in DISCIPLINES.values():
        asks = any(command.argv[0] == "tc" and known.kind in command.argv for command in commands)
        if known.since is None or not asks:
            continue
        if lacking := store.find_lacking_discipline(kernel, known):
            return lacking
        if needs_tc(plan) and not tc_knows(known.kind):
            return (
                f"this machine's tc does not know '{known.kind}', and a change of a link, a jitter or another "
                f"discipline in the same topology needs it: install iproute2 {known.since[0]}.{known.since[1]} or "
                "later, or remove them"
            )
    return None


def lacking_events(plan: Plan, kernel: Kernel) -> str | None:
    """Return a message if a plan records trace events and the experiment kernel has none; else None."""
    if not plan.tracepoints or store.has_option(kernel, TRACE_EVENTS):
        return None
    how = "" if kernel.name == store.DEFAULT_NAME else f" --source TREE --name {kernel.name}"
    return (
        f"experiment kernel '{kernel.name}' ({kernel.version}) has no trace events, which 'tracepoints' needs: build "
        f"it again with `mprun kernel build{how}`"
    )


def needs_tc(plan: Plan) -> bool:
    """Return True if tc itself must set or change a queue discipline, which the agent cannot do alone."""
    built = (command.argv[1:] for command in plan.build if command.argv[0] == "tc")
    changed = (command for change in plan.changes for command in change.commands)
    return any(shaping.translate(words, lambda _name: 1) is None for words in built) or any(
        command.argv[0] == "tc" for command in changed
    )


def missing(plan: Plan, capabilities: Capabilities) -> str | None:
    """Return what this machine lacks for this engine, except a kernel and the programs of a plan; None if nothing."""
    try:
        agent_process.find_library()
    except MachineError as error:
        return str(error)
    return None
