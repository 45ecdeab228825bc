# SPDX-License-Identifier: Apache-2.0
"""`mprun faults` without runs: which packets can have a fault, their kinds, samples, and what stands out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mprun.cli.faults import _explain_none
from mprun.compile import allocate, compile_plan
from mprun.inputs.loading import load
from mprun.inputs.writer import write_experiment
from mprun.kernel.store import Kernel
from mprun.model.intent import Intent
from mprun.model.plan import PlannedFault, render
from mprun.model.spec import Capture, PacketFault
from mprun.questions.faulted_run import FaultedRun, by_kind, find_outliers, find_separating, group
from mprun.questions.faults import make_cells
from mprun.questions.packet_choice import (
    Arrival,
    Fault,
    Packet,
    find_headings,
    is_opening,
    list_packets,
    list_seen,
    pair,
    sample,
    tell_kind,
    watch,
)
from mprun.runs.place import Place

TOPOLOGY = """\
version: 1
nodes: {client: {kind: host}, near: {kind: router}, far: {kind: router}, hub: {kind: switch}, server: {kind: host}}
links:
  - {name: path0, between: [client, near], rate: 20mbit, delay: 10ms}
  - {name: path1, between: [client, near], rate: 20mbit, delay: 10ms}
  - {name: core, between: [near, far]}
  - {name: access, between: [far, hub]}
  - {name: last, between: [hub, server]}
"""
EXPERIMENT = """\
version: 1
hosts: {client: {mptcp: {path_manager: fullmesh}}, server: {mptcp: {path_manager: fullmesh}}}
traffic: [{name: bulk, tool: iperf3, from: client, to: server, protocol: mptcp, duration: 1s}]
capture: [{node: near, snaplen: 40}, {host: client}, {node: far, link: core}]
faults:
  - {node: near, link: path1, packet: 7}
  - {node: near, link: path1, packet: 3}
  - {node: server, link: last, packet: 2, action: delay, by: 50ms}
  - {node: server, link: last, packet: 4, action: duplicate}
  - {node: server, link: last, packet: 5, action: strip}
  - {node: server, link: last, packet: 0}
"""
ROW: Mapping[str, Any] = {
    **{"capture": "near", "link": "path0", "direction": "in", "protocol": "tcp", "time_ns": 5, "repeat": None},
    **{"source": "10.0.0.1", "source_port": 1000, "destination": "10.2.0.1", "destination_port": 5201},
    **{"flags": "ACK", "options": "DSS", "payload_bytes": 0},
}


@pytest.fixture
def intent(tmp_path: Path) -> Intent:
    (tmp_path / "topo.yaml").write_text(TOPOLOGY)
    (tmp_path / "xp.yaml").write_text(EXPERIMENT)
    spec = load(tmp_path / "topo", tmp_path / "xp").spec
    return compile_plan(spec, allocate(spec)).intent


def test_the_plan_names_the_interface_of_a_fault(tmp_path: Path) -> None:
    (tmp_path / "topo.yaml").write_text(TOPOLOGY)
    (tmp_path / "xp.yaml").write_text(EXPERIMENT)
    spec = load(tmp_path / "topo", tmp_path / "xp").spec
    assert spec.experiment.faults[:2] == (PacketFault("near", "path1", 7), PacketFault("near", "path1", 3))
    plan = compile_plan(spec, allocate(spec))
    assert plan.faults == (
        PlannedFault("near", "near-eth1", 7, "drop", 0),
        PlannedFault("near", "near-eth1", 3, "drop", 0),
        PlannedFault("server", "server-eth0", 2, "delay", 50_000_000),
        PlannedFault("server", "server-eth0", 4, "duplicate", 0),
        PlannedFault("server", "server-eth0", 5, "strip", 30),
    )
    text = render(plan)
    assert "[faults of packets, without ICMP]\nnear: packet 7 of those that arrive on near-eth1 is dropped\n" in text
    assert "server: packet 2 of those that arrive on server-eth0 is delayed by 50000000 ns\n" in text
    # a fault changes the meaning of the files, and the files that are written mean the same
    (tmp_path / "again.yaml").write_text(write_experiment(spec.experiment))
    assert load(tmp_path / "topo", tmp_path / "again").spec.experiment.faults == spec.experiment.faults


def test_packets_are_counted_at_the_first_node_that_is_no_switch(intent: Intent) -> None:
    headings = find_headings(intent)
    ways = {(one.path, one.way): one.arrival for one in headings.values()}
    assert ways == {
        ("path0", "forward"): Arrival("near", "path0"),
        ("path1", "forward"): Arrival("near", "path1"),
        ("path0", "reverse"): Arrival("far", "access"),
        ("path1", "reverse"): Arrival("far", "access"),
    }


def test_every_arrival_has_a_capture(tmp_path: Path) -> None:
    (tmp_path / "topo.yaml").write_text(TOPOLOGY)
    (tmp_path / "xp.yaml").write_text(EXPERIMENT.split("faults:")[0])
    experiment = load(tmp_path / "topo", tmp_path / "xp").spec.experiment
    watched = watch(experiment, [Arrival("near", "path0"), Arrival("far", "access"), Arrival("near", "path0")])
    # a capture of the user that lacks bytes is replaced, and captures elsewhere are kept
    assert watched.captures == (
        Capture("client"),
        Capture("far", link="core"),
        Capture("near", 128),
        Capture("far", 128),
    )


def test_a_fault_of_two_packets_is_two_faults() -> None:
    two = replace(packet(1, index=9), also=packet(2, index=4, arrival=Arrival("far", "access")))
    assert two.name == "near.path0.9+far.access.4"
    assert two.label == "1 and 2"
    assert Fault("delay", 7).of(two) == (
        PacketFault("near", "path0", 9, "delay", 7),
        PacketFault("far", "access", 4, "delay", 7),
    )


def test_pairs_are_of_packets_that_open_connections_and_paths() -> None:
    kinds = ["MP_CAPABLE SYN", "data", "MP_JOIN ACK", "ACK", "ADD_ADDR", "INIT"]
    pairs = pair([packet(number, kind) for number, kind in enumerate(kinds, 1)])
    assert [one.label for one in pairs] == ["1 and 3", "1 and 5", "1 and 6", "3 and 5", "3 and 6", "5 and 6"]
    assert pairs[0].kind == "MP_CAPABLE SYN and MP_JOIN ACK"


def test_packets_are_seen_in_any_capture_and_once() -> None:
    headings = {("10.0.0.1", "10.2.0.1"): _heading("near", "path0")}
    back = {"source": "10.2.0.1", "source_port": 5201, "destination": "10.0.0.1", "destination_port": 1000}
    rows = [
        {**ROW, "capture": capture, "link": link, "direction": direction, "time_ns": at, **more}
        for capture, link, direction, late in (("server", "last", "in", 10), ("client", "path0", "out", 0))
        for at, more in (
            (1 + late, {"flags": "SYN"}),
            (3 + late, {"payload_bytes": 9}),
            (4 + late, {"payload_bytes": 9}),
        )
    ]
    rows += [
        # at the same time as the packet before it
        {**ROW, **back, "capture": "client", "time_ns": 4},
        {**ROW, "capture": "client", "link": "path0", "direction": "out", "time_ns": 4},
        {**ROW, "capture": "client", "protocol": "icmp", "time_ns": 6},
        {**ROW, "capture": "client", "source": None, "time_ns": 7},
    ]
    assert [(one.at_ns, one.where, one.kind) for one in list_seen(rows, headings)] == [
        (1, "path0 forward", "SYN"),
        (3, "path0 forward", "first data"),
        (4, "path0 forward", "data"),
        (4, "10.2.0.1 > 10.0.0.1", "ACK"),
        (4, "path0 forward", "ACK"),
        (6, "path0 forward", "icmp"),
    ]
    # none of these captures is where packets with faults are counted
    assert list_packets(rows, headings) == []


def test_only_packets_of_flows_are_listed_and_all_but_icmp_are_counted() -> None:
    def row(at: int, **values: object) -> dict[str, object]:
        return {**ROW, "time_ns": at, **values}

    headings = {
        ("10.0.0.1", "10.2.0.1"): _heading("near", "path0"),
        ("10.2.0.1", "10.0.0.1"): _heading("far", "access"),
    }
    rows = [
        row(1, protocol="icmp"),
        row(2, source=None, destination=None),
        row(3, flags="SYN", options="MP_CAPABLE"),
        # to another host
        row(4, destination="10.9.0.1"),
        row(5, direction="out"),
        row(6, payload_bytes=100),
        row(7, payload_bytes=100),
        row(2, capture="far", link="access", source="10.2.0.1", destination="10.0.0.1"),
    ]
    found = list_packets(rows, headings)
    assert [(one.number, one.arrival.node, one.index, one.kind) for one in found] == [
        (1, "far", 1, "ACK"),
        (2, "near", 1, "MP_CAPABLE SYN"),
        (3, "near", 3, "first data"),
        (4, "near", 4, "data"),
    ]


def test_an_answer_at_the_time_of_its_packet_is_listed_after_it() -> None:
    headings = {
        ("10.0.0.1", "10.2.0.1"): _heading("near", "path0"),
        ("10.2.0.1", "10.0.0.1"): _heading("near", "access"),
    }
    back = {"link": "access", "source": "10.2.0.1", "destination": "10.0.0.1", "flags": "SYN,ACK"}
    rows = [{**ROW, "time_ns": 1, "flags": "SYN"}, {**ROW, **back, "time_ns": 1}]
    assert [one.kind for one in list_packets(rows, headings)] == ["SYN", "SYN,ACK"]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ({"flags": "SYN", "options": None}, "SYN"),
        ({"flags": "SYN,ACK", "options": "MP_CAPABLE"}, "MP_CAPABLE SYN,ACK"),
        ({"options": "MP_CAPABLE"}, "MP_CAPABLE ACK"),
        ({"options": "MP_CAPABLE", "payload_bytes": 37}, "data"),
        ({"options": "MP_JOIN"}, "MP_JOIN ACK"),
        ({"options": "DSS,ADD_ADDR"}, "ADD_ADDR"),
        ({"options": "DSS,DATA_FIN"}, "DATA_FIN"),
        ({"flags": "FIN,ACK"}, "FIN"),
        ({"flags": "RST", "options": "MP_FASTCLOSE"}, "RST"),
        ({"payload_bytes": 9, "repeat": "retransmission"}, "retransmission"),
        ({"payload_bytes": 9, "repeat": "reinjection"}, "reinjection"),
        ({"protocol": "sctp", "flags": "INIT", "options": None}, "INIT"),
        ({"protocol": "sctp", "flags": "COOKIE ECHO,DATA", "options": None, "payload_bytes": 9}, "COOKIE ECHO"),
        ({"protocol": "sctp", "flags": "SACK", "options": None}, "SACK"),
        ({"protocol": "sctp", "flags": "SACK,DATA", "options": None, "payload_bytes": 9}, "data"),
        ({"protocol": "udp", "flags": None, "options": None, "payload_bytes": 9}, "datagram"),
        ({"protocol": "udp", "flags": "Initial,Handshake", "payload_bytes": 9}, "Initial,Handshake"),
        ({"protocol": "udp", "flags": "1-RTT", "payload_bytes": 9}, "1-RTT"),
    ],
)
def test_kinds(values: dict[str, object], kind: str) -> None:
    assert tell_kind({**ROW, **values}, is_first=False) == kind


def test_packets_of_quic_with_a_long_header_open_a_connection() -> None:
    kinds = ("Initial", "Initial,Handshake,1-RTT", "0-RTT", "Handshake", "Retry", "Version Negotiation", "1-RTT")
    assert [is_opening(kind) for kind in kinds] == [True] * 6 + [False]


def test_the_first_payload_of_a_direction_is_a_kind() -> None:
    assert tell_kind({**ROW, "payload_bytes": 9}, is_first=True) == "first data"
    assert tell_kind({**ROW, "protocol": "udp", "flags": None, "payload_bytes": 9}, is_first=True) == "first datagram"


def test_a_sample_has_every_kind_and_spreads_within_it() -> None:
    kinds = ["SYN"] + ["data"] * 60 + ["ACK"] * 38 + ["FIN"]
    packets = [packet(number, kind=kind) for number, kind in enumerate(kinds, 1)]
    chosen = sample(packets, 10)
    assert [one.kind for one in chosen].count("SYN") == [one.kind for one in chosen].count("FIN") == 1
    assert [one.kind for one in chosen].count("data") == [one.kind for one in chosen].count("ACK") == 4
    assert [one.number for one in chosen if one.kind == "data"] == [2, 17, 32, 47]
    assert [one.number for one in chosen] == sorted(one.number for one in chosen)
    # fewer runs than kinds
    assert [one.kind for one in sample(packets, 3)] == ["SYN", "data", "ACK"]
    assert sample(packets, 1000) == packets


def test_what_stands_out_is_grouped_by_cause() -> None:
    base = outcome(0, value=10.0)
    usual = [outcome(number, value=10.0 + number % 3 / 100) for number in range(1, 40)]
    lost_join = [outcome(n, status="failed", causes=(f"bulk: 1 of 2 subflows after {n} s",)) for n in (50, 51)]
    slow = [outcome(60, value=20.0, kind="MP_CAPABLE SYN"), outcome(61, value=30.0, kind="first data")]
    outliers = find_outliers([*usual, *lost_join, *slow], base)
    assert outliers == [*lost_join, *slow]
    groups = group(outliers, lambda _: base)
    assert [(one.cause, len(one.outcomes)) for one in groups] == [
        ("bulk: 1 of 2 subflows after 50 s", 2),
        ("no failure, but far from the other runs: MP_CAPABLE SYN", 1),
        ("no failure, but far from the other runs: first data", 1),
    ]
    rows = {one.kind: one for one in by_kind([*usual, *slow])}
    assert (rows["data"].packets, rows["data"].failed, rows["data"].median) == (39, 0, 10.01)


def test_a_failure_that_the_run_without_losses_has_too_is_not_a_cause() -> None:
    base = outcome(0, status="failed", causes=("always",))
    assert find_outliers([outcome(n, status="failed", causes=("always",)) for n in range(9)], base) == []
    rescued = outcome(9, status="passed")
    assert find_outliers([outcome(1, status="failed", causes=("always",)), rescued], base) == [rescued]


def test_another_failure_stands_out_also_if_the_run_without_losses_fails() -> None:
    """The status was the same, so that a lost connection stood out from a slow one only if its value was far out."""
    base = outcome(0, status="failed", causes=("rate: 3 of 4",))
    usual = [outcome(n, status="failed", causes=(f"rate: {n} of 4",)) for n in range(9)]
    broken = outcome(9, status="failed", causes=("rate: 1 of 4", "a subflow is missing"))
    unmeasured = replace(outcome(10, status="failed", causes=("rate: 1 of 4",)), value=None)
    assert find_outliers([*usual, broken, unmeasured], base) == [broken, unmeasured]
    assert find_separating([*usual, broken], [*usual, outcome(9, status="failed", causes=("rate: 2 of 4",))], base) == [
        broken
    ]
    assert "no new failure, but nothing was measured: data" in [
        one.cause for one in group([broken, unmeasured], lambda _: replace(base, causes=("rate: 1 of 4",)))
    ]


def test_a_packet_separates_two_kernels_by_status_or_by_an_unusual_distance() -> None:
    base = outcome(0, value=10.0)
    usual = [outcome(number, value=10.0 + number) for number in range(1, 40)]
    # the control is slower by a second, whatever is lost
    control = [outcome(number, value=11.0 + number) for number in range(1, 40)]
    assert find_separating(usual, control, base) == []
    slow, failed = outcome(40, value=13.0), outcome(41, status="failed", value=9.0, causes=("lost",))
    better = outcome(42, value=9.0)
    found = [*usual, slow, failed, better]
    controls = [*control, outcome(40, value=11.0), outcome(41, value=10.0), outcome(42, status="failed", value=10.0)]
    separating = find_separating(found, controls, base)
    assert separating == [slow, failed, better]
    by_number = {one.packet.number: one for one in controls}
    assert [one.cause for one in group(separating, lambda one: by_number[one.packet.number])] == [
        "no failure, but far from the other runs: data",
        "lost",
        "passed instead of failed: data",
    ]


def packet(number: int, kind: str = "data", index: int = 1, arrival: Arrival | None = None) -> Packet:
    return Packet(number, arrival or Arrival("near", "path0"), index, number, "forward", "path0", kind, 0)


def outcome(
    number: int, status: str = "passed", value: float = 10.0, causes: tuple[str, ...] = (), kind: str = "data"
) -> FaultedRun:
    return FaultedRun(packet(number, kind), status, 1, value, causes, f"runs/{number}/1")


def _heading(node: str, link: str) -> Any:
    from mprun.questions.packet_choice import Heading

    return Heading(Arrival(node, link), "path0", "forward")


def test_all_runs_are_on_the_kernel_of_the_run_without_faults(tmp_path: Path) -> None:
    """With -p kernel=mine of an axis, only the run without faults was on this kernel, and all others on `default`."""
    (tmp_path / "topo.yaml").write_text(TOPOLOGY)
    (tmp_path / "xp.yaml").write_text(EXPERIMENT + "matrix: {kernel: [default, mine]}\n")
    loaded = load(tmp_path / "topo", tmp_path / "xp", {"kernel": "mine"})
    place = Place("virtual", "as asked", Kernel("mine", "/linux", "6.12", "0" * 64, "tree", 1, "gcc", 1.0))
    assert [cell.kernel for cell in make_cells(loaded, (), Fault("drop"), place)] == ["mine"]
    both = make_cells(loaded, (), Fault("drop"), place, "default")
    assert [cell.kernel for cell in both] == ["mine", "default"]


def test_a_study_without_packets_says_why() -> None:
    """`no packet of this run can have this fault` named neither the cause nor a remedy."""
    plain = Packet(1, Arrival("near", "path0"), 1, 0, "forward", "path0", "SYN", 0)
    joined = replace(plain, options="MP_CAPABLE")
    assert "those of pings (ICMP) do not count" in _explain_none([], [], "drop")
    assert _explain_none([plain], [], "strip").endswith("MPTCP for 'strip': write 'protocol: mptcp' for a flow")
    assert _explain_none([plain, joined], [], "strip").endswith("MPTCP for 'strip': write a larger --first")
    assert _explain_none([plain], [plain], "drop") == "--pairs needs two packets: write a larger --first"
