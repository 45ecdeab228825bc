# SPDX-License-Identifier: Apache-2.0
"""The labs show the published effects, with figures in the virtual engine."""

from __future__ import annotations

import json
import subprocess
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.system.conftest import LAB, ROOT, Result

PATH_MANAGER = ROOT / "labs" / "03_path_manager"
# Kinds of MPTCP's options, as tshark prints them (RFC 8684 section 3).
MP_CAPABLE, MP_JOIN, ADD_ADDR = "013"


@pytest.mark.parametrize(
    ("topology", "experiment", "subflows"),
    [
        ("topo_single_path", "iperf_default", 1),
        ("topo_single_path", "iperf_fullmesh", 1),
        ("topo_single_path", "iperf_ndiffports", 2),
        ("topo_two_client_paths", "iperf_default", 1),
        ("topo_two_client_paths", "iperf_fullmesh", 2),
        ("topo_two_client_paths", "iperf_ndiffports", 2),
        ("topo_two_client_paths_two_server_paths", "iperf_default", 1),
        ("topo_two_client_paths_two_server_paths", "iperf_fullmesh", 4),
    ],
)
def test_subflows_of_each_path_manager(
    mprun: Callable[..., Result], topology: str, experiment: str, subflows: int
) -> None:
    result = mprun("-t", PATH_MANAGER / topology, "-x", PATH_MANAGER / experiment, "--engine", "virtual", "--json")
    assert result.status == 0, result.out + result.err
    assert result.metric("bulk.subflows") == subflows
    shown = tshark(result.run / "pcap" / "client.pcap", "tcp.flags.syn == 1 || tcp.options.mptcp.subtype == 3")
    syn, answer = shown["0x0002"], shown["0x0012"]
    # iperf3's control connection is an MPTCP connection too, with as many subflows
    assert answer[MP_JOIN] // syn[MP_CAPABLE] == subflows - 1
    # the client learns the server's second address only from ADD_ADDR
    announced = any(kinds[ADD_ADDR] for kinds in shown.values())
    assert announced == (topology.endswith("server_paths") and experiment == "iperf_fullmesh")


def tshark(capture: Path, condition: str) -> Mapping[str, Counter[str]]:
    """Return the number of MPTCP's options of each kind, by TCP's flags, in packets that match a display filter."""
    argv = ["tshark", "-r", str(capture), "-Y", condition, "-T", "fields"]
    argv += ["-e", "tcp.flags", "-e", "tcp.options.mptcp.subtype"]
    found: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for line in subprocess.run(argv, check=True, capture_output=True, text=True).stdout.splitlines():
        flags, _, kinds = line.partition("\t")
        found[flags].update(kinds.split(","))
    return found


@pytest.mark.parametrize(("experiment", "data_bytes"), [("xp_tcp", 1448), ("xp_mptcp", 1424)])
def test_headers_of_a_full_packet_are_those_of_the_answers(
    mprun: Callable[..., Result], experiment: str, data_bytes: int
) -> None:
    """Most of the client's data packets have these lengths in a capture of all interfaces."""
    result = mprun("-t", LAB / "topo", "-x", LAB / experiment, "--engine", "virtual", "--json")
    assert result.status == 0, result.out + result.err
    argv = ["tshark", "-r", str(result.run / "pcap" / "client.pcap"), "-c", "2000", "-T", "fields"]
    argv += ["-Y", "sll.pkttype == 4 && tcp.len > 0", "-e", "frame.len", "-e", "ip.hdr_len", "-e", "tcp.hdr_len"]
    lines = subprocess.run([*argv, "-e", "tcp.len"], check=True, capture_output=True, text=True).stdout.splitlines()
    ((full, _),) = Counter(lines).most_common(1)
    whole, ip, tcp, data = map(int, full.split())
    assert data == data_bytes
    # the bytes before the IP header: Linux's own header in the capture, Ethernet's 14 bytes on the wire
    cooked = whole - ip - tcp - data
    assert (whole, cooked, ip, whole - cooked + 14) == (1520, 20, 20, 1514)
    answers = " ".join((LAB / "ANSWERS.md").read_text().split())
    if experiment == "xp_tcp":
        parts = {"Linux's cooked header": cooked, "IP header": ip, "TCP header, with time stamps": tcp, "payload": data}
        said = f"has {whole} bytes: " + " ".join(f"- {size} bytes of {part}" for part, size in parts.items())
    else:
        said = f"frame of 1514 bytes in `xp_mptcp` has {tcp} bytes of TCP header and {data} bytes of payload"
    assert said in answers


def test_uncoupled_subflows_give_way_to_each_connection(mprun: Callable[..., Result]) -> None:
    """The connection has both paths alone, less with each new TCP connection, and more when one ends.

    A phase of ten seconds is shorter than a sawtooth of Reno on the path of 80 ms. So only the lab's long runs claim
    halves.
    """
    lab = ROOT / "labs" / "05_congestion_control"
    result = mprun("-t", lab / "topo_cong", "-x", lab / "iperf_scenario_reno_1sf", "--engine", "virtual", "--json")
    assert result.status == 0, result.out + result.err
    assert result.summary["warnings"] == []
    report = json.loads((result.run / "logs" / "multipath.out").read_text())
    intervals = [interval["sum"]["bytes"] * 8 for interval in report["server_output_json"]["intervals"]]
    # Reno needs some seconds to adapt: the middle of each phase of ten seconds
    phases = [sum(intervals[start + 3 : start + 9]) / 6e6 for start in range(0, 50, 10)]
    assert phases[0] > phases[1] > phases[2] < phases[3] < phases[4]
    assert min(phases[0], phases[4]) == pytest.approx(37.6, abs=1)


@pytest.mark.parametrize(("control", "starves"), [("reno", True), ("olia", False)])
def test_four_subflows_starve_tcp_unless_they_are_coupled(
    mprun: Callable[..., Result], control: str, starves: bool
) -> None:
    """TCP is one of five flows at each bottleneck. Reno leaves TCP a fifth of 20 Mbit/s, and coupled control a half."""
    lab = ROOT / "labs" / "05_congestion_control"
    experiment = lab / f"iperf_scenario_{control}_4sf"
    result = mprun("-t", lab / "topo_cong", "-x", experiment, "--engine", "virtual", "--json")
    assert result.status == 0, result.out + result.err
    assert result.metric("multipath.subflows") == 8
    fair = 20e6 / 2
    for flow in ("tcp0.goodput", "tcp1.goodput"):
        assert result.metric(flow) < 0.8 * fair if starves else result.metric(flow) > 0.7 * fair


def run_scheduler(mprun: Callable[..., Result], part: str, experiment: str, *more: str) -> Result:
    """Run an experiment of lab 02."""
    folder = ROOT / "labs" / "02_scheduler" / part
    result = mprun("-t", folder / "topo", "-x", folder / experiment, "--engine", "virtual", "--json", *more)
    assert result.status == 0, result.out + result.err
    return result


def test_the_scheduler_decides_which_round_trip_a_request_takes(mprun: Callable[..., Result]) -> None:
    """The round trips are 40 and 80 ms. 10000 bytes take seven packets: 0.8 ms at 100 Mbit/s in each direction."""
    lowest = run_scheduler(mprun, "reqres", "reqres_rtt")
    assert lowest.metric("msg.delay.min") >= 0.040
    assert lowest.metric("msg.delay.max") <= 0.042
    in_turn = run_scheduler(mprun, "msg", "reqres_rr")
    # the first request, before the second subflow has joined
    assert in_turn.metric("msg.delay.min") <= 0.042
    assert 0.080 <= in_turn.metric("msg.delay.median") <= 0.082


def test_two_paths_carry_a_file_sooner_than_one(mprun: Callable[..., Result]) -> None:
    one = run_scheduler(mprun, "http", "http_tcp", "-p", "size=20mb")
    # 20 MiB at 19.1 Mbit/s
    assert one.metric("http.delay.mean") == pytest.approx(8.8, abs=0.3)
    for scheduler in ("http_rtt", "http_rr"):
        both = run_scheduler(mprun, "http", scheduler, "-p", "size=20mb")
        assert both.metric("http.delay.mean") < 0.65 * one.metric("http.delay.mean")


def test_large_buffers_of_several_connections_fit_into_the_kernel(mprun: Callable[..., Result]) -> None:
    """The send buffers of three connections hold 42 MB.

    1 % of losses and 4 ms limit a connection to 1448 bytes / 4 ms x sqrt(1.5 / 0.01) = 35 Mbit/s. Three connections get
    about 90 of the 95.7 Mbit/s of the link.
    """
    lab = ROOT / "labs" / "13_sctp_vs_mptcp"
    parameters = ("-p", "connections=3", "-p", "duration=2s")
    result = mprun("-t", lab / "topo_table", "-x", lab / "tcp", "--engine", "virtual", "--json", *parameters)
    assert result.status == 0, result.out + result.err
    assert result.summary["warnings"] == []
    # slow start takes at most one second of two
    assert result.metric("bulk.goodput") > 60e6
