# SPDX-License-Identifier: Apache-2.0
"""Equal-cost multipath in the virtual engine: the ways of the flows between one pair of hosts."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.system.conftest import Result

# Two choices one after the other. The delay towards the server, 20 to 23 ms, identifies the way.
MESH = """\
version: 1
ecmp: %s
addressing: %s
nodes:
  client: {kind: host}
  in: {kind: router}
  a: {kind: router}
  b: {kind: router}
  c: {kind: router}
  d: {kind: router}
  out: {kind: router}
  server: {kind: host}
links:
  - {between: [client, in]}
  - {between: [in, a], rate: 20mbit, delay: {forward: 10ms}}
  - {between: [in, b], rate: 20mbit, delay: {forward: 11ms}}
  - {between: [a, c]}
  - {between: [a, d]}
  - {between: [b, c]}
  - {between: [b, d]}
  - {between: [c, out], rate: 20mbit, delay: {forward: 10ms}}
  - {between: [d, out], rate: 20mbit, delay: {forward: 12ms}}
  - {between: [out, server]}
"""
MANY = """\
version: 1
traffic: [{name: many, tool: iperf3, from: client, to: server, duration: 5s, parallel: 64}]
"""
# Eight subflows between one pair of addresses, which differ only in ports. They last long enough for a subflow with its
# own way to fill the way.
SUBFLOWS = """\
version: 1
hosts: {client: {mptcp: {path_manager: ndiffports, subflows_per_pair: 8}}, server: {mptcp: {path_manager: default}}}
traffic: [{name: bulk, tool: iperf3, from: client, to: server, protocol: mptcp, duration: 6s}]
capture:
  - {node: a, link: in-a, snaplen: 120}
  - {node: b, link: in-b, snaplen: 120}
  - {node: c, link: c-out, snaplen: 120}
  - {node: d, link: d-out, snaplen: 120}
"""
SUBFLOW_LINKS = ("in-a", "in-b", "c-out", "d-out")


def bytes_by_way(result: Result) -> Counter[int]:
    """Return the payload of each way by its delay in ms, from the sockets' counts and minimum round-trip times."""
    last = {row["local_port"]: row for row in result.rows("sockets") if row["host"] == "client"}
    carried: Counter[int] = Counter()
    for row in last.values():
        carried[round(row["min_rtt_us"] / 1000)] += row["bytes_acked"]
    return carried


def run(
    mprun: Callable[..., Result],
    folder: Path,
    ecmp: str,
    addressing: str,
    *arguments: object,
    experiment: str = "many",
) -> Result:
    (folder / "mesh.yaml").write_text(MESH % (ecmp, addressing))
    (folder / "many.yaml").write_text(MANY)
    (folder / "subflows.yaml").write_text(SUBFLOWS)
    result = mprun("-t", "mesh", "-x", experiment, "--engine", "virtual", "--json", *arguments)
    assert result.status == 0, result.out + result.err
    return result


@pytest.mark.parametrize("addressing", ["ipv4", "ipv6"])
def test_flows_of_two_hosts_use_all_ways(addressing: str, mprun: Callable[..., Result], tmp_path: Path) -> None:
    result = run(mprun, tmp_path, "true", addressing)
    carried = bytes_by_way(result)
    assert set(carried) == {20, 21, 22, 23}
    assert min(carried.values()) > 0.1 * carried.total()
    # two links of 20 Mbit/s, two times in series
    assert 36e6 <= result.metric("many.goodput") <= 2 * 20e6 * 1448 / 1514
    assert [text for text in result.summary["warnings"] if "4 ways of 20 to 23 ms" in text]
    same = mprun("verify", result.run)
    assert same.status == 0, same.err


def ports(result: Result, capture: str) -> Counter[str]:
    """Return the number of packets towards the server by their source port."""
    argv = ["tshark", "-r", str(result.run / "pcap" / f"{capture}.pcap"), "-Y", "tcp.dstport == 5201"]
    argv += ["-T", "fields", "-e", "tcp.srcport"]
    return Counter(subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split())


@pytest.mark.parametrize("addressing", ["ipv4", "ipv6"])
def test_each_subflow_has_one_way_and_keeps_it(addressing: str, mprun: Callable[..., Result], tmp_path: Path) -> None:
    result = run(mprun, tmp_path, "true", addressing, experiment="subflows")
    seen = {name: ports(result, f"{name}-{link}") for name, link in zip("abcd", SUBFLOW_LINKS, strict=True)}
    # eight subflows, and iperf3's control connection with as many
    assert len(seen["a"] | seen["b"]) == 16
    for one, other in ("ab", "cd"):
        assert not seen[one].keys() & seen[other].keys()
        assert (seen[one] + seen[other]).keys() == (seen["a"] + seen["b"]).keys()
        # each way has at least one data subflow; subflows of iperf3's control connection have about ten packets
        assert min(max(seen[one].values()), max(seen[other].values())) > 100
    assert len({(port in seen["a"], port in seen["c"]) for port in seen["a"] | seen["b"]}) == 4
    assert result.metric("bulk.subflows") == 8
    # more than a single link carries
    assert result.metric("bulk.goodput") > 20e6 * 1448 / 1514


def test_another_seed_spreads_otherwise(mprun: Callable[..., Result], tmp_path: Path) -> None:
    spread = [bytes_by_way(run(mprun, tmp_path, "true", "ipv4", "--seed", seed)) for seed in (1, 2)]
    assert spread[0] != spread[1]


def test_without_it_all_take_one_way(mprun: Callable[..., Result], tmp_path: Path) -> None:
    result = run(mprun, tmp_path, "false", "ipv4")
    assert len(bytes_by_way(result)) == 1
    assert result.metric("many.goodput") <= 20e6 * 1448 / 1514


def test_a_link_that_is_down_is_not_a_way(mprun: Callable[..., Result], tmp_path: Path) -> None:
    """A link of two between the routers goes down. Both routers notice it, and all flows continue."""
    (tmp_path / "topo.yaml").write_text(
        "version: 1\necmp: true\n"
        "nodes: {client: {kind: host}, r: {kind: router}, s: {kind: router}, server: {kind: host}}\n"
        "links:\n"
        "  - {between: [client, r]}\n"
        "  - {name: one, between: [r, s], rate: 20mbit, delay: 10ms}\n"
        "  - {name: two, between: [r, s], rate: 20mbit, delay: 10ms}\n"
        "  - {between: [s, server]}\n"
        "events: [{at: 3s, link: one, state: down}, {at: 6s, link: two, state: down}, {at: 6s, link: one, state: up}]\n"
    )
    (tmp_path / "xp.yaml").write_text(
        "version: 1\ntraffic: [{name: many, tool: iperf3, from: client, to: server, duration: 9s, parallel: 32}]\n"
    )
    result = mprun("-t", "topo", "-x", "xp", "--engine", "virtual", "--json")
    assert result.status == 0, result.out + result.err
    # 3 s over both links, then 6 s over one
    assert 20e6 <= result.metric("many.goodput") <= 4 / 3 * 20e6 * 1448 / 1514
