# SPDX-License-Identifier: Apache-2.0
"""Routers with several equally short ways: the ways themselves, paths over them, and the request for ECMP."""

from __future__ import annotations

import math
import socket
import struct
from pathlib import Path

import pytest

from mprun.agent import message, rtnetlink
from mprun.compile import allocate, compile_plan
from mprun.compile.multipath import group_ways
from mprun.inputs.loading import load
from mprun.inputs.writer import write_topology
from mprun.model.network import Network
from mprun.model.plan import Plan
from mprun.model.spec import LinkChange, Queue
from tests.core.test_topologies import SAMPLES, write

PING = "version: 1\ntraffic: [{tool: ping, from: %s, to: %s, count: 1}]\n"


def both(folder: Path, generator: str, keys: str, source: str, destination: str) -> tuple[Network, Plan]:
    (folder / "xp.yaml").write_text(PING % (source, destination))
    spec = load(write(folder, generator, keys), folder / "xp.yaml").spec
    network = allocate(spec)
    return network, compile_plan(spec, network)


def test_a_fat_tree_has_a_way_over_each_core(tmp_path: Path) -> None:
    keys = "k: 4\necmp: true\naccess: {delay: 1ms}\naggregation: {delay: 1ms}\ncore: {delay: 1ms}\n"
    network, plan = both(tmp_path, "fat-tree", keys, "h0", "h15")
    (path,) = network.paths["h0", "h15"]
    assert path.ways == 4
    assert len(path.links) == len(set(path.links)) == 1 + 2 + 4 + 4 + 2 + 1
    assert path.links[:6] == ("h0", "e0-a0", "a0-c0", "a6-c0", "e7-a6", "h15")
    assert path.rtt_ns == path.least_rtt_ns == 12_000_000
    assert plan.intent.traffic[0].paths[0].ways == 4
    # upwards a router has a choice, downwards none; the hosts of an edge router need no route there
    choices = {name: [len(w) for w in group_ways(node.routes)] for name, node in network.nodes.items()}
    assert set(choices["e0"]) == {2}
    assert set(choices["a0"]) == {1, 2}
    assert set(choices["c0"]) == {1}
    assert not any("multipath" in argument for c in plan.build if c.node in ("c0", "h0") for argument in c.argv)


def test_parallel_links_are_ways_too(tmp_path: Path) -> None:
    network, _ = both(tmp_path, "two-level-tree", "ecmp: true\n" + SAMPLES["two-level-tree"], "h0", "h2")
    assert {path.ways for path in network.paths["h0", "h2"]} == {2 * 2 * 2}


def test_the_slowest_way_sizes_the_queues(tmp_path: Path) -> None:
    """The queue of a link that ways of 10 and 50 ms share must hold the BDP of 50 ms."""
    (tmp_path / "topo.yaml").write_text(
        "version: 1\necmp: true\nnodes: {a: {kind: host}, r: {kind: router}, s: {kind: router}, b: {kind: host}}\n"
        "links:\n  - {between: [a, r], rate: 100mbit}\n  - {between: [r, s], delay: 5ms}\n"
        "  - {between: [r, s], delay: 25ms}\n  - {between: [s, b]}\n"
    )
    (tmp_path / "xp.yaml").write_text(PING % ("a", "b"))
    network = allocate(load(tmp_path / "topo", tmp_path / "xp").spec)
    (path,) = network.paths["a", "b"]
    assert (path.ways, path.least_rtt_ns, path.rtt_ns) == (2, 10_000_000, 50_000_000)
    queue = network.links[0].forward.queue
    assert queue is not None
    assert queue.amount * 1514 == pytest.approx(100e6 / 8 * 0.05, rel=0.01)


@pytest.mark.parametrize(
    ("near", "far_delay", "given", "bits"),
    [
        # a queue of packets becomes one in BDPs
        ("rate: 100mbit, queue: 80packets", "25ms", "queue: 1bdp", 100e6 * 0.05),
        # a delay comes with the queue
        (
            "rate: 10mbit, delay: 20ms",
            "5ms",
            "delay: {forward: 200ms}, queue: 2bdp",
            2 * 10e6 * (0.2 + 0.02 + 2 * 0.005),
        ),
    ],
)
def test_a_queue_in_bdps_that_an_event_gives_is_sized_by_the_path(
    tmp_path: Path, near: str, far_delay: str, given: str, bits: float
) -> None:
    (tmp_path / "topo.yaml").write_text(
        "version: 1\nnodes: {a: {kind: host}, r: {kind: router}, b: {kind: host}}\n"
        f"links:\n  - {{name: l, between: [a, r], {near}}}\n  - {{between: [r, b], delay: {far_delay}}}\n"
        f"events: [{{at: 1s, link: l, set: {{{given}}}}}]\n"
    )
    (tmp_path / "xp.yaml").write_text(PING.replace("count: 1", "duration: 2s") % ("a", "b"))
    (change,) = allocate(load(tmp_path / "topo", tmp_path / "xp").spec).changes
    assert isinstance(change, LinkChange)
    assert change.forward.queue == Queue(math.ceil(bits / 8 / 1514), "packets")


@pytest.mark.parametrize(
    ("queue", "events", "sizes_s"),
    [
        ("80packets", ["queue: 1bdp", "rate: 2mbit", "queue: 1bdp"], [0.04, 0.04, 0.008]),
        # a queue that is written as it was before
        ("1bdp", ["rate: 2mbit, queue: 1bdp", "delay: 200ms, queue: 1bdp"], [0.008, 0.08]),
    ],
)
def test_a_queue_has_the_size_of_the_moment_in_which_it_is_given(
    tmp_path: Path, queue: str, events: list[str], sizes_s: list[float]
) -> None:
    """sizes_s: the queue after each event, as the time that it takes at the first rate, 10 Mbit/s."""
    listed = ", ".join(f"{{at: {n + 1}s, link: path0, set: {{{given}}}}}" for n, given in enumerate(events))
    path = f"{{name: path0, rate: 10mbit, delay: 20ms, queue: {queue}}}"
    (tmp_path / "topo.yaml").write_text(f"version: 1\ntopology: multi-path\npaths: [{path}]\nevents: [{listed}]\n")
    (tmp_path / "xp.yaml").write_text(PING.replace("count: 1", "duration: 9s") % ("client", "server"))
    changes = allocate(load(tmp_path / "topo", tmp_path / "xp").spec).changes
    found = [change.forward.queue for change in changes if isinstance(change, LinkChange)]
    assert found == [Queue(math.ceil(size_s * 10e6 / 8 / 1514), "packets") for size_s in sizes_s]


def test_each_router_hashes_with_a_seed_of_its_own(tmp_path: Path) -> None:
    _, plan = both(tmp_path, "fat-tree", "k: 4\necmp: true\naddressing: both\n", "h0", "h15")
    seeds = [c.argv[2].split("=")[1] for c in plan.build if "fib_multipath_hash_seed" in c.argv[-1]]
    assert len(seeds) == len(set(seeds)) == 16
    assert "0" not in seeds


@pytest.mark.parametrize("generator", ["fat-tree", "two-level-tree", "multi-path"])
def test_nothing_changes_where_it_is_not_asked_for(generator: str, tmp_path: Path) -> None:
    ends = ("client", "server") if generator == "multi-path" else ("h0", "h2")
    plans = [both(tmp_path, generator, keys + SAMPLES[generator], *ends)[1] for keys in ("", "ecmp: false\n")]
    assert plans[0] == plans[1]
    assert "ways" not in plans[0].to_json()["intent"]["traffic"][0]["paths"][0]
    assert not any("nexthop" in command.argv for command in plans[0].build)


def test_written_out_it_is_asked_for_too(tmp_path: Path) -> None:
    spec = load(write(tmp_path, "fat-tree", "k: 4\necmp: true\n"), None).spec
    (tmp_path / "topo.yaml").write_text(write_topology(spec.topology))
    assert load(tmp_path / "topo", None).spec.topology == spec.topology


@pytest.mark.parametrize(
    ("words", "family", "gateways"),
    [
        (
            "route add 10.0.9.0/24 nexthop via 10.0.1.2 dev x nexthop via 10.0.2.2 dev y",
            socket.AF_INET,
            ("10.0.1.2", "10.0.2.2"),
        ),
        (
            "-6 route add fd00::/64 nexthop via fd00::1 dev x nexthop via fd00::2 dev y",
            socket.AF_INET6,
            ("fd00::1", "fd00::2"),
        ),
    ],
)
def test_words_become_one_message_with_all_ways(words: str, family: int, gateways: tuple[str, str]) -> None:
    index = {"x": 7, "y": 8}
    translator = rtnetlink.Translator(lambda name: index[name], lambda _: 0, lambda *_: 0)
    kind, _, body = translator.translate(words.split())
    assert kind == rtnetlink.RTM_NEWROUTE
    found = message.attributes(body[struct.calcsize("=BBBBBBBBI") :])
    assert rtnetlink.RTA_OIF not in found
    packed = [socket.inet_pton(family, gateway) for gateway in gateways]
    assert rtnetlink.ways(found[rtnetlink.RTA_MULTIPATH]) == {(7, packed[0]), (8, packed[1])}
