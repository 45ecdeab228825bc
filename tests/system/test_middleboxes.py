# SPDX-License-Identifier: Apache-2.0
"""Effects of middleboxes on MPTCP and TCP: each effect is measured, and named if it breaks a connection."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from mprun.compile import allocate, compile_plan
from mprun.engines.capability import programs_needed, refused_rules
from mprun.inputs.loading import load
from mprun.model.plan import Command
from tests.scenes import RATES_ONLY
from tests.system.conftest import SHORT, Result

TOPOLOGY = """\
version: 1
topology: multi-path
paths:
  - {rate: 20mbit, delay: 10ms, queue: 80packets, LOSS}
  - {rate: 20mbit, delay: 10ms, queue: 80packets}
SERVER
middleboxes: {router: {BOX}}
"""
TWO_ADDRESSES = "server_paths: [{name: near}, {name: far}]"
# Three seconds, of which the start of a connection is a small part.
LONGER = SHORT.replace("duration: 1s", "duration: 3s")
EXPERIMENT = LONGER + "  - {host: server, snaplen: 100}\n"
# The goodput of a path of 20 Mbit/s: 1448 bytes of a frame of 1514, and slightly less with MPTCP.
ONE_PATH = pytest.approx(18.9e6, rel=0.03)
TWO_PATHS = pytest.approx(37.0e6, rel=0.03)

Try = Callable[..., Result]


@pytest.fixture
def attempt(mprun: Callable[..., Result], tmp_path: Path) -> Try:
    """Return a function that runs an experiment over a router with the given middlebox."""

    def run(box: str, server: str = "", loss: str = "", protocol: str = "mptcp", back: bool = False) -> Result:
        topology = TOPOLOGY.replace("BOX", box).replace("SERVER", server)
        (tmp_path / "topo.yaml").write_text(topology.replace(", LOSS", f", loss: {loss}" if loss else ""))
        experiment = EXPERIMENT.replace("protocol: mptcp", f"protocol: {protocol}")
        if back:
            experiment = experiment.replace("from: client, to: server", "from: server, to: client")
        (tmp_path / "xp.yaml").write_text(experiment)
        return mprun("-t", "topo", "-x", "xp", "--engine", "virtual", "--json")

    return run


def fields(result: Result, host: str, wanted: str, *names: str) -> list[list[str]]:
    """Return fields of the matching packets in a host's capture, read by tshark."""
    argv = ["tshark", "-r", str(result.run / "pcap" / f"{host}.pcap"), "-Y", wanted, "-T", "fields"]
    for name in names:
        argv += ["-e", name]
    lines = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines()
    return [line.split("\t") for line in lines]


SYN = "tcp.flags.syn == 1 && tcp.flags.ack == 0"
LOST_JOIN = "bulk: 1 of 2 subflows: MP_JOIN was sent and did not arrive: middlebox 'router'"
PLAIN = "bulk: asked for MPTCP and got TCP:"


@pytest.mark.parametrize(
    ("box", "failure", "goodput"),
    [
        ("strip: [mp_capable]", f"{PLAIN} middlebox 'router' removed MP_CAPABLE from 2 packets", ONE_PATH),
        ("strip: [mptcp]", f"{PLAIN} middlebox 'router' removed the option of MPTCP from 2 packets", ONE_PATH),
        ("strip: [mp_join]", f"{LOST_JOIN} removed MP_JOIN from 2 packets", ONE_PATH),
        (
            "strip: [dss]",
            f"{PLAIN} the connection fell back to TCP after its handshake (fallback, RFC 8684 3.7): middlebox "
            "'router' removed DSS from 3 packets",
            ONE_PATH,
        ),
        (
            "alter: [mp_join]",
            "bulk: 1 of 2 subflows: MP_JOIN arrived with a token that no connection has: middlebox 'router' altered "
            "MP_JOIN in 2 packets",
            ONE_PATH,
        ),
        ("alter: [add_addr]", None, TWO_PATHS),
        ("proxy: {}", f"{PLAIN} middlebox 'router' answered 2 connections in the server's place", ONE_PATH),
        ("rewrite_sequence: {}", None, TWO_PATHS),
        ("nat: {inside: [path0, path1]}", None, TWO_PATHS),
        ("nat: {inside: [path1]}", None, TWO_PATHS),
        ("firewall: {inside: [path0, path1]}", None, TWO_PATHS),
        ("strip: [add_addr]", None, TWO_PATHS),
        ("nat: {inside: [path0, path1]}, firewall: {inside: [path0]}, strip: [add_addr]", None, TWO_PATHS),
    ],
)
def test_effect_on_mptcp(attempt: Try, box: str, failure: str | None, goodput: float) -> None:
    result = attempt(box)
    assert result.summary["failures"] == ([] if failure is None else [failure])
    assert result.status == (0 if failure is None else 1)
    assert result.metric("bulk.goodput") == goodput


def test_a_server_is_left_alone_in_a_download_without_dss(mprun: Callable[..., Result], tmp_path: Path) -> None:
    """Only the client falls back, and no cause is found at the scheduler."""
    (tmp_path / "topo.yaml").write_text(
        TOPOLOGY.replace("BOX", "strip: [dss]").replace("SERVER", "").replace(", LOSS", "")
    )
    (tmp_path / "xp.yaml").write_text(EXPERIMENT.replace("protocol: mptcp", "protocol: mptcp, reverse: true"))
    result = mprun("-t", "topo", "-x", "xp", "--json")
    assert result.metric("bulk.goodput") < 5e6
    (warning,) = [text for text in result.summary["warnings"] if "of its best path's rate" in text]
    assert "client has fallen back to TCP and server still uses MPTCP" in warning
    assert "scheduler" not in warning


@pytest.mark.parametrize(
    ("box", "failure", "rate"),
    [
        ("proxy: {}", f"{PLAIN} middlebox 'router' answered 2 connections in the server's place", 18.9e6),
        ("strip: [mp_join]", f"{LOST_JOIN} removed MP_JOIN from 2 packets", 18.9e6),
        ("nat: {inside: [path0, path1]}, firewall: {inside: [path0]}", None, 37.0e6),
    ],
)
def test_effect_over_ipv6(
    mprun: Callable[..., Result], tmp_path: Path, box: str, failure: str | None, rate: float
) -> None:
    topology = TOPOLOGY.replace("BOX", box).replace("SERVER", "addressing: ipv6").replace(", LOSS", "")
    (tmp_path / "topo.yaml").write_text(topology)
    (tmp_path / "xp.yaml").write_text(LONGER.replace("snaplen: 100", "snaplen: 120"))
    result = mprun("-t", "topo", "-x", "xp", "--engine", "virtual", "--json")
    assert result.summary["failures"] == ([] if failure is None else [failure])
    # 40 bytes of header instead of 20 (RFC 8200 3)
    assert result.metric("bulk.goodput") == pytest.approx(rate * 1428 / 1448, rel=0.03)


@pytest.mark.parametrize(
    ("box", "failure"),
    [
        ("firewall: {inside: [path1]}", "refused"),
        ("firewall: {inside: [path1], refuse: reject}", "refused"),
        ("nat: {inside: [path1]}", "dropped"),
    ],
)
def test_a_join_from_outside_is_refused(attempt: Try, box: str, failure: str) -> None:
    """The client announces its address behind the middlebox, and the server tries to join it."""
    result = attempt(box, back=True)
    (said,) = result.summary["failures"]
    assert said.startswith(f"{LOST_JOIN} {failure} ")
    assert result.metric("bulk.goodput") == ONE_PATH


@pytest.mark.usefixtures("leaves_nothing")
def test_a_connection_from_outside_is_refused(attempt: Try) -> None:
    result = attempt("firewall: {inside: [path0, path1], refuse: reject}", protocol="tcp", back=True)
    assert result.status == 1
    (said,) = result.summary["errors"]
    assert "unable to connect" in said
    assert said.endswith("; middlebox 'router' refused 1 packet of connections from outside")


@pytest.mark.parametrize(
    ("box", "failure"),
    [
        (
            # The server announces its address at the end of the handshake, 48 us before the first data arrives. Without
            # the option, its packet is the client's first, and does not show MPTCP.
            "strip: [add_addr]",
            f"{PLAIN} the connection fell back to TCP after its handshake (fallback, RFC 8684 3.7): middlebox 'router' "
            "removed ADD_ADDR from N packets",
        ),
        (
            "alter: [add_addr]",
            "bulk: 2 of 4 subflows: the client never learnt of the server's other addresses: ADD_ADDR was sent and did "
            "not arrive as it was, as its HMAC shows (RFC 8684 3.4.1): middlebox 'router' altered ADD_ADDR in N "
            "packets",
        ),
        (
            "nat: {inside: [far]}",
            "bulk: 2 of 4 subflows: 4 of 6 joins were lost: middlebox 'router' dropped N packets to addresses behind "
            "its NAT, which hosts outside cannot reach",
        ),
        ("rewrite_sequence: {}", None),
    ],
)
def test_a_second_address_of_the_server(attempt: Try, box: str, failure: str | None) -> None:
    result = attempt(box, server=TWO_ADDRESSES)
    said = [re.sub(r"\d+ packets", "N packets", text) for text in result.summary["failures"]]
    assert said == ([] if failure is None else [failure])
    carried = [result.metric(f"bulk.share.{path}-far") for path in ("path0", "path1")]
    assert (sum(carried) > 0.1) == (failure is None)


def test_a_connection_whose_keys_are_altered_stands_still(attempt: Try) -> None:
    """Each end counts data from the key that it sent (RFC 8684 3.1). The SYN has no key and passes unchanged."""
    result = attempt("alter: [mp_capable]")
    assert result.status == 1
    (said,) = result.summary["errors"]
    assert re.fullmatch(
        r"bulk: did not end in time and was stopped after .*; middlebox 'router' altered MP_CAPABLE in \d+ packets",
        said,
    )
    of_key = "tcp.options.mptcp.subtype == 0 && tcp.options.mptcp.sendkey"
    answer = f"{of_key} && tcp.flags.syn == 1 && tcp.flags.ack == 1"
    sent, received = (fields(result, host, answer, "tcp.options.mptcp.sendkey") for host in ("server", "client"))
    assert [key for (key,) in received] != [key for (key,) in sent]
    # 192.0.2.1, with the other bits unchanged
    assert {int(key) >> 32 for (key,) in received} == {0xC0000201}
    assert [int(key) & 0xFFFFFFFF for (key,) in received] == [int(key) & 0xFFFFFFFF for (key,) in sent]
    assert (result.metric("bulk.goodput") if "bulk.goodput" in result.summary["metrics"] else 0) < 1e6


def test_nat_shows_its_own_address_outside(attempt: Try) -> None:
    result = attempt("nat: {inside: [path0, path1]}")
    sources = {source for (source,) in fields(result, "server", SYN, "ip.src")}
    assert sources == {"10.1.0.2"}
    assert result.metric("bulk.share.path0") == pytest.approx(0.5, abs=0.03)


@pytest.mark.parametrize("protocol", ["tcp", "mptcp"])
def test_sequence_numbers_are_others_behind_the_rewriter(attempt: Try, protocol: str) -> None:
    result = attempt("rewrite_sequence: {}", protocol=protocol)
    assert result.status == 0
    names = ("tcp.srcport", "tcp.seq_raw")
    sent, received = (dict(fields(result, host, SYN, *names)) for host in ("client", "server"))
    assert len(sent) == (4 if protocol == "mptcp" else 2)
    assert {port: str(int(number) ^ 1 << 31) for port, number in sent.items()} == received
    # the data that the receiver's kernel took in order equals the data of its program and of the control connection
    assert result.metric("bulk.goodput") == (TWO_PATHS if protocol == "mptcp" else ONE_PATH)


def test_sack_blocks_are_rewritten_unless_they_are_forgotten(attempt: Try) -> None:
    """The losses are the same.

    Translated SACK blocks cost as much as without a box, and dropped ones cost a time-out each.
    """
    clean, whole, forgetful = (
        attempt(box, loss="1%", protocol="tcp").metric("bulk.goodput")
        for box in ("strip: [mptcp]", "rewrite_sequence: {}", "rewrite_sequence: {sack: false}")
    )
    assert whole == pytest.approx(clean, rel=0.01)
    assert forgetful < 0.7 * clean


@pytest.mark.usefixtures("leaves_nothing")
def test_a_proxy_relays_every_byte(attempt: Try) -> None:
    result = attempt("proxy: {ports: [5201]}", protocol="tcp")
    assert result.status == 0, result.out + result.err
    assert result.metric("bulk.goodput") == ONE_PATH
    assert {source for (source,) in fields(result, "server", SYN, "ip.src")} == {"10.1.0.2"}
    sockets = result.rows("sockets")
    sent = max(row["bytes_acked"] for row in sockets if row["host"] == "client")
    received = max(row["bytes_received"] for row in sockets if row["host"] == "server")
    # the two kernels may count the SYN and the FIN as a byte or not
    assert sent > 6_000_000
    assert sent == pytest.approx(received, abs=2)


def test_a_proxy_for_other_ports_is_a_router(attempt: Try) -> None:
    result = attempt("proxy: {ports: [80]}")
    assert result.status == 0
    assert "middleboxes" not in result.summary
    assert result.metric("bulk.goodput") == TWO_PATHS


def test_it_repeats(attempt: Try, mprun: Callable[..., Result]) -> None:
    attempt("proxy: {}, strip: [mp_join]")
    assert mprun("verify").out.startswith("identical: ")


def test_a_rebound_host_keeps_its_datagrams_and_loses_its_connections(
    mprun: Callable[..., Result], tmp_path: Path
) -> None:
    """A server of TCP does not know the other port, and resets the connection (RFC 9293 3.10.7.1)."""
    (tmp_path / "topo.yaml").write_text(
        "version: 1\nnodes: {client: {kind: host}, home: {kind: router}, server: {kind: host}}\n"
        "links: [{name: wifi, between: [client, home], delay: 10ms}, {name: access, between: [home, server]}]\n"
        "events: [{at: 1s, every: 1s, until: 3s, host: client, address: wifi, rebind: port}]\n"
    )
    (tmp_path / "xp.yaml").write_text(
        "version: 1\ntraffic:\n"
        "  - {name: stream, tool: udp, from: client, to: server, rate: 80kbit, length: 100bytes, duration: 3s}\n"
        "  - {name: bulk, tool: iperf3, from: client, to: server, protocol: tcp, duration: 3s, rate: 1mbit}\n"
        "capture: [{host: server, snaplen: 100}]\n"
    )
    result = mprun("-t", "topo", "-x", "xp", "--engine", "virtual", "--json")
    assert result.status == 1
    (error,) = result.summary["errors"]
    assert "Connection reset by peer" in error
    assert result.metric("stream.loss") == 0
    sources = [int(port) for (port,) in fields(result, "server", "udp.dstport && ip.dst == 10.0.1.2", "udp.srcport")]
    first, second, third = (sources.count(port) for port in dict.fromkeys(sources))
    # 100 packets in each second, which reach the router after 10 ms
    assert (first, second, third) == (99, 100, 101)


@pytest.mark.parametrize("sampled", ["500ms", "10ms"])
def test_the_payload_of_a_subflow_that_a_rebinding_resets_is_not_taken_for_nothing(
    mprun: Callable[..., Result], tmp_path: Path, sampled: str
) -> None:
    """The kernel clears the counts of an initial subflow that is reset. A sample before has them."""
    event = "events: [{at: 100ms, host: client, address: path0, rebind: port}]\n"
    (tmp_path / "topo.yaml").write_text(RATES_ONLY + event)
    get = "{name: get, tool: http, from: client, to: server, protocol: mptcp, sizes: [1mb]}"
    hosts = "".join(f"  {host}: {{mptcp: {{path_manager: fullmesh}}}}\n" for host in ("client", "server"))
    (tmp_path / "xp.yaml").write_text(
        f"version: 1\nhosts:\n{hosts}traffic: [{get}]\nsample: {{sockets: {sampled}}}\n"
        "capture: [{host: client, snaplen: 100}]\n"
    )
    result = mprun("-t", "topo", "-x", "xp", "--engine", "virtual", "--json")
    (warning,) = result.summary["warnings"]
    assert warning.startswith("get: its initial subflow, over 'path0', was reset at ")
    metrics = result.summary["metrics"]
    if sampled == "500ms":
        assert "`share` and `carried` are unknown" in warning
        assert not [name for name in metrics if ".share." in name or ".carried." in name]
    else:
        lengths = fields(result, "client", "ip.src == 10.1.0.1 && ip.dst == 10.0.0.1 && tcp.len > 0", "tcp.len")
        assert "after its last sample" in warning
        assert 0 < result.metric("get.carried.path0") <= sum(int(length) for (length,) in lengths)


@pytest.mark.parametrize("box", ["proxy: {}", "nat: {inside: [wifi]}", "firewall: {inside: [wifi]}"])
def test_a_rebound_host_opens_connections_through_a_middlebox(
    mprun: Callable[..., Result], tmp_path: Path, box: str
) -> None:
    """The router of the rebindings is the middlebox. The last rebinding of a kind counts, and the other kind stays."""
    kinds = ("address", "port", "address")
    events = ", ".join(f"{{at: {n}s, host: client, address: wifi, rebind: {kind}}}" for n, kind in enumerate(kinds, 1))
    (tmp_path / "topo.yaml").write_text(
        "version: 1\nnodes: {client: {kind: host}, home: {kind: router}, server: {kind: host}}\n"
        "links: [{name: wifi, between: [client, home], delay: 10ms}, {name: access, between: [home, server]}]\n"
        f"middleboxes: {{home: {{{box}}}}}\nevents: [{events}]\n"
    )
    get = "tool: http, from: client, to: server, protocol: tcp, sizes: [100kb], timeout: 5s"
    flows = "".join(f"  - {{name: get{n}, {get}, start: {n}500ms}}\n" for n in range(len(kinds) + 1))
    (tmp_path / "xp.yaml").write_text(f"version: 1\ntraffic:\n{flows}capture: [{{host: client}}, {{host: server}}]\n")
    result = mprun("-t", "topo", "-x", "xp", "--engine", "virtual", "--json")
    assert result.status == 0, result.out + result.err
    if "firewall" in box:
        sent, seen = (fields(result, host, SYN, "ip.src", "tcp.srcport") for host in ("client", "server"))
        assert [address for address, _ in seen] == ["10.0.0.1", "10.0.0.254", "10.0.0.254", "10.0.0.253"]
        assert [int(new) ^ int(old) for (_, new), (_, old) in zip(seen, sent, strict=True)] == [0, 0, 1, 1]


@pytest.mark.usefixtures("leaves_nothing")
@pytest.mark.parametrize("box", ["nat: {inside: [path0, path1]}", "rewrite_sequence: {}"])
@pytest.mark.alone
def test_on_the_hosts_kernel(mprun: Callable[..., Result], tmp_path: Path, box: str) -> None:
    (tmp_path / "topo.yaml").write_text(RATES_ONLY + f"middleboxes: {{router: {{{box}}}}}\n")
    (tmp_path / "xp.yaml").write_text(EXPERIMENT)
    result = mprun("-t", "topo", "-x", "xp", "--engine", "real", "--json")
    assert result.status == 0, result.out + result.err
    assert result.metric("bulk.subflows") == 2


def test_rules_that_a_kernel_refuses_are_named(tmp_path: Path) -> None:
    (tmp_path / "topo.yaml").write_text(RATES_ONLY + "middleboxes: {router: {strip: [mp_join]}}\n")
    (tmp_path / "xp.yaml").write_text(EXPERIMENT)
    spec = load(tmp_path / "topo.yaml", tmp_path / "xp.yaml").spec
    plan = compile_plan(spec, allocate(spec))
    assert programs_needed(spec)["nft"].package == "nftables"
    assert refused_rules(plan) is None
    odd = Command("router", ("nft", "add", "rule", "inet", "strip", "nowhere", "drop"))
    refused = refused_rules(replace(plan, build=(*plan.build, odd)))
    assert refused is not None
    node, why = refused
    assert node == "router"
    assert "nft add rule inet strip nowhere drop" in why
