# SPDX-License-Identifier: Apache-2.0
"""SCTP over several paths, and netperfmeter: figures that follow from the network, in the virtual engine."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import polars
import pytest

from tests.system.conftest import Result

# Payload and frame of one full message: 1444 + 16 (DATA) + 12 (SCTP) + 8 (UDP) + 20 (IP), and 14 of Ethernet.
PAYLOAD, FRAME = 1444, 1514
TOPOLOGY = """\
version: 1
nodes: {{client: {{kind: host}}, server: {{kind: host}}}}
links:
  - {{name: path0, between: [client, server], rate: 20mbit, delay: {delay}, queue: 80packets}}
  - {{name: path1, between: [client, server], rate: {rate}, delay: {delay}, queue: 80packets}}
"""
EXPERIMENT = """\
version: 1
hosts:
  client: {{mptcp: {{path_manager: fullmesh}}}}
  server: {{mptcp: {{path_manager: fullmesh}}}}
traffic:
  - {{name: bulk, from: client, to: server, {flow}}}
capture:
  - {{host: client, snaplen: 100}}
"""


@pytest.fixture
def run(mprun: Callable[..., Result], tmp_path: Path) -> Callable[..., Result]:
    """Return a function that runs one flow over two paths, with the given rate and delay of the second path."""

    def measure(flow: str, rate: str = "20mbit", delay: str = "20ms") -> Result:
        (tmp_path / "topo.yaml").write_text(TOPOLOGY.format(rate=rate, delay=delay))
        (tmp_path / "xp.yaml").write_text(EXPERIMENT.format(flow=flow))
        result = mprun("-t", "topo", "-x", "xp", "--engine", "virtual", "--json")
        assert result.status == 0, result.out + result.err
        return result

    return measure


def mbit(result: Result) -> float:
    return result.metric("bulk.goodput") / 1e6


# The payload of a rate, Mbit/s.
def payload_of(rate_mbit: float) -> float:
    return rate_mbit * PAYLOAD / FRAME


@pytest.mark.parametrize(("rto_min", "timeout_s"), [("", 1), (", rto_min: 300ms", 0.3)])
def test_a_path_that_is_lost_is_told_of_as_for_other_transports(
    mprun: Callable[..., Result], tmp_path: Path, rto_min: str, timeout_s: float
) -> None:
    """The primary path carries nothing from 1 s on. A chunk waits for one time-out, or for two.

    A time-out lasts 1 s by default (RFC 9260, section 16). Two are needed if the timer already runs. New data goes to
    the lost path until the association has given it up. So the other path takes over only after the remaining 2 s.
    """
    event = "events:\n  - {at: 1s, link: path0, set: {loss: 100%}}\n"
    (tmp_path / "topo.yaml").write_text(TOPOLOGY.format(rate="20mbit", delay="20ms") + event)
    text = EXPERIMENT.format(flow=f"tool: sctp, duration: 3s{rto_min}")
    (tmp_path / "xp.yaml").write_text(text.replace(", snaplen: 100", ""))
    result = mprun("-t", "topo", "-x", "xp", "--engine", "virtual", "--json")
    assert result.status == 0, result.out + result.err
    # the timer runs from the last acknowledgement, which came a round trip and its queue after the data
    gap, time = (result.metric(f"bulk.handover.{what}") for what in ("gap", "time"))
    assert timeout_s - 0.1 < gap < 2 * timeout_s + 0.1
    assert gap <= time <= 2.1
    resent = [result.metric(f"bulk.resent.path{n}") for n in range(2)]
    assert sum(resent) == result.metric("bulk.retransmits") > 0
    assert resent[1] > 0
    assert result.metric("bulk.resent.bytes.path1") == resent[1] * PAYLOAD
    # the packets, which are inside UDP, show the same
    subflows = json.loads(mprun("packets", "--json").out)["subflows"]
    again = {one["path"]: one["forward_retransmissions"] + one["forward_reinjections"] for one in subflows}
    assert again == {"path0": resent[0], "path1": resent[1]}


def test_the_kernels_sctp_is_told_of_as_well(mprun: Callable[..., Result], tmp_path: Path) -> None:
    """The kernel's SCTP gives such values too.

    netperfmeter records the arrival of each message, and the capture the arrival of each packet.
    """
    event = "events:\n  - {at: 2s, link: path0, set: {loss: 100%}}\n"
    (tmp_path / "topo.yaml").write_text(TOPOLOGY.format(rate="20mbit", delay="20ms") + event)
    text = EXPERIMENT.format(flow="tool: netperfmeter, protocol: sctp, duration: 6s")
    (tmp_path / "xp.yaml").write_text(text.replace("{host: client, snaplen: 100}", "{host: server}"))
    result = mprun("-t", "topo", "-x", "xp", "--engine", "virtual", "--json")
    assert result.status == 0, result.out + result.err
    gap, time = (result.metric(f"bulk.handover.{what}") for what in ("gap", "time"))
    # a time-out of 1 s at least (RFC 9260, section 16), and no second time-out of 2 s
    assert 1 < gap <= time < 3
    counters = polars.read_parquet(result.run / "tables" / "counters.parquet").filter(host="client")
    assert counters.filter(name="SctpT3RtxExpireds")["value"].sum() > 0
    told = json.loads(mprun("packets", "--json").out)
    assert told["warnings"] == []
    bulk = max(told["connections"], key=lambda one: one["forward_bytes"])
    paths = {one["path"]: one for one in told["subflows"] if one["connection"] == bulk["connection"]}
    packets = polars.read_parquet(result.run / "tables" / "packets.parquet").filter(
        polars.col("connection") == bulk["connection"], way="forward"
    )
    arrived = packets.filter(polars.col("payload_bytes") > 1000).select("time_ns", "source").rows()
    (before_ns, _), (after_ns, source) = max(pairwise(arrived), key=lambda pair: pair[1][0] - pair[0][0])
    assert source == "10.0.1.1"
    # path1 has at least three seconds, and a quarter of its rate, because a new path begins with slow start
    assert paths["path0"]["forward_new_bytes"] > paths["path1"]["forward_new_bytes"] / 2
    assert paths["path1"]["forward_new_bytes"] > 3 * 20e6 / 8 / 4
    assert (paths["path0"]["kind"], paths["path1"]["kind"]) == ("initial", "additional")
    assert paths["path1"]["established_ns"] > 2e9
    # the duplicates are the data that the receiver's kernel discarded
    twice = sum(one[f"forward_{again}s"] for one in told["connections"] for again in ("retransmission", "reinjection"))
    discarded = polars.read_parquet(result.run / "tables" / "counters.parquet").filter(name="SctpInDataChunkDiscards")
    assert twice == discarded.filter(host="server")["value"].sum()
    assert twice > 0
    assert bulk["forward_gap_ns"] / 1e9 == pytest.approx(gap, abs=0.05)
    assert (after_ns - before_ns) / 1e9 == pytest.approx(gap, abs=0.05)


@pytest.mark.usefixtures("leaves_nothing")
def test_cmt_uses_both_paths(run: Callable[..., Result]) -> None:
    """The test starts after slow start and its losses, with 40 ms and 20 + 20 Mbit/s.

    Both paths with full queues hold 442 kB, which the receiver must be able to buffer. A path loses a packet every
    three to four seconds. Then its queue is empty for about 0.2 s, because the library sends little until the data in
    flight fits into half of the window. In 15 s the queues were empty for 5 and 8 % of the time.
    """
    flow = "tool: sctp, duration: 10s, omit: {start: 5s}, send_buffer: 1600kb, receive_buffer: 800kb, cmt: "
    single, both = run(flow + "off"), run(flow + "on")
    assert mbit(single) == pytest.approx(payload_of(20), rel=0.01)
    assert single.metric("bulk.share.path0") > 0.999
    assert 0.94 * payload_of(40) <= mbit(both) <= payload_of(40)
    assert both.metric("bulk.share.path0") == pytest.approx(0.5, abs=0.03)


@pytest.mark.usefixtures("leaves_nothing")
def test_coupled_as_rfc_6356_has_it_from_the_first_packet_on(run: Callable[..., Result]) -> None:
    """Each of two equal paths grows by a quarter of a packet per round trip (RFC 6356, section 3, with alpha = 1/2).

    The same holds in slow start, which the RFC leaves to each subflow. The growth is slightly less: each
    acknowledgement adds whole bytes, and the odd packet of a window is acknowledged with the next window. The round
    trip is 40 ms and the time of two packets.
    """
    flow = "tool: sctp, duration: 3s, send_buffer: 800kb, receive_buffer: 400kb, cmt: mptcp"
    result = run(flow)
    assert result.metric("bulk.retransmits") == 0
    paths = polars.read_parquet(result.run / "tables" / "sctp_paths.parquet")
    for _, path in paths.group_by("remote"):
        first, last = path.filter(polars.col("time_s") > 1).sort("time_s")[[0, -1]].iter_rows(named=True)
        trips = (last["time_s"] - first["time_s"]) / 0.0412
        assert 0.9 < (last["cwnd_bytes"] - first["cwnd_bytes"]) / trips / (PAYLOAD / 4) < 1


@pytest.mark.usefixtures("leaves_nothing")
def test_no_chunk_is_sent_beyond_what_the_receiver_notes(mprun: Callable[..., Result], tmp_path: Path) -> None:
    """No chunk is sent beyond the 4096 chunks that usrsctp accepts after the cumulative TSN.

    A chunk that is lost twice keeps the cumulative TSN for a time-out of 1 s, and buffers of 14 MB hold more chunks.
    Before, these chunks were sent, dropped, and considered lost on both paths.
    """
    topology = TOPOLOGY.format(rate="100mbit", delay="2ms").replace("20mbit", "100mbit")
    (tmp_path / "topo.yaml").write_text(topology.replace("queue:", "loss: 2%, queue:"))
    flow = "tool: sctp, duration: 3s, cmt: on, unordered: true, send_buffer: 14mb, receive_buffer: 7mb"
    (tmp_path / "xp.yaml").write_text(EXPERIMENT.format(flow=flow).replace(", snaplen: 100", ""))
    result = mprun("-t", "topo", "-x", "xp", "--engine", "virtual", "--json")
    assert result.status == 0, result.out + result.err
    fields = ["-e", "sctp.data_tsn_raw", "-e", "sctp.sack_cumulative_tsn_ack_raw"]
    argv = ["tshark", "-r", str(result.run / "pcap" / "client.pcap"), "-Y", "sctp", "-T", "fields", *fields]
    out = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    first, acknowledged, farthest = None, 0, 0
    for data, sack in (line.split("\t") for line in out.splitlines()):
        for tsn in map(int, data.split(",") if data else ()):
            first = tsn if first is None else first
            farthest = max(farthest, (tsn - first) % 2**32 - acknowledged)
        if sack and first is not None and (int(sack) - first) % 2**32 < 2**31:
            acknowledged = max(acknowledged, (int(sack) - first) % 2**32)
    assert 3900 < farthest < 4096


# The library's defaults.
SMALL = "send_buffer: 256kb, receive_buffer: 128kb"


@pytest.mark.usefixtures("leaves_nothing")
def test_splitting_fills_both_paths_with_the_same_small_buffers(run: Callable[..., Result]) -> None:
    """The round trip is 1 ms, the rates 20 + 5 Mbit/s.

    With equal buffers CMT is below one path, and splitting near the sum.
    """

    def measure(flow: str) -> float:
        return mbit(run(f"tool: sctp, duration: 10s, {SMALL}, cmt: {flow}", rate="5mbit", delay="1ms"))

    single = measure("off")
    assert single == pytest.approx(payload_of(20), rel=0.01)
    assert measure("rpv2") < 0.7 * single
    assert 23 < measure("rpv2, buffer_splitting: both") < payload_of(25)


@pytest.mark.usefixtures("leaves_nothing")
def test_small_buffers_block_and_splitting_frees(run: Callable[..., Result]) -> None:
    """The round trip is 10 ms, the rates 20 + 5 Mbit/s. Late data of the slow path fills the receiver's buffer.

    See Dreibholz et al., 2010.
    """

    def measure(flow: str) -> float:
        return mbit(run(f"tool: sctp, duration: 10s, {flow}", rate="5mbit", delay="5ms"))

    small, large = SMALL, "send_buffer: 800kb, receive_buffer: 400000bytes"
    assert measure(f"{small}, cmt: off") == pytest.approx(payload_of(20), rel=0.02)
    blocked = measure(f"{small}, cmt: on")
    assert blocked < 0.6 * payload_of(20)
    assert measure(f"{small}, cmt: on, buffer_splitting: both") > 2 * blocked
    assert 23 < measure(f"{large}, cmt: on, buffer_splitting: both") < payload_of(25)


@pytest.mark.usefixtures("leaves_nothing")
def test_a_size_is_sent_whole_and_backwards(run: Callable[..., Result]) -> None:
    result = run("tool: sctp, size: 5mb, reverse: true, cmt: on, unordered: true, message: 700bytes")
    assert result.metric("bulk.bytes") == 5 * 1024**2
    assert result.metric("bulk.share.path0") == pytest.approx(0.5, abs=0.1)


@pytest.mark.usefixtures("leaves_nothing")
@pytest.mark.parametrize(
    ("flow", "payload", "packet"),
    [
        # timestamps take 12 bytes of a packet of 1500, and the DSS option of MPTCP takes 20 to 28 more
        ("protocol: tcp, message: 1448bytes", 1448, 1500),
        ("protocol: mptcp, message: 1448bytes", 1424, 1500),
        ("protocol: sctp, unordered: true", 1452, 1500),
    ],
    ids=["tcp", "mptcp", "sctp"],
)
def test_netperfmeter_agrees_with_interfaces(run: Callable[..., Result], flow: str, payload: int, packet: int) -> None:
    """The bytes that the receiver got, with their headers, equal the bytes of the receiver's interfaces."""
    result = run(f"tool: netperfmeter, duration: 5s, {flow}")
    last = {row["interface"]: row for row in result.rows("interfaces") if row["node"] == "server"}
    arrived, packets = (sum(row[what] for row in last.values()) for what in ("rx_bytes", "rx_packets"))
    # each packet has its headers, whether its payload is full or only the data just written
    expected = result.metric("bulk.bytes") + packets * (packet + 14 - payload)
    # in flight at the end: 40 ms of 20 Mbit/s and a queue of 80 packets on each path
    assert expected <= arrived <= expected + len(last) * (100e3 + 80 * 1514)
    assert mbit(result) > 15


@pytest.mark.usefixtures("leaves_nothing")
@pytest.mark.parametrize(
    "flow",
    [
        "tool: sctp, cmt: rpv2, buffer_splitting: both, duration: 3s",
        "tool: netperfmeter, protocol: sctp, reverse: true, messages: true, duration: 3s",
    ],
    ids=["sctp", "netperfmeter"],
)
def test_runs_repeat(run: Callable[..., Result], mprun: Callable[..., Result], flow: str) -> None:
    first = run(flow)
    verdict = mprun("verify", "latest")
    assert verdict.status == 0, verdict.out + verdict.err
    assert (first.run / "tables" / "goodput.parquet").exists()


@pytest.mark.usefixtures("leaves_nothing")
def test_iperf3_over_the_kernels_sctp(run: Callable[..., Result]) -> None:
    result = run("tool: iperf3, protocol: sctp, duration: 5s")
    assert 15 < mbit(result) < 20 * 1452 / 1514
    # the settings of MPTCP are those of the other tests
    assert all("path_manager: has no effect" in one for one in result.summary["warnings"])
    # at the sender too, one packet on the wire is one packet in the capture, whose link header takes 20 bytes
    argv = ["tshark", "-r", str(result.run / "pcap" / "client.pcap"), "-T", "fields", "-e", "frame.len"]
    lengths = [int(line) for line in subprocess.run(argv, capture_output=True, check=True).stdout.split()]
    assert max(lengths) == 1500 + 20


@pytest.mark.usefixtures("leaves_nothing")
@pytest.mark.alone
def test_a_kernel_without_sctp_says_so(mprun: Callable[..., Result], tmp_path: Path) -> None:
    """The real engine names the missing module. A kernel with SCTP runs the flow."""
    (tmp_path / "topo.yaml").write_text("version: 1\ntopology: multi-path\npaths: [{rate: 20mbit, queue: 80packets}]\n")
    flow = "tool: iperf3, protocol: sctp, duration: 1s"
    (tmp_path / "xp.yaml").write_text(
        EXPERIMENT.format(flow=flow).replace("capture:\n  - {host: client, snaplen: 100}", "")
    )
    result = mprun("-t", "topo", "-x", "xp", "--engine", "real")
    if result.status == 3:
        assert "has no SCTP, which flow 'bulk' needs; load sctp" in result.err
    else:
        assert result.status == 0, result.err
