# SPDX-License-Identifier: Apache-2.0
"""Find out what this machine offers to a plan, and name what is missing before anything is built."""

from __future__ import annotations

import contextlib
import ctypes
import glob
import hashlib
import os
import socket
import subprocess
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from mprun.agent import mptcp_event, rtnetlink, sysctl
from mprun.compile.wire import spell_discipline
from mprun.engines import machine_mptcp
from mprun.engines.agent_process import ENVIRONMENT, find_program, run_in_namespace
from mprun.errors import MachineError
from mprun.machine import invoking_user
from mprun.machine.version import version_in
from mprun.model.capabilities import KERNEL_WIDE, SIMULATED_SLACK_NS, Capabilities, SchedulerChoice
from mprun.model.discipline import DISCIPLINES
from mprun.model.grouping import gather
from mprun.model.plan import Plan
from mprun.model.spec import Queue, Rebinding, Spec
from mprun.workloads import probe, tcpdump
from mprun.workloads.tool import Program, programs_of

_PTRACE_TRACEME = 0
_libc = ctypes.CDLL(None, use_errno=True)
_WRAPPERS = "/usr/lib/*/mptcpize/libmptcpwrap.so.0"
BASIC = {"ip": Program("iproute2"), "tc": Program("iproute2", "-V")}
SWITCH_PROGRAMS = {
    **dict.fromkeys(("ovsdb-tool", "ovsdb-server", "ovs-vsctl", "ovs-ofctl"), Program("openvswitch-switch")),
    "ovs-vswitchd": Program("openvswitch-switch", "--version"),
}
FILTER = {"nft": Program("nftables", "--version")}
# In real time, a wake-up may come this late. A shaper whose bucket holds less does not reach its rate.
REAL_TIME_SLACK_NS = 250_000
# The first version of iperf3 with --mptcp.
IPERF3_MPTCP = (3, 19)


def programs_needed(spec: Spec) -> dict[str, Program]:
    """Return the programs that a run of `spec` starts, with the package and the version option of each."""
    needed = dict(BASIC)
    for flow in spec.experiment.traffic:
        needed |= programs_of(flow)
    if spec.experiment.captures:
        needed |= tcpdump.PROGRAMS
    if spec.topology.switches:
        needed |= SWITCH_PROGRAMS
    if spec.topology.middleboxes or any(isinstance(change, Rebinding) for change in spec.topology.changes):
        needed |= FILTER
    controllers = any(switch.controller for switch in spec.topology.switches.values())
    if controllers or any(box.proxy for box in spec.topology.middleboxes.values()):
        needed["python3"] = Program("python3")
    if spec.experiment.probe_pings and spec.experiment.traffic:
        needed |= probe.PROGRAMS
    return needed


def find_capabilities(spec: Spec, virtual: bool) -> Capabilities:
    """Return what this machine offers to `spec`. Raises MachineError that names every missing program."""
    needed = programs_needed(spec)
    missing = {name: program for name, program in needed.items() if not find_program(name, virtual)}
    versions = {name: version_of(name, p, virtual) for name, p in needed.items() if p.version and name not in missing}
    native = (version_in(versions.get("iperf3", "")) or (0, 0)) >= IPERF3_MPTCP
    wrapper = mptcp_library()
    if wrapper is None and not native and any(f.protocol == "mptcp" for f in spec.experiment.traffic):
        missing["mptcpize"] = Program("mptcpize")
    if missing:
        packages = " ".join(sorted({program.package for program in missing.values() if not program.remedy}))
        remedies = dict.fromkeys(program.remedy for program in missing.values() if program.remedy)
        ways = [*([f"apt-get install {packages}"] if packages else []), *map(str, remedies)]
        raise MachineError(f"this run needs {', '.join(sorted(missing))}: {'; '.join(ways)}")
    return Capabilities(
        iperf3_speaks_mptcp=native,
        mptcp_library=wrapper or "",
        bulk_library=Capabilities().bulk_library if virtual else None,
        kernel_wide=None if virtual else _kernel_wide_values(),
        is_simulated=virtual,
        timer_slack_ns=SIMULATED_SLACK_NS if virtual else REAL_TIME_SLACK_NS,
        schedulers=None if virtual else machine_mptcp.find_schedulers(machine_mptcp.schedulers_asked(spec)),
        buffers_captures=virtual or "tcpdump" not in needed or can_buffer_captures(),
        versions=versions,
    )


def mptcp_library() -> str | None:
    """Return the path of libmptcpwrap, from the package mptcpize; None if it is not installed."""
    found = sorted(glob.glob(_WRAPPERS))
    return found[0] if found else None


@cache
def version_of(name: str, program: Program, as_user: bool = False) -> str:
    """Return the first line of a program's version output; start the program only once.

    as_user: as in `find_program`. A program with capabilities of its own, such as ping, cannot be started by a process
    that may not gain them (capabilities(7)), as in a container. It then has a digest in place of its version.
    """
    argv = [find_program(name, as_user) or name, program.version]
    become = invoking_user.become if as_user and invoking_user.is_root_for_user() else None
    try:
        done = subprocess.run(argv, capture_output=True, text=True, env=ENVIRONMENT, preexec_fn=become)
    except PermissionError:
        with open(argv[0], "rb") as file:
            return f"SHA-256 {hashlib.file_digest(file, 'sha256').hexdigest()[:16]}, may not be started outside"
    lines = (done.stdout or done.stderr).strip().splitlines()
    return lines[0] if lines else "unknown"


@cache
def can_buffer_captures() -> bool:
    """Return whether stdbuf can enlarge the output buffer of this machine's tcpdump."""
    argv = [*tcpdump.ENLARGED, find_program("tcpdump") or "tcpdump", "--version"]
    done = subprocess.run(argv, capture_output=True, text=True, env=ENVIRONMENT)
    return done.returncode == 0 and tcpdump.REFUSED_BUFFER not in done.stderr


def _kernel_wide_values() -> Mapping[str, str]:
    files = {name: Path("/proc/sys", *name.split(".")) for name in KERNEL_WIDE}
    return {name: file.read_text().strip() for name, file in files.items() if file.exists()}


def can_trace() -> bool:
    """Return whether a process here may be traced (ptrace(2)). The experiment kernel traces the programs inside it."""
    child = os.fork()
    if child == 0:
        os._exit(_libc.ptrace(_PTRACE_TRACEME, 0, 0, 0) != 0)
    return os.waitpid(child, 0)[1] == 0


def missing_qdiscs(kinds: Iterable[str]) -> list[str]:
    """Return the queueing disciplines that this kernel lacks. Each is tried in a temporary namespace."""
    return [kind for kind in kinds if not _kernel_has(kind)]


# For each queueing discipline, tc(8) commands that succeed if the kernel has it.
TRIALS = {
    "netem": ["qdisc add dev lo root netem delay 1ms"],
    "tbf": ["qdisc add dev lo root tbf rate 1mbit burst 1514 limit 15140"],
    **{
        known.kind: [f"qdisc add dev lo root {' '.join(spell_discipline(Queue(30_000, 'bytes', name), 10**6, 1514))}"]
        for name, known in DISCIPLINES.items()
    },
    "ingress": [
        "qdisc add dev lo ingress",
        "filter add dev lo parent ffff: protocol all u32 match u32 0 0 action mirred egress redirect dev lo",
    ],
}


def tc_knows(kind: str) -> bool:
    """Return whether this machine's tc has a queue discipline. The kernel need not have it."""
    argv = [str(find_program("tc")), "qdisc", "add", "dev", "lo", "root", kind, "help"]
    return "Unknown qdisc" not in subprocess.run(argv, capture_output=True, text=True).stderr


def _kernel_has(kind: str) -> bool:
    return run_in_namespace([str(find_program("tc")), "-batch", "-"], TRIALS[kind]).returncode == 0


def kernel_switches() -> bool:
    """Return whether this kernel has Open vSwitch's datapath. Asking loads the module of the datapath."""
    with contextlib.closing(rtnetlink.Netlink(mptcp_event.NETLINK_GENERIC)) as link:
        return mptcp_event.find_family(link, "ovs_datapath") is not None


def without_sctp(plan: Plan) -> str | None:
    """Return the first flow of a plan that needs SCTP, if this kernel has no SCTP; else None.

    Asking loads the module of SCTP.
    """
    needy = [process.flows for process in (*plan.daemons, *plan.flows) if "sctp" in process.needs]
    if not needy:
        return None
    try:
        socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_SCTP).close()
    except OSError:
        return f"flow '{needy[0][0]}'"
    return None


def has_congestion_control(name: str) -> bool:
    """Return whether a socket accepts a congestion control.

    The kernel lists a congestion control in a module only once the module is loaded. It loads the module when root
    asks for the congestion control (tcp(7), TCP_CONGESTION).
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as asked:
        try:
            asked.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
        except OSError:
            return False
    return True


def missing_sysctls(plan: Plan, schedulers: SchedulerChoice) -> list[str]:
    """Return the sysctls of a plan that this kernel lacks, and the values that it does not offer.

    Congestion controls of flows are included. schedulers: the MPTCP schedulers of this kernel.
    """
    lacking: list[str] = []
    asked = [flow.congestion for flow in plan.intent.traffic if flow.protocol in sysctl.CONTROLLED and flow.congestion]
    asked += [command.argv[-1] for command in plan.build if "congctl" in command.argv]
    for name, value in dict.fromkeys([*_settings(plan), *((sysctl.CONGESTION, one) for one in asked)]):
        if name == sysctl.SCHEDULER and Path(sysctl.path_of("net.mptcp.enabled")).exists():
            lacking += filter(None, [machine_mptcp.lacking_scheduler(value, schedulers)])
            continue
        has = sysctl.choices_of(name)
        if not Path(sysctl.path_of(name)).exists():
            lacking.append(f"sysctl {name}")
        elif has is not None and value not in has and not (name == sysctl.CONGESTION and has_congestion_control(value)):
            lacking.append(f"{name.rsplit('.', 1)[1].replace('_', ' ')} '{value}' (it has: {', '.join(has)})")
    return list(dict.fromkeys(lacking))


def _settings(plan: Plan) -> list[tuple[str, str]]:
    """Return name and value of each sysctl that a plan sets."""
    words = [command.argv[2].split("=", 1) for command in plan.build if command.argv[0] == "sysctl"]
    return [(name, value) for name, value in words]


def forbidden_congestion_control(plan: Plan) -> tuple[str, list[str]] | None:
    """Return a host's congestion control that this kernel forbids in a network namespace, and the allowed ones.

    Allowed are those in tcp_allowed_congestion_control (tcp(7)), and the default that a namespace inherits. The first
    forbidden one is returned; None if all are allowed. Root's own flows may use any congestion control.
    """
    try:
        allowed, inherited = (sysctl.read(name).split() for name in (sysctl.ALLOWED_CONGESTION, sysctl.CONGESTION))
    except OSError:
        return None
    asked = (value for name, value in _settings(plan) if name == sysctl.CONGESTION)
    return next(((value, allowed) for value in asked if value not in (*allowed, *inherited)), None)


def refused_rules(plan: Plan) -> tuple[str, str] | None:
    """Return the first node whose packet filters this kernel or its nft refuses, and the reason; None if none.

    The filters are tried in a temporary namespace, with those that come during the run.
    """
    from mprun.agent import ruleset  # imports Mininet, and few plans have a rule

    commands = (*plan.build, *(command for change in plan.changes for command in change.commands))
    rules = (command for command in commands if command.argv[0] == "nft")
    for node, lines in gather((command.node, " ".join(command.argv[1:])) for command in rules).items():
        done = run_in_namespace([str(find_program("nft")), "-f", "-"], lines)
        if done.returncode:
            return node, ruleset.explain(done.stderr, lines)
    return None


def missing_tools(tools: Mapping[str, str]) -> list[str]:
    """Return the packages of programs that are not installed. tools: program -> package."""
    return [package for tool, package in tools.items() if not find_program(tool)]


def kernel_features() -> dict[str, bool]:
    """Return which features of the real engine this host's kernel has."""
    namespaces = run_in_namespace(["true"]).returncode == 0
    mptcp = Path("/proc/sys/net/mptcp/enabled").exists()
    qdiscs = {kind: namespaces and _kernel_has(kind) for kind in ("tbf", "netem")}
    return {"namespaces": namespaces, "mptcp": mptcp, **qdiscs}
