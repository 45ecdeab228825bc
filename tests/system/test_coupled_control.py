# SPDX-License-Identifier: Apache-2.0
"""Coupled congestion control: fair at a shared bottleneck, fast without one, and according to the formula."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.system.conftest import Result

WINDOW = "snd_cwnd_packets"
SHARED = """\
version: 1
topology: dumbbell
pairs: 2
bottleneck: {rate: 20mbit, delay: 10ms, queue: 1bdp}
"""
AGAINST_RENO = """\
version: 1
params: {control: reno}
hosts:
  client0:
    mptcp: {path_manager: ndiffports, subflows_per_pair: 4}
    sysctl: {net.ipv4.tcp_congestion_control: "{{ control }}"}
  client1: {sysctl: {net.ipv4.tcp_congestion_control: reno}}
traffic:
  - {name: multi, tool: iperf3, from: client0, to: server0, protocol: mptcp, duration: 100s}
  - {name: single, tool: iperf3, from: client1, to: server1, duration: 100s}
"""
APART = """\
version: 1
topology: multi-path
params: {delay1: 10ms}
paths:
  - {rate: 20mbit, delay: 10ms, queue: 1bdp}
  - {rate: 20mbit, delay: "{{ delay1 }}", queue: 1bdp}
"""
BULK = """\
version: 1
params: {control: reno}
hosts:
  client:
    mptcp: {path_manager: fullmesh}
    sysctl: {net.ipv4.tcp_congestion_control: "{{ control }}"}
  server: {mptcp: {path_manager: fullmesh}}
traffic: [{name: bulk, tool: iperf3, from: client, to: server, protocol: mptcp, duration: 30s}]
"""
ON_TCP = BULK.replace("protocol: mptcp, ", "").replace("path_manager: fullmesh", "path_manager: default")
# Payload of a segment with MPTCP's DSS option.
SEGMENT_BYTES = 1424


Calls = dict[tuple[str, ...], Result]


@pytest.fixture(scope="module")
def earlier() -> Calls:
    """Return a store of earlier results. Equal runs repeat to the byte, so each run is needed only once."""
    return {}


@pytest.fixture
def run(mprun: Callable[..., Result], tmp_path: Path, earlier: Calls) -> Callable[..., Result]:
    for name, text in (
        ("shared", SHARED),
        ("against", AGAINST_RENO),
        ("apart", APART),
        ("bulk", BULK),
        ("tcp", ON_TCP),
    ):
        (tmp_path / f"{name}.yaml").write_text(text)

    def call(topology: str, experiment: str, **parameters: str) -> Result:
        chosen = [word for name, value in parameters.items() for word in ("-p", f"{name}={value}")]
        words = ("-t", topology, "-x", experiment, "--json", *chosen)
        if words not in earlier:
            earlier[words] = mprun(*words)
        result = earlier[words]
        assert result.status == 0, result.out + result.err
        return result

    return call


def share_of_tcp(result: Result) -> float:
    multi, single = (result.metric(f"{name}.goodput") for name in ("multi", "single"))
    return single / (multi + single)


def test_uncoupled_subflows_take_a_share_each(run: Callable[..., Result]) -> None:
    """Four of the five flows are subflows: TCP keeps about a fifth."""
    assert 0.15 <= share_of_tcp(run("shared", "against", control="reno")) <= 0.27


@pytest.mark.parametrize("control", ["lia", "olia", "balia"])
def test_coupled_subflows_leave_tcp_its_part(run: Callable[..., Result], control: str) -> None:
    assert share_of_tcp(run("shared", "against", control=control)) >= 0.4


@pytest.mark.parametrize("control", ["lia", "olia", "balia", "wvegas"])
def test_coupled_subflows_fill_paths_of_their_own(run: Callable[..., Result], control: str) -> None:
    coupled = run("apart", "bulk", control=control).metric("bulk.goodput")
    assert coupled >= 0.9 * run("apart", "bulk").metric("bulk.goodput")


@pytest.mark.parametrize("control", ["lia", "olia", "balia", "wvegas"])
def test_on_tcp_each_does_as_reno(run: Callable[..., Result], control: str) -> None:
    assert run("apart", "tcp", control=control).metric("bulk.goodput") == run("apart", "tcp").metric("bulk.goodput")


def windows(result: Result) -> Iterator[tuple[list[dict[str, Any]], list[dict[str, Any]]]]:
    """Yield pairs of samples of all subflows of the data connection, half a second apart, without a loss between them.

    A window is halved when a loss is noticed, which is before the retransmission is sent and counted.
    """
    looks: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for sample in result.rows("sockets"):
        # the control connection sends very little
        if sample["host"] == "client" and sample["bytes_acked"] > 100_000:
            looks[sample["time_ns"]].append(sample)
    for (at, before), (later, after) in pairwise(sorted(looks.items())):
        names = [{one["local"] for one in look} for look in (before, after)]
        losses = [sum(one["retransmits_packets"] for one in look) for look in (before, after)]
        grew = all(one[WINDOW] <= other[WINDOW] for one in before for other in after if one["local"] == other["local"])
        if (
            abs(later - at - 500_000_000) < 1_000
            and len(names[0]) == 2
            and names[0] == names[1]
            and losses[0] == losses[1]
            and grew
        ):
            yield before, after


def test_lia_grows_as_rfc_6356_says(run: Callable[..., Result]) -> None:
    """Windows grow by min(alpha / total, 1 / window) per segment acknowledged, for the windows and RTTs of a trace."""
    grown = expected = 0.0
    looks = 0
    for before, after in windows(run("apart", "bulk", control="lia", delay1="30ms")):
        looks += 1
        by_name = {one["local"]: one for one in after}
        # halfway between the two samples
        middle = {
            one["local"]: (
                (one[WINDOW] + by_name[one["local"]][WINDOW]) / 2,
                (one["rtt_us"] + by_name[one["local"]]["rtt_us"]) / 2e6,
            )
            for one in before
        }
        rates = sum(window / rtt for window, rtt in middle.values())
        coupled = max(window / rtt**2 for window, rtt in middle.values()) / rates**2
        for one in before:
            name = one["local"]
            acked = (by_name[name]["bytes_acked"] - one["bytes_acked"]) / SEGMENT_BYTES
            grown += by_name[name][WINDOW] - one[WINDOW]
            expected += acked * min(coupled, 1 / middle[name][0])
    assert looks >= 20
    # windows are whole segments, and the growth in half a second is computed with the rate at its middle
    assert grown == pytest.approx(expected, rel=0.02)
