# SPDX-License-Identifier: Apache-2.0
"""Addresses of both families: their derivation, and that IPv6 does not change the addresses of IPv4."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from mprun.agent import message, rtnetlink
from mprun.compile import allocate, compile_plan, resolve
from mprun.errors import SpecError
from mprun.inputs.loading import load
from mprun.inputs.writer import write_topology
from mprun.model.network import Network
from mprun.model.plan import Plan
from mprun.model.spec import Spec
from mprun.reports.drawing import draw
from mprun.storage.run_directory import RunDirectory

PAIR = "nodes: {a: {kind: host}, r: {kind: router}, b: {kind: host}}\n"


def read(folder: Path, keys: str, flows: str = "") -> Spec:
    (folder / "topo.yaml").write_text(f"version: 1\n{keys}")
    (folder / "xp.yaml").write_text("version: 1\n" + (f"traffic: [{flows}]\n" if flows else ""))
    return load(folder / "topo", folder / "xp").spec


def addresses(network: Network) -> dict[str, list[str]]:
    return {name: [str(a) for i in node.interfaces for a in i.addresses] for name, node in network.nodes.items()}


def test_both_families_have_the_same_digits(tmp_path: Path) -> None:
    keys = f"addressing: both\n{PAIR}links: [{{between: [a, r]}}, {{between: [r, b]}}]\n"
    assert addresses(allocate(read(tmp_path, keys))) == {
        "a": ["10.0.0.1/24", "fd00:10::1/64"],
        "r": ["10.0.0.2/24", "fd00:10::2/64", "10.0.1.1/24", "fd00:10:0:1::1/64"],
        "b": ["10.0.1.2/24", "fd00:10:0:1::2/64"],
    }


@pytest.mark.parametrize("addressing", ["ipv4", "ipv6"])
def test_one_family_has_the_addresses_that_it_has_beside_the_other(addressing: str, tmp_path: Path) -> None:
    keys = "topology: multi-client\npaths: [{}, {}]\n"
    alone, beside = (
        {
            address
            for node in allocate(read(tmp_path, f"addressing: {which}\n{keys}")).nodes.values()
            for interface in node.interfaces
            for address in interface.addresses
        }
        for which in (addressing, "both")
    )
    assert alone == {address for address in beside if address.version == int(addressing[-1])}


def test_the_clients_on_a_path_have_its_families(tmp_path: Path) -> None:
    keys = "topology: multi-client\npaths: [{addressing: both}, {}]\n"
    found = addresses(allocate(read(tmp_path, keys)))
    assert (found["client"], found["client1"], found["client2"]) == (
        ["10.0.0.1/24", "fd00:10::1/64", "10.0.1.1/24"],
        ["10.0.0.10/24", "fd00:10::10/64"],
        ["10.0.1.10/24"],
    )


@pytest.mark.parametrize(("hosts", "of_each"), [(31, 31), (40, 2)])
def test_on_a_large_segment_only_those_know_each_other_that_meet(hosts: int, of_each: int, tmp_path: Path) -> None:
    """h0 sends to h1. The segment has a router too."""
    names = [f"h{n}" for n in range(hosts)]
    nodes = ", ".join(f"{name}: {{kind: host}}" for name in names)
    links = ", ".join(f"{{between: [{name}, s]}}" for name in [*names, "r"])
    keys = f"addressing: both\nnodes: {{{nodes}, r: {{kind: router}}, s: {{kind: switch}}}}\nlinks: [{links}]\n"
    nodes_of = allocate(read(tmp_path, keys, "{tool: ping, from: h0, to: h1, count: 1}")).nodes
    # in each family
    assert len(nodes_of["h0"].neighbours) == len(nodes_of["h1"].neighbours) == 2 * of_each
    assert len(nodes_of["r"].neighbours) == 2 * hosts
    assert len(nodes_of["h2"].neighbours) == 2 * (1 if hosts > 32 else of_each)


def test_given_addresses_are_mirrored_where_that_is_free(tmp_path: Path) -> None:
    """The second link uses the first subnet of IPv6. A /30 subnet has no IPv6 counterpart."""
    keys = (
        f"addressing: both\n{PAIR}links:\n"
        "  - {between: [a, r], addresses: [10.0.0.7/24, 10.0.0.20/24]}\n"
        "  - {between: [a, r], addresses: ['fd00:10::1/64', 'fd00:10::2/64']}\n"
        "  - {between: [r, b], addresses: [192.0.2.1/30, 192.0.2.2/30]}\n"
        "  - {between: [r, b], addresses: [192.168.3.12/24, 192.168.3.99/24]}\n"
    )
    network = allocate(read(tmp_path, keys))
    assert addresses(network)["a"] == ["10.0.0.7/24", "fd00:10:0:1::1/64", "10.0.1.1/24", "fd00:10::1/64"]
    assert addresses(network)["b"] == [
        "192.0.2.2/30",
        "fd00:10:0:2::2/64",
        "192.168.3.99/24",
        "fd00:192:168:3::99/64",
    ]


def test_a_full_subnet_is_said_to_be_full(tmp_path: Path) -> None:
    keys = (
        "addressing: ipv6\nnodes: {a: {kind: host}, s: {kind: switch}, b: {kind: host}, c: {kind: host}}\nlinks:\n"
        "  - {between: [a, s], addresses: ['2001:db8::1/126', null]}\n  - {between: [b, s]}\n  - {between: [c, s]}\n"
    )
    further = "  - {between: [d, s]}\n"
    assert addresses(allocate(read(tmp_path, keys)))["c"] == ["2001:db8::3/126"]
    with pytest.raises(SpecError, match="link 'd-s': more addresses than 2001:db8::/126 holds"):
        allocate(read(tmp_path, keys.replace("c: {kind: host}}", "c: {kind: host}, d: {kind: host}}") + further))


def test_written_out_it_stays_what_it_is(tmp_path: Path) -> None:
    keys = "topology: multi-path\naddressing: both\npaths: [{addressing: ipv6}, {rate: 1mbit}, {addressing: ipv4}]\n"
    flows = "{tool: ping, from: client, to: server}, {tool: ping, from: server, to: client, family: ipv4}"
    spec = read(tmp_path, keys, flows)
    network = allocate(spec)
    resolved = resolve(spec, network)
    text = write_topology(resolved.topology)
    assert "addressing: both\n" in text
    assert "addressing: ipv6\n" in text
    again = read(tmp_path, text.split("version: 1\n")[1], flows)
    assert again.topology == resolved.topology
    assert compile_plan(again, allocate(again)).digest == compile_plan(spec, network).digest


def test_digest_of_ipv4_knows_nothing_of_ipv6(tmp_path: Path) -> None:
    keys = "topology: multi-path\npaths: [{}]\n"
    flow = "{tool: ping, from: client, to: server%s}"
    plans = [
        compile_plan(spec, allocate(spec))
        for spec in (
            read(tmp_path, keys, flow % ""),
            read(tmp_path, f"addressing: ipv4\n{keys}", flow % ", family: ipv4"),
        )
    ]
    assert plans[0] == plans[1]
    intent = json.dumps(Plan.to_json(plans[0])["intent"])
    assert "ipv6" not in intent
    assert "family" not in intent


@pytest.mark.parametrize(
    ("flow", "paths"),
    [
        ("protocol: mptcp", ["path0-ipv6", "path1", "path0-ipv4", "path2"]),
        ("protocol: mptcp, family: ipv6", ["path0-ipv6", "path1", "path0-ipv4", "path2"]),
        ("protocol: mptcp, family: ipv4", ["path0-ipv4", "path2"]),
        ("protocol: tcp", ["path0-ipv6", "path1"]),
        ("protocol: tcp, family: ipv4", ["path0-ipv4", "path2"]),
    ],
)
def test_paths_of_a_flow(flow: str, paths: list[str], tmp_path: Path) -> None:
    """A connection of IPv4 uses IPv4 only. A connection of IPv6 begins in IPv6 and has subflows of both families."""
    keys = "topology: multi-path\naddressing: both\npaths: [{}, {addressing: ipv6}, {addressing: ipv4}]\n"
    spec = read(tmp_path, keys, f"{{tool: iperf3, from: client, to: server, duration: 1s, {flow}}}")
    plan = compile_plan(spec, allocate(spec))
    described = plan.intent.traffic[0]
    assert [path.name for path in described.paths] == paths
    assert described.endpoints.destination_address == described.paths[0].destination


@pytest.mark.parametrize(("family", "length"), [("ipv4", 1472), ("ipv6", 1452)])
def test_udp_fills_a_packet_of_its_family(family: str, length: int, tmp_path: Path) -> None:
    flow = "{tool: iperf3, from: client, to: server, protocol: udp, rate: 1mbit, duration: 1s%s}"
    keys = "topology: multi-path\naddressing: %s\npaths: [{}]\n"
    for spec in (
        read(tmp_path, keys % family, flow % ""),
        read(tmp_path, keys % "both", flow % f", family: {family}"),
    ):
        assert spec.experiment.traffic[0].options["length_bytes"] == length
    given = read(tmp_path, keys % family, flow % ", length: 100bytes")
    assert given.experiment.traffic[0].options["length_bytes"] == 100


@pytest.mark.parametrize(("family", "headers"), [("ipv4", 28), ("ipv6", 48)])
@pytest.mark.parametrize("tool", ["iperf3", "udp"])
def test_udp_fills_a_packet_of_the_smallest_mtu_of_its_path(
    family: str, headers: int, tool: str, tmp_path: Path
) -> None:
    """Headers: 20 bytes of IPv4 (RFC 791), 40 of IPv6 (RFC 8200), 8 of UDP (RFC 768)."""
    keys = f"topology: multi-path\naddressing: {family}\npaths: [{{mtu: 1400}}, {{mtu: 9000}}]\n"
    flow = f"{{tool: {tool}, from: client, to: server, protocol: udp, rate: 1mbit, duration: 1s}}"
    for access, least in ((9000, 1400), (1300, 1300)):
        spec = read(tmp_path, f"{keys}server_paths: [{{mtu: {access}}}]\n", flow)
        assert spec.experiment.traffic[0].options["length_bytes"] == least - headers
    wide = f"topology: multi-path\naddressing: {family}\npaths: [{{mtu: 9000}}]\nserver_paths: [{{mtu: 9000}}]\n"
    assert read(tmp_path, wide, flow).experiment.traffic[0].options["length_bytes"] == 9000 - headers


GRAPH = """nodes:
  client: {{kind: host}}
  server: {{kind: host}}
  idle: {{kind: host}}
  near: {{kind: router}}
  left: {{kind: {middle}}}
  right: {{kind: {middle}}}
  far: {{kind: router}}
links:
  - {{between: [client, near]}}
  - {{between: [near, left], mtu: {mtus[0]}}}
  - {{between: [left, far], mtu: {mtus[1]}}}
  - {{between: [near, right], mtu: {mtus[2]}}}
  - {{between: [right, far], mtu: {mtus[3]}}}
  - {{between: [far, server]}}
  - {{between: [idle, near], mtu: 600}}
"""


@pytest.mark.parametrize(
    ("middle", "mtus", "least"),
    [
        ("router", (1500, 1400, 1500, 1500), 1400),
        ("router", (1500, 1500, 1300, 1400), 1300),
        ("switch", (1500, 1400, 1500, 1350), 1350),
        ("router", (9000, 9000, 9000, 9000), 1500),
    ],
)
def test_smallest_mtu_of_all_ways(middle: str, mtus: tuple[int, int, int, int], least: int, tmp_path: Path) -> None:
    """Two equally short ways may both be used. A host on neither way does not count."""
    flow = "{tool: udp, from: client, to: server, rate: 1mbit, duration: 1s}"
    spec = read(tmp_path, GRAPH.format(middle=middle, mtus=mtus), flow)
    assert spec.experiment.traffic[0].options["length_bytes"] == least - 28


def test_a_detour_does_not_narrow_a_path(tmp_path: Path) -> None:
    graph = GRAPH.format(middle="router", mtus=(1500, 1500, 1500, 1500)) + "  - {between: [left, right], mtu: 700}\n"
    flow = "{tool: udp, from: client, to: server, rate: 1mbit, duration: 1s}"
    assert read(tmp_path, graph, flow).experiment.traffic[0].options["length_bytes"] == 1472


@pytest.mark.parametrize(
    ("flow", "most", "key"),
    [
        ("tool: iperf3, protocol: udp, rate: 1mbit, duration: 1s, length: 1253bytes", 1252, "length"),
        ("tool: iperf3, protocol: udp, rate: 1mbit, duration: 1s, length: 1252bytes", 1252, None),
        ("tool: udp, rate: 1mbit, duration: 1s, length: 2000bytes", 1252, "length"),
        ("tool: netperfmeter, protocol: udp, rate: 1mbit, duration: 1s", 1252, "message"),
        ("tool: iperf3, duration: 1s, length: 128kb", 1252, None),
    ],
)
def test_a_udp_packet_that_is_sent_in_fragments_is_warned_of(
    flow: str, most: int, key: str | None, tmp_path: Path
) -> None:
    (tmp_path / "topo.yaml").write_text("version: 1\ntopology: multi-path\npaths: [{mtu: 1280}]\n")
    (tmp_path / "xp.yaml").write_text(f"version: 1\ntraffic: [{{from: client, to: server, {flow}}}]\n")
    warnings = load(tmp_path / "topo.yaml", tmp_path / "xp.yaml").warnings
    if key is None:
        assert warnings == ()
    else:
        (warning,) = warnings
        assert f"traffic[0].{key}: is " in warning
        assert warning.endswith(f"carries {most} in one packet: each is sent in fragments, write '{most}bytes' or less")


def test_links_side_by_side_are_so_in_one_family(tmp_path: Path) -> None:
    """IPv4 has two links without a router, IPv6 has one. Only in IPv4 would full mesh create crossing subflows."""
    (tmp_path / "topo.yaml").write_text(
        "version: 1\nnodes: {client: {kind: host}, server: {kind: host}}\nlinks:\n"
        "  - {between: [client, server]}\n  - {between: [client, server]}\n"
        "  - {between: [client, server], addressing: ipv6}\n"
    )
    (tmp_path / "xp.yaml").write_text(
        "version: 1\nhosts: {client: {mptcp: {path_manager: fullmesh}}, server: {mptcp: {path_manager: fullmesh}}}\n"
        "traffic: [{tool: iperf3, from: client, to: server, protocol: mptcp, duration: 1s}]\n"
    )
    spec = load(tmp_path / "topo", tmp_path / "xp").spec
    plan = compile_plan(spec, allocate(spec))
    assert plan.intent.traffic[0].subflows == 3
    assert [" ".join(c.argv[3:]) for c in plan.build if c.argv[:3] == ("ip", "mptcp", "endpoint")] == [
        "add fd00:10:0:2::1 id 3 subflow fullmesh",
        "add 10.0.0.2 id 1 signal",
        "add 10.0.1.2 id 2 signal",
    ]


def test_drawing_has_a_line_for_each_family(tmp_path: Path) -> None:
    keys = f"addressing: both\n{PAIR}links: [{{between: [a, r], rate: 1mbit}}, {{between: [r, b]}}]\n"
    spec = read(tmp_path, keys)
    drawing = draw(resolve(spec, allocate(spec)).topology, with_addresses=True)
    assert drawing.edges[0].lines[-2:] == ("10.0.0.1 – 10.0.0.2/24", "fd00:10::1 – fd00:10::2/64")


def test_drawing_says_which_links_are_otherwise(tmp_path: Path) -> None:
    links = "links: [{between: [a, r], addressing: ipv6, backup: true}, {between: [r, b]}]\n"
    spec = read(tmp_path, f"addressing: both\n{PAIR}{links}", "{tool: ping, from: a, to: b, family: ipv6}")
    drawing = draw(spec.topology, spec.experiment.traffic)
    assert [edge.lines for edge in drawing.edges] == [("IPv6", "backup"), ()]
    assert drawing.notes == ("ping: ping, a → b over IPv6, from 0 s",)


def test_a_run_names_its_hosts_by_both_addresses(tmp_path: Path) -> None:
    keys = f"addressing: both\n{PAIR}links: [{{between: [a, r]}}, {{between: [r, b], addressing: ipv6}}]\n"
    spec = read(tmp_path, keys)
    run = RunDirectory(tmp_path)
    run.folder.write_json("plan.json", compile_plan(spec, allocate(spec)).to_json())
    assert list(run.addresses()) == [
        ("10.0.0.1", "a"),
        ("fd00:10::1", "a"),
        ("10.0.0.2", "r"),
        ("fd00:10::2", "r"),
        ("fd00:10:0:1::1", "r"),
        ("fd00:10:0:1::2", "b"),
    ]


@pytest.mark.parametrize(
    ("words", "kind", "head", "attributes"),
    [
        (
            "-6 address add fd00:10::1/64 dev x nodad",
            rtnetlink.RTM_NEWADDR,
            bytes([socket.AF_INET6, 64, rtnetlink.IFA_F_NODAD, 0]),
            {rtnetlink.IFA_LOCAL: "fd00:10::1"},
        ),
        (
            "-6 route add default via fd00:10::2 dev x table 1",
            rtnetlink.RTM_NEWROUTE,
            bytes([socket.AF_INET6, 0]),
            {rtnetlink.RTA_GATEWAY: "fd00:10::2"},
        ),
        (
            "-6 route delete fd00::/64 via fd00:10::2 dev x",
            rtnetlink.RTM_DELROUTE,
            bytes([socket.AF_INET6, 64]),
            {rtnetlink.RTA_DST: "fd00::"},
        ),
        (
            "-6 rule add from fd00:10::1 table 1",
            rtnetlink.RTM_NEWRULE,
            bytes([socket.AF_INET6, 0, 128]),
            {rtnetlink.FRA_SRC: "fd00:10::1"},
        ),
        ("rule add from 10.0.0.1 table 1", rtnetlink.RTM_NEWRULE, bytes([socket.AF_INET, 0, 32]), {}),
        (
            "-6 neighbour add fd00:10::2 lladdr 02:00:00:00:00:02 dev x nud permanent",
            rtnetlink.RTM_NEWNEIGH,
            bytes([socket.AF_INET6]),
            {rtnetlink.NDA_DST: "fd00:10::2"},
        ),
    ],
)
def test_words_become_messages(words: str, kind: int, head: bytes, attributes: dict[int, str]) -> None:
    translator = rtnetlink.Translator(lambda _: 7, lambda _: 0, lambda *_: 0)
    done, _, body = translator.translate(words.split())
    assert done == kind
    assert body.startswith(head)
    length = {rtnetlink.RTM_NEWADDR: 8}.get(kind, 12)
    found = message.attributes(body[length:])
    for name, address in attributes.items():
        assert found[name] == socket.inet_pton(socket.AF_INET6, address)
