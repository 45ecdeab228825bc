# SPDX-License-Identifier: Apache-2.0
"""A run warns of changes after its last flow, of packets that full sockets dropped, and of time without packets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.scenes import ONE_PATH
from tests.system.conftest import Result


def run(mprun: Callable[..., Result], folder: Path, topology: str, flow: str) -> Result:
    (folder / "topo.yaml").write_text(topology)
    (folder / "xp.yaml").write_text(
        f"version: 1\nprobe: {{pings: 0}}\ntraffic:\n  - {{name: bulk, from: client, to: server, {flow}}}\n"
    )
    result = mprun("-t", "topo", "-x", "xp", "--engine", "virtual", "--json")
    assert result.status == 0, result.err
    return result


def test_changes_after_the_end_of_a_flow_by_size(mprun: Callable[..., Result], tmp_path: Path) -> None:
    """20 MB take less than 9 s at 20 Mbit/s."""
    events = "events:\n  - {at: AT, link: path0, set: {loss: 100%}}\n  - {at: 25s, link: path0, set: {loss: 0%}}\n"
    flow = "tool: iperf3, size: 20000000bytes"
    [warning] = run(mprun, tmp_path, ONE_PATH + events.replace("AT", "20s"), flow).summary["warnings"]
    assert warning.startswith("events: no change of link 'path0' had an effect: the first is at 20s, and the last flow")
    early = events.replace("100%", "1%").replace("AT", "100ms")
    assert run(mprun, tmp_path, ONE_PATH + early, flow).summary["warnings"] == []


def test_losses_in_the_receivers_socket(mprun: Callable[..., Result], tmp_path: Path) -> None:
    """The receiver cannot read 20 Gbit/s, and no link has a rate."""
    result = run(
        mprun,
        tmp_path,
        "version: 1\ntopology: multi-path\npaths: [{delay: 1ms}]\n",
        "tool: iperf3, protocol: udp, rate: 20gbit, duration: 1s",
    )
    assert result.metric("bulk.loss") > 0
    [warning] = result.summary["warnings"]
    assert warning.startswith("server: dropped ")
    assert "UDP packets at full sockets (UdpRcvbufErrors)" in warning


def test_time_before_the_first_packet(mprun: Callable[..., Result], tmp_path: Path) -> None:
    """iperf3's receiver counts 0.4 of 2 s in which no packet can arrive, so its goodput is a fifth too low."""
    topology = "version: 1\ntopology: multi-path\npaths: [{rate: 10mbit, rtt: 400ms}]\n"
    flow = "tool: iperf3, protocol: udp, rate: 1mbit"
    late = run(mprun, tmp_path, topology, f"{flow}, duration: 2s")
    assert late.metric("bulk.goodput") == pytest.approx(0.8e6, rel=0.01)
    [warning] = late.summary["warnings"]
    assert warning == (
        "bulk: its goodput counts 400ms before its first packet could arrive, 20% of its time, as iperf3 begins to "
        "count a round trip too early. Remedy: write a longer 'duration' and 'omit: {start: 1s}', or 'tool: udp'"
    )
    for more in ("duration: 3s, omit: {start: 1s}", "duration: 2s, reverse: true"):
        full = run(mprun, tmp_path, topology, f"{flow}, {more}")
        assert full.metric("bulk.goodput") == pytest.approx(1e6, rel=0.01)
        assert full.summary["warnings"] == []
