# SPDX-License-Identifier: Apache-2.0
"""Plans for distribution kernels: features that a kernel lacks are left out of the plan, or refused by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from mprun.agent import sysctl
from mprun.compile import allocate, compile_plan
from mprun.engines import agent_process, trial, virtual
from mprun.engines.capability import missing_sysctls
from mprun.engines.machine_mptcp import (
    NO_SCHEDULER,
    describe_schedulers,
    judge_schedulers,
    lacking_scheduler,
    parse_limits,
    schedulers_asked,
)
from mprun.engines.trial import ask, refuse_unknown
from mprun.errors import MachineError
from mprun.inputs.loading import load, load_cells
from mprun.inputs.reader import RESOLVED
from mprun.kernel.store import Kernel, find_kernel
from mprun.model.capabilities import Capabilities, SchedulerChoice
from mprun.model.permission import NO_COMMANDS
from mprun.model.plan import Plan
from mprun.model.problem import InputError
from mprun.model.spec import Capture, Spec
from mprun.runs.place import Place
from mprun.runs.runner import make_request
from mprun.workloads import tcpdump
from tests.scenes import ONE_PATH

LAB = Path(__file__).parents[2] / "labs" / "01_multipath"
EXPERIMENT = """\
version: 1
hosts: {client: {mptcp: {scheduler: SCHEDULER}}}
traffic: [{tool: iperf3, from: client, to: server, protocol: mptcp, duration: 1s}]
"""
# The kernels of Debian 12 (6.1), of Ubuntu 24.04 as it was released (6.8), and of Debian 13 (6.12).
LINUX_6_1 = SchedulerChoice(has_sysctl=False)
LINUX_6_8 = SchedulerChoice(takes_any_name=True)
LINUX_6_12 = SchedulerChoice(("default",))
KERNELS = [LINUX_6_1, LINUX_6_8, LINUX_6_12]


def asking_for(scheduler: str, folder: Path) -> Spec:
    (folder / "xp.yaml").write_text(EXPERIMENT.replace("SCHEDULER", scheduler))
    return load(LAB / "topo", folder / "xp").spec


def plan_for(spec: Spec, schedulers: SchedulerChoice | None) -> Plan:
    return compile_plan(spec, allocate(spec), Capabilities(schedulers=schedulers))


def schedulers_set(plan: Plan) -> list[str]:
    return [command.argv[2] for command in plan.build if "net.mptcp.scheduler" in command.argv[-1]]


def test_the_default_scheduler_is_not_set_where_there_is_no_choice(tmp_path: Path) -> None:
    spec = asking_for("default", tmp_path)
    assert schedulers_set(plan_for(spec, LINUX_6_1)) == []
    for choice in (LINUX_6_8, LINUX_6_12, None):
        assert schedulers_set(plan_for(spec, choice)) == ["net.mptcp.scheduler=default"] * 2


def test_kernels_do_not_change_the_digest(tmp_path: Path) -> None:
    spec = asking_for("default", tmp_path)
    assert len({plan_for(spec, choice).digest for choice in (None, *KERNELS)}) == 1


@pytest.mark.parametrize("choice", KERNELS)
def test_no_kernel_lacks_the_default_scheduler(tmp_path: Path, choice: SchedulerChoice) -> None:
    lacking = missing_sysctls(plan_for(asking_for("default", tmp_path), choice), choice)
    assert [one for one in lacking if "scheduler" in one] == []


@pytest.mark.parametrize("choice", KERNELS)
def test_another_scheduler_is_asked_for_and_refused(tmp_path: Path, choice: SchedulerChoice) -> None:
    plan = plan_for(asking_for("roundrobin", tmp_path), choice)
    assert "net.mptcp.scheduler=roundrobin" in schedulers_set(plan)
    assert any("scheduler 'roundrobin' (it has: default" in one for one in missing_sysctls(plan, choice))


def test_what_a_kernel_lacks_is_named() -> None:
    assert lacking_scheduler("default", LINUX_6_12) is None
    assert lacking_scheduler("blest", SchedulerChoice(("default", "blest"))) is None
    assert lacking_scheduler("blest", LINUX_6_12) == "scheduler 'blest' (it has: default)"
    early = "scheduler 'blest' (it has: default; net.mptcp.scheduler came with Linux 6.6)"
    assert lacking_scheduler("blest", LINUX_6_1) == early
    careless = "scheduler 'blest' (it has: default; it accepts any name, and runs the default scheduler in its place)"
    assert lacking_scheduler("blest", LINUX_6_8) == careless
    # only a sysctl in the user's file requests the scheduler there
    assert lacking_scheduler("default", LINUX_6_1) == "sysctl net.mptcp.scheduler, which came with Linux 6.6"


def test_a_kernel_that_accepts_any_name_is_found_out() -> None:
    """A kernel that lists its schedulers is believed. Any other is asked for a name that no scheduler has."""
    tried: list[str] = []

    def taking(*known: str) -> SchedulerChoice:
        def takes(name: str) -> bool:
            tried.append(name)
            return not known or name in known

        return judge_schedulers(True, None, takes, ["default", "blest", "nosuch"])

    assert taking() == LINUX_6_8
    assert tried == [NO_SCHEDULER]
    assert taking("default", "blest") == SchedulerChoice(("default", "blest"))
    assert judge_schedulers(True, ["default", "bpf_red"], pytest.fail, ["x"]).names == ("default", "bpf_red")
    assert judge_schedulers(False, None, pytest.fail, ["x"]) == LINUX_6_1


def test_schedulers_that_an_experiment_asks_for(tmp_path: Path) -> None:
    (tmp_path / "xp.yaml").write_text(EXPERIMENT.replace("SCHEDULER}}", "blest}}, server: {}"))
    assert schedulers_asked(load(LAB / "topo", tmp_path / "xp").spec) == {"blest", "default"}


def test_a_run_of_an_earlier_version_may_have_a_scheduler_as_sysctl(tmp_path: Path) -> None:
    text = EXPERIMENT.replace("{mptcp: {scheduler: SCHEDULER}}", "{sysctl: {net.mptcp.scheduler: blest}}, server: {}")
    (tmp_path / "xp.yaml").write_text(RESOLVED + text)
    assert dict(load(LAB / "topo", tmp_path / "xp").spec.experiment.hosts["client"].sysctl)
    (tmp_path / "xp.yaml").write_text(text)
    with pytest.raises(InputError, match=r"write 'mptcp: .scheduler: blest"):
        load(LAB / "topo", tmp_path / "xp")


def test_descriptions_differ() -> None:
    assert describe_schedulers(LINUX_6_12) == "default"
    assert describe_schedulers(LINUX_6_1) == "default, no choice (it came with Linux 6.6)"
    assert describe_schedulers(LINUX_6_8) == "default; any other name is accepted and ignored"


def test_limits_of_the_kernel() -> None:
    assert parse_limits("add_addr_accepted 7 subflows 8 \n") == (8, 7)
    assert parse_limits('Object "mptcp" is unknown, try "ip help".\n') is None


def test_a_ring_has_names_that_the_profile_of_tcpdump_allows() -> None:
    """AppArmor's profile in Debian and Ubuntu:

    `/**.[pP][cC][aA][pP][0-9]* rw`. tcpdump appends numbers to its file name.
    """
    argv = tcpdump.capture(Capture("client", size_bytes=3_000_000, keep="last"), Capabilities()).argv
    assert argv[argv.index("-w") + 1].endswith(".pcap")
    # stdbuf changes standard output, and a ring does not use standard output
    assert "stdbuf" not in argv


@pytest.mark.parametrize("keep", ["first", None])
def test_stdbuf_is_used_only_where_its_library_can_be_loaded(keep: str | None) -> None:
    wanted = Capture("client") if keep is None else Capture("client", size_bytes=3_000_000, keep="first")
    enlarged = tcpdump.capture(wanted, Capabilities()).argv
    at = enlarged.index("stdbuf")
    assert enlarged[at : at + 3] == ("stdbuf", "-o64K", "tcpdump")
    plain = tcpdump.capture(wanted, Capabilities(buffers_captures=False)).argv
    assert plain == (*enlarged[:at], *enlarged[at + 2 :])


def test_a_kernel_without_a_queue_discipline_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel with the option runs the plan. Only a topology that needs tc asks what tc knows."""
    (tmp_path / "xp.yaml").write_text("version: 1\ntraffic:\n  - {name: x, tool: ping, from: a, to: b, duration: 1s}\n")
    plans = {}
    for name, more in (("alone", ""), ("jitter", ", jitter: 1ms")):
        link = f"{{name: l, between: [a, b], rate: 10mbit, delay: 5ms, queue: {{discipline: dualpi2}}{more}}}"
        text = f"version: 1\nnodes: {{a: {{kind: host}}, b: {{kind: host}}}}\nlinks: [{link}]\n"
        (tmp_path / "topo.yaml").write_text(text)
        spec = load(tmp_path / "topo", tmp_path / "xp").spec
        plans[name] = compile_plan(spec, allocate(spec))
    kernel = Kernel("mine", str(tmp_path / "linux"), "7.3.4-mprun", "0" * 64, "tree", 300, "gcc 12", 1.0)
    (tmp_path / "config").write_text("# CONFIG_NET_SCH_DUALPI2 is not set\n")
    refused = virtual.lacking_discipline(plans["alone"], kernel)
    assert refused is not None
    assert "'mine' (7.3.4-mprun) has no queue discipline 'dualpi2'" in refused
    (tmp_path / "config").write_text("CONFIG_NET_SCH_DUALPI2=y\n")
    monkeypatch.setattr(virtual, "tc_knows", lambda _kind: False)
    assert virtual.lacking_discipline(plans["alone"], kernel) is None
    told = virtual.lacking_discipline(plans["jitter"], kernel)
    assert told is not None
    assert "install iproute2 6.17 or later" in told


def test_a_kernel_without_trace_events_is_refused(tmp_path: Path) -> None:
    (tmp_path / "topo.yaml").write_text(ONE_PATH)
    text = "version: 1\ntraffic: [{name: x, tool: ping, from: client, to: server, count: 1}]\n"
    kernel = Kernel("mine", str(tmp_path / "linux"), "6.12.117-mprun", "0" * 64, "tree", 300, "gcc 12", 1.0)
    (tmp_path / "config").write_text("# CONFIG_FTRACE is not set\n")
    refused = []
    for more in ("", "tracepoints: ['mptcp:*']\n"):
        (tmp_path / "xp.yaml").write_text(text + more)
        spec = load(tmp_path / "topo", tmp_path / "xp").spec
        plan = compile_plan(spec, allocate(spec))
        refused.append(virtual.lacking_events(plan, kernel))
    assert refused[0] is None
    assert refused[1] is not None
    assert "'mine' (6.12.117-mprun) has no trace events, which 'tracepoints' needs" in refused[1]
    assert "`mprun kernel build --source TREE --name mine`" in refused[1]
    (tmp_path / "config").write_text("CONFIG_EVENT_TRACING=y\n")
    assert virtual.lacking_events(plan, kernel) is None


def test_a_kernel_is_booted_once_for_what_it_alone_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    booted: list[Sequence[str]] = []

    def answer(kernel: Kernel, questions: Sequence[str]) -> list[str]:
        booted.append(questions)
        return [f"{kernel.name} {question}" for question in questions]

    monkeypatch.setattr(trial, "boot_and_ask", answer)
    mine, other = (Kernel(name, "", "7", name * 64, "", 0, "", 0.0) for name in "ab")
    constant, others = ["list:controls", "name:a"], ["sysctl:a=1", "EN10MB:tcp port 80"]
    for kernel in (mine, mine, other):
        told = [[f"{kernel.name} {question}" for question in questions] for questions in (constant, others)]
        assert ask(kernel, constant, others) == (*told,)
    # these answers depend on other values and on tcpdump
    assert booted == [constant + others, others, constant + others]
    assert ask(mine, constant[::-1], []) == (["a name:a", "a list:controls"], [])
    # a file of the cache that cannot be read is made again
    (file,) = (tmp_path / "mprun" / "trials").glob(f"{mine.digest}-*.json")
    for broken in ("[broken", "5", "[1]"):
        file.write_text(broken)
        assert ask(mine, constant[:1], []) == (["a list:controls"], [])
    assert booted[3:] == [constant[:1]] * 3


def test_the_filter_of_each_cell_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "topo.yaml").write_text(ONE_PATH)
    (tmp_path / "xp.yaml").write_text(
        "version: 1\ntraffic: [{tool: ping, from: client, to: server, count: 1}]\n"
        'capture: [{node: client, link: path0, filter: "{{ f }}"}]\n'
        "params: {f: tcp}\nmatrix: {f: [tcp, broken, udp]}\n"
    )
    cells = load_cells(tmp_path / "topo.yaml", tmp_path / "xp.yaml")

    def answer(_kernel: Kernel, constant: Sequence[str], others: Sequence[str]) -> tuple[list[str], list[str]]:
        return [""] * len(constant), ["tcpdump: syntax error" * ("broken" in question) for question in others]

    monkeypatch.setattr(trial, "ask", answer)
    monkeypatch.setattr(trial, "find_kernel", lambda name: Kernel(name, "", "7", "", "", 0, "", 0.0))
    monkeypatch.setattr(agent_process, "find_program", lambda _: "tcpdump")
    refused, lacking = trial.find_refusals(cells, "default", for_run=False)
    assert (refused, lacking) == ({("capture", 0, "filter"): "is no filter for tcpdump: syntax error"}, {})


def test_a_value_of_the_command_line_that_a_kernel_refuses_is_said_to_be_one(tmp_path: Path) -> None:
    """The error of the run named the line of the file alone, which has the name of the parameter."""
    (tmp_path / "topo.yaml").write_text(ONE_PATH)
    (tmp_path / "xp.yaml").write_text(
        "version: 1\nhosts: {client: {sysctl: {net.ipv4.tcp_retries2: '{{ most }}'}}}\nparams: {most: 9}\n"
        "traffic: [{tool: ping, from: client, to: server, count: 1}]\n"
    )
    loaded = load(tmp_path / "topo.yaml", tmp_path / "xp.yaml", {"most": "999"})
    places = make_request(loaded, Place("virtual", "", None), NO_COMMANDS).places
    where = places["client: sysctl -w net.ipv4.tcp_retries2=999:"]
    name = f"{tmp_path}/xp.yaml:2: hosts.client.sysctl.net.ipv4.tcp_retries2"
    assert (str(replace(where, message="")), where.message) == (name, " (given by -p most=999)")


def test_a_message_about_a_value_names_the_first_cell_that_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "topo.yaml").write_text(ONE_PATH)
    (tmp_path / "xp.yaml").write_text(
        "version: 1\nhosts: {client: {sysctl: {net.ipv4.tcp_congestion_control: '{{ cc }}'}}}\n"
        "params: {label: x, cc: reno}\nmatrix: {label: [renno, x], cc: [reno, renno]}\n"
        "traffic: [{name: '{{ label }}', tool: ping, from: client, to: server, count: 1}]\n"
    )
    cells = load_cells(tmp_path / "topo.yaml", tmp_path / "xp.yaml")
    monkeypatch.setattr(trial, "ask", lambda _kernel, constant, _others: (["reno"] * len(constant), []))
    monkeypatch.setattr(trial, "find_kernel", lambda name: Kernel(name, "", "7", "", "", 0, "", 0.0))
    told = trial.find_refusals(cells, "default", for_run=True)[1]["hosts", "client", "sysctl", sysctl.CONGESTION]
    fault = "kernel 'default' has no congestion control 'renno': did you mean 'reno'?"
    assert told == f"{fault} (in cell label=renno, cc=renno)"


def test_a_kernel_of_an_axis_that_is_not_built_is_named_before_a_run(tmp_path: Path) -> None:
    (tmp_path / "topo.yaml").write_text(ONE_PATH)
    (tmp_path / "xp.yaml").write_text(
        "version: 1\ntraffic: [{tool: ping, from: client, to: server, count: 1}]\nmatrix: {kernel: [nosuch, a/b]}\n"
    )
    cells = load_cells(tmp_path / "topo.yaml", tmp_path / "xp.yaml")
    missing, no_name = refuse_unknown(cells, "virtual", "default", for_run=False)
    assert "no experiment kernel 'nosuch' is built" in missing
    assert "'a/b' is no name of a kernel" in no_name


def test_a_kernel_that_a_student_builds_is_built_with_their_scheduler() -> None:
    with pytest.raises(MachineError, match=r"--source TREE --name nosuch`, or with `--with-scheduler FILE\.c`"):
        find_kernel("nosuch")
