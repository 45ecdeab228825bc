# SPDX-License-Identifier: Apache-2.0
"""Warnings of flows that offer more than the links on their way carry, alone or together."""

from __future__ import annotations

from pathlib import Path

import pytest

from mprun.inputs.loading import load

ONE = "topology: multi-path\npaths: [{rate: 10mbit, delay: 5ms}]"
ASYMMETRIC = "topology: multi-path\npaths: [{rate: {forward: 2mbit, reverse: 50mbit}, delay: 5ms}]"
RISING = f"{ONE}\nevents: [{{at: 1s, link: path0, set: {{rate: 50mbit}}}}]"
MIDDLE = """\
nodes: {a: {kind: host}, b: {kind: host}, r1: {kind: router}, r2: {kind: router}}
links:
  - {between: [a, r1], rate: 100mbit}
  - {between: [r1, r2], rate: 3mbit}
  - {between: [r2, b], rate: 100mbit}"""
# two ways of one router, and a wide detour over two routers that no route takes
SQUARE = """\
nodes:
  {a: {kind: host}, b: {kind: host}, r1: {kind: router}, r2: {kind: router}, r3: {kind: router}, r4: {kind: router},
   r5: {kind: router}}
links:
  - {between: [a, r1]}
  - {between: [r1, r2], rate: 4mbit}
  - {between: [r1, r3], rate: 5mbit}
  - {between: [r1, r5], rate: 100mbit}
  - {between: [r5, r2], rate: 100mbit}
  - {between: [r2, r4]}
  - {between: [r3, r4]}
  - {between: [r4, b]}"""
LOST = "the rest will be lost or wait"


def flow(ends: str, rate: str, more: str = "duration: 2s") -> str:
    return f"{{tool: iperf3, from: {ends[0]}, to: {ends[1]}, protocol: udp, rate: {rate}, {more}}}"


def warn(folder: Path, topology: str, *flows: str) -> list[str]:
    """Return the warnings of some flows, where `c` and `s` stand for client and server."""
    (folder / "topo.yaml").write_text(f"version: 1\n{topology}\n")
    lines = [flow.replace("from: c,", "from: client,").replace("to: s,", "to: server,") for flow in flows]
    (folder / "xp.yaml").write_text("version: 1\ntraffic:\n" + "".join(f"  - {line}\n" for line in lines))
    warnings = load(folder / "topo.yaml", folder / "xp.yaml").warnings
    return [one.split(".rate: ")[1].removesuffix(f": {LOST}") for one in warnings]


@pytest.mark.parametrize(
    ("topology", "ends", "rate", "more", "most"),
    [
        pytest.param(ASYMMETRIC, "cs", "20mbit", "duration: 2s", "2mbit", id="the-narrow-direction"),
        pytest.param(ASYMMETRIC, "cs", "20mbit", "duration: 2s, reverse: true", None, id="the-wide-direction"),
        pytest.param(ASYMMETRIC, "cs", "20mbit", "duration: 2s, bidirectional: true", "2mbit", id="both-directions"),
        pytest.param(MIDDLE, "ab", "4mbit", "duration: 2s", "3mbit", id="a-link-in-the-middle"),
        pytest.param(MIDDLE, "ab", "3mbit", "duration: 2s", None, id="as-much-as-the-middle"),
        pytest.param(SQUARE, "ab", "6mbit", "duration: 2s", "5mbit", id="the-wider-of-two-ways"),
        pytest.param(SQUARE, "ab", "5mbit", "duration: 2s", None, id="one-of-two-ways-carries-it"),
        pytest.param(RISING, "cs", "20mbit", "duration: 2s, start: 1s", None, id="a-rate-that-rises"),
        pytest.param(ONE, "cs", "4mbit", "duration: 2s, parallel: 3", "10mbit", id="parallel-connections"),
    ],
)
def test_one_flow(tmp_path: Path, topology: str, ends: str, rate: str, more: str, most: str | None) -> None:
    offered = "amounts to 12mbit over 3 connections and " if "parallel" in more else ""
    wanted = [f"{offered}is above {most}, what its links carry"] if most else []
    assert warn(tmp_path, topology, flow(ends, rate, more)) == wanted


@pytest.mark.parametrize(
    ("topology", "ends", "starts", "left"),
    [
        pytest.param(ONE, "cs", ("start: 0s", "start: 1s"), "4mbit", id="at-the-same-time"),
        pytest.param(ONE, "cs", ("start: 0s", "start: 2s"), None, id="one-after-the-other"),
        pytest.param(ONE, "cs", ("start: 0s", "start: {after: iperf3}"), None, id="after-the-end"),
        pytest.param(ONE, "cs", ("start: 0s", "reverse: true"), None, id="in-two-directions"),
    ],
)
def test_two_flows(tmp_path: Path, topology: str, ends: str, starts: tuple[str, str], left: str | None) -> None:
    flows = [flow(ends, "6mbit", f"duration: 2s, {start}") for start in starts]
    names = ("iperf3-2", "iperf3")
    told = [f"is above {left}, what its links carry beside '{name}' at the same time" for name in names]
    assert warn(tmp_path, topology, *flows) == (told if left else [])


def test_flows_that_may_take_two_ways(tmp_path: Path) -> None:
    """Two flows of 4 Mbit/s fit into ways of 4 and 5 Mbit/s, a third one does not."""
    assert warn(tmp_path, SQUARE, flow("ab", "4mbit"), flow("ab", "4mbit")) == []
    assert len(warn(tmp_path, SQUARE, *[flow("ab", "4mbit")] * 3)) == 3


def test_a_flow_that_ends_by_its_size_lasts_as_long_as_its_rate_needs(tmp_path: Path) -> None:
    """At 6 Mbit/s 1.5 MB take 2 s."""
    first = flow("cs", "6mbit", "size: 1500000bytes")
    assert len(warn(tmp_path, ONE, first, flow("cs", "6mbit", "duration: 1s, start: 1900ms"))) == 2
    assert warn(tmp_path, ONE, first, flow("cs", "6mbit", "duration: 1s, start: 2s")) == []


def test_repetitions_count_as_flows_of_their_own(tmp_path: Path) -> None:
    more = "duration: 2s, repeat: {times: 3, interval: INTERVAL}"
    assert len(warn(tmp_path, ONE, flow("cs", "6mbit", more.replace("INTERVAL", "1s")))) == 1
    assert warn(tmp_path, ONE, flow("cs", "6mbit", more.replace("INTERVAL", "2s"))) == []
