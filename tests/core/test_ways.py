# SPDX-License-Identifier: Apache-2.0
"""The ways of packets before routes are known, against the routes."""

from __future__ import annotations

import random
from itertools import permutations
from pathlib import Path

import pytest

from mprun.compile.allocate import allocate
from mprun.inputs.loading import load
from mprun.inputs.ways import FlowPaths, Ways


def flow(ends: tuple[str, ...]) -> str:
    return "  - {{name: {0}{1}, tool: iperf3, from: {0}, to: {1}, duration: 1s}}\n".format(*ends)


def draw(seed: int) -> str:
    """Return a random topology in which all hosts are joined. Each host has one link, to a switch or a router."""
    chance = random.Random(seed)
    routers = [f"r{n}" for n in range(chance.randint(1, 5))]
    switches = [f"s{n}" for n in range(chance.randint(0, 4))]
    inner = [*routers, *switches]
    pairs = [(inner[n], chance.choice(inner[:n])) for n in range(1, len(inner))]
    # a segment whose switches have a loop has no tree, and is refused
    pairs += [(a, b) for _ in range(chance.randint(0, 4)) if len(routers) > 1 for a, b in [chance.sample(routers, 2)]]
    pairs += [(host, chance.choice(inner)) for host in ("a", "b", "c")]
    kinds = {**dict.fromkeys("abc", "host"), **dict.fromkeys(routers, "router"), **dict.fromkeys(switches, "switch")}
    nodes = ", ".join(f"{name}: {{kind: {kind}}}" for name, kind in kinds.items())
    links = "".join(f"  - {{name: l{n}, between: [{a}, {b}]}}\n" for n, (a, b) in enumerate(pairs))
    return f"version: 1\necmp: true\nnodes: {{{nodes}}}\nlinks:\n{links}"


@pytest.mark.parametrize("seed", range(60))
def test_ways_are_those_of_the_routes(seed: int, tmp_path: Path) -> None:
    """A host has one gateway, so its packets may not take all ways if several routers are beside it."""
    (tmp_path / "topo.yaml").write_text(draw(seed))
    (tmp_path / "xp.yaml").write_text(f"version: 1\ntraffic:\n{''.join(map(flow, permutations('abc', 2)))}")
    spec = load(tmp_path / "topo.yaml", tmp_path / "xp.yaml").spec
    network, ways = allocate(spec), Ways(spec.topology)
    named = FlowPaths(ways, spec.experiment)
    for one in spec.experiment.traffic:
        [path], [routed] = named.of(one), network.paths_of(one)
        crossings = ways.between((one.source, path.first_link), (one.destination, path.last_link), "ipv4")
        found = {name for name, _, _ in crossings}
        assert {*routed.links} <= found
        beside = {end for name, start, end in crossings if start == one.source}
        if spec.topology.nodes[beside.pop()] == "router":
            assert {*routed.links} == found


def test_a_switch_beside_the_way_is_not_crossed(tmp_path: Path) -> None:
    nodes = "{a: {kind: host}, s: {kind: switch}, stub: {kind: switch}, r: {kind: router}, b: {kind: host}}"
    links = [("a", "s", 1500), ("s", "stub", 1000), ("s", "r", 1500), ("r", "b", 1400)]
    written = "".join(f"  - {{name: {x}{y}, between: [{x}, {y}], mtu: {mtu}}}\n" for x, y, mtu in links)
    (tmp_path / "topo.yaml").write_text(f"version: 1\nnodes: {nodes}\nlinks:\n{written}")
    (tmp_path / "xp.yaml").write_text(f"version: 1\ntraffic:\n{flow(('a', 'b'))}")
    spec = load(tmp_path / "topo.yaml", tmp_path / "xp.yaml").spec
    paths = FlowPaths(Ways(spec.topology), spec.experiment)
    assert paths.used_links[0][1] == {"as", "sr", "rb"}
    [path] = paths.of(spec.experiment.traffic[0])
    assert paths.ways.find_mtu(spec.experiment.traffic[0], path) == 1400


def test_rules_of_a_switch_may_choose_any_way(tmp_path: Path) -> None:
    rules = {
        "s1": "in_port=as1,actions=output:s1s2",
        "s2": "in_port=s1s2,actions=output:s2s3",
        "s3": "in_port=s2s3,actions=output:s3b",
    }
    nodes = ", ".join(f'{name}: {{kind: switch, openflow: {{flows: ["{rule}"]}}}}' for name, rule in rules.items())
    ends = [("a", "s1"), ("s1", "s2"), ("s2", "s3"), ("s1", "s3"), ("s3", "b")]
    links = "".join(f"  - {{name: {x}{y}, between: [{x}, {y}]}}\n" for x, y in ends)
    (tmp_path / "topo.yaml").write_text(
        f"version: 1\nnodes: {{a: {{kind: host}}, b: {{kind: host}}, {nodes}}}\nlinks:\n{links}"
    )
    (tmp_path / "xp.yaml").write_text(f"version: 1\ntraffic:\n{flow(('a', 'b'))}")
    spec = load(tmp_path / "topo.yaml", tmp_path / "xp.yaml").spec
    paths = FlowPaths(Ways(spec.topology), spec.experiment)
    assert paths.used_links[0][1] == {x + y for x, y in ends}
