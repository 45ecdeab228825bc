# SPDX-License-Identifier: Apache-2.0
"""IPv6 and dual stack in the virtual engine: lab 01's figures, and no unsolicited packets on the wire."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.system.conftest import LAB, Result

PATHS = """\
paths:
  - {rate: 20mbit, delay: 20ms, queue: 80packets%s}
  - {rate: 20mbit, delay: 20ms, queue: 80packets%s}
"""
EXPERIMENT = """\
version: 1
hosts:
  client: {mptcp: {path_manager: fullmesh}}
  server: {mptcp: {path_manager: fullmesh}}
traffic:
  - {name: bulk, tool: iperf3, from: client, to: server, protocol: mptcp, duration: 10s%s}
capture:
  - {host: client, snaplen: 120}
  - {host: server, snaplen: 120}
"""
# The goodput of 20 Mbit/s over IPv6 (RFC 8200: a header of 40 bytes): 1428 bytes of payload in a frame of 1514. MPTCP
# takes 20 of these bytes for the DSS option with a data sequence number of 64 bits and an acknowledgement of 32 bits
# (RFC 8684 3.3). So two paths carry at most 37.2 Mbit/s.
TCP_CEILING = 20e6 * 1428 / 1514
MPTCP_CEILING = 2 * 20e6 * 1408 / 1514
# Packets that a host sends unsolicited: neighbour discovery, MLD, router discovery, ARP.
UNASKED = "arp || (icmpv6 && icmpv6.type != 128 && icmpv6.type != 129)"


def packets(run: Path, host: str, wanted: str) -> int:
    argv = ["tshark", "-r", str(run / "pcap" / f"{host}.pcap"), "-Y", wanted]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    return len(done.stdout.splitlines())


def run(mprun: Callable[..., Result], folder: Path, addressing: str, paths: tuple[str, str], flow: str = "") -> Result:
    (folder / "topo.yaml").write_text(f"version: 1\ntopology: multi-path\naddressing: {addressing}\n{PATHS % paths}")
    (folder / "xp.yaml").write_text(EXPERIMENT % flow)
    result = mprun("-t", "topo", "-x", "xp", "--engine", "virtual", "--json")
    assert result.status == 0, result.out + result.err
    for host in ("client", "server"):
        assert packets(result.run, host, UNASKED) == 0
    return result


def test_tcp_over_ipv6_gets_what_its_header_leaves(mprun: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "topo.yaml").write_text(f"version: 1\ntopology: multi-path\naddressing: ipv6\n{PATHS % ('', '')}")
    result = mprun("-t", "topo", "-x", LAB / "xp_tcp", "--engine", "virtual", "--json")
    assert 0.985 * TCP_CEILING <= result.metric("bulk.goodput") <= TCP_CEILING


def test_two_paths_over_ipv6(mprun: Callable[..., Result], tmp_path: Path) -> None:
    result = run(mprun, tmp_path, "ipv6", ("", ""))
    assert 0.97 * MPTCP_CEILING <= result.metric("bulk.goodput") <= MPTCP_CEILING
    assert result.metric("bulk.subflows") == 2
    assert result.metric("bulk.share.path0") == pytest.approx(0.5, abs=0.03)
    for path in ("path0", "path1"):
        assert result.metric(f"{path}.rtt") == pytest.approx(0.04 + 2 * 118 * 8 / 20e6, abs=2e-6)
    assert packets(result.run, "client", "ip") == 0
    same = mprun("verify", result.run)
    assert same.status == 0, same.err


def test_a_connection_with_a_subflow_of_each_family(mprun: Callable[..., Result], tmp_path: Path) -> None:
    result = run(mprun, tmp_path, "both", (", addressing: ipv4", ", addressing: ipv6"))
    assert result.metric("bulk.subflows") == 2
    assert 36e6 <= result.metric("bulk.goodput") <= 2 * TCP_CEILING
    for path in ("path0", "path1"):
        assert result.metric(f"bulk.share.{path}") == pytest.approx(0.5, abs=0.03)
    # MP_CAPABLE over IPv6, MP_JOIN over IPv4: the SYNs of iperf3's two connections
    syn = "tcp.flags.syn == 1 && tcp.flags.ack == 0 && tcp.options.mptcp.subtype"
    assert (
        packets(result.run, "client", f"ipv6 && {syn} == 0") == packets(result.run, "client", f"ip && {syn} == 1") == 2
    )
    same = mprun("verify", result.run)
    assert same.status == 0, same.err


def test_dual_stack_has_a_subflow_for_each_pair_of_addresses(mprun: Callable[..., Result], tmp_path: Path) -> None:
    result = run(mprun, tmp_path, "both", ("", ""))
    assert result.metric("bulk.subflows") == 4
    shares = [result.metric(f"bulk.share.path{n}-{family}") for n in (0, 1) for family in ("ipv4", "ipv6")]
    assert sum(shares) == pytest.approx(1)
    assert min(shares) > 0.02


@pytest.mark.parametrize("tool", ["http", "https"])
def test_a_web_server_takes_joins_of_both_families(mprun: Callable[..., Result], tmp_path: Path, tool: str) -> None:
    (tmp_path / "topo.yaml").write_text(f"version: 1\ntopology: multi-path\naddressing: both\n{PATHS % ('', '')}")
    flow = f"{{name: web, tool: {tool}, from: client, to: server, protocol: mptcp, sizes: [5mb]}}"
    hosts = EXPERIMENT[: EXPERIMENT.index("traffic:")]
    (tmp_path / "xp.yaml").write_text(f"{hosts}traffic: [{flow}]\n")
    result = mprun("-t", "topo", "-x", "xp", "--engine", "virtual", "--json")
    assert result.status == 0, result.out + result.err
    assert result.metric("web.subflows") == 4
    shares = [result.metric(f"web.share.path{n}-{family}") for n in (0, 1) for family in ("ipv4", "ipv6")]
    assert sum(shares) == pytest.approx(1)
    assert min(shares) > 0.02


def test_a_socket_of_ipv4_has_subflows_of_ipv4(mprun: Callable[..., Result], tmp_path: Path) -> None:
    result = run(mprun, tmp_path, "both", ("", ""), ", family: ipv4")
    assert result.metric("bulk.subflows") == 2
    assert result.metric("bulk.share.path0-ipv4") == pytest.approx(0.5, abs=0.05)
    assert packets(result.run, "client", "ipv6 && tcp") == 0


def test_an_address_of_ipv6_comes_and_goes(mprun: Callable[..., Result], tmp_path: Path) -> None:
    """The other path stays in use, and the path whose address came back is used again."""
    events = """\
events:
  - {at: 3s, host: client, address: path1, state: removed}
  - {at: 6s, host: client, address: path1, state: added}
"""
    (tmp_path / "topo.yaml").write_text(
        f"version: 1\ntopology: multi-path\naddressing: ipv6\n{PATHS % ('', '')}{events}"
    )
    (tmp_path / "xp.yaml").write_text(EXPERIMENT % "")
    result = mprun("-t", "topo", "-x", "xp", "--engine", "virtual", "--json")
    assert result.status == 0, result.out + result.err
    assert 1.5 * 18e6 <= result.metric("bulk.goodput") <= 1.9 * TCP_CEILING
    assert 0.2 <= result.metric("bulk.share.path1") <= 0.45


@pytest.mark.alone
def test_prompt_knows_hosts_without_ipv4(mprun: Callable[..., Result], tmp_path: Path) -> None:
    from tests.system.conftest import COMMAND, environment

    (tmp_path / "topo.yaml").write_text(f"version: 1\ntopology: multi-path\naddressing: ipv6\n{PATHS % ('', '')}")
    done = subprocess.run(
        [*COMMAND, "shell", "-t", "topo", "--engine", "virtual"],
        cwd=tmp_path,
        input="client ping -c 1 server\npingall\n",
        capture_output=True,
        text=True,
        env=environment(),
        timeout=60,
    )
    assert "PING fd00:10:1::1" in done.stdout
    assert "0% dropped (6/6 received)" in done.stdout
