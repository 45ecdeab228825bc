# SPDX-License-Identifier: Apache-2.0
"""A flow that gets less than its path carries is explained, whatever its transport. The remedy of the warning works."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.system.conftest import Result

# A BDP of 18.8 MB, and one of 625 kB.
LONG, FAT = {"rate": "500mbit", "rtt": "300ms"}, {"rate": "100mbit", "rtt": "50ms"}
BOTH = ("client", "server")
Run = Callable[..., Result]


@pytest.fixture
def run(mprun: Callable[..., Result], tmp_path: Path) -> Run:
    """Return a function that runs flows, which have a tool, from client to server over one or several paths."""

    def measure(path: dict[str, str], *given: dict[str, Any], hosts: dict[str, Any] | None = None) -> Result:
        paths = [path, *(one for one in given if "tool" not in one)]
        flows = [one for one in given if "tool" in one]
        (tmp_path / "topo.yaml").write_text(yaml.safe_dump({"version": 1, "topology": "multi-path", "paths": paths}))
        duration = "10s" if path["rtt"] == LONG["rtt"] else "5s"
        traffic = [{"from": "client", "to": "server", "duration": duration, **flow} for flow in flows]
        traffic = [{key: value for key, value in flow.items() if value is not None} for flow in traffic]
        xp = {"version": 1, "probe": {"pings": 0}, "traffic": traffic, "hosts": hosts or {}}
        (tmp_path / "xp.yaml").write_text(yaml.safe_dump(xp))
        result = mprun("-t", "topo", "-x", "xp", "--engine", "virtual", "--json")
        assert result.status == 0, result.out + result.err
        return result

    return measure


def warnings_of(result: Result) -> list[str]:
    return [text for text in result.summary["warnings"] if "last third" in text]


def sysctls(*hosts: str, **values: int | str) -> dict[str, Any]:
    """Return hosts with sysctls, whose names have two underscores in place of each dot."""
    return {host: {"sysctl": {name.replace("__", "."): value for name, value in values.items()}} for host in hosts}


@pytest.mark.parametrize("protocol", ["tcp", "mptcp"])
def test_windows_of_tcp(run: Run, protocol: str) -> None:
    flow = {"name": "bulk", "tool": "iperf3", "protocol": protocol}
    [warning] = warnings_of(run(LONG, flow))
    assert re.match(
        r"bulk: \d+\.?\d* of 500 Mbit/s on path0 in its last third: its (receive window|send buffer)", warning
    )
    assert "the path holds 18.8 MB" in warning
    assert (
        "give 'server' 'sysctl: {net.ipv4.tcp_rmem: 4096 131072 37500000}', and 'client' net.ipv4.tcp_wmem" in warning
    )
    larger = sysctls(*BOTH, net__ipv4__tcp_rmem="4096 131072 37500000", net__ipv4__tcp_wmem="4096 131072 37500000")
    assert warnings_of(run(LONG, flow, hosts=larger)) == []


def test_a_flow_of_some_size(run: Run) -> None:
    """The buffers hold a flow back that ends by its size, as they do with a duration."""
    flow = {"name": "bulk", "tool": "iperf3", "duration": None, "size": "200000000bytes"}
    [warning] = warnings_of(run(LONG, flow))
    assert re.match(r"bulk: \d+\.?\d* of 500 Mbit/s on path0 in its last third: its receive window was full", warning)
    larger = sysctls(*BOTH, net__ipv4__tcp_rmem="4096 131072 37500000", net__ipv4__tcp_wmem="4096 131072 37500000")
    assert warnings_of(run(LONG, flow, hosts=larger)) == []


def test_a_short_queue(run: Run) -> None:
    flow = {"name": "bulk", "tool": "iperf3"}
    [warning] = warnings_of(run({**FAT, "queue": "5packets"}, flow))
    assert "the queue of 'path0' forward holds 5 packets and dropped" in warning
    assert warning.endswith("the path's BDP is 413 packets. Remedy: write 'queue: 1bdp'")
    assert warnings_of(run({**FAT, "queue": "1bdp"}, flow)) == []


def test_a_short_queue_under_several_subflows(run: Run) -> None:
    """MPTCP over several paths names the queue of its best path, as a flow over one path does."""
    flow = {"name": "bulk", "tool": "iperf3", "protocol": "mptcp"}
    mesh = {host: {"mptcp": {"path_manager": "fullmesh"}} for host in BOTH}
    found = run({**FAT, "queue": "5packets"}, {"rate": "10mbit", "rtt": "50ms"}, flow, hosts=mesh)
    [warning] = [text for text in found.summary["warnings"] if "of its best path's rate" in text]
    assert "the queue of 'path0' forward holds 5 packets and dropped" in warning
    assert warning.endswith("the path's BDP is 413 packets. Remedy: write 'queue: 1bdp'")


@pytest.mark.parametrize("queue", ["1packets", "5packets", "0.1bdp"])
def test_a_short_queue_of_the_slower_path(run: Run, queue: str) -> None:
    """Data behind its losses filled the send buffer, which was named with a remedy that made the flow slower."""
    flow = {"name": "bulk", "tool": "iperf3", "protocol": "mptcp", "duration": "4s"}
    mesh = {host: {"mptcp": {"path_manager": "fullmesh"}} for host in BOTH}
    fast, slow = {"rate": "20mbit", "rtt": "20ms", "queue": "60packets"}, {"rate": "10mbit", "rtt": "60ms"}
    short = run(fast, {**slow, "queue": queue}, flow, hosts=mesh)
    [warning] = [text for text in short.summary["warnings"] if "of its best path's rate" in text]
    assert re.search(r"rate: the queue of 'path1' forward holds [15] packets? and dropped \d+", warning)
    assert warning.endswith("the path's BDP is 50 packets. Remedy: write 'queue: 1bdp'")
    longer = run(fast, {**slow, "queue": "1bdp"}, flow, hosts=mesh)
    assert longer.metric("bulk.goodput") > 27e6 > 1.5 * short.metric("bulk.goodput")
    assert longer.summary["warnings"] == []


def test_short_queues_of_both_paths(run: Run) -> None:
    """A longer queue for one of them alone does not help."""
    flow = {"name": "bulk", "tool": "iperf3", "protocol": "mptcp", "duration": "4s"}
    mesh = {host: {"mptcp": {"path_manager": "fullmesh"}} for host in BOTH}
    fast, slow = {"rate": "20mbit", "rtt": "20ms"}, {"rate": "10mbit", "rtt": "60ms"}
    found = run({**fast, "queue": "5packets"}, {**slow, "queue": "5packets"}, flow, hosts=mesh)
    [warning] = [text for text in found.summary["warnings"] if "of its best path's rate" in text]
    assert "the queue of 'path0' forward" in warning
    assert "; the queue of 'path1' forward" in warning


def test_buffers_of_the_kernels_sctp(run: Run) -> None:
    flow = {"name": "bulk", "tool": "iperf3", "protocol": "sctp"}
    [warning] = warnings_of(run(FAT, flow))
    assert "its buffers were full, as no packet was lost: 105 kB in a round trip of 50ms" in warning
    assert "give 'bulk' 'window: 1250000bytes', and allow it by net.core.wmem_max and net.core.rmem_max" in warning
    allowed = sysctls(*BOTH, net__core__rmem_max=1250000, net__core__wmem_max=1250000)
    assert warnings_of(run(FAT, {**flow, "window": "1250000bytes"}, hosts=allowed)) == []


def test_buffers_of_netperfmeter(run: Run) -> None:
    flow = {"name": "bulk", "tool": "netperfmeter", "protocol": "sctp"}
    [warning] = warnings_of(run(FAT, flow))
    assert "give 'bulk' 'send_buffer: 1250000bytes', allow it by net.core.wmem_max of 'client'" in warning
    assert warning.endswith("and give 'server' 'sysctl: {net.core.rmem_default: 2500000}'")
    larger = sysctls(*BOTH, net__core__rmem_default=2500000, net__core__wmem_max=1250000)
    assert warnings_of(run(FAT, {**flow, "send_buffer": "1250000bytes"}, hosts=larger)) == []


def test_buffers_that_are_sent_in_bursts(run: Run) -> None:
    """A round trip is a twentieth of a third of the flow, and so is the burst that one third may have more."""
    flow = {"name": "bulk", "tool": "netperfmeter", "protocol": "sctp", "message": "1400bytes", "duration": "20s"}
    hosts = sysctls(*BOTH, net__core__rmem_default=638400, net__core__wmem_max=2553600)
    path = {"rate": "23254080bit", "rtt": "324864us", "queue": "624packets"}
    [warning] = warnings_of(run(path, {**flow, "send_buffer": "2553600bytes"}, hosts=hosts))
    assert "its buffers were full, as no packet was lost" in warning


def test_a_send_buffer_of_one_message_is_named_before_the_timer(run: Run) -> None:
    """Each message waits until the one before is acknowledged, and a longer timer changes nothing."""
    flow = {"name": "bulk", "tool": "sctp", "duration": "3s", "send_buffer": "1444bytes"}
    path = {"rate": "20mbit", "rtt": "20ms", "queue": "60packets"}
    [warning] = warnings_of(run(path, flow))
    assert "give 'bulk' 'send_buffer: 100000bytes'" in warning
    assert "rto_min" not in warning


def test_buffers_of_sctp_in_user_space(run: Run) -> None:
    flow = {"name": "bulk", "tool": "sctp"}
    [warning] = warnings_of(run(FAT, flow))
    assert "give 'bulk' 'send_buffer: 1250000bytes' and 'receive_buffer: 1250000bytes'" in warning
    buffers = {"send_buffer": "1250000bytes", "receive_buffer": "1250000bytes"}
    assert warnings_of(run(FAT, {**flow, **buffers})) == []


def test_a_timer_of_sctp_in_user_space(run: Run) -> None:
    """A round trip of half a second does not let the window grow again within the second until the timer expires."""
    buffers = {"receive_buffer": "212000bytes", "send_buffer": "1696000bytes"}
    flow = {"name": "bulk", "tool": "sctp", "duration": "30s", **buffers}
    path = {"rate": "20mbit", "rtt": "506ms"}
    [warning] = warnings_of(run(path, flow))
    assert re.search(
        r"its retransmission timer \(T3-rtx\) expired \d+ times in all, although no packet was lost", warning
    )
    assert warning.endswith("Remedy: give 'bulk' 'rto_min: 60s'")
    # without the timer, the buffers hold the flow back
    [warning] = warnings_of(run(path, {**flow, "rto_min": "60s"}))
    assert "its buffers were full" in warning


@pytest.mark.parametrize(
    ("path", "flows"),
    [
        pytest.param(LONG, [{"rate": "50mbit"}], id="limited-by-its-rate"),
        pytest.param(LONG, [{"duration": None, "size": "2000000bytes"}], id="ends-by-its-size"),
        pytest.param(LONG, [{"duration": "3s"}], id="short"),
        pytest.param(FAT, [{"duration": None, "size": "40000000bytes"}], id="fills-its-path-by-its-size"),
        pytest.param(FAT, [{"name": "one"}, {"name": "other"}], id="shares-the-path"),
        pytest.param({**FAT, "loss": "1%"}, [{}], id="losses-of-the-file"),
        pytest.param({**FAT, "loss": "0.1%"}, [{"protocol": "sctp"}], id="losses-of-the-file-and-sctp"),
        pytest.param(FAT, [{"reverse": True}], id="fills-its-path"),
    ],
)
def test_no_false_alarm(run: Run, path: dict[str, str], flows: list[dict[str, Any]]) -> None:
    result = run(path, *({"tool": "iperf3", **flow} for flow in flows))
    assert warnings_of(result) == []
