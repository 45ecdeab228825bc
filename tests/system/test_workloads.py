# SPDX-License-Identifier: Apache-2.0
"""Workloads: figures that follow from the network by arithmetic, exact in the virtual engine."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.scenes import RATES_ONLY
from tests.system.conftest import Result

RATE = 100e6
RTT_S = 0.040
# Headers of a frame with TCP over IPv4: Ethernet 14, IP 20, TCP 20, its timestamps 12.
HEADERS, MSS = 66, 1448
# Clock steps of the kernel, and the time that programs take between them.
CLOCK_S = 10e-6
ONE_PATH = """\
version: 1
topology: multi-path
paths: [{rate: 100mbit, delay: 20ms, queue: 400packets}]
"""
TWO_PATHS = """\
version: 1
topology: multi-path
paths:
  - {rate: 100mbit, delay: 20ms, queue: 400packets}
  - {rate: 100mbit, delay: 40ms, queue: 800packets}
"""


def wire_s(payload: int, headers: int = HEADERS, mss: int = MSS) -> float:
    """Return the time that a link takes to send the packets of a burst, bit by bit."""
    return sent_s(RATE, payload + -(-payload // mss) * headers)


def sent_s(rate: float, frame_bytes: int) -> float:
    """Return the time that a link takes to send `frame_bytes`."""
    return frame_bytes * 8 / rate


@pytest.fixture
def run(mprun: Callable[..., Result], tmp_path: Path) -> Callable[..., Result]:
    """Return a function that runs flows, by default in the virtual engine."""

    def call(traffic: str, topology: str = ONE_PATH, more: str = "", engine: str = "virtual") -> Result:
        (tmp_path / "topo.yaml").write_text(topology)
        (tmp_path / "xp.yaml").write_text(f"version: 1\n{more}traffic:\n{traffic}")
        return mprun("-t", "topo", "-x", "xp", "--engine", engine, "--json")

    return call


@pytest.fixture
def rows(mprun: Callable[..., Result], tmp_path: Path) -> Callable[[Result, str], list[dict[str, Any]]]:
    """Return a function that returns the rows of a table, as `mprun export` writes them."""

    def read(result: Result, table: str) -> list[dict[str, Any]]:
        done = mprun("export", result.run, "--csv", "--to", tmp_path / "csv")
        assert done.status == 0, done.err
        with (tmp_path / "csv" / f"{table}.csv").open() as file:
            return list(csv.DictReader(file))

    return read


def succeed(result: Result) -> Result:
    assert result.status == 0, result.out + result.err
    return result


FULLMESH = """\
hosts:
  client: {mptcp: {path_manager: fullmesh}}
  server: {mptcp: {path_manager: fullmesh}}
"""


# reqres


def test_a_request_takes_a_round_trip_and_its_packets(
    run: Callable[..., Result], rows: Callable[[Result, str], list[dict[str, Any]]]
) -> None:
    flow = "{tool: reqres, from: client, to: server, requests: 10, request: 3000bytes, response: 10000bytes"
    result = succeed(run(f"  - {flow}, think: 250ms, server_think: 7ms}}\n"))
    expected = RTT_S + 0.007 + wire_s(3_000) + wire_s(10_000)
    assert result.metric("reqres.delay.min") == pytest.approx(expected, abs=CLOCK_S)
    # congestion window and pacing of a new connection do not limit it either
    assert result.metric("reqres.delay.max") == pytest.approx(expected, abs=1e-3)
    assert result.metric("reqres.requests") == 10
    table = rows(result, "requests")
    starts = [int(row["start_ns"]) / 1e9 for row in table]
    ends = [start + int(row["delay_ns"]) / 1e9 for start, row in zip(starts, table, strict=True)]
    # the first request comes after the handshake, and each further one after the previous answer
    assert starts[0] == pytest.approx(RTT_S + 0.25, abs=1e-3)
    thought = [start - end for start, end in zip(starts[1:], ends, strict=False)]
    assert thought == pytest.approx([0.25] * 9, abs=CLOCK_S)
    delays = [int(row["delay_ns"]) for row in table]
    assert result.metric("reqres.delay.mean") == pytest.approx(sum(delays) / 10 / 1e9)


def test_requests_over_mptcp_stay_on_the_first_path_while_it_has_room(run: Callable[..., Result]) -> None:
    flow = "{name: msg, tool: reqres, from: client, to: server, protocol: mptcp, requests: 20, think: 250ms}"
    result = succeed(run(f"  - {flow}\n", TWO_PATHS, FULLMESH))
    assert result.metric("msg.subflows") == 2
    assert result.metric("msg.delay.max") == pytest.approx(RTT_S, abs=1e-3)
    # the kernel counts the SYN of the other subflow as a byte
    assert result.metric("msg.share.path0") == pytest.approx(1, abs=1e-3)


def test_every_server_takes_joins_at_all_its_addresses(run: Callable[..., Result]) -> None:
    topology = f"{TWO_PATHS}server_paths: [{{rate: 100mbit, delay: 5ms}}, {{rate: 100mbit, delay: 5ms}}]\n"
    works = {
        "requests": "reqres, requests: 20, request: 50kb, response: 10kb",
        "short": "flows, arrivals: constant, interval: 1s, duration: 2s, size: 500kb",
        "asked": "flows, arrivals: constant, interval: 1s, duration: 2s, size: 1mb, request: 100bytes",
        "web": "http, sizes: [5mb]",
        "player": "video, length: 4s, qualities: [5mbit], chunk: 1s, startup: 1s, buffer: 2s",
    }
    lines = [
        f"  - {{name: {n}, tool: {work}, from: client, to: server, protocol: mptcp}}\n" for n, work in works.items()
    ]
    result = succeed(run("".join(lines), topology, FULLMESH))
    assert {name: result.metric(f"{name}.subflows") for name in works} == dict.fromkeys(works, 4)
    # all of the request would fit into a send buffer at once: the opener waits for the receiver, so subflows exist
    assert result.summary["warnings"] == []


def test_congestion_control_is_that_of_both_ends(mprun: Callable[..., Result], tmp_path: Path) -> None:
    """ss(8) shows the flow's control at both ends while the client thinks. The hosts' own control differs."""
    (tmp_path / "topo.yaml").write_text(ONE_PATH)
    looks = "".join(
        f"  - {{name: at-{host}, tool: exec, from: {host}, to: {peer}, command: [ss, -tinH], start: 500ms}}\n"
        for host, peer in (("client", "server"), ("server", "client"))
    )
    flow = "{tool: reqres, from: client, to: server, requests: 2, think: 1s, congestion: lia}"
    (tmp_path / "xp.yaml").write_text(f"version: 1\ntraffic:\n  - {flow}\n{looks}")
    result = succeed(mprun("-t", "topo", "-x", "xp", "--engine", "virtual", "--json", "--allow-exec"))
    for host in ("client", "server"):
        shown = (result.run / "logs" / f"at-{host}.out").read_text()
        assert ":5201" in shown
        assert " lia " in shown
        assert " cubic " not in shown


def test_a_flow_that_takes_too_long_is_stopped(run: Callable[..., Result]) -> None:
    flow = "{tool: reqres, from: client, to: server, requests: 10, think: 1s, timeout: 3500ms}"
    result = run(f"  - {flow}\n")
    assert result.status == 1
    assert result.summary["errors"] == ["reqres: did not end in time and was stopped after 3500ms, its 'timeout'"]
    assert result.metric("reqres.requests") == 3


# http, https


def test_a_file_takes_a_round_trip_for_each_step(
    run: Callable[..., Result], rows: Callable[[Result, str], list[dict[str, Any]]]
) -> None:
    file = "from: client, to: server, sizes: [10000bytes]"
    flows = f"""\
  - {{name: kept, tool: http, {file}, requests: 3}}
  - {{name: fresh, tool: http, {file}, requests: 3, persistent: false, start: {{after: kept}}}}
  - {{name: tls, tool: https, {file}, requests: 2, start: {{after: fresh}}}}
"""
    result = succeed(run(flows))
    # 10000 bytes and about 250 bytes of header fit into the first window of ten packets
    packets = wire_s(10_250)
    by_flow: dict[str, list[float]] = {}
    for row in rows(result, "requests"):
        by_flow.setdefault(row["flow"], []).append(int(row["delay_ns"]) / 1e9)
    assert by_flow["kept"] == pytest.approx([2 * RTT_S + packets, *[RTT_S + packets] * 2], abs=2e-4)
    assert by_flow["fresh"] == pytest.approx([2 * RTT_S + packets] * 3, abs=2e-4)
    # TCP, TLS 1.3 (RFC 8446) and the request; one more record to encrypt in each direction
    assert by_flow["tls"] == pytest.approx([3 * RTT_S + packets, RTT_S + packets], abs=5e-4)


def test_a_large_file_fills_the_link(run: Callable[..., Result]) -> None:
    result = succeed(run("  - {tool: http, from: client, to: server, sizes: [20mb]}\n"))
    # 20 MiB take 1.75 s, and slow start a few round trips
    assert 0.85 * RATE * MSS / 1514 <= result.metric("http.goodput") <= RATE * MSS / 1514
    assert result.metric("http.bytes") == 20 << 20


def test_files_over_mptcp_use_both_paths(run: Callable[..., Result]) -> None:
    flow = "{name: web, tool: https, from: client, to: server, protocol: mptcp, sizes: [20mb]"
    result = succeed(run(f"  - {flow}, concurrency: 2, requests: 2}}\n", TWO_PATHS, FULLMESH))
    assert result.metric("web.subflows") == 2
    assert result.metric("web.share.path1") > 0.2
    assert result.metric("web.goodput") > RATE


def test_an_https_run_repeats(mprun: Callable[..., Result], run: Callable[..., Result]) -> None:
    result = succeed(
        run(
            "  - {tool: https, from: client, to: server, sizes: [10kb], requests: 4, persistent: false}\n",
            more="capture: [{host: client}]\n",
        )
    )
    assert (result.run / "tables" / "requests.parquet").exists()
    verified = mprun("verify", result.run)
    assert verified.status == 0, verified.out


def test_an_unanswered_request_is_an_error(run: Callable[..., Result]) -> None:
    """All packets are lost from 1 s on, so the second request gets no answer."""
    topology = ONE_PATH + "events: [{at: 1s, link: path0, set: {loss: 100%}}]\n"
    result = run("  - {tool: http, from: client, to: server, sizes: [1kb, 100mb], timeout: 5s}\n", topology)
    assert result.status == 1
    why = "'path0', its only path, has not carried packets since 1s: let the flow end before, or restore it by an event"
    said = f"http: did not end in time and was stopped after 5s, its 'timeout'; {why}"
    assert result.summary["errors"] == [said]


# iperf3

ENDS = "tool: iperf3, from: client, to: server"
# The goodput of 100 Mbit/s on the wire, for TCP, and for UDP with packets of 1500 bytes.
TCP_CEILING, UDP_CEILING = RATE * MSS / 1514, RATE * 1472 / 1514


def test_both_directions_send_at_their_rate(run: Callable[..., Result]) -> None:
    result = succeed(run(f"  - {{name: bulk, {ENDS}, duration: 4s, bidirectional: true, rate: 60mbit}}\n"))
    for which in ("goodput", "goodput.back"):
        assert result.metric(f"bulk.{which}") == pytest.approx(60e6, rel=0.05)


def test_the_steady_state_leaves_slow_start_out(
    run: Callable[..., Result], rows: Callable[[Result, str], list[dict[str, Any]]]
) -> None:
    flows = f"""\
  - {{name: all, {ENDS}, duration: 5s, congestion: reno}}
  - {{name: steady, {ENDS}, duration: 5s, congestion: reno, omit: {{start: 2s, end: 1s}}, start: {{after: all}}}}
"""
    result = succeed(run(flows))
    assert result.metric("steady.goodput") == pytest.approx(TCP_CEILING, rel=0.01)
    assert result.metric("all.goodput") < 0.99 * result.metric("steady.goodput")
    seconds = [row for row in rows(result, "goodput") if row["flow"] == "steady"][2:4]
    mean = sum(float(row["goodput_bit_per_s"]) for row in seconds) / 2
    assert mean == pytest.approx(result.metric("steady.goodput"), rel=1e-3)


def test_a_size_ends_the_transfer(run: Callable[..., Result]) -> None:
    result = succeed(run(f"  - {{name: bulk, {ENDS}, size: 20mb, length: 64kb}}\n"))
    # the server does not read data that is still in flight after the client's last write
    assert 0.9 * (20 << 20) <= result.metric("bulk.bytes") <= 20 << 20
    assert 0.7 * TCP_CEILING <= result.metric("bulk.goodput") <= TCP_CEILING


def test_a_client_that_receives_a_size_gets_its_last_bytes(run: Callable[..., Result]) -> None:
    result = succeed(run(f"  - {{name: bulk, {ENDS}, size: 1mb, reverse: true}}\n"))
    assert result.metric("bulk.bytes") == 1 << 20


def test_a_window_limits_what_is_under_way(run: Callable[..., Result]) -> None:
    """The flow sends a window per round trip. The kernel keeps a part of the doubled buffer (socket(7), SO_RCVBUF)."""
    result = succeed(run(f"  - {{name: bulk, {ENDS}, duration: 3s, window: 100kb}}\n"))
    window_bit = 100 * 1024 * 8
    assert window_bit / RTT_S <= result.metric("bulk.goodput") <= 2 * window_bit / RTT_S


def test_udp_loses_what_the_link_does_not_carry(run: Callable[..., Result]) -> None:
    result = succeed(
        run(f"  - {{name: bulk, {ENDS}, protocol: udp, rate: 120mbit, duration: 3s, omit: {{start: 1s}}}}\n")
    )
    assert result.metric("bulk.goodput") == pytest.approx(UDP_CEILING, rel=0.005)
    # the queue of 400 packets and the data in flight at the end count as arrived
    assert result.metric("bulk.loss") == pytest.approx(1 - UDP_CEILING / 120e6, abs=0.02)


@pytest.mark.parametrize("mtu", [1280, 4000])
def test_udp_fills_the_mtu_of_its_path(run: Callable[..., Result], mtu: int) -> None:
    """A frame has 14 bytes of Ethernet, 20 of IP and 8 of UDP. Two fragments per packet would halve the goodput."""
    topology = ONE_PATH.replace("queue: 400packets", f"queue: 400packets, mtu: {mtu}")
    if mtu > 1500:
        topology += f"server_paths: [{{mtu: {mtu}}}]\n"
    flow = f"{{name: bulk, {ENDS}, protocol: udp, rate: 120mbit, duration: 3s, omit: {{start: 1s}}}}"
    result = succeed(run(f"  - {flow}\n", topology))
    assert result.metric("bulk.goodput") == pytest.approx(RATE * (mtu - 28) / (mtu + 14), rel=0.005)


# udp


def test_packets_take_the_delay_of_their_path(
    run: Callable[..., Result], rows: Callable[[Result, str], list[dict[str, Any]]]
) -> None:
    result = succeed(
        run("  - {tool: udp, from: client, to: server, rate: 8mbit, duration: 500ms, length: 1000bytes, start: 2s}\n")
    )
    # one packet each millisecond finds the link idle; each has 42 bytes of headers too
    for which in ("min", "mean", "max"):
        assert result.metric(f"udp.delay.{which}") == pytest.approx(RTT_S / 2 + sent_s(RATE, 1042), abs=CLOCK_S)
    assert result.metric("udp.packets") == 500
    assert [result.metric(f"udp.{which}") for which in ("loss", "reordered", "duplicates")] == [0, 0, 0]
    assert result.metric("udp.goodput") == pytest.approx(8e6)
    sent = [int(row["sent_ns"]) / 1e9 for row in rows(result, "datagrams")]
    begin = sent[0]
    assert sent == pytest.approx([begin + n * 1e-3 for n in range(500)], abs=CLOCK_S)


def test_a_full_queue_delays_and_loses(run: Callable[..., Result]) -> None:
    result = succeed(run("  - {tool: udp, from: client, to: server, rate: 120mbit, duration: 1s, length: 1472bytes}\n"))
    # 400 packets of 1514 bytes wait before the last packet that arrives, and a fifth of the offered packets does not
    # fit
    assert result.metric("udp.delay.max") == pytest.approx(RTT_S / 2 + 400 * 1514 * 8 / RATE, rel=0.01)
    carried = UDP_CEILING * (1 + 400 * 1514 * 8 / RATE) / 120e6
    assert result.metric("udp.loss") == pytest.approx(1 - carried, abs=0.01)


def test_a_packet_under_way_at_the_end_arrives(run: Callable[..., Result]) -> None:
    """Half a second of delay, and a queue of seconds: no packet is lost, with a capture and without."""
    flow = "  - {tool: udp, from: client, to: server, rate: 1mbit, duration: 1s}\n"
    far = ONE_PATH.replace("delay: 20ms", "delay: 500ms")
    result = succeed(run(flow, far))
    assert result.metric("udp.loss") == 0
    packets = 1e6 // (1472 * 8)
    assert result.metric("udp.packets") == packets
    assert result.metric("udp.goodput") == pytest.approx(packets * 1472 * 8)
    assert succeed(run(flow, far, "capture: [{host: server}]\n")).metric("udp.loss") == 0
    slow = ONE_PATH.replace("rate: 100mbit", "rate: 1mbit")
    result = succeed(run(flow.replace("1mbit", "8mbit"), slow))
    lost = result.metric("udp.loss") * result.metric("udp.packets")
    (queue,) = (row for row in result.rows("queues")[-2:] if row["direction"] == "forward")
    assert (queue["backlog_packets"], queue["drops_packets"]) == (0, pytest.approx(lost))
    assert lost == pytest.approx(8e6 // (1472 * 8) - 400 - 1e6 / (1514 * 8), abs=2)
    assert not [text for text in result.summary["warnings"] if "did not arrive" in text]


def test_what_is_corrupt_is_not_taken(run: Callable[..., Result]) -> None:
    topology = ONE_PATH.replace("delay: 20ms", "delay: 20ms, corrupt: {forward: 10%}")
    flow = "{tool: udp, from: client, to: server, rate: 8mbit, duration: 2s, length: 1000bytes}"
    result = succeed(run(f"  - {flow}\n", topology))
    # 2000 packets, five standard deviations; one bit in 140 is in the sender's MAC address, which is not checked
    assert result.metric("udp.loss") == pytest.approx(0.1, abs=0.035)
    assert not result.summary["warnings"]


def test_duplicates_and_reordering_are_counted(run: Callable[..., Result]) -> None:
    topology = ONE_PATH.replace("delay: 20ms", "delay: 20ms, duplicate: 10%")
    flow = "{tool: udp, from: client, to: server, rate: 8mbit, duration: 2s, length: 1000bytes}"
    result = succeed(run(f"  - {flow}\n", topology))
    assert result.metric("udp.duplicates") == pytest.approx(200, abs=60)
    assert result.metric("udp.reordered") == 0
    topology = ONE_PATH.replace("delay: 20ms", "delay: 20ms, reorder: 10%")
    result = succeed(run(f"  - {flow}\n", topology))
    # each packet that is sent at once overtakes the 20 packets in flight
    assert result.metric("udp.delay.min") < 1e-3
    assert 0.5 <= result.metric("udp.reordered") <= 1


# ping

# Request and answer have 56 bytes of data, 8 of ICMP, 20 of IP and 14 of Ethernet.
PING_S = RTT_S + 2 * sent_s(RATE, 98)


@pytest.mark.parametrize(("interval_ms", "count"), [(20, 3_000), (7, 200), (1, 100)])
def test_a_ping_has_every_interval_as_asked(
    run: Callable[..., Result], rows: Callable[[Result, str], list[dict[str, Any]]], interval_ms: int, count: int
) -> None:
    """Several requests are in flight at a time, with a round trip of 40 ms."""
    result = succeed(run(f"  - {{tool: ping, from: client, to: server, interval: {interval_ms}ms, count: {count}}}\n"))
    starts = [int(row["start_ns"]) for row in rows(result, "pings")]
    due = [starts[0] + n * interval_ms * 1_000_000 for n in range(count)]
    assert starts == pytest.approx(due, abs=CLOCK_S * 1e9)
    assert result.metric("ping.loss") == 0
    for which in ("min", "max"):
        assert result.metric(f"ping.rtt.{which}") == pytest.approx(PING_S, abs=CLOCK_S)


def test_a_ping_that_is_ended_keeps_its_metrics(run: Callable[..., Result]) -> None:
    """3.5 s contain the requests of 0, 1, 2 and 3 s."""
    result = run("  - {tool: ping, from: client, to: server, interval: 1s, count: 10, timeout: 3500ms}\n")
    assert result.status == 1
    assert result.summary["errors"] == ["ping: did not end in time and was stopped after 3500ms, its 'timeout'"]
    assert result.metric("ping.rtt") == pytest.approx(PING_S, abs=CLOCK_S)
    assert result.metric("ping.loss") == 0
    assert len(result.rows("pings")) == 4


@pytest.mark.parametrize("family", ["ipv4", "ipv6"])
def test_pings_are_lost_and_doubled(run: Callable[..., Result], family: str) -> None:
    """The eleven requests of 2 to 3 s are lost. Answers to the requests from 4 s on come twice."""
    events = "".join(
        f"  - {{at: {at}ms, link: path0, set: {{{what}}}}}\n"
        for at, what in ((1_950, "loss: 100%"), (3_050, "loss: 0%"), (3_950, "duplicate: {reverse: 100%}"))
    )
    topology = f"{ONE_PATH}addressing: {family}\nevents:\n{events}"
    flow = "{tool: ping, from: client, to: server, interval: 100ms, duration: 5s, size: 1000bytes}"
    result = succeed(run(f"  - {flow}\n", topology))
    assert result.metric("ping.loss") == pytest.approx(11 / 50)
    numbers = [row["sequence"] for row in result.rows("pings")]
    doubled = [number for number in numbers if numbers.count(number) == 2]
    assert sorted(set(numbers)) == [*range(1, 21), *range(32, 51)]
    assert sorted(set(doubled)) == [*range(41, 51)]


# flows


def test_short_flows_take_one_and_a_half_round_trips(
    run: Callable[..., Result], rows: Callable[[Result, str], list[dict[str, Any]]], tmp_path: Path
) -> None:
    lines = "at,size\n300ms,8bytes\n# all in one window\n100ms,10000bytes\n400ms,10000bytes\n"
    (tmp_path / "begins.csv").write_text(lines)
    ends = "tool: flows, from: client, to: server"
    flows = f"""\
  - {{name: even, {ends}, arrivals: constant, interval: 100ms, duration: 1s, size: 10000bytes}}
  - {{name: file, {ends}, schedule: begins.csv, start: {{after: even}}, deadline: 60100us}}
"""
    result = succeed(run(flows))
    expected = closed_form_s(RATE, RTT_S, 10_000)
    for which in ("min", "max"):
        assert result.metric(f"even.completion.{which}") == pytest.approx(expected, abs=CLOCK_S)
    assert result.metric("even.flows") == 9
    starts = [int(row["start_ns"]) / 1e9 for row in rows(result, "flows") if row["flow"] == "even"]
    assert [start - starts[0] for start in starts] == pytest.approx([n / 10 for n in range(9)], abs=CLOCK_S)
    by_size = {row["size_bytes"]: int(row["completion_ns"]) / 1e9 for row in rows(result, "flows")}
    assert by_size["8"] == pytest.approx(closed_form_s(RATE, RTT_S, 8), abs=2 * CLOCK_S)
    assert result.metric("file.missed") == pytest.approx(2 / 3)


# Ethernet 14, IP 20, TCP 20, and the options of a SYN: MSS 4, SACK permitted 2, timestamps 10, window scale 3, no
# operation 1.
SYN_BYTES = 74
# TCP has 40 bytes for options (RFC 9293 3.1), and timestamps with their padding take 12.
FURTHER_OPTIONS = 28


def closed_form_s(rate: float, rtt_s: float, size: int, options: int = 0) -> float:
    """Return the time from the opening of a connection until its receiver has `size` bytes, s.

    The bytes fit into the first window of ten packets (RFC 6928). The handshake takes a round trip. Its last
    acknowledgement and the data leave together. options: bytes of each packet beyond TCP's timestamps.
    """
    packets = -(-size // (MSS - options))
    assert packets <= 10
    frames = HEADERS + options + size + packets * (HEADERS + options)
    return 1.5 * rtt_s + 2 * sent_s(rate, SYN_BYTES + options) + sent_s(rate, frames)


def one_path(rate: str, rtt: str) -> str:
    return f"version: 1\ntopology: multi-path\npaths: [{{rate: {rate}, rtt: {rtt}, queue: 100packets}}]\n"


@pytest.mark.parametrize(
    ("rate", "rtt", "size"), [("3mbit", "200ms", 14_480), ("5mbit", "60ms", 14_000), ("5mbit", "60ms", 8)]
)
def test_a_flow_is_complete_with_its_last_byte(run: Callable[..., Result], rate: str, rtt: str, size: int) -> None:
    """The window of ten packets is full in one case and not in the other.

    In the full case, a FIN of the sender would wait.
    """
    ends = f"tool: flows, from: client, to: server, arrivals: constant, interval: 2s, duration: 3s, size: {size}bytes"
    flows = f"""\
  - {{name: sent, {ends}}}
  - {{name: asked, {ends}, request: 100bytes, start: 10s}}
  - {{name: multi, {ends}, protocol: mptcp, start: 20s}}
"""
    flows = flows if size < 14_480 else flows[: flows.index("  - {name: multi")]
    result = succeed(run(flows, one_path(rate, rtt)))
    bit_per_s, rtt_s = float(rate[:-4]) * 1e6, float(rtt[:-2]) / 1e3
    expected = closed_form_s(bit_per_s, rtt_s, size)
    assert result.metric("sent.completion.max") == pytest.approx(expected, abs=CLOCK_S)
    # each direction begins with an acknowledgement, of the handshake and of the request
    data = sent_s(bit_per_s, HEADERS + size + -(-size // MSS) * HEADERS)
    asked = 2 * rtt_s + 2 * sent_s(bit_per_s, SYN_BYTES) + sent_s(bit_per_s, 100 + 2 * HEADERS) + data
    assert result.metric("asked.completion.max") == pytest.approx(asked, abs=CLOCK_S)
    if size < 14_480:
        # the same rule for both transports; MPTCP has further options in each packet
        most = closed_form_s(bit_per_s, rtt_s, size, FURTHER_OPTIONS)
        assert expected - CLOCK_S <= result.metric("multi.completion.max") <= most + CLOCK_S


def test_the_retransmits_of_short_flows_are_those_of_their_table(
    run: Callable[..., Result], rows: Callable[[Result, str], list[dict[str, Any]]]
) -> None:
    """The retransmits of additional subflows are in `resent` of their path alone."""
    lossy = TWO_PATHS.replace("400packets", "400packets, loss: 1%").replace("800packets", "800packets, loss: 5%")
    hosts = "".join(f"  {host}: {{mptcp: {{path_manager: fullmesh}}}}\n" for host in ("client", "server"))
    ends = "tool: flows, from: client, to: server, protocol: mptcp"
    flow = f"{{name: short, {ends}, interval: 300ms, duration: 3s, size: 1mb}}"
    result = succeed(run(f"  - {flow}\n", lossy, f"hosts:\n{hosts}"))
    counted = sum(int(row["retransmits"]) for row in rows(result, "flows"))
    assert result.metric("short.retransmits") == counted
    assert counted < result.metric("short.resent.path0") + result.metric("short.resent.path1")


def test_a_lost_end_of_a_connection_is_no_loss_of_its_flow(
    run: Callable[..., Result], rows: Callable[[Result, str], list[dict[str, Any]]], tmp_path: Path
) -> None:
    """All packets are lost for half a second after the last byte is read, 341 ms after the beginning.

    The lost packet is a FIN, whichever end closes first.
    """
    (tmp_path / "begins.csv").write_text("at,size\n1s,14480bytes\n")
    losses = "events:\n" + "".join(
        f"  - {{at: {at}ms, link: path0, set: {{loss: {loss}}}}}\n" for at, loss in ((1_345, "100%"), (1_845, "0%"))
    )
    flow = "{tool: flows, from: client, to: server, schedule: begins.csv}"
    result = succeed(run(f"  - {flow}\n", one_path("3mbit", "200ms") + losses))
    (row,) = rows(result, "flows")
    assert int(row["completion_ns"]) / 1e9 == pytest.approx(closed_form_s(3e6, 0.2, 14_480), abs=CLOCK_S)
    assert (row["class"], row["retransmits"], row["timeouts"]) == ("full_window", "0", "0")


def test_what_is_drawn_follows_from_the_seed(mprun: Callable[..., Result], tmp_path: Path) -> None:
    flow = "{tool: flows, from: client, to: server, interval: 20ms, duration: 10s"
    (tmp_path / "topo.yaml").write_text(ONE_PATH)
    (tmp_path / "xp.yaml").write_text(f"version: 1\ntraffic:\n  - {flow}, size: {{min: 8bytes, max: 1000bytes}}}}\n")
    arguments = ("-t", "topo", "-x", "xp", "--engine", "virtual", "--json")
    results = [succeed(mprun(*arguments, "--seed", seed)) for seed in (1, 1, 2)]
    # 500 are expected, with a standard deviation of 22; the mean size is 504
    assert results[0].metric("flows.flows") == pytest.approx(500, abs=90)
    assert results[0].metric("flows.bytes") / results[0].metric("flows.flows") == pytest.approx(504, abs=60)
    tables = [(result.run / "tables" / "flows.parquet").read_bytes() for result in results]
    assert tables[0] == tables[1] != tables[2]


def test_losses_are_counted_for_each_flow(
    run: Callable[..., Result], rows: Callable[[Result, str], list[dict[str, Any]]]
) -> None:
    topology = ONE_PATH.replace("delay: 20ms", "delay: 20ms, loss: 5%")
    flow = "{tool: flows, from: client, to: server, arrivals: uniform, interval: 50ms, duration: 5s, size: 20kb}"
    result = succeed(run(f"  - {flow}\n", topology))
    table = rows(result, "flows")
    lossless = [row for row in table if row["retransmits"] == "0"]
    assert 0 < len(lossless) < len(table)
    slow = {row["sequence"] for row in table if int(row["completion_ns"]) > 3 * RTT_S * 1e9}
    # 20 KiB leave in two windows after the handshake; slower flows had losses
    assert slow
    assert not slow & {row["sequence"] for row in lossless}


def test_a_lost_answer_to_a_handshake_is_one_lost_handshake(
    run: Callable[..., Result], rows: Callable[[Result, str], list[dict[str, Any]]]
) -> None:
    """The first packet that arrives at the client is the SYN-ACK, which the server sends again after a time-out."""
    flow = "{tool: flows, from: client, to: server, arrivals: constant, interval: 1s, duration: 1.5s, size: 1kb}"
    fault = "faults:\n  - {node: client, link: path0, packet: 1}\n"
    (row,) = rows(succeed(run(f"  - {flow}\n", one_path("10mbit", "20ms"), fault)), "flows")
    assert (row["handshake_losses"], row["losses"], row["timeouts"]) == ("1", "1", "0")


def test_what_a_flow_met_with_is_told(
    run: Callable[..., Result], rows: Callable[[Result, str], list[dict[str, Any]]], tmp_path: Path
) -> None:
    """The first flow loses its data and the tail loss probe, the second its SYN."""
    (tmp_path / "begins.csv").write_text("at,size\n1s,10000bytes\n3s,10000bytes\n5s,10000bytes\n")
    losses = [(1_030, "100%"), (1_200, "0%"), (2_950, "100%"), (3_050, "0%")]
    events = "".join(f"  - {{at: {at}ms, link: path0, set: {{loss: {loss}}}}}\n" for at, loss in losses)
    flow = "{tool: flows, from: client, to: server, schedule: begins.csv}"
    result = succeed(run(f"  - {flow}\n", f"{ONE_PATH}events:\n{events}"))
    late, refused, clean = rows(result, "flows")
    assert [row["class"] for row in (late, refused, clean)] == ["delay_with_loss", "extreme_delay", "full_window"]
    assert (late["timeouts"], late["handshake_losses"]) == ("1", "0")
    assert (refused["timeouts"], refused["handshake_losses"], refused["losses"]) == ("0", "1", "1")
    # a SYN is sent again after a second (RFC 6298), which the kernel's timers round up to 8 ticks of 10 ms
    undisturbed = closed_form_s(RATE, RTT_S, 10_000)
    assert 1 + RTT_S <= int(refused["connect_ns"]) / 1e9 <= 1.09 + RTT_S
    assert int(clean["completion_ns"]) / 1e9 == pytest.approx(undisturbed, abs=CLOCK_S)
    assert result.metric("flows.class.full_window") == pytest.approx(1 / 3)


STAR = """\
version: 1
topology: star
clients: 4
access: {rate: 100mbit, delay: 1ms, queue: 400packets}
"""


def test_a_query_ends_with_its_last_answer(
    run: Callable[..., Result], rows: Callable[[Result, str], list[dict[str, Any]]]
) -> None:
    flow = "{name: query, tool: flows, from: server, to: client1..client3, aggregate: true, request: 100bytes"
    result = succeed(run(f"  - {flow}, arrivals: constant, interval: 100ms, duration: 1s, size: 10000bytes}}\n", STAR))
    # A handshake and a round trip of 4 ms each over two links. The request follows its acknowledgement. The first
    # packet of the first answer passes its client's link alone. Three answers of seven packets share the asker's link.
    # Acknowledgements lie between the answers, and FINs follow.
    opening = 4 * SYN_BYTES + HEADERS + 2 * (100 + HEADERS)
    answers = 1514 + 3 * (10_000 + 7 * HEADERS)
    expected = 0.008 + sent_s(RATE, opening + answers)
    assert result.metric("query.completion.median") == pytest.approx(expected, abs=9 * HEADERS * 8 / RATE)
    assert (result.metric("query.queries"), result.metric("query.flows")) == (9, 27)
    table = rows(result, "queries")
    assert [row["parts"] for row in table] == ["3"] * 9
    parts = [int(row["completion_ns"]) for row in rows(result, "flows")]
    slowest = [max(parts[n::9]) for n in range(9)]
    # the three connections are opened one after the other
    assert [int(row["completion_ns"]) for row in table] == pytest.approx(slowest, abs=CLOCK_S * 1e9)
    # one program serves the three flows, and the plan gives it their names
    assert not (result.run / "logs" / "query-client1.out").exists()
    assert (result.run / "logs" / "query.server.out").exists()


def test_flows_of_several_hosts_are_measured_together(run: Callable[..., Result]) -> None:
    flows = """\
  - {name: long, tool: iperf3, from: client0..client1, to: server, duration: 3s}
  - {name: last, tool: reqres, from: client*, to: server, requests: 5, start: {after: long}}
"""
    result = succeed(run(flows, STAR))
    # both share the server's link; reqres begins when both are done, on an idle network
    assert result.metric("long.goodput") == pytest.approx(RATE * MSS / (MSS + HEADERS), rel=0.02)
    each = [result.metric(f"long-client{n}.goodput") for n in range(2)]
    assert result.metric("long.fairness") == pytest.approx(sum(each) ** 2 / (2 * sum(rate**2 for rate in each)))
    assert result.metric("last.requests") == 20
    assert result.metric("last.delay.max") == pytest.approx(0.004, abs=1e-3)


# video

NARROW = """\
version: 1
topology: multi-path
paths: [{rate: 10mbit, delay: 20ms, queue: 400packets}]
"""


def chunk_s(rate: float) -> float:
    """Return the time of a chunk of one second over 10 Mbit/s: a round trip and its frames, s."""
    return RTT_S + rate / 8 / MSS * (MSS + HEADERS) * 8 / 10e6


def test_a_video_plays_as_its_chunks_come(
    run: Callable[..., Result], rows: Callable[[Result, str], list[dict[str, Any]]]
) -> None:
    video = "tool: video, from: client, to: server, chunk: 1s, startup: 2s"
    flows = f"""\
  - {{name: fits, {video}, length: 20s, qualities: [8mbit]}}
  - {{name: large, {video}, length: 6s, qualities: [12mbit], start: {{after: fits}}}}
  - {{name: chosen, {video}, length: 10s, qualities: [2mbit, 7mbit, 9mbit], start: {{after: large}}}}
"""
    result = succeed(run(flows, NARROW))
    # 8 Mbit/s take 0.88 s for each second: the handshake, two chunks, and slow start of the first, four round trips at
    # most
    startup = RTT_S + 2 * chunk_s(8e6)
    assert startup <= result.metric("fits.startup") <= startup + 4 * RTT_S
    assert result.metric("fits.stalls") == 0
    assert result.metric("fits.delay.median") == pytest.approx(chunk_s(8e6), abs=2e-3)
    # 12 Mbit/s take 1.30 s per chunk. Playback begins with two chunks. When the sixth and last chunk comes, four chunk
    # times later, the player has played the buffer and the three chunks between, and waited since.
    second = [row for row in rows(result, "chunks") if row["flow"] == "large"][1]
    began_ns = int(second["start_ns"]) + int(second["delay_ns"])
    (stall,) = rows(result, "stalls")
    assert (int(stall["start_ns"]) - began_ns) / 1e9 == pytest.approx(5, abs=CLOCK_S)
    assert int(stall["duration_ns"]) / 1e9 == pytest.approx(4 * chunk_s(12e6) - 5, abs=0.02)
    assert result.metric("large.stall_time") == pytest.approx(int(stall["duration_ns"]) / 1e9)
    # chunks of 2 Mbit/s come with 8.0 Mbit/s, their round trips included, of which 90 % are 7.2; chunks of 7 Mbit/s
    # come with 9.1, of which 90 % are 8.2. The last three chunks must be past slow start
    qualities = [int(row["quality_bit_per_s"]) for row in rows(result, "chunks") if row["flow"] == "chosen"]
    least = qualities.count(2_000_000)
    assert 1 <= least <= 5
    assert qualities == [2_000_000] * least + [7_000_000] * (10 - least)
    assert result.metric("chosen.switches") == 1


# exec


# The command does what netcat(1) would do.
EXEC = """\
version: 1
traffic:
  - name: try
    tool: exec
    from: client
    to: server
    command:
      - python3
      - -c
      - "import socket; print(socket.create_connection(('{destination}', {port})).recv(9).decode(), end='')"
    server:
      - python3
      - -c
      - "import socket; socket.create_server(('{destination}', {port})).accept()[0].send(b'hello')"
"""


def test_commands_of_a_file_need_leave(mprun: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "topo.yaml").write_text(ONE_PATH)
    (tmp_path / "xp.yaml").write_text(EXEC)
    arguments = ("-t", "topo", "-x", "xp", "--engine", "virtual", "--json")
    refused = mprun(*arguments)
    assert refused.status == 2
    assert refused.err.startswith("this experiment runs commands of its own; if you want them, add --allow-exec\n")
    assert "try: client: python3 -c" in refused.err
    assert not (tmp_path / "runs").exists()
    result = succeed(mprun(*arguments, "--allow-exec"))
    assert (result.run / "logs" / "try.out").read_text() == "hello"
    # the handshake, and half a round trip each until the server has the end and the client its message
    assert result.metric("try.time") == pytest.approx(2 * RTT_S, abs=0.005)
    assert mprun("verify", result.run).status == 2
    assert mprun("verify", result.run, "--allow-exec").status == 0


def test_a_command_knows_its_place_leaves_files_and_is_told_to_end(
    mprun: Callable[..., Result], tmp_path: Path
) -> None:
    (tmp_path / "topo.yaml").write_text(ONE_PATH)
    (tmp_path / "xp.yaml").write_text("""\
version: 1
traffic:
  - name: try
    tool: exec
    from: client
    to: server
    command: [sh, -c, "env | grep ^MPRUN_ | sort; echo $SSLKEYLOGFILE; echo mine > {files}/mine; exec sleep 100"]
    server: [sh, -c, "echo theirs > $MPRUN_FILES/theirs; sleep 0.2; echo about to start >&2; sleep 100"]
    ready: to start
    duration: 2s
""")
    result = succeed(mprun("-t", "topo", "-x", "xp", "--engine", "virtual", "--json", "--allow-exec"))
    assert result.metric("try.time") == pytest.approx(2, abs=0.01)
    files = "/run/mprun/run/files/try"
    assert (result.run / "logs" / "try.out").read_text().splitlines() == [
        "MPRUN_DESTINATION=10.1.0.1",
        "MPRUN_DESTINATION_HOST=server",
        f"MPRUN_FILES={files}",
        "MPRUN_PORT=5201",
        "MPRUN_SEED=1",
        "MPRUN_SOURCE=10.0.0.1",
        "MPRUN_SOURCE_HOST=client",
        f"{files}/keys.log",
    ]
    kept = {path.name: path.read_text() for path in (result.run / "files" / "try").iterdir()}
    assert kept == {"mine": "mine\n", "theirs": "theirs\n"}


def test_a_command_runs_on_a_router(mprun: Callable[..., Result], tmp_path: Path) -> None:
    """The router has the server's subnet on its own interface, and reaches the server without a hop."""
    (tmp_path / "topo.yaml").write_text(ONE_PATH)
    words = "[sh, -c, 'ip -br address; ping -c 1 {destination}']"
    entry = f"{{name: look, tool: exec, on: router, from: client, to: server, command: {words}}}"
    (tmp_path / "xp.yaml").write_text(f"version: 1\ntraffic:\n  - {entry}\n")
    result = succeed(mprun("-t", "topo", "-x", "xp", "--engine", "virtual", "--json", "--allow-exec"))
    told = (result.run / "logs" / "look.out").read_text()
    assert "router-eth1" in told
    assert "ttl=64" in told
    assert "router: sh -c" in mprun("-t", "topo", "-x", "xp", "--engine", "virtual").err
    assert mprun("verify", result.run, "--allow-exec").status == 0


def test_a_command_whose_connection_is_refused_may_end_well_and_gets_a_warning(
    mprun: Callable[..., Result], tmp_path: Path
) -> None:
    (tmp_path / "topo.yaml").write_text(ONE_PATH)
    words = "[sh, -c, 'curl -s http://{destination}:{port}/; true']"
    (tmp_path / "xp.yaml").write_text(
        f"version: 1\ntraffic: [{{name: ask, tool: exec, from: client, to: server, command: {words}}}]\n"
    )
    result = succeed(mprun("-t", "topo", "-x", "xp", "--engine", "virtual", "--json", "--allow-exec"))
    no_server, warning = result.summary["warnings"]
    assert "'{port}' is that of the entry's server, and there is none" in no_server
    assert warning.startswith("ask: 1 TCP connection of 'client' got no answer or a reset")
    assert warning.endswith("the entry has no 'server' that listens on 'server'")


def test_a_command_is_over_when_it_has_printed_a_text(mprun: Callable[..., Result], tmp_path: Path) -> None:
    """The text may come in two pieces, on standard error. A command that ends without the text has failed."""
    (tmp_path / "topo.yaml").write_text(ONE_PATH)
    (tmp_path / "xp.yaml").write_text("""\
version: 1
traffic:
  - name: ticks
    tool: exec
    from: client
    to: server
    command: [sh, -c, "for n in 1 2 3 4 5 6 7; do echo tick $n; sleep 0.1; done; sleep 100"]
    until: tick 5
  - name: pieces
    tool: exec
    from: client
    to: server
    command: [sh, -c, "printf rea >&2; sleep 0.2; printf dy >&2; sleep 100"]
    until: ready
  - name: stubborn
    tool: exec
    from: client
    to: server
    command: [sh, -c, "trap '' TERM; echo ready; sleep 1; sleep 100"]
    until: ready
  - {name: never, tool: exec, from: client, to: server, command: [echo, rea dy], until: ready}
  - {name: absent, tool: exec, from: client, to: server, command: [no-such-program], until: ready}
""")
    result = mprun("-t", "topo", "-x", "xp", "--engine", "virtual", "--json", "--allow-exec")
    # simulated time passes while the commands sleep, and hardly while they compute: starting Python and the shell is
    # some ms
    assert result.metric("ticks.time") == pytest.approx(0.4, abs=0.02)
    assert result.metric("pieces.time") == pytest.approx(0.2, abs=0.02)
    # a command that ignores TERM is killed 5 s later
    assert result.metric("stubborn.time") == pytest.approx(5, abs=0.02)
    assert (result.run / "logs" / "ticks.out").read_text() == "".join(f"tick {n}\n" for n in range(1, 6))
    assert (result.run / "logs" / "pieces.err").read_text() == "ready"
    assert (result.run / "logs" / "never.out").read_text() == "rea dy\n"
    assert sorted(result.summary["errors"]) == [
        "absent: exec ended with status 127: no program 'no-such-program' on this machine",
        "never: exec ended with status 1: the command ended with status 0 and has not printed 'ready'",
    ]


@pytest.mark.parametrize(
    ("server", "lacking"),
    [
        (
            "[sleep, '100'], port: 80",
            "nothing listens on its TCP port 80 ('{port}' in its command, 'protocol' in its entry, or 'listens: false')"
            " after 10 s, and it printed nothing",
        ),
        (
            "[sh, -c, 'echo started; sleep 100'], ready: started",
            "it did not print 'started' on its standard error after 10 s: started",
        ),
    ],
)
def test_a_server_that_is_never_ready(server: str, lacking: str, mprun: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "topo.yaml").write_text(ONE_PATH)
    flow = f"{{tool: exec, from: client, to: server, command: [true], server: {server}}}"
    (tmp_path / "xp.yaml").write_text(f"version: 1\ntraffic:\n  - {flow.replace('[true]', '[sleep, 1s]')}\n")
    result = mprun("-t", "topo", "-x", "xp", "--engine", "virtual", "--json", "--allow-exec")
    assert result.status == 1
    assert result.summary["errors"] == [f"exec.server: not ready: {lacking}"]


# in the order of a file


def test_flows_start_after_others(run: Callable[..., Result]) -> None:
    flows = """\
  - {name: bulk, tool: iperf3, from: client, to: server, duration: 2s, repeat: {times: 2, interval: 4s}}
  - {name: with, tool: reqres, from: client, to: server, requests: 1, start: {after: bulk, of: start, offset: 1s}}
  - {name: last, tool: ping, from: client, to: server, count: 1, start: {after: bulk, offset: 500ms}}
"""
    result = succeed(run(flows))
    steps = {}
    for line in (result.run / "steps.jsonl").read_text().splitlines():
        step = json.loads(line)
        if step["phase"] == "run" and "name" in step:
            steps[step["name"], step["step"]] = step["actual_ns"] / 1e9
    assert steps["bulk-2", "start"] == pytest.approx(4, abs=1e-3)
    assert steps["with", "start"] == pytest.approx(1, abs=1e-3)
    assert steps["last", "start"] == pytest.approx(steps["bulk-2", "end"] + 0.5, abs=1e-3)
    assert "total.goodput" not in result.summary["metrics"]


def test_the_background_is_no_part_of_the_total(run: Callable[..., Result]) -> None:
    flows = "".join(
        f"  - {{name: {name}, tool: iperf3, from: client, to: server, duration: 3s{more}}}\n"
        for name, more in (("one", ""), ("two", ""), ("rest", ", background: true"))
    )
    result = succeed(run(flows))
    one, two = result.metric("one.goodput"), result.metric("two.goodput")
    # Both count 3 s plus the time of iperf3's end, less than 0.1 s. Both begin at the same time, known to a tick of the
    # kernel, 10 ms. So one of them ran for 3.11 s at most, and the bytes are those of 3 s at least.
    longest = 3.11 / 3
    assert (one + two) / longest <= result.metric("total.goodput") <= one + two
    # each flow's share of the bytes may differ from its share of the goodputs by this factor
    ratios = (one / two * longest, one / two / longest)
    assert min((1 + ratio) ** 2 / 2 / (1 + ratio**2) for ratio in ratios) <= result.metric("total.fairness") <= 1


def test_flows_that_overlap_have_what_the_link_carries(
    run: Callable[..., Result], rows: Callable[[Result, str], list[dict[str, Any]]]
) -> None:
    """The flows run from 0 to 5 s and from 3 to 8 s over 30 Mbit/s.

    Each is alone for 3 s, so the sum of means is too high.
    """
    topology = "version: 1\ntopology: multi-path\npaths: [{rate: 30mbit, delay: 10ms}]\n"
    flows = "".join(
        f"  - {{name: {name}, tool: iperf3, from: client, to: server, start: {start}s, duration: 5s}}\n"
        for name, start in (("one", 0), ("two", 3))
    )
    result = succeed(run(flows, topology))
    most = 30e6 * MSS / (MSS + HEADERS)
    assert result.metric("one.goodput") + result.metric("two.goodput") > 1.4 * most
    # The link is full after slow start, five round trips of 20 to 40 ms. When one flow ends and the other takes its
    # half, it is not full for another 0.2 s at most. This is 0.4 of 8.2 s.
    assert 0.95 * most < result.metric("total.goodput") <= most
    assert 0.5 <= result.metric("total.fairness") <= 1
    # a test begins four round trips after its program: of 20 ms each, and of 40 ms if the queue is full
    starts = {
        name: [float(row["start_s"]) for row in rows(result, "goodput") if row["flow"] == name]
        for name in ("one", "two")
    }
    assert 0.08 <= starts["one"][0] <= 0.12
    assert 3.08 <= starts["two"][0] <= 3.32
    for seconds in starts.values():
        assert [second - seconds[0] for second in seconds[:5]] == pytest.approx([0, 1, 2, 3, 4], abs=1e-3)


# the real engine


@pytest.mark.alone
def test_requests_and_files_in_real_time(run: Callable[..., Result]) -> None:
    flows = """\
  - {name: msg, tool: reqres, from: client, to: server, requests: 20, request: 100kb, response: 1kb}
  - {name: web, tool: http, from: client, to: server, sizes: [1mb], requests: 3, start: {after: msg}}
  - {name: tls, tool: https, from: client, to: server, protocol: mptcp, sizes: [1mb], start: {after: web}}
  - {name: ping, tool: ping, from: client, to: server, interval: 2ms, duration: 1s, start: {after: tls}}
"""
    result = succeed(run(flows, RATES_ONLY, engine="real"))
    assert result.metric("msg.requests") == 20
    # 100 KiB at 20 Mbit/s take 43 ms; the queue holds 80 packets, so some may be sent again
    assert result.metric("msg.delay.min") >= 102_400 * 8 / 20e6 - 0.002
    assert 10e6 <= result.metric("web.goodput") <= 20e6
    assert result.metric("tls.bytes") == 1 << 20
    pings = result.rows("pings")
    assert [row["sequence"] for row in pings] == list(range(1, 501))
    # a late request does not make later requests late: on a busy machine too, half of them are within an interval
    late_ns = sorted(row["start_ns"] - pings[0]["start_ns"] - n * 2_000_000 for n, row in enumerate(pings))
    assert late_ns[len(late_ns) // 2] < 2_000_000


def test_the_first_error_of_a_build_is_shown(mprun: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "bad.c").write_text("int main(void) { return missing; }\n" + "int f(void) { return 1 + ; }\n" * 20)
    (tmp_path / "topo.yaml").write_text(ONE_PATH)
    entry = "{tool: exec, name: own, from: client, to: server, files: [bad.c], command: [./bad], build: [gcc, bad.c]}"
    (tmp_path / "xp.yaml").write_text(f"version: 1\ntraffic:\n  - {entry}\n")
    failed = mprun("-t", "topo", "-x", "xp", "--engine", "virtual", "--json", "--allow-exec")
    assert failed.status == 1
    (error,) = failed.summary["errors"]
    head, *lines = error.splitlines()
    assert head == "own.build: ended with status 1 (all that it printed: logs/own.build.err):"
    assert lines[0].startswith("bad.c:1:25: error: ")
    assert (failed.run / "logs" / "own.build.err").read_text().count(": error: expected") == 20
