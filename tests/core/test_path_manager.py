# SPDX-License-Identifier: Apache-2.0
"""The path manager in user space: the subflows that it opens, and when."""

from __future__ import annotations

import struct
from pathlib import Path

from mprun.agent.programs.path_manager import AddressPair, PathManager, request
from mprun.compile import allocate, compile_plan
from mprun.inputs.loading import load
from mprun.model.plan import Plan, Process

PAIRS = [
    AddressPair.parse(text) for text in ("10.0.0.1,10.1.0.1,1", "10.0.1.1,10.1.0.1,2,backup", "10.0.0.1,10.1.1.1,1")
]
FIRST = {"event": "established", "token": 7, "local": "10.0.0.1", "remote": "10.1.0.1", "remote_port": 5201}


def opened(manager: PathManager, **event: object) -> list[tuple[str, str, int]]:
    return [(pair.local, pair.remote, number) for _, pair, number, _ in manager.take(event)]


def test_each_pair_has_as_many_as_asked_and_the_first_counts() -> None:
    manager = PathManager(2, 8, PAIRS)
    assert opened(manager, **FIRST) == [
        ("10.0.1.1", "10.1.0.1", 2),
        ("10.0.0.1", "10.1.0.1", 0),
        ("10.0.1.1", "10.1.0.1", 2),
    ]


def test_an_address_is_used_once_it_is_announced() -> None:
    manager = PathManager(2, 8, PAIRS)
    manager.take(FIRST)
    assert opened(manager, event="announced", token=7, remote="10.1.1.1") == [("10.0.0.1", "10.1.1.1", 0)] * 2
    assert opened(manager, event="announced", token=8, remote="10.1.1.1") == []


def test_no_more_than_the_limit() -> None:
    manager = PathManager(4, 3, PAIRS)
    assert len(manager.take(FIRST)) == 3
    assert manager.take({"event": "announced", "token": 7, "remote": "10.1.1.1"}) == []


def test_connections_that_others_opened_are_theirs() -> None:
    assert PathManager(2, 8, PAIRS).take({**FIRST, "server_side": True}) == []


def test_a_closed_connection_is_forgotten() -> None:
    manager = PathManager(2, 8, PAIRS)
    manager.take(FIRST)
    manager.take({"event": "closed", "token": 7})
    assert manager.take({"event": "announced", "token": 7, "remote": "10.1.1.1"}) == []


def test_a_request_says_backup_and_the_port() -> None:
    body = request(7, PAIRS[1], 2, 5201)
    assert struct.pack("=HHI", 8, 6, 1 << 1 | 1 << 2) in body
    assert struct.pack("=HHHxx", 6, 5, 5201) in body


def compiled(folder: Path, topology: str, hosts: str) -> tuple[Plan, Process]:
    """Return the plan of a transfer between h0 and h1, and the path manager of h0."""
    (folder / "topo.yaml").write_text(topology)
    flow = "{tool: iperf3, from: h0, to: h1, protocol: mptcp, duration: 1s}"
    (folder / "xp.yaml").write_text(f"version: 1\nhosts: {hosts}\ntraffic: [{flow}]\n")
    spec = load(folder / "topo.yaml", folder / "xp.yaml").spec
    plan = compile_plan(spec, allocate(spec))
    (manager,) = [process for process in plan.daemons if process.name == "path_manager.h0"]
    return plan, manager


def test_in_order_each_address_meets_one(tmp_path: Path) -> None:
    topology = "version: 1\ntopology: fat-tree\nk: 2\ninterfaces: 3\n"
    hosts = "{h0: {mptcp: {path_manager: in-order}}, h1: {mptcp: {path_manager: fullmesh}}}"
    plan, manager = compiled(tmp_path, topology, hosts)
    pairs = [word.split(",")[:2] for word in manager.argv if "," in word]
    assert len(pairs) == len({local for local, _ in pairs}) == len({remote for _, remote in pairs}) == 3
    assert plan.intent.traffic[0].subflows == 3
    # the server allows them, and announces the addresses that the client cannot know
    limits = [" ".join(command.argv) for command in plan.build if command.node == "h1" and "limits" in command.argv]
    assert limits[0].startswith("ip mptcp limits set subflows 2 ")


def test_ndiffports_joins_only_the_first_pair_also_with_one_subflow(tmp_path: Path) -> None:
    links = "[{between: [h0, h1]}, {between: [h0, h1]}]"
    topology = f"version: 1\nnodes: {{h0: {{kind: host}}, h1: {{kind: host}}}}\nlinks: {links}\n"
    ours, its = "{path_manager: ndiffports, subflows_per_pair: 1}", "{path_manager: fullmesh}"
    plan, manager = compiled(tmp_path, topology, f"{{h0: {{mptcp: {ours}}}, h1: {{mptcp: {its}}}}}")
    assert manager.argv[3:4] == ("1",)
    assert sum("," in word for word in manager.argv) == 1
    assert plan.intent.traffic[0].subflows == 1
    assert not [command for command in plan.build if command.node == "h0" and "endpoint" in command.argv]
