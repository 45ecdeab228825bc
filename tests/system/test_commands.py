# SPDX-License-Identifier: Apache-2.0
"""The commands around a run: show, repeat, compare and remove it, and test the abilities of a machine."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from mprun.agent.sysctl import ALLOWED_CONGESTION, CHOICES, CONGESTION, read
from mprun.engines.capability import has_congestion_control
from tests.system.conftest import Result, call, environment

TOPOLOGY = "version: 1\nnodes: {a: {kind: host}, b: {kind: host}}\nlinks: [{name: cable, between: [a, b], rtt: RTT}]\n"
EXPERIMENT = """\
version: 1
params: {count: 2}
traffic: [{name: it, tool: ping, from: a, to: b, count: "{{ count }}"}]
capture: [{host: a}]
expect: [{metric: it.rtt, max: 15ms}]
SETTINGS
"""


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "topo.yaml").write_text(TOPOLOGY.replace("RTT", "10ms"))
    (tmp_path / "slow.yaml").write_text(TOPOLOGY.replace("RTT", "20ms"))
    (tmp_path / "xp.yaml").write_text(EXPERIMENT.replace("SETTINGS", ""))
    return tmp_path


def test_life_of_a_run(mprun: Callable[..., Result], files: Path) -> None:
    first = mprun("-t", "topo", "-x", "xp", "--engine", "virtual", "--json", "--label", "base")
    assert first.status == 0, first.err
    assert first.metric("it.rtt") == pytest.approx(0.01, abs=1e-5)
    second = mprun("-t", "slow", "-x", "xp", "-p", "count=3", "--engine", "virtual", "--json")
    assert second.status == 1
    assert [verdict["held"] for verdict in second.summary["expectations"]] == [False]
    listed = json.loads(mprun("runs", "list", "--json").out)
    assert [row["status"] for row in listed] == ["passed", "failed"]
    chosen = ("runs", "list", "--columns", "count,it.rtt", "--where", "it.rtt > 15ms", "--json")
    (row,) = json.loads(mprun(*chosen).out)
    assert row["values"]["count"] == 3
    assert row["values"]["it.rtt"]["value"] == second.metric("it.rtt")
    assert mprun("show", "latest", "--json").summary["metrics"] == second.summary["metrics"]
    by_digest = first.run.name.rsplit("-", 1)[1]
    assert "✓ ≤ 15.000 ms" in mprun("show", by_digest).out
    difference = mprun("plan", "--diff", "label=base", second.run.name)
    assert difference.status == 1, difference.out
    assert "-tc qdisc add dev w0b root handle 1: netem limit 10000000 delay 5ms" in difference.out
    assert "count=3 interval_ns=" in difference.out
    again = mprun("verify", "--keep", first.run.name)
    assert again.status == 0, again.err
    assert len(json.loads(mprun("runs", "list", "--json").out)) == 3
    # the run and its repetition
    assert len(json.loads(mprun("runs", "list", "--where", "count=2", "--json").out)) == 2
    verified = mprun("verify", "latest", "--json")
    assert verified.status == 0, verified.err
    told = json.loads(verified.out)
    assert (told["identical"], told["difference"], told["facts"]) == (True, None, {})
    assert (told["verdict"], told["runs"], told["directory"], told["artifacts"]) == ("identical", 1, None, [])
    # nothing was kept
    assert len(json.loads(mprun("runs", "list", "--json").out)) == 3
    assert mprun("runs", "rm", "--yes", "latest").status == 0
    assert (files / "runs" / "latest").resolve() == second.run.resolve()
    assert mprun("show", "nothing").status == 2


def test_a_folder_with_the_name_of_a_file_is_named(mprun: Callable[..., Result], files: Path) -> None:
    (files / "other.yaml").mkdir()
    refused = mprun("validate", "-t", "other", "-x", "xp")
    assert refused.status == 2
    assert "other.yaml: is a directory: name a YAML file" in refused.err


def test_a_machine_without_a_browser(mprun: Callable[..., Result], files: Path) -> None:
    opener = files / "bin" / "xdg-open"
    opener.parent.mkdir()
    opener.write_text("#!/bin/sh\necho 'xdg-open: no method available' >&2\nexit 3\n")
    opener.chmod(0o755)
    assert mprun("-t", "topo", "-x", "xp", "--engine", "virtual").status == 0
    shown = mprun("report", "--open", env=environment(PATH=f"{opener.parent}:{os.environ['PATH']}"))
    assert shown.status == 0
    assert "no browser was found here: open file://" in shown.err
    assert "xdg-open" not in shown.err
    opener.write_text("#!/bin/sh\nexit 0\n")
    shown = mprun("report", "--open", env=environment(PATH=f"{opener.parent}:{os.environ['PATH']}"))
    assert "no browser" not in shown.err


def test_wireshark_needs_captures(mprun: Callable[..., Result], files: Path) -> None:
    (files / "xp.yaml").write_text(EXPERIMENT.replace("SETTINGS", "").replace("capture: [{host: a}]", ""))
    assert mprun("-t", "topo", "-x", "xp", "--engine", "virtual").status == 0
    refused = mprun("wireshark")
    assert refused.status == 1
    assert ": no captures: write `capture: [{host: client}]` in the experiment" in refused.err


def test_a_strangers_plan_is_not_obeyed(mprun: Callable[..., Result], files: Path) -> None:
    run = mprun("-t", "topo", "-x", "xp", "--engine", "virtual", "--json").run
    plan = json.loads((run / "plan.json").read_text())
    plan["flows"][0]["argv"] = ["touch", "/run/mprun/run/here"]
    (run / "plan.json").write_text(json.dumps(plan))
    assert mprun("verify", run).status == 0
    assert not list(files.rglob("here"))
    plan["digest"] = "0" * 64
    (run / "plan.json").write_text(json.dumps(plan))
    refused = mprun("verify", run)
    assert refused.status == 1
    assert "its digest is not that of its intent" in refused.err


def test_a_topology_file_runs_no_program(mprun: Callable[..., Result], files: Path) -> None:
    (files / "evil.py").write_text("open('ran', 'w').close()\n")
    for text in ("version: 1\nextends: evil.py\n", "version: 1\ninclude: [evil.py]\n"):
        (files / "bad.yaml").write_text(text)
        result = mprun("validate", "-t", "bad")
        assert result.status == 2
        assert "is a Python program: only -t may name one" in result.err
    assert mprun("validate", "-t", "topo", "-x", "evil.py").status == 2
    assert not (files / "ran").exists()


@pytest.mark.parametrize("name", ["kernel.core_pattern", "vm.drop_caches", "fs.file-max"])
def test_only_the_networks_sysctls_can_be_set(mprun: Callable[..., Result], files: Path, name: str) -> None:
    (files / "xp.yaml").write_text(EXPERIMENT.replace("SETTINGS", f"hosts: {{a: {{sysctl: {{{name}: 1}}}}}}"))
    result = mprun("validate", "-t", "topo", "-x", "xp")
    assert result.status == 2
    assert "is not a setting of the network" in result.err


# A setting that namespaces share.
RMEM_MAX = "hosts: {a: {sysctl: {net.core.rmem_max: VALUE}}}"


def test_kernel_wide_sysctls_are_set_in_an_experiment_kernel(mprun: Callable[..., Result], files: Path) -> None:
    more = int(Path("/proc/sys/net/core/rmem_max").read_text()) + 1
    (files / "xp.yaml").write_text(EXPERIMENT.replace("SETTINGS", RMEM_MAX.replace("VALUE", str(more))))
    assert mprun("-t", "topo", "-x", "xp", "--engine", "virtual", "--json").status == 0


@pytest.mark.alone
def test_kernel_wide_sysctls_of_the_hosts_kernel(mprun: Callable[..., Result], files: Path) -> None:
    """The real engine refuses a value above what this machine has, and warns of one below."""
    has = int(Path("/proc/sys/net/core/rmem_max").read_text())
    (files / "xp.yaml").write_text(EXPERIMENT.replace("SETTINGS", RMEM_MAX.replace("VALUE", str(has + 1))))
    (files / "topo.yaml").write_text(TOPOLOGY.replace(", rtt: RTT", ""))
    refused = mprun("-t", "topo", "-x", "xp", "--engine", "real")
    assert refused.status == 3
    assert f"{has + 1}, but this kernel has {has}" in refused.err
    (files / "xp.yaml").write_text(EXPERIMENT.replace("SETTINGS", RMEM_MAX.replace("VALUE", str(has - 1))))
    warned = mprun("-t", "topo", "-x", "xp", "--engine", "real", "--json")
    assert warned.status == 0, warned.err
    # a busy machine has a warning of its own
    holds = f"hosts.a.sysctl.net.core.rmem_max: asked {has - 1}, this machine's {has} holds in the real engine"
    assert warned.summary["warnings"][0] == holds
    assert mprun("-t", "topo", "-x", "xp", "--engine", "real", "--strict").status == 1


UNKNOWN_OF_A_HOST = EXPERIMENT.replace("SETTINGS", f"hosts: {{a: {{sysctl: {{{CONGESTION}: nosuch}}}}}}")
# An MPTCP socket takes any name and then has its host's, so that its program cannot tell.
UNKNOWN_OF_FLOWS = [
    f"version: 1\ntraffic: [{{name: it, {tool}, from: a, to: b, protocol: mptcp, congestion: nosuch}}]\n"
    for tool in ("tool: iperf3, duration: 1s", "tool: reqres, requests: 1, request: 1kb, response: 1kb")
]


def test_unknown_congestion_control_of_a_host_is_refused(mprun: Callable[..., Result], files: Path) -> None:
    (files / "xp.yaml").write_text(UNKNOWN_OF_A_HOST)
    virtual = mprun("-t", "topo", "-x", "xp", "--engine", "virtual")
    assert virtual.status == 2
    assert "kernel 'default' has no congestion control 'nosuch'; it has: reno, " in virtual.err


@pytest.mark.parametrize("experiment", UNKNOWN_OF_FLOWS, ids=["iperf3", "reqres"])
def test_unknown_congestion_control_of_a_flow_is_refused(
    mprun: Callable[..., Result], files: Path, experiment: str
) -> None:
    (files / "xp.yaml").write_text(experiment)
    virtual = mprun("-t", "topo", "-x", "xp", "--engine", "virtual")
    assert virtual.status == 2
    assert "traffic[0].congestion: kernel 'default' has no congestion control 'nosuch'; it has: reno, " in virtual.err


@pytest.mark.alone
@pytest.mark.parametrize("experiment", [UNKNOWN_OF_A_HOST, *UNKNOWN_OF_FLOWS], ids=["host", "iperf3", "reqres"])
def test_the_real_engine_refuses_an_unknown_congestion_control_before_anything_is_built(
    mprun: Callable[..., Result], files: Path, experiment: str
) -> None:
    (files / "xp.yaml").write_text(experiment)
    (files / "topo.yaml").write_text(TOPOLOGY.replace(", rtt: RTT", ""))
    real = mprun("-t", "topo", "-x", "xp", "--engine", "real")
    assert real.status == 3
    assert "no tcp congestion control 'nosuch' (it has: " in real.err
    assert not (files / "runs").exists()


def test_a_host_has_any_congestion_control_of_the_experiment_kernel(mprun: Callable[..., Result], files: Path) -> None:
    """Linux allows in a namespace only the controls of the first namespace. By default vegas is not among them."""
    for control in ("vegas", "dctcp"):
        setting = f"hosts: {{a: {{sysctl: {{net.ipv4.tcp_congestion_control: {control}}}}}}}"
        (files / "xp.yaml").write_text(EXPERIMENT.replace("SETTINGS", setting))
        run = mprun("-t", "topo", "-x", "xp", "--engine", "virtual", "--json")
        assert run.status == 0, run.out + run.err


@pytest.mark.alone
def test_a_congestion_control_that_no_namespace_may_have_is_refused_with_the_way_out(
    mprun: Callable[..., Result], files: Path
) -> None:
    has, allowed = (read(name).split() for name in (CHOICES[CONGESTION], ALLOWED_CONGESTION))
    forbidden = [name for name in has if name not in allowed]
    if not forbidden:
        pytest.skip("this kernel lets namespaces have all of its congestion controls")
    (files / "topo.yaml").write_text(TOPOLOGY.replace(", rtt: RTT", ""))
    setting = f"hosts: {{a: {{sysctl: {{{CONGESTION}: {forbidden[0]}}}}}}}"
    (files / "xp.yaml").write_text(EXPERIMENT.replace("SETTINGS", setting))
    refused = mprun("-t", "topo", "-x", "xp", "--engine", "real")
    assert refused.status == 3
    assert f"sysctl -w {ALLOWED_CONGESTION}='{' '.join([*allowed, forbidden[0]])}'" in refused.err
    # a flow may use it
    flow = f"tool: iperf3, from: a, to: b, duration: 1s, congestion: {forbidden[0]}"
    (files / "xp.yaml").write_text(f"version: 1\ntraffic: [{{name: it, {flow}}}]\n")
    assert mprun("-t", "topo", "-x", "xp", "--engine", "real").status == 0


def test_a_congestion_control_is_asked_for_by_a_socket() -> None:
    """The kernel is asked through a socket, so a module that is not loaded yet does not count as missing."""
    assert has_congestion_control("reno")
    assert not has_congestion_control("nosuch")


@pytest.mark.alone
@pytest.mark.parametrize(
    "wanted",
    [
        [("lowest-rtt", "lia"), ("roundrobin", "olia")],
        [("redundant", "balia"), ("balanced", "wvegas")],
        [("blest", "lia"), ("lowest-rtt", "olia")],
    ],
)
def test_what_only_the_experiment_kernel_has_is_refused_by_name(
    mprun: Callable[..., Result], files: Path, wanted: list[tuple[str, str]]
) -> None:
    """The real engine names all of them at once, before anything is built: this machine has no experiment kernel."""
    settings = "{{mptcp: {{scheduler: {}}}, sysctl: {{net.ipv4.tcp_congestion_control: {}}}}}"
    hosts = ", ".join(f"{host}: {settings.format(*pair)}" for host, pair in zip("ab", wanted, strict=True))
    flow = "tool: iperf3, from: a, to: b, protocol: mptcp, duration: 1s"
    text = f"version: 1\ntraffic: [{{name: it, {flow}}}]\nhosts: {{{hosts}}}\n"
    (files / "xp.yaml").write_text(text)
    (files / "topo.yaml").write_text(TOPOLOGY.replace(", rtt: RTT", ""))
    refused = mprun("-t", "topo", "-x", "xp", "--engine", "real")
    assert refused.status == 3
    available = Path("/proc/sys/net/mptcp/available_schedulers")
    # a kernel before 6.10 has no list, and a reason may follow
    has = available.read_text().split() if available.exists() else ["default"]
    for scheduler, control in wanted:
        assert f"scheduler '{scheduler}' (it has: {', '.join(has)}" in refused.err
        assert f"tcp congestion control '{control}' (it has: " in refused.err
    assert not (files / "runs").exists()


def test_an_ordinary_users_path_is_enough(mprun: Callable[..., Result], files: Path) -> None:
    """Debian gives users no sbin in PATH, where tc is."""
    env = environment(PATH="/usr/local/bin:/usr/bin:/bin")
    assert mprun("-t", "topo", "-x", "xp", "--engine", "virtual", "--json", env=env).status == 0
    assert mprun("doctor", env=env).status == 0


def test_doctor_and_kernel_tell_of_this_machine(mprun: Callable[..., Result]) -> None:
    checks = {check["name"]: check for check in json.loads(mprun("doctor", "--json").out)}
    assert checks["experiment kernel"]["ok"]
    assert checks["experiment kernel"]["says"].endswith(", starts")
    assert all(check["mend"] for check in checks.values() if check["name"] in ("tc", "iperf3", "mptcpize"))
    mptcp = {name: check["says"] for name, check in checks.items() if name.startswith("mptcp: ")}
    if checks["kernel: mptcp"]["ok"]:
        assert mptcp["mptcp: schedulers"].split(",")[0].split(";")[0] == "default"
        assert mptcp["mptcp: path managers"].startswith("kernel")
        assert mptcp["mptcp: limits"] == "8 additional subflows, 8 accepted addresses"
    info = json.loads(mprun("kernel", "info", "--json").out)
    assert {"path", "version", "digest", "options"} <= info.keys()
    assert info["name"] in mprun("kernel", "list").out
    missing = mprun("kernel", "info", "nosuch")
    assert missing.status == 3
    assert "run `mprun kernel build --source TREE --name nosuch`" in missing.err


def test_a_kernel_that_was_named_is_booted_or_refused(mprun: Callable[..., Result], files: Path) -> None:
    """A missing kernel of this name does not make mprun use the host's kernel."""
    (files / "xp.yaml").write_text(EXPERIMENT.replace("SETTINGS", ""))
    refused = mprun("-t", "topo", "-x", "xp", "--kernel", "nosuch")
    assert refused.status == 3
    assert refused.err.startswith("no experiment kernel 'nosuch' is built for this user (built: ")
    assert not (files / "runs").exists()


def test_a_terminal_without_our_ticks(tmp_path: Path) -> None:
    """The test uses the encoding of LANG=de_DE, ISO 8859-1."""
    result = call("doctor", cwd=tmp_path, env=environment(PYTHONIOENCODING="latin-1"))
    assert result.status in (0, 3)
    assert [line.split()[:2] for line in result.out.splitlines()[:2]] == [["?", "machine"], ["?", "Mininet"]]
    assert "Traceback" not in result.err


def test_kernel_source_that_is_none(mprun: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    result = mprun("kernel", "build", "--source", tmp_path / "empty", "--name", "none-so-far")
    assert result.status == 3
    assert "is no Linux source tree" in result.err
    assert mprun("kernel", "info", "none-so-far").status == 3


def test_all_bounds_of_a_metric_are_shown(mprun: Callable[..., Result], files: Path) -> None:
    bounds = "[{metric: it.rtt, max: 5ms}, {metric: it.rtt, min: 1ms}]"
    text = EXPERIMENT.replace("[{metric: it.rtt, max: 15ms}]", bounds).replace("SETTINGS", "")
    (files / "xp.yaml").write_text(text)
    result = mprun("-t", "topo", "-x", "xp")
    assert result.status == 1
    assert "✗ ≤ 5.000 ms  ✓ ≥ 1.000 ms" in result.out
