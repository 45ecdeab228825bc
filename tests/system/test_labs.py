# SPDX-License-Identifier: Apache-2.0
"""The labs show what they are published for; figures in the virtual engine."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.system.conftest import ROOT, Result

PATH_MANAGER = ROOT / "labs" / "03_path_manager"


@pytest.mark.parametrize(
    ("topology", "experiment", "subflows"),
    [
        ("topo_single_path", "iperf_default", 1),
        ("topo_single_path", "iperf_fullmesh", 1),
        ("topo_single_path", "iperf_ndiffports", 2),
        ("topo_two_client_paths", "iperf_default", 1),
        ("topo_two_client_paths", "iperf_fullmesh", 2),
        ("topo_two_client_paths", "iperf_ndiffports", 2),
        ("topo_two_client_paths_two_server_paths", "iperf_default", 1),
        ("topo_two_client_paths_two_server_paths", "iperf_fullmesh", 4),
    ],
)
def test_subflows_of_each_path_manager(
    mprun: Callable[..., Result], topology: str, experiment: str, subflows: int
) -> None:
    result = mprun("-t", PATH_MANAGER / topology, "-x", PATH_MANAGER / experiment, "--engine", "virtual", "--json")
    assert result.status == 0, result.out + result.err
    assert result.metric("bulk.subflows") == subflows
    assert joins(result.run / "pcap" / "client.pcap") == subflows - 1
    # the server's second address is learnt by ADD_ADDR, and by nothing else
    announced = tshark(result.run / "pcap" / "client.pcap", "tcp.options.mptcp.subtype == 3")
    assert bool(announced) == (topology.endswith("server_paths") and experiment == "iperf_fullmesh")


def tshark(capture: Path, condition: str) -> list[str]:
    """Source port of each packet for which a display filter holds."""
    argv = ["tshark", "-r", str(capture), "-Y", condition, "-T", "fields", "-e", "tcp.srcport"]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.split()


def joins(capture: Path) -> int:
    """Subflows that joined the connection that carried the data: SYNs with MP_JOIN, acknowledged."""
    answered = tshark(capture, "tcp.flags.syn == 1 && tcp.flags.ack == 1 && tcp.options.mptcp.subtype == 1")
    connections = tshark(capture, "tcp.flags.syn == 1 && tcp.flags.ack == 0 && tcp.options.mptcp.subtype == 0")
    # iperf3's control connection is one too and has as many
    return len(answered) // len(connections)


def test_uncoupled_subflows_share_each_bottleneck(mprun: Callable[..., Result]) -> None:
    """20 Mbit/s carry 19.1 of TCP: both paths alone, then shared by halves with a TCP connection each."""
    lab = ROOT / "labs" / "05_congestion_control"
    result = mprun("-t", lab / "topo_cong", "-x", lab / "iperf_scenario_reno_1sf", "--engine", "virtual", "--json")
    assert result.status == 0, result.out + result.err
    assert result.summary["warnings"] == []
    report = json.loads((result.run / "logs" / "multipath.out").read_text())
    intervals = [interval["sum"]["bytes"] * 8 for interval in report["server_output_json"]["intervals"]]
    # Reno needs some seconds to give way: the middle of each phase of ten
    phases = [sum(intervals[start + 3 : start + 9]) / 6e6 for start in range(0, 50, 10)]
    assert phases == pytest.approx([38, 28.5, 17, 28, 38], abs=3)


@pytest.mark.parametrize(("control", "starves"), [("reno", True), ("olia", False)])
def test_four_subflows_starve_tcp_unless_they_are_coupled(
    mprun: Callable[..., Result], control: str, starves: bool
) -> None:
    """Of five flows at each bottleneck one is TCP: Reno leaves it a fifth of 20 Mbit/s, and coupled ones a half."""
    lab = ROOT / "labs" / "05_congestion_control"
    experiment = lab / f"iperf_scenario_{control}_4sf"
    result = mprun("-t", lab / "topo_cong", "-x", experiment, "--engine", "virtual", "--json")
    assert result.status == 0, result.out + result.err
    assert result.metric("multipath.subflows") == 8
    fair = 20e6 / 2
    for flow in ("tcp0.goodput", "tcp1.goodput"):
        assert result.metric(flow) < 0.5 * fair if starves else result.metric(flow) > 0.7 * fair
