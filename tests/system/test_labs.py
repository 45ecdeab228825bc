# SPDX-License-Identifier: Apache-2.0
"""The labs show what they are published for; figures in the virtual engine."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.system.conftest import ROOT, Result

PATH_MANAGER = ROOT / "labs" / "03_path_manager"


@pytest.mark.parametrize(
    ("topology", "experiment", "subflows"),
    [
        ("topo_single_path", "iperf_default", 1),
        ("topo_single_path", "iperf_fullmesh", 1),
        ("topo_two_client_paths", "iperf_default", 1),
        ("topo_two_client_paths", "iperf_fullmesh", 2),
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


def run_scheduler(mprun: Callable[..., Result], part: str, experiment: str, *more: str) -> Result:
    """An experiment of lab 02; its schedulers are in experiment kernels of this version of mprun only."""
    folder = ROOT / "labs" / "02_scheduler" / part
    result = mprun("-t", folder / "topo", "-x", folder / experiment, "--engine", "virtual", "--json", *more)
    if result.status == 1 and "net.mptcp.scheduler=" in result.out:
        pytest.skip("this experiment kernel has no schedulers beside 'default'")
    assert result.status == 0, result.out + result.err
    return result


def test_the_scheduler_decides_which_round_trip_a_request_takes(mprun: Callable[..., Result]) -> None:
    """Round trips of 40 and 80 ms; 10000 bytes take seven packets, 0.8 ms at 100 Mbit/s in each direction."""
    lowest = run_scheduler(mprun, "reqres", "reqres_rtt")
    assert lowest.metric("msg.delay.min") >= 0.040
    assert lowest.metric("msg.delay.max") <= 0.042
    in_turn = run_scheduler(mprun, "msg", "reqres_rr")
    # the first before the second subflow has joined
    assert in_turn.metric("msg.delay.min") <= 0.042
    assert 0.080 <= in_turn.metric("msg.delay.median") <= 0.082


def test_two_paths_carry_a_file_sooner_than_one(mprun: Callable[..., Result]) -> None:
    one = run_scheduler(mprun, "http", "http_tcp", "-p", "size=20mb")
    # 20 MiB at 19.1 Mbit/s
    assert one.metric("http.delay.mean") == pytest.approx(8.8, abs=0.3)
    for scheduler in ("http_rtt", "http_rr"):
        both = run_scheduler(mprun, "http", scheduler, "-p", "size=20mb")
        assert both.metric("http.delay.mean") < 0.65 * one.metric("http.delay.mean")
