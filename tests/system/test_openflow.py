# SPDX-License-Identifier: Apache-2.0
"""OpenFlow switches in the virtual engine: each mode behaves as documented, and runs repeat."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from mprun.compile import allocate, compile_plan
from mprun.engines import virtual
from mprun.inputs.loading import load
from mprun.kernel.store import find_kernel
from mprun.storage.run_directory import RunDirectory
from tests.system.conftest import Result
from tests.system.test_shell import PROMPT, Terminal
from tests.system.test_virtual import TCP_CEILING

# Two hosts, each at a switch, and two links between the switches.
SIDE_BY_SIDE = """\
version: 1
nodes:
  client: {{kind: host}}
  server: {{kind: host}}
  s1: {{kind: switch, openflow: {openflow}}}
  s2: {{kind: switch, openflow: {openflow}}}
links:
  - {{name: access, between: [client, s1]}}
  - {{name: path0, between: [s1, s2], rate: 20mbit, delay: 20ms, queue: 80packets}}
  - {{name: path1, between: [s1, s2], rate: 20mbit, delay: 20ms, queue: 80packets}}
  - {{name: exit, between: [s2, server]}}
"""
IN_A_ROW = """\
version: 1
nodes:
  client: {{kind: host}}
  server: {{kind: host}}
  s1: {{kind: switch, openflow: {openflow}}}
links:
  - {{name: path0, between: [client, s1], rate: 20mbit, delay: 20ms, queue: 80packets}}
  - {{name: exit, between: [s1, server]}}
"""
STEERED = """\
version: 1
nodes:
  client: {kind: host}
  server: {kind: host}
  s1:
    kind: switch
    openflow:
      flows:
        - in_port=left,actions=output:path0
        - in_port=right,actions=output:path1
        - ip,nw_dst=10.0.0.1,actions=output:left
        - ip,nw_dst=10.0.0.3,actions=output:right
  s2:
    kind: switch
    openflow:
      flows:
        - ip,nw_dst=10.0.0.2,actions=output:exit
        - ip,nw_dst=10.0.0.1,actions=output:path0
        - ip,nw_dst=10.0.0.3,actions=output:path1
links:
  - {name: left, between: [client, s1], addresses: [10.0.0.1/24, null]}
  - {name: right, between: [client, s1], addresses: [10.0.0.3/24, null]}
  - {name: path0, between: [s1, s2], rate: 20mbit, delay: 20ms, queue: 80packets}
  - {name: path1, between: [s1, s2], rate: 10mbit, delay: 20ms, queue: 80packets}
  - {name: exit, between: [s2, server], addresses: [null, 10.0.0.2/24]}
"""
BULK = """\
version: 1
hosts:
  client: {{mptcp: {{path_manager: fullmesh}}}}
  server: {{mptcp: {{path_manager: fullmesh}}}}
traffic:
  - {{name: bulk, tool: iperf3, from: client, to: server, protocol: {protocol}, start: 0s, duration: 5s,
     parallel: {flows}}}
"""
PINGS = """\
version: 1
traffic:
  - {name: first, tool: ping, from: client, to: server, start: 0s, count: 4, interval: 1s}
  - {name: later, tool: ping, from: client, to: server, start: 30s, count: 2, interval: 1s}
probe: {pings: 0}
"""

Mprun = Callable[..., Result]


@pytest.fixture
def run(mprun: Mprun, tmp_path: Path) -> Callable[[str, str], Result]:
    """Return a function that runs a topology and an experiment, and checks that the run passes."""

    def perform(topology: str, experiment: str) -> Result:
        (tmp_path / "topo.yaml").write_text(topology)
        (tmp_path / "xp.yaml").write_text(experiment)
        result = mprun("-t", "topo", "-x", "xp", "--engine", "virtual", "--json")
        assert result.status == 0, result.out + result.err
        return result

    return perform


def sent(result: Result, switch: str, link: str) -> int:
    """Return the bytes that a switch has sent on a link since time zero."""
    return max(
        int(row["tx_bytes"]) for row in result.rows("interfaces") if (row["node"], row["link"]) == (switch, link)
    )


def round_trips(result: Result, flow: str) -> list[float]:
    """Return the round-trip time of each ping in ms."""
    return [float(text) for text in re.findall(r"time=([\d.]+) ms", (result.run / f"logs/{flow}.out").read_text())]


@pytest.mark.usefixtures("leaves_nothing")
def test_learning_switch_carries_the_links_rate(run: Callable[[str, str], Result]) -> None:
    result = run(IN_A_ROW.format(openflow="{mode: learning}"), BULK.format(protocol="tcp", flows=1))
    assert 18.5e6 <= result.metric("bulk.goodput") <= TCP_CEILING
    assert result.metric("path0.rtt") == pytest.approx(0.04, abs=1e-4)


def test_flows_steer_two_subflows_over_different_links(run: Callable[[str, str], Result]) -> None:
    result = run(STEERED, BULK.format(protocol="mptcp", flows=1))
    assert result.metric("bulk.subflows") == 2
    assert 26e6 <= result.metric("bulk.goodput") <= 1.5 * TCP_CEILING
    assert sent(result, "s1", "path0") / sent(result, "s1", "path1") == pytest.approx(2, abs=0.1)


@pytest.mark.parametrize("hash_of", ["connection", "datapath"])
def test_group_spreads_flows_over_both_links(run: Callable[[str, str], Result], hash_of: str) -> None:
    topology = SIDE_BY_SIDE.format(openflow=f"{{mode: multipath, hash: {hash_of}}}")
    result = run(topology, BULK.format(protocol="tcp", flows=16))
    assert result.metric("bulk.goodput") > 1.8 * TCP_CEILING
    shares = [sent(result, "s1", link) for link in ("path0", "path1")]
    assert min(shares) / sum(shares) == pytest.approx(0.5, abs=0.05)


def test_a_group_of_the_file_spreads_by_its_weights(run: Callable[[str, str], Result]) -> None:
    """Three of four of 64 connections use path0, within 3 standard deviations.

    A flow of the file drops the packets it names.
    """
    own = (
        "{mode: multipath,"
        ' groups: ["group_id=1,type=select,bucket=weight:3,output:path0,bucket=weight:1,output:path1"],'
        ' flows: ["tcp,in_port=access,actions=group:1", "udp,in_port=access,actions=drop"]}'
    )
    topology = SIDE_BY_SIDE.replace("s1: {{kind: switch, openflow: {openflow}}}", "s1: {{kind: switch, openflow: OWN}}")
    experiment = BULK.format(protocol="tcp", flows="64, rate: 100kbit").replace("duration: 5s", "duration: 2s")
    experiment += "  - {name: datagrams, tool: udp, from: client, to: server, rate: 1mbit, duration: 1s}\n"
    result = run(topology.format(openflow="{mode: multipath}").replace("OWN", own), experiment)
    shares = [sent(result, "s1", link) for link in ("path0", "path1")]
    assert shares[0] / sum(shares) == pytest.approx(0.75, abs=0.16)
    assert result.metric("datagrams.loss") == 1


def test_group_keeps_one_pair_of_addresses_on_one_link(run: Callable[[str, str], Result]) -> None:
    topology = SIDE_BY_SIDE.format(openflow="{mode: multipath, hash: addresses}")
    result = run(topology, BULK.format(protocol="tcp", flows=16))
    assert result.metric("bulk.goodput") < TCP_CEILING * 1.02
    assert min(sent(result, "s1", link) for link in ("path0", "path1")) == 0


def test_group_leaves_a_link_that_goes_down(run: Callable[[str, str], Result]) -> None:
    topology = SIDE_BY_SIDE.format(openflow="{mode: multipath}")
    events = "events:\n  - {at: 1s, link: path0, state: down}\n"
    result = run(topology + events, BULK.format(protocol="tcp", flows=8))
    assert result.metric("bulk.goodput") > 0.9 * TCP_CEILING
    assert sent(result, "s1", "path0") < 3.5e6


@pytest.mark.usefixtures("leaves_nothing")
def test_first_packet_goes_through_the_controller(run: Callable[[str, str], Result], mprun: Mprun) -> None:
    topology = IN_A_ROW.format(openflow="{controller: {delay: 11ms, idle_timeout: 10s}}")
    result = run(topology, PINGS)
    first, *rest = round_trips(result, "first")
    # the switch asks the controller about request and reply one after the other, 11 ms in each direction
    assert first == pytest.approx(40 + 4 * 11, abs=0.5)
    # request and answer of 98 bytes are sent at 20 Mbit/s; the switch needs some microseconds
    sent_ms = 2 * 98 * 8 / 20e3
    assert rest == pytest.approx([40 + sent_ms] * 3, abs=0.01)
    # the flows have expired meanwhile, but the places of the hosts are still known
    first, *rest = round_trips(result, "later")
    assert first == pytest.approx(40 + 4 * 11, abs=0.5)
    assert rest == pytest.approx([40 + sent_ms], abs=0.01)
    same = mprun("verify", result.run)
    assert same.out.startswith("identical: "), same.out


@pytest.mark.usefixtures("leaves_nothing")
def test_controllers_each_have_their_delay(run: Callable[[str, str], Result]) -> None:
    text = SIDE_BY_SIDE.replace("s2: {{kind: switch, openflow: {openflow}}}", "s2: {{kind: switch, openflow: {other}}}")
    topology = text.format(openflow="{controller: {delay: 5ms}}", other="{controller: {delay: 1ms, match: hosts}}")
    topology = "".join(line for line in topology.splitlines(keepends=True) if "name: path1" not in line)
    result = run(topology, PINGS.replace("count: 4", "count: 2"))
    assert round_trips(result, "first")[0] == pytest.approx(40 + 4 * 5 + 4 * 1, abs=1)


def test_a_flow_that_open_vswitch_refuses_ends_the_run(mprun: Mprun, tmp_path: Path) -> None:
    (tmp_path / "topo.yaml").write_text(IN_A_ROW.format(openflow='{flows: ["priority=1,colour=red,actions=NORMAL"]}'))
    (tmp_path / "xp.yaml").write_text(PINGS)
    result = mprun("-t", "topo", "-x", "xp", "--engine", "virtual")
    assert result.status == 1
    assert "unknown keyword colour" in " ".join(result.out.split())


@pytest.mark.usefixtures("leaves_nothing")
@pytest.mark.alone
def test_prompt_on_openflow_switches(tmp_path: Path) -> None:
    (tmp_path / "topo.yaml").write_text(SIDE_BY_SIDE.format(openflow="{mode: multipath}"))
    terminal = Terminal("shell", "-t", "topo", "--engine", "virtual", cwd=tmp_path)
    terminal.until(PROMPT)
    assert "Bridge s2" in terminal.ask("s1 ovs-vsctl show")
    assert "0% dropped" in terminal.ask("pingall")
    assert "actions=group:1" in terminal.ask("s2 ovs-ofctl dump-flows s2")
    assert terminal.close() == 0


@pytest.mark.alone
def test_switches_in_real_time(tmp_path: Path) -> None:
    """The plan is that of a host whose kernel has Open vSwitch. This host's kernel need not have it."""
    (tmp_path / "topo.yaml").write_text(IN_A_ROW.format(openflow="{controller: {delay: 11ms}}"))
    (tmp_path / "xp.yaml").write_text(
        PINGS.replace("start: 30s, count: 2", "start: 0s, count: 1").replace("interval: 1s", "interval: 300ms")
    )
    spec = load(tmp_path / "topo", tmp_path / "xp").spec
    plan = compile_plan(spec, allocate(spec))
    run = RunDirectory.create(tmp_path / "runs", "real-time", plan.digest)
    run.folder.write_json("plan.json", plan.to_json())
    virtual.run_plan(plan, run, find_kernel(), lambda *_: None, real_time=True)
    assert run.agent_report().error is None
    first, *rest = (float(text) for text in re.findall(r"time=([\d.]+) ms", run.log("first", "out")))
    assert first > 84
    assert min(rest) < 60


@pytest.mark.parametrize("other", ["", ", openflow: {mode: multipath}"])
def test_links_of_switches_are_calibrated(mprun: Mprun, tmp_path: Path, other: str) -> None:
    """A bridge would accept the frames, and so would a switch."""
    topology = IN_A_ROW.format(openflow="{mode: learning}").replace(", openflow: {mode: learning}", other)
    (tmp_path / "topo.yaml").write_text(topology)
    result = mprun("calibrate", "-t", "topo", "--engine", "virtual")
    assert result.status == 0, result.out + result.err
    assert "all 6 values within their tolerance" in result.out
