# SPDX-License-Identifier: Apache-2.0
"""Generators: all hosts reach each other, the written-out form is equivalent, and paths are as expected."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path

import pytest

from mprun.compile import allocate, compile_plan
from mprun.inputs.generators import GENERATORS
from mprun.inputs.keys.field import NAME_PATTERN
from mprun.inputs.loading import load, load_topology
from mprun.inputs.writer import write_topology
from mprun.model.network import Network
from mprun.model.path import name_paths
from mprun.model.spec import TopologySpec

PLANS = Path(__file__).parents[1] / "golden" / "plans"
TWO_PATHS = "paths: [{rate: 20mbit, delay: 10ms}, {rate: 5mbit, delay: 40ms}]\n"
SAMPLES = {
    "multi-path": TWO_PATHS + "server_paths: [{}, {}]\n",
    "multi-client": TWO_PATHS + "server_paths: [{}, {rate: 50mbit}]\n",
    "line": "routers: 3\n",
    "star": "clients: 3\ninterfaces: 2\nserver_interfaces: 3\n",
    "dumbbell": "pairs: 3\nbottleneck: {rate: 20mbit}\n",
    "parking-lot": "hops: 3\nhop: {rate: 20mbit}\n",
    "khalili": "paths: 3\ndelay: 10ms\nbottleneck: {rate: 20mbit}\n",
    "access-points": "multipath_users: 2\nsingle_path_users: 2\npoints: [{rate: 20mbit}, {rate: 20mbit}]\n",
    "fat-tree": "k: 4\ninterfaces: 4\naccess: {rate: 100mbit}\naggregation: {oversubscription: 1}\n",
    "two-level-tree": "ports: 6\ncore: 2\nedge: 3\nparallel: 2\ninterfaces: 2\n",
}
# Topologies in which not all hosts are connected: this testbed has no routing.
APART = {"khalili"}


def write(directory: Path, generator: str, keys: str) -> Path:
    path = directory / "topo.yaml"
    path.write_text(f"version: 1\ntopology: {generator}\n{keys}")
    return path


def expand(directory: Path, generator: str, keys: str) -> TopologySpec:
    return load_topology(write(directory, generator, keys))


def network_of(directory: Path, topology: Path, *pairs: tuple[str, str]) -> Network:
    flows = "".join(f"  - {{tool: ping, from: {a}, to: {b}, count: 1}}\n" for a, b in pairs)
    (directory / "xp.yaml").write_text(f"version: 1\ntraffic:\n{flows}")
    return allocate(load(topology, directory / "xp.yaml").spec)


def test_every_generator_has_a_sample_and_a_golden_plan() -> None:
    assert list(SAMPLES) == list(GENERATORS)
    golden = {line for file in PLANS.glob("*/topo.yaml") for line in file.read_text().splitlines()}
    assert {f"topology: {name}" for name in GENERATORS} <= golden


@pytest.mark.parametrize("name", GENERATORS)
def test_all_hosts_reach_each_other_as_their_names_say(name: str, tmp_path: Path) -> None:
    """The test follows next hops as a packet does, from address to address."""
    file = write(tmp_path, name, SAMPLES[name])
    hosts = [host for host, kind in load_topology(file).nodes.items() if kind == "host"]
    pairs = list(itertools.permutations(hosts, 2))
    if name in APART:
        pairs = [pair for pair in pairs if name_paths(load_topology(file), [pair])[pair]]
        # only hosts that share a switch
        assert {("client", "server"), ("tcp-server", "tcp-client"), ("server", "tcp-client")} <= set(pairs)
    network = network_of(tmp_path, file, *pairs)
    links = {link.name: {end.node for end in link.ends} for link in network.links}
    names = set()
    for (source, destination), paths in network.paths.items():
        assert paths
        for path in paths:
            here = {source}
            for link in path.links:
                assert here & links[link], f"{path.name} leaves the network before {link}"
                here = links[link] - here
            assert here == {destination}
            assert len(set(path.links)) == len(path.links)
            names.add((path.name, frozenset((path.source.mac, path.destination.mac))))
    assert len({label for label, _ in names}) == len(names), "a name stands for two paths"


@pytest.mark.parametrize("addressing", ["ipv4", "ipv6", "both"])
@pytest.mark.parametrize("name", GENERATORS)
def test_routes_are_those_that_paths_say(name: str, addressing: str, tmp_path: Path) -> None:
    """The route commands, looked up hop by hop with the longest prefix, lead to the destination."""
    file = write(tmp_path, name, f"addressing: {addressing}\n{SAMPLES[name]}")
    hosts = [host for host, kind in load_topology(file).nodes.items() if kind == "host"]
    pairs = [pair for pair in itertools.permutations(hosts, 2) if name_paths(load_topology(file), [pair])[pair]]
    network = network_of(tmp_path, file, *pairs)
    owner = {a.ip: i.node for node in network.nodes.values() for i in node.interfaces for a in i.addresses}
    for (source, destination), paths in network.paths.items():
        for path in paths:
            to, node = path.destination_address, source
            tables = {rule.source: rule.table for rule in network.nodes[source].rules}
            table = tables.get(path.source_address)
            for _ in range(20):
                own = [a.network for i in network.nodes[node].interfaces for a in i.addresses]
                if node != source and any(to in subnet for subnet in own):
                    node = destination
                    break
                start = path.source.address(path.family)
                if node == source and start and to in start.network:
                    node = destination
                    break
                routes = [
                    route
                    for route in network.nodes[node].routes
                    if route.table == table
                    and route.family == path.family
                    and (route.destination is None or to in route.destination)
                ]
                route = max(routes, key=lambda route: route.destination.prefixlen if route.destination else -1)
                assert route.gateway
                node, table = owner[route.gateway], None
            assert node == destination


@pytest.mark.parametrize("keys", ["", "addressing: ipv6\necmp: true\n", "addressing: both\n"])
@pytest.mark.parametrize("name", GENERATORS)
def test_written_out_builds_the_same(name: str, keys: str, tmp_path: Path) -> None:
    file = write(tmp_path, name, keys + SAMPLES[name])
    first = load(file, None)
    spec = first.spec
    (tmp_path / "written").mkdir()
    written = tmp_path / "written" / "topo.yaml"
    written.write_text(write_topology(spec.topology))
    second = load(written, None)
    again = second.spec
    # in some of these networks, ecmp has no effect
    told = [[text.split(": ", 1)[1] for text in one.warnings] for one in (first, second)]
    assert told[0] == told[1]
    assert again.topology == spec.topology
    assert compile_plan(again, allocate(again)).build == compile_plan(spec, allocate(spec)).build


@pytest.mark.parametrize("name", GENERATORS)
def test_names_may_stand_in_a_file(name: str, tmp_path: Path) -> None:
    import re

    topology = expand(tmp_path, name, SAMPLES[name])
    names = [*topology.nodes, *(link.name for link in topology.links)]
    assert [one for one in names if not re.match(NAME_PATTERN, one)] == []
    assert len({link.name for link in topology.links}) == len(topology.links)


def test_multi_client_shares_the_path_and_keeps_the_addresses(tmp_path: Path) -> None:
    file = write(tmp_path, "multi-client", "paths: [{rate: 20mbit}, {rate: 10mbit, backup: true}]\n")
    pairs = [("client", "server"), ("client1", "server1"), ("client2", "server2")]
    network = network_of(tmp_path, file, *pairs)
    paths = {pair: [(path.name, path.links) for path in network.paths[pair]] for pair in pairs}
    assert paths == {
        pairs[0]: [("path0", ("client-s0", "path0", "server0")), ("path1", ("client-s1", "path1", "server0"))],
        pairs[1]: [("client1", ("client1", "path0", "router-server1"))],
        pairs[2]: [("client2", ("client2", "path1", "router-server2"))],
    }
    assert [path.backup for path in network.paths[pairs[0]]] == [False, True]
    assert [link.name for link in network.links if link.wire is not None] == ["path0", "path1"]
    addresses = {name: [str(a) for i in node.interfaces for a in i.addresses] for name, node in network.nodes.items()}
    assert addresses["client"] == ["10.0.0.1/24", "10.0.1.1/24"]
    assert (addresses["client1"], addresses["client2"]) == (["10.0.0.10/24"], ["10.0.1.10/24"])
    assert addresses["server"] == ["10.1.0.1/24"]
    assert (addresses["server1"], addresses["server2"]) == (["10.1.1.1/24"], ["10.1.2.1/24"])


def test_unshaped_paths_of_multi_client_are_called_so_too(tmp_path: Path) -> None:
    file = write(tmp_path, "multi-client", "paths: [{}, {name: lte}]\n")
    paths = network_of(tmp_path, file, ("client", "server")).paths["client", "server"]
    assert [path.name for path in paths] == ["path0", "lte"]


def ways(network: Network, source: str, destination: str) -> list[tuple[str, ...]]:
    """Return the links between routers on the path to each interface of the destination."""
    first = network.nodes[source].interfaces[0]
    return [path.links[1:-1] for path in network.paths[source, destination] if path.source == first]


@pytest.mark.parametrize("k", [4, 6])
def test_each_interface_in_a_fat_tree_has_a_core_of_its_own(tmp_path: Path, k: int) -> None:
    file = write(tmp_path, "fat-tree", f"k: {k}\ninterfaces: 4\n")
    last = k**3 // 4 - 1
    pairs = [("h0", f"h{last}"), (f"h{last}", "h0"), ("h2", f"h{last // 2}"), (f"h{last // 2}", "h1")]
    network = network_of(tmp_path, file, *pairs, ("h0", f"h{k // 2}"))
    for pair in pairs:
        found = ways(network, *pair)
        assert len({way[1].split("-")[1] for way in found}) == 4
        assert len({way[0] for way in found}) == len({way[-1] for way in found}) == min(4, k // 2)
    assert len({way[0] for way in ways(network, "h0", f"h{k // 2}")}) == min(4, k // 2)


def test_hosts_of_a_fat_tree_take_turns_with_the_cores(tmp_path: Path) -> None:
    """Packets to hosts with one interface each use all cores evenly."""
    file = write(tmp_path, "fat-tree", "k: 6\n")
    pairs = [("h0", f"h{n}") for n in range(9, 54)]
    network = network_of(tmp_path, file, *pairs)
    used = Counter(path.links[2].split("-")[1] for pair in pairs for path in network.paths[pair])
    assert used == {f"c{n}": 5 for n in range(9)}


def test_parallel_links_of_a_two_level_tree_are_all_used(tmp_path: Path) -> None:
    file = write(tmp_path, "two-level-tree", "ports: 36\ncore: 2\nedge: 4\nparallel: 9\n")
    pairs = [(f"h{n}", f"h{n + 18}") for n in range(18)]
    network = network_of(tmp_path, file, *pairs)
    middles = [network.paths[pair][0].links[1:-1] for pair in pairs]
    assert len(network.nodes) == 72 + 6
    assert len({up for up, _ in middles}) == len({down for _, down in middles}) == 18


def test_oversubscription_divides_what_comes_from_below(tmp_path: Path) -> None:
    keys = "access: {rate: {forward: 100mbit, reverse: 50mbit}}\n"
    keys += "aggregation: {oversubscription: 2}\ncore: {oversubscription: 4, queue: 10packets}\n"
    links = {link.name: link for link in expand(tmp_path, "fat-tree", f"k: 4\ninterfaces: 2\n{keys}").links}
    assert links["e0-a0"].forward.rate_bit_per_s == 100_000_000
    assert links["e0-a0"].reverse.rate_bit_per_s == 50_000_000
    assert links["a0-c0"].forward.rate_bit_per_s == 25_000_000
    assert links["a0-c0"].reverse.queue is not None
    keys = "ports: 36\ncore: 2\nedge: 4\nparallel: 9\naccess: {rate: 10mbit}\ntrunk: {oversubscription: 1}\n"
    tree = {link.name: link for link in expand(tmp_path, "two-level-tree", keys).links}
    assert tree["e0-c0-0"].forward.rate_bit_per_s == 10_000_000


def test_shared_switch_of_khalili_can_be_a_bottleneck(tmp_path: Path) -> None:
    keys = "delay: 10ms\nrate: 20mbit\n"
    pairs = [("client", "server"), ("tcp-client", "tcp-server")]
    free = network_of(tmp_path, write(tmp_path, "khalili", keys), *pairs)
    assert [(path.name, path.links) for path in free.paths[pairs[0]]] == [
        ("path0", ("path0", "server0")),
        ("path1", ("path1", "server1")),
    ]
    shared = network_of(tmp_path, write(tmp_path, "khalili", keys + "bottleneck: {rate: 20mbit}\n"), *pairs)
    assert [path.links for path in shared.paths[pairs[0]]][1] == ("path1", "bottleneck", "server1")
    assert shared.paths[pairs[1]][0].links == ("tcp-client", "bottleneck", "tcp-server")


def test_subflows_side_by_side_do_not_leave_by_the_wrong_interface(tmp_path: Path) -> None:
    """Without an endpoint of its own, the client joins each announced address from the address on its subnet."""
    (tmp_path / "xp.yaml").write_text(
        "version: 1\nhosts: {client: {mptcp: {path_manager: fullmesh}}, server: {mptcp: {path_manager: fullmesh}}}\n"
        "traffic: [{tool: iperf3, from: client, to: server, protocol: mptcp, duration: 1s}]\n"
    )
    spec = load(write(tmp_path, "khalili", "paths: 3\n"), tmp_path / "xp.yaml").spec
    build = [(command.node, " ".join(command.argv)) for command in compile_plan(spec, allocate(spec)).build]
    assert [line for line in build if "mptcp" in line[1].split()] == [
        ("client", "ip mptcp limits set subflows 2 add_addr_accepted 2"),
        ("server", "ip mptcp limits set subflows 2 add_addr_accepted 2"),
        ("server", "ip mptcp endpoint add 10.0.1.2 id 2 signal"),
        ("server", "ip mptcp endpoint add 10.0.2.2 id 3 signal"),
    ]
