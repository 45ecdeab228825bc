# SPDX-License-Identifier: Apache-2.0
"""Golden plans: `tests/golden/plans/<case>/{topo,xp}`, with .yaml or in the older format, and their compiled plans."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from mprun.cli.plan import command
from mprun.compile import allocate, compile_plan, resolve
from mprun.inputs.loading import load
from mprun.inputs.writer import write_experiment, write_topology
from mprun.labs.definition import Step
from mprun.model.codec import canonical_json
from mprun.model.intent import Intent
from mprun.model.intent.intent_file import CODEC, write_intent
from mprun.model.plan import Plan, render
from tests.labs import PAIRS
from tests.scenes import ONE_PATH

CASES = sorted((Path(__file__).parents[1] / "golden" / "plans").iterdir())
ROOT = Path(__file__).parents[2]


def plan_of(folder: Path) -> Plan:
    spec = load(folder / "topo", folder / "xp").spec
    return compile_plan(spec, allocate(spec))


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.name)
def test_plan_is_golden(case: Path, update_golden: bool) -> None:
    text = render(plan_of(case))
    golden = case / "plan.txt"
    if update_golden:
        golden.write_text(text)
    assert text == golden.read_text()


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.name)
def test_plan_survives_json(case: Path) -> None:
    plan = plan_of(case)
    again = Plan.from_json(json.loads(json.dumps(plan.to_json())))
    assert canonical_json(again.to_json()) == canonical_json(plan.to_json())
    assert again.digest == plan.digest


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.name)
def test_an_intent_is_read_as_it_was_written(case: Path) -> None:
    """The values that come from a run directory are those that were compiled."""
    intent = plan_of(case).intent
    assert CODEC.decode(Intent, json.loads(json.dumps(write_intent(intent)))) == intent


@pytest.mark.parametrize("hash_seed", ["0", "4242"])
def test_plan_does_not_depend_on_hash_seed(hash_seed: str) -> None:
    folder = CASES[-1]
    argv = [sys.executable, "-m", "mprun", "plan", "-t", str(folder / "topo"), "-x", str(folder / "xp"), "--json"]
    done = subprocess.run(
        argv, cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": hash_seed}, capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == json.loads(json.dumps(plan_of(folder).to_json()))


@pytest.mark.parametrize("step", PAIRS)
def test_every_lab_compiles(step: Step) -> None:
    spec = step.load().spec
    plan = compile_plan(spec, allocate(spec))
    assert plan.flows
    assert Plan.from_json(json.loads(plan.to_text())) == plan


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.name)
def test_resolved_files_mean_the_same(case: Path, tmp_path: Path) -> None:
    spec = load(case / "topo", case / "xp").spec
    network = allocate(spec)
    resolved = resolve(spec, network)
    (tmp_path / "topo.yaml").write_text(write_topology(resolved.topology))
    (tmp_path / "xp.yaml").write_text(write_experiment(resolved.experiment))
    again = load(tmp_path / "topo.yaml", tmp_path / "xp.yaml").spec
    assert compile_plan(again, allocate(again)).digest == compile_plan(spec, network).digest
    assert again.experiment == spec.experiment


def test_capabilities_do_not_change_the_digest() -> None:
    from mprun.model.capabilities import Capabilities

    folder = CASES[-1]
    spec = load(folder / "topo", folder / "xp").spec
    network = allocate(spec)
    here = compile_plan(spec, network)
    elsewhere = compile_plan(
        spec,
        network,
        Capabilities(iperf3_speaks_mptcp=True, bulk_library=None, is_simulated=False, timer_slack_ns=10**6),
    )
    assert render(here) != render(elsewhere)
    assert here.digest == elsewhere.digest


def test_flows_of_one_group_and_host_vary_together(tmp_path: Path) -> None:
    """These flows may be the parts of a query, which start at the same moment, and they share a process."""
    (tmp_path / "topo.yaml").write_text(
        "version: 1\ntopology: dumbbell\npairs: 2\nbottleneck: {rate: 10mbit, delay: 5ms}\n"
    )
    (tmp_path / "xp.yaml").write_text(
        "version: 1\n"
        "traffic:\n"
        "  - {name: short, tool: flows, from: client*, to: server*, pairs: all-to-all, size: 10kb, interval: 100ms,"
        " duration: 1s}\n"
        "repeat: {vary: [start], seed: 3}\n"
    )
    starts = {process.name: process.at_ns for process in plan_of(tmp_path).flows}
    assert len(starts) == len(set(starts.values())) == 2


def test_repetitions_of_a_group_are_programs_of_their_own(tmp_path: Path) -> None:
    """The flows of a group that start together share a program, which has another name than that of later flows."""
    (tmp_path / "topo.yaml").write_text(
        "version: 1\ntopology: dumbbell\npairs: 2\nbottleneck: {rate: 10mbit, delay: 5ms}\n"
    )
    (tmp_path / "xp.yaml").write_text(
        "version: 1\n"
        "traffic:\n"
        "  - {name: short, tool: flows, from: client1, to: server*, size: 10kb, interval: 100ms, duration: 1s,"
        " repeat: {times: 2, interval: 5s}}\n"
    )
    of_flows = {process.name: process.flows for process in plan_of(tmp_path).flows}
    assert of_flows == {
        "short.client1": ("short-server0-1", "short-server1-1", "short"),
        "short.client1.2": ("short-server0-2", "short-server1-2", "short"),
    }


@pytest.mark.parametrize("flags", ["subflow", "subflow, backup"])
def test_a_written_endpoint_on_a_backup_link_is_a_backup(tmp_path: Path, flags: str) -> None:
    (tmp_path / "topo.yaml").write_text(
        "version: 1\ntopology: multi-path\npaths: [{rate: 20mbit}, {rate: 20mbit, backup: true}]\n"
    )
    (tmp_path / "xp.yaml").write_text(
        "version: 1\ntraffic: [{tool: iperf3, from: client, to: server, protocol: mptcp, duration: 1s}]\n"
        f"hosts: {{client: {{mptcp: {{endpoints: [{{link: path1, flags: [{flags}]}}]}}}}}}\n"
    )
    words = [" ".join(one.argv[3:]) for one in plan_of(tmp_path).build if one.argv[:3] == ("ip", "mptcp", "endpoint")]
    assert words == ["add 10.0.1.1 id 2 subflow backup"]


def test_a_varied_link_that_gets_a_jitter_stops_keeping_its_packets_in_order(tmp_path: Path) -> None:
    """With any rate, netem keeps packets in order, and a change that names no rate keeps it (netem_change())."""
    event = "events: [{at: 1s, link: path0, set: {jitter: 5ms}}, {at: 2s, link: path0, set: {jitter: 0ms}}]\n"
    (tmp_path / "topo.yaml").write_text(ONE_PATH + event)
    (tmp_path / "xp.yaml").write_text(
        "version: 1\ntraffic: [{tool: ping, from: client, to: server, duration: 3s}]\nrepeat: {vary: [wire]}\n"
    )
    plan = plan_of(tmp_path)
    added = [one.argv for one in plan.build if one.argv[:2] == ("tc", "qdisc") and "netem" in one.argv]
    commands = [added, *([one.argv for one in change.commands] for change in plan.changes)]
    assert [{argv[-2:] for argv in some} for some in commands] == [
        {("rate", "1000gbit")},
        {("rate", "0bit")},
        {("rate", "1000gbit")},
    ]


def test_the_defaults_of_interfaces_are_set_before_there_are_interfaces(tmp_path: Path) -> None:
    """An interface takes net.ipv6.conf.default once, when it is made. Its own settings need the interface."""
    sysctls = {"net.ipv6.conf.default.hop_limit": 9, "net.ipv6.conf.client-eth0.hop_limit": 8}
    (tmp_path / "topo.yaml").write_text(ONE_PATH + "addressing: ipv6\n")
    (tmp_path / "xp.yaml").write_text(
        "version: 1\ntraffic: [{tool: ping, from: client, to: server, count: 1}]\n"
        f"hosts: {{client: {{sysctl: {json.dumps(sysctls)}}}}}\n"
    )
    words = [" ".join(one.argv) for one in plan_of(tmp_path).build]
    made = next(n for n, one in enumerate(words) if one.startswith("ip link add client-eth0"))
    before, after = (words.index(f"sysctl -w {name}={value}") for name, value in sysctls.items())
    assert before < made < after


def test_a_flow_that_another_waits_for_ends_by_itself(tmp_path: Path) -> None:
    """In a program with other flows, it would end with the last of them."""
    (tmp_path / "topo.yaml").write_text(
        "version: 1\ntopology: dumbbell\npairs: 3\nbottleneck: {rate: 10mbit, delay: 5ms}\n"
    )
    (tmp_path / "xp.yaml").write_text(
        "version: 1\n"
        "traffic:\n"
        "  - {name: short, tool: flows, from: client1, to: server*, size: 10kb, interval: 100ms, duration: 1s}\n"
        "  - {tool: ping, from: client1, to: server1, start: {after: short-server0}}\n"
    )
    of_flows = {process.name: process.flows for process in plan_of(tmp_path).flows}
    assert of_flows["short-server0"] == ("short-server0", "short")
    assert of_flows["short.client1"] == ("short-server1", "short-server2", "short")


@pytest.mark.parametrize(("rate", "interval"), [("20mbit", "0.2"), ("4kbit", "0.2"), ("2kbit", "0.392")])
def test_pings_before_a_run_do_not_meet(tmp_path: Path, rate: str, interval: str) -> None:
    """The frame of a ping has 98 bytes, and the default interval is 0.2 s."""
    (tmp_path / "topo.yaml").write_text(ONE_PATH.replace("20mbit", rate))
    (tmp_path / "xp.yaml").write_text("version: 1\ntraffic: [{tool: ping, from: client, to: server}]\n")
    spec = load(tmp_path / "topo", tmp_path / "xp").spec
    (probe,) = compile_plan(spec, allocate(spec)).probes
    assert probe.argv[probe.argv.index("-i") + 1] == interval


def test_a_plan_may_have_any_name(tmp_path: Path) -> None:
    (tmp_path / "before.plan").write_text(plan_of(CASES[0]).to_text())
    words = ["--diff", str(tmp_path / "before.plan"), str(tmp_path / "before.plan")]
    assert CliRunner().invoke(command, words).output == "no difference\n"
    for text in ("no JSON", "{}", "[]"):
        (tmp_path / "before.plan").write_text(text)
        error = CliRunner().invoke(command, words).exception
        assert str(error) == f"{words[1]} is no plan: name the directory of a run or a plan.json"
