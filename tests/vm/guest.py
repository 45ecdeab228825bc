# SPDX-License-Identifier: Apache-2.0
"""Tests of the real engine on a distribution's kernel: experiments that run there, and that they leave nothing.

The machine may be slow: rates are at most 5 Mbit/s, and counts, shares, ratios and diagnoses decide. A test that needs
a feature that the kernel lacks is skipped, with the reason.
"""

from __future__ import annotations

import json
import os
import platform
import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from mprun.engines import capability, machine_mptcp
from mprun.workloads import tcpdump
from tests.system.conftest import Result, call, interrupt_when, leaves_nothing, mprun

__all__ = ["leaves_nothing", "mprun"]
pytestmark = [pytest.mark.alone, pytest.mark.usefixtures("leaves_nothing")]

# Two paths that lose and delay at random.
TWO_PATHS = """\
version: 1
topology: multi-path
addressing: ADDRESSING
paths:
  - {rate: 5mbit, delay: 20ms, jitter: 2ms, loss: 0.1%, queue: 40packets}
  - {rate: 5mbit, delay: 20ms, jitter: 2ms, loss: 0.1%, queue: 40packets}
"""
BULK = """\
version: 1
hosts:
  client: {mptcp: {path_manager: fullmesh}}
  server: {mptcp: {path_manager: fullmesh}}
traffic:
  - {name: bulk, tool: iperf3, from: client, to: server, duration: SECONDS, PROTOCOL}
capture:
  - {host: client, snaplen: 100}
"""
SWITCHED = """\
version: 1
nodes:
  client: {kind: host}
  server: {kind: host}
  s1: {kind: switch, openflow: OPENFLOW}
links:
  - {name: path0, between: [client, s1], rate: 5mbit, delay: 20ms, queue: 40packets}
  - {name: exit, between: [s1, server]}
"""
# The goodput of TCP over a path of 5 Mbit/s, 1448 of 1514 bytes. A machine without overload reaches it.
CEILING = 5e6 * 1448 / 1514
KEEPS_UP = 0.8


def lacks(*kinds: str) -> bool:
    return bool(capability.missing_qdiscs(kinds))


needs_netem = pytest.mark.skipif(lacks("netem"), reason="this kernel has no netem")
needs_switches = pytest.mark.skipif(not capability.kernel_switches(), reason="this kernel has no Open vSwitch")


def write(folder: Path, topology: str, protocol: str, seconds: int = 5) -> None:
    (folder / "topo.yaml").write_text(topology)
    (folder / "xp.yaml").write_text(BULK.replace("SECONDS", f"{seconds}s").replace("PROTOCOL", protocol))


def run(mprun: Callable[..., Result], folder: Path, topology: str, protocol: str = "protocol: mptcp") -> Result:
    write(folder, topology, protocol)
    result = mprun("-t", "topo", "-x", "xp", "--engine", "real", "--json")
    assert result.status == 0, result.out + result.err
    return result


def test_doctor_tells_of_this_kernel(mprun: Callable[..., Result]) -> None:
    done = mprun("doctor", "--json")
    checks = {check["name"]: check for check in json.loads(done.out)}
    assert all(checks[f"kernel: {name}"]["ok"] for name in ("mptcp", "tbf", "netem", "openvswitch"))
    assert checks["mptcp: limits"]["says"] == "8 additional subflows, 8 accepted addresses"
    major, minor = map(int, re.findall(r"\d+", platform.release())[:2])
    assert machine_mptcp.find_schedulers().has_sysctl == ((major, minor) >= (6, 6))


@needs_netem
@pytest.mark.parametrize("addressing", ["ipv4", "ipv6"])
def test_mptcp_over_delay_jitter_and_loss(mprun: Callable[..., Result], tmp_path: Path, addressing: str) -> None:
    result = run(mprun, tmp_path, TWO_PATHS.replace("ADDRESSING", addressing))
    assert result.metric("bulk.subflows") == 2
    # each direction adds 20 ms, and jitter reduces each by at most 2 ms
    assert result.metric("path0.rtt") >= 0.036
    shares = [result.metric(f"bulk.share.path{n}") for n in (0, 1)]
    assert sum(shares) == pytest.approx(1)
    # loss is random: in 5 s a path carries about 2000 packets and loses 2
    assert min(shares) > 0.25


def test_another_scheduler_is_refused_by_name(mprun: Callable[..., Result], tmp_path: Path) -> None:
    """A kernel that would accept any name and run its default refuses the name too."""
    write(tmp_path, TWO_PATHS.replace("ADDRESSING", "ipv4"), "protocol: mptcp")
    text = (tmp_path / "xp.yaml").read_text()
    (tmp_path / "xp.yaml").write_text(text.replace("fullmesh}", "fullmesh, scheduler: roundrobin}", 1))
    refused = mprun("-t", "topo", "-x", "xp", "--engine", "real")
    assert refused.status == 3
    assert "has no scheduler 'roundrobin' (it has: default" in refused.err


@needs_switches
@needs_netem
@pytest.mark.parametrize("openflow", ["{mode: learning}", "{mode: reactive}", "FLOWS"])
def test_switches(mprun: Callable[..., Result], tmp_path: Path, openflow: str) -> None:
    flows = '{flows: ["in_port=path0,actions=output:exit", "in_port=exit,actions=output:path0"]}'
    result = run(mprun, tmp_path, SWITCHED.replace("OPENFLOW", openflow.replace("FLOWS", flows)), "protocol: tcp")
    assert KEEPS_UP * CEILING < result.metric("bulk.goodput") < CEILING


@needs_netem
@pytest.mark.parametrize("tool", ["iperf3", "netperfmeter"])
def test_sctp_of_the_kernel(mprun: Callable[..., Result], tmp_path: Path, tool: str) -> None:
    one = "version: 1\ntopology: multi-path\npaths: [{rate: 5mbit, delay: 20ms, queue: 40packets}]\n"
    write(tmp_path, one, "protocol: sctp")
    text = (tmp_path / "xp.yaml").read_text().replace("tool: iperf3", f"tool: {tool}")
    (tmp_path / "xp.yaml").write_text(re.sub(r"hosts:\n(  .*\n)+", "", text))
    result = mprun("-t", "topo", "-x", "xp", "--engine", "real", "--json")
    assert result.status == 0, result.out + result.err
    # 1452 bytes of payload in a frame of 1514
    assert KEEPS_UP * CEILING < result.metric("bulk.goodput") < 5e6 * 1452 / 1514


@needs_netem
def test_a_middlebox_without_joins_is_blamed(mprun: Callable[..., Result], tmp_path: Path) -> None:
    topology = TWO_PATHS.replace("ADDRESSING", "ipv4") + "middleboxes: {router: {strip: [mp_join]}}\n"
    write(tmp_path, topology, "protocol: mptcp")
    result = mprun("-t", "topo", "-x", "xp", "--engine", "real", "--json")
    assert result.status == 1, result.out + result.err
    assert result.metric("bulk.subflows") == 1
    assert "middlebox 'router' removed MP_JOIN from" in result.out


@needs_netem
def test_links_are_calibrated(mprun: Callable[..., Result], tmp_path: Path) -> None:
    """Each direction of each link is measured for all its configured values. The tolerance depends on the machine."""
    write(tmp_path, TWO_PATHS.replace("ADDRESSING", "ipv4"), "protocol: mptcp")
    result = mprun("calibrate", "-t", "topo", "--engine", "real", "--json")
    rows = json.loads(result.out)["rows"]
    assert {(row["link"], row["direction"], row["quantity"]) for row in rows} >= {
        (f"path{n}", direction, quantity)
        for n in (0, 1)
        for direction in ("forward", "reverse")
        for quantity in ("rate", "delay")
    }
    assert all(row["got"] == pytest.approx(5e6, rel=0.1) for row in rows if row["quantity"] == "rate")


@needs_netem
def test_captures_under_this_machines_rules(mprun: Callable[..., Result], tmp_path: Path) -> None:
    """AppArmor's profile of tcpdump allows only some names, and refuses preloaded libraries."""
    write(tmp_path, TWO_PATHS.replace("ADDRESSING", "ipv4"), "protocol: mptcp")
    with (tmp_path / "xp.yaml").open("a") as file:
        file.write("  - {host: server, snaplen: 100, size: 3mb, keep: last}\n")
        file.write("  - {host: client, link: path0, snaplen: 100, size: 50kb}\n")
    result = mprun("-t", "topo", "-x", "xp", "--engine", "real", "--json")
    assert result.status == 0, result.out + result.err
    captures = result.summary["captures"]
    assert set(captures) == {"client", "server", "client-path0"}
    assert captures["client-path0"]["packets"] < captures["client-path0"]["passed"]
    assert all(capture["packets"] > 100 for capture in captures.values())
    assert "ERROR" not in "".join(path.read_text() for path in result.run.glob("logs/*.err"))
    confined = Path("/sys/kernel/security/apparmor/profiles")
    if os.geteuid() == 0 and confined.exists():
        is_confined = "tcpdump (enforce)" in confined.read_text()
        assert capability.can_buffer_captures() != is_confined


@needs_netem
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
def test_what_ends_a_run_leaves_nothing_and_keeps_packets(tmp_path: Path, number: signal.Signals) -> None:
    write(tmp_path, TWO_PATHS.replace("ADDRESSING", "ipv4"), "protocol: mptcp", seconds=3000)
    status, _ = interrupt_when("bulk", number, "-t", "topo", "-x", "xp", "--engine", "real", cwd=tmp_path)
    if number == signal.SIGKILL:
        assert status == -number
        # the next run removes the files in the temporary directory
        write(tmp_path, TWO_PATHS.replace("ADDRESSING", "ipv4"), "protocol: mptcp", seconds=1)
        assert call("-t", "topo", "-x", "xp", "--engine", "real", cwd=tmp_path).status == 0
        return
    assert status == 130
    said = (tmp_path / "runs/latest/logs/capture.client.err").read_text()
    assert (tcpdump.passed(said) or 0) > 0
    assert tcpdump.lost(said) == 0


@needs_netem
def test_the_first_lab_at_a_rate_that_a_slow_machine_carries(tmp_path: Path) -> None:
    """All claims of the lab decide: TCP's rate, the ratio to MPTCP's, subflows and shares."""
    rate = ("-p", "rate=5mbit")
    done = call("lab", "run", "01", *rate, "--engine", "real", "--json", "-o", tmp_path / "runs", cwd=tmp_path)
    claims = [claim for one in json.loads(done.out) for claim in one["claims"]]
    print("\n".join(f"{claim['verdict']}: {claim['says']} {claim['comparisons']}" for claim in claims))
    assert {claim["verdict"] for claim in claims} == {"held"}
    assert len(claims) == 5
    assert done.status == 0, done.out + done.err
