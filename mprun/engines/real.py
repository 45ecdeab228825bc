# SPDX-License-Identifier: Apache-2.0
"""The real engine: the host's own kernel, in real time, in namespaces that end with the run.

The agent is process 1 of a new pid namespace, with new net and mount namespaces. When the agent ends or is killed, the
kernel ends every process of the run and removes every interface, qdisc and mount. Without root, all this happens in a
user namespace.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Unpack

from mprun.agent import sysctl
from mprun.engines import agent_process, capability
from mprun.engines.agent_process import Channel, RunProgress, Shell
from mprun.engines.debugger import Attended
from mprun.errors import MachineError, RunError
from mprun.kernel.store import Kernel
from mprun.model import engine_paths
from mprun.model.capabilities import Capabilities
from mprun.model.engine_name import EngineName
from mprun.model.plan import Plan
from mprun.storage.run_directory import RunDirectory

NAME: EngineName = "real"
IS_SIMULATED = False
IS_ON_MACHINE_KERNEL = True


def find_kernel(name: str) -> None:
    """Return None: this engine boots no kernel."""


def run_plan(
    plan: Plan, run: RunDirectory, kernel: Kernel | None, progress: RunProgress, **attended: Unpack[Attended]
) -> None:
    """Run the agent in new namespaces. Afterwards, the run directory has the agent's raw results.

    Call `missing` first, which reports what this host lacks for the plan. Raises RunError or Interrupted, and
    MachineError for a debugger or a prompt at a simulated time.
    """
    if attended.get("prompt"):
        raise MachineError("only the virtual engine can stop at a simulated time")
    if attended.get("debugger"):
        raise MachineError("gdb can stop only a kernel of the virtual engine, and not this machine's own kernel")
    shell = attended.get("shell")
    argv = agent_process.unshare_command(
        ["--net", "--mount", "--ipc", "--pid", "--fork", "--kill-child=SIGKILL", "--mount-proc"]
    )
    process = None
    with agent_process.channel() as talk, _lifeline() as lifeline:
        script = _script(plan, run, talk, shell, lifeline)
        try:
            with run.folder.create("logs/agent.log") as output, agent_process.uninterrupted():
                process = subprocess.Popen(
                    [*argv, "sh", "-c", script],
                    stdin=None if shell else subprocess.DEVNULL,
                    stdout=None if shell else output,
                    stderr=None if shell else subprocess.STDOUT,
                    start_new_session=not shell,
                    env=agent_process.environment(shell),
                    preexec_fn=partial(agent_process.die_with, os.getpid()),
                    pass_fds=(lifeline,),
                )
            agent_process.watch(process, run, progress, bool(shell), talk)
        finally:
            if process is not None:
                agent_process.end(process)
    if not run.has("agent.json"):
        raise RunError(f"the agent ended before the run did:\n{run.log('agent', 'log').strip()[-2000:]}")


@contextmanager
def _lifeline() -> Iterator[int]:
    """Yield the reading end of a pipe. It is at its end as soon as this process has ended."""
    reading, writing = os.pipe()
    try:
        yield reading
    finally:
        os.close(reading)
        os.close(writing)


def _script(plan: Plan, run: RunDirectory, talk: Channel, shell: Shell | None, lifeline: int) -> str:
    """Return the script that makes the file tree of the run inside the namespaces, and then becomes the agent."""
    library = agent_process.find_library()
    # root could write to these mounts, so they become read-only; a user may not remount them, and need not
    is_root = os.geteuid() == 0
    places = [
        (run.path.resolve(), engine_paths.RUN, True),
        (talk.reports.path, engine_paths.REPORTS, True),
        (talk.orders.path, engine_paths.ORDERS, not is_root),
        (library.package, f"{engine_paths.LIBRARY}/mprun", not is_root),
        (library.mininet, f"{engine_paths.LIBRARY}/mininet", not is_root),
        *((outside, target, not is_root) for target, outside in agent_process.find_built(plan).items()),
    ]
    lines = ["set -e", "base=$(mktemp -d)", "mount -n -t tmpfs -o mode=755 run $base"]
    for outside, inner, writable in places:
        # the folder that becomes /run
        target = inner.replace("/run", "$base", 1)
        lines += [f"mkdir -p {target}", f"mount -n --bind {shlex.quote(str(outside))} {target}"]
        lines += [] if writable else [f"mount -n -o remount,bind,ro {target}"]
    lines += ["mkdir -p $base/lock", "mount -n --move $base /run", "rmdir $base"]
    foreign = any(process.is_foreign for process in plan.processes)
    options = ["--lifeline", str(lifeline), *(["--confine"] if foreign else [])]
    agent = agent_process.agent_command(shell, options, engine_paths.REPORTS, engine_paths.ORDERS)
    return "\n".join([*lines, f"cd {engine_paths.RUN}", f"exec {shlex.join(agent)}"])


def missing(plan: Plan, capabilities: Capabilities) -> str | None:
    """Return what this machine lacks for a plan, with a remedy; None if it lacks nothing."""
    assert capabilities.schedulers is not None, "the capabilities of a host's kernel"
    if plan.faults:
        return "'faults' needs simulated time, in which packets have the same numbers in each run: use --engine virtual"
    if plan.reseed:
        return "'reseed' changes the random numbers of an experiment kernel: use --engine virtual"
    if plan.tracepoints:
        return (
            "'tracepoints' records the events of an experiment kernel, and in this machine's kernel the events of all "
            "users: use --engine virtual"
        )
    kernel, otherwise = f"this kernel ({os.uname().release})", "run with --engine virtual"
    tried = agent_process.run_in_namespace(["true"])
    if tried.returncode:
        return f"no namespaces for this user ({tried.stderr.strip()}): run as root, or with --engine virtual"
    qdiscs = [command.argv for command in plan.build if command.argv[:2] == ("tc", "qdisc")]
    kinds = {kind for argv in qdiscs for kind in capability.TRIALS if kind in argv}
    lacking = capability.missing_qdiscs(sorted(kinds))
    if lacking:
        modules = ", ".join(f"sch_{kind}" for kind in lacking)
        return f"{kernel} has no {', '.join(lacking)}, which the topology needs; load {modules}, or {otherwise}"
    if plan.switch_programs and not capability.kernel_switches():
        return f"{kernel} has no Open vSwitch, which the switches need; load openvswitch, or {otherwise}"
    if needy := capability.without_sctp(plan):
        in_user_space = "write 'tool: sctp', which has it in user space"
        return f"{kernel} has no SCTP, which {needy} needs; load sctp, {in_user_space}, or {otherwise}"
    if unknown := capability.missing_sysctls(plan, capabilities.schedulers):
        return f"{kernel} has no {'; no '.join(unknown)}; {otherwise}"
    if forbidden := capability.forbidden_congestion_control(plan):
        name, allowed = forbidden
        allow = f"`sysctl -w {sysctl.ALLOWED_CONGESTION}='{' '.join([*allowed, name])}'`"
        refusal = f"lets a network namespace have {', '.join(allowed)} as its congestion control, and not '{name}'"
        return f"{kernel} {refusal}: {allow}, write 'congestion: {name}' of each flow, or {otherwise}"
    if refused := capability.refused_rules(plan):
        return (
            f"{kernel} cannot be middlebox '{refused[0]}': {refused[1]}; load nf_tables and its modules, or {otherwise}"
        )
    return None
