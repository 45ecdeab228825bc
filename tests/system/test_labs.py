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
