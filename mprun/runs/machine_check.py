# SPDX-License-Identifier: Apache-2.0
"""Check what this machine can run, with the command that fixes each missing item. `mprun doctor` prints the checks."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from importlib.util import find_spec

from mprun.captures import tshark
from mprun.engines import capability, machine_mptcp, trial
from mprun.engines.agent_process import find_library, find_program, unshare_command
from mprun.errors import MachineError, SpecError
from mprun.inputs import user_configuration
from mprun.kernel import build, store
from mprun.machine.machine_kind import Surroundings
from mprun.model.frozen import Frozen
from mprun.runs import place
from mprun.safety import landlock
from mprun.workloads import https, iperf3, netperfmeter, probe, tcpdump
from mprun.workloads.built import PROGRAMS, program_store
from mprun.workloads.tool import Program


class MachineCheck(Frozen):
    """A check of something that a run may need.

    - `mend`: the command that installs it; empty if there is none.
    - `package`: the Debian package with it, if mprun's set-up installs this package for runs; else empty.
    """

    name: str
    serves: str
    ok: bool
    says: str
    mend: str = ""
    package: str = ""


def _of_package(name: str, serves: str, says: str | None, package: str) -> MachineCheck:
    """Return the check of what a Debian package installs. says: the place or the version; None if it is missing."""
    told = "not installed" if says is None else says
    return MachineCheck(name, serves, says is not None, told, f"apt-get install {package}", package)


def install_command(checks: Iterable[MachineCheck]) -> str | None:
    """Return one command that installs the Debian packages that the checks miss; None if they miss none."""
    packages = sorted({check.package for check in checks if not check.ok and check.package})
    if not packages:
        return None
    become = "" if os.geteuid() == 0 else "sudo "
    return f"{become}apt-get install --no-install-recommends {' '.join(packages)}"


def check_machine(here: Surroundings) -> Iterator[MachineCheck]:
    """Yield the kind of the machine, and all checks if mprun can run on this kind at all."""
    says = "; ".join(filter(None, (here.name, here.obstacle)))
    yield MachineCheck("machine", "both", not here.obstacle, says, here.remedy)
    # the other checks ask the kernel
    if not here.obstacle:
        yield from _all_checks(here)


def _all_checks(here: Surroundings) -> Iterator[MachineCheck]:
    try:
        yield _of_package("Mininet", "both", str(find_library().mininet), "mininet")
    except MachineError:
        yield _of_package("Mininet", "both", None, "mininet")
    basic = {"tc": capability.BASIC["tc"], **iperf3.PROGRAMS, **probe.PROGRAMS, **tcpdump.PROGRAMS}
    for tool, program in basic.items():
        yield _program(tool, program, "both")
    for tool, program in https.PROGRAMS.items():
        yield _program(tool, program, "http, https")
    yield _program("netperfmeter", netperfmeter.PROGRAMS["netperfmeter"], "SCTP")
    yield _program("ovs-vswitchd", capability.SWITCH_PROGRAMS["ovs-vswitchd"], "OpenFlow switches")
    yield _of_package("mptcpize", "both", capability.mptcp_library(), "mptcpize")
    yield _program("nft", capability.FILTER["nft"], "middleboxes")
    traces = capability.can_trace()
    yield MachineCheck("ptrace", "virtual", traces, "allowed" if traces else "refused to this user", here.trace_remedy)
    yield from _kernel_checks(traces)
    version = landlock.abi()
    says = f"Landlock, ABI {version}" if version else place.UNCONFINED
    mend = "boot a kernel from 5.13 on with lsm=...,landlock; --allow-exec needs --unconfined until then"
    yield MachineCheck("confinement", "virtual", bool(version), says, mend)
    yield from _configuration()
    source = build.default_source()
    yield MachineCheck("kernel source", "building", source.exists(), str(source), build.KERNEL_SOURCE_REMEDY)
    lacking = capability.missing_tools(build.BUILD_TOOLS)
    says = "all installed" if not lacking else f"missing: {', '.join(lacking)}"
    yield MachineCheck("build tools", "building", not lacking, says, f"apt-get install {' '.join(lacking)}")
    yield from _built_tools()
    yield _program("tshark", tshark.PROGRAMS["tshark"], "mprun packets")
    for name, serves in (("wireshark", "mprun wireshark"), ("gdb", "mprun debug")):
        # these large packages are installed by hand
        yield replace(_of_package(name, serves, find_program(name), name), package="")
    yield _of_package("dot", "drawing", find_program("dot"), "graphviz")
    for name, module, serves in (("pycma", "cma", "search"), ("dask", "distributed", "cluster")):
        has = find_spec(module) is not None
        says = "installed" if has else "not installed"
        yield MachineCheck(name, serves, has, says, f"pip install 'mprun[{serves}]'")
    features = {**capability.kernel_features(), "openvswitch": capability.kernel_switches()}
    yield from _real_checks(features, unshare_command([]) == ["unshare", "--"])
    if features["mptcp"]:
        yield from _mptcp_checks(features["namespaces"])
    if find_program("tcpdump"):
        buffers = capability.can_buffer_captures()
        says = "64 kB" if buffers else "4 kB; this machine's AppArmor profile of tcpdump allows no more"
        yield MachineCheck("capture buffer", "fast captures in the real engine", buffers, says)


def _kernel_checks(can_start: bool) -> Iterator[MachineCheck]:
    """Check the experiment kernel: whether it exists, and whether it starts on this processor."""
    name, remedy = "experiment kernel", "mprun kernel build"
    try:
        kernel = store.find_kernel()
        current = store.is_current(kernel)
        says = f"{kernel.version}, {kernel.digest[:12]}" + ("" if current else ", of another version of mprun")
        if can_start:
            trial.boot_and_ask(kernel, ["list:/proc/version"])
            says += ", starts"
        yield MachineCheck(name, "virtual", current, says, remedy)
    except MachineError as error:
        yield MachineCheck(name, "virtual", False, str(error), remedy)


def _configuration() -> Iterator[MachineCheck]:
    """Check the user's own configuration, if it exists."""
    path = user_configuration.configuration_path()
    try:
        engine = user_configuration.configured_engine()
    except SpecError as error:
        yield MachineCheck("configuration", "--engine auto", False, error.problems[0], f"correct or remove {path}")
        return
    if engine is not None:
        yield MachineCheck("configuration", "--engine auto", True, f"engine {engine}, as {path} says")


def _mptcp_checks(has_namespaces: bool) -> Iterator[MachineCheck]:
    """Check MPTCP in this kernel: what it supports. A run that needs more is refused."""
    serves = "MPTCP in the real engine"
    yield MachineCheck("mptcp: version", serves, True, "1 (RFC 8684)")
    yield MachineCheck("mptcp: path managers", serves, True, ", ".join(machine_mptcp.find_path_managers()))
    if not has_namespaces:
        return
    choice = machine_mptcp.find_schedulers()
    yield MachineCheck(
        "mptcp: schedulers", serves, not choice.takes_any_name, machine_mptcp.describe_schedulers(choice)
    )
    limits = machine_mptcp.find_limits()
    says = "unknown" if limits is None else f"{limits[0]} additional subflows, {limits[1]} accepted addresses"
    yield MachineCheck("mptcp: limits", serves, limits is not None, says, "" if limits else "apt-get install iproute2")


def _built_tools() -> Iterator[MachineCheck]:
    for name, recipe in PROGRAMS.items():
        try:
            found = program_store.find(name)
            says = found.version if found else "not built"
        except MachineError as error:
            found, says = None, str(error)
        lacking = None if found else program_store.missing(recipe)
        yield MachineCheck(
            recipe.executable, f"flows of tool {name}", bool(found), says, lacking or f"mprun tools install {name}"
        )


def _program(name: str, program: Program, serves: str) -> MachineCheck:
    found = capability.version_of(name, program) if find_program(name) else None
    check = _of_package(name, serves, found, program.package)
    return replace(check, mend=program.remedy, package="") if program.remedy else check


def _real_checks(features: dict[str, bool], is_root: bool) -> Iterator[MachineCheck]:
    release = os.uname().release
    yield MachineCheck(
        "namespaces", "real", features["namespaces"], "root" if is_root else "as this user", "run as root"
    )
    for name, needed, mend in (
        ("mptcp", "real", ""),
        ("tbf", "real", ""),
        ("netem", "delays in the real engine", "modprobe sch_netem"),
        ("openvswitch", "OpenFlow switches in the real engine", "modprobe openvswitch"),
    ):
        has = features[name]
        yield MachineCheck(f"kernel: {name}", needed, has, f"{release} {'has it' if has else 'does not have it'}", mend)
