# SPDX-License-Identifier: Apache-2.0
"""Sampled series: their figures follow from the network, and agree with one another."""

from __future__ import annotations

import math
import re
import shutil
import statistics
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.scenes import RATES_ONLY
from tests.system.conftest import Result, call, measures_real_time

# path0 loses one packet in a hundred, so its queue stays empty. The queue of path1 is always in use.
TOPOLOGY = """\
version: 1
topology: multi-path
paths:
  - {rate: 20mbit, delay: 20ms, queue: 80packets, loss: {forward: 1%}}
  - {rate: 20mbit, delay: 20ms, queue: 80packets}
"""
EXPERIMENT = """\
version: 1
hosts:
  client: {mptcp: {path_manager: fullmesh}}
  server: {mptcp: {path_manager: fullmesh}}
traffic:
  - {name: bulk, tool: iperf3, from: client, to: server, protocol: mptcp, start: 0s, size: 15mb}
sample: {interfaces: 100ms, queues: 100ms, sockets: 100ms}
"""
RATE, FRAME_BYTES, DELAY_S = 20e6, 1514, 0.02
Row = dict[str, Any]


@pytest.fixture(scope="module")
def sampled(tmp_path_factory: pytest.TempPathFactory) -> Result:
    folder = tmp_path_factory.mktemp("sampled")
    (folder / "topo.yaml").write_text(TOPOLOGY)
    (folder / "xp.yaml").write_text(EXPERIMENT)
    result = call("-t", "topo", "-x", "xp", "--engine", "virtual", "--json", "-o", folder, cwd=folder)
    assert result.status == 0, result.out + result.err
    return result


def rows(result: Result, table: str, **values: object) -> list[Row]:
    return [row for row in result.rows(table) if all(row[name] == value for name, value in values.items())]


def steady(found: list[Row]) -> Iterator[Row]:
    """Yield the rows between the growth of windows and the end of the flow."""
    return (row for row in found if 2e9 <= row["time_ns"] <= 5.05e9)


def test_series_are_sampled_when_they_were_to_be(sampled: Result) -> None:
    wanted = [n * 100_000_000 for n in range(1, 51)]
    for table in ("interfaces", "queues", "sockets"):
        times = {row["time_ns"] for row in sampled.rows(table)}
        assert all(any(0 <= moment - due < 10_000 for moment in times) for due in wanted), table
    assert {row["time_ns"] for row in sampled.rows("interfaces")} == {row["time_ns"] for row in sampled.rows("queues")}


def test_the_smoothed_round_trip_is_between_that_of_the_idle_path_and_the_largest_sample(sampled: Result) -> None:
    for path in ("path0", "path1"):
        srtt_s, idle_s = sampled.metric(f"bulk.srtt.{path}"), sampled.metric(f"{path}.rtt")
        sampled_us = [row["rtt_us"] for row in rows(sampled, "sockets", host="client", path=path) if row["rtt_us"]]
        assert idle_s <= srtt_s <= max(sampled_us) / 1e6 + idle_s


def test_a_full_link_carries_its_rate(sampled: Result) -> None:
    """The link carries rate x time, to a frame, while a packet always waited.

    A pause of the sender drains the queue, and the next burst fills it. So only spans count in which the backlog
    changes by at most the growth of the window in a tenth of a second, plus a packet or two of the path's share.
    """
    router = rows(sampled, "interfaces", node="router", link="path1")
    queue = {row["time_ns"]: row for row in rows(sampled, "queues", link="path1", direction="forward")}
    full = [
        (one, other)
        for one, other in pairwise(router)
        if min(queue[row["time_ns"]]["backlog_packets"] for row in (one, other)) >= 10
        and abs(queue[one["time_ns"]]["backlog_packets"] - queue[other["time_ns"]]["backlog_packets"]) <= 4
        and queue[one["time_ns"]]["drops_packets"] == queue[other["time_ns"]]["drops_packets"]
    ]
    assert len(full) >= 25
    for one, other in full:
        seconds = (other["time_ns"] - one["time_ns"]) / 1e9
        assert other["rx_bytes"] - one["rx_bytes"] == pytest.approx(RATE * seconds / 8, abs=1.1 * FRAME_BYTES)


def test_every_packet_has_a_fate(sampled: Result) -> None:
    """Each packet that one end sent was received by the other end, dropped by the link's queue, or lost by the link."""
    for link in ("path0", "path1"):
        for direction, sender, receiver in (("forward", "client", "router"), ("reverse", "router", "client")):
            sent = rows(sampled, "interfaces", node=sender, link=link)[-1]["tx_packets"]
            got = rows(sampled, "interfaces", node=receiver, link=link)[-1]["rx_packets"]
            queue = rows(sampled, "queues", link=link, direction=direction)[-1]
            assert queue["backlog_packets"] == 0
            assert sent == got + queue["drops_packets"] + queue["lost_packets"], (link, direction)


def test_loss_is_as_asked(sampled: Result) -> None:
    sent = rows(sampled, "interfaces", node="client", link="path0")[-1]["tx_packets"]
    lost = rows(sampled, "queues", link="path0", direction="forward")[-1]["lost_packets"]
    # four standard deviations of a binomial distribution
    assert lost == pytest.approx(0.01 * sent, abs=4 * math.sqrt(0.01 * sent))
    assert all(row["lost_packets"] == 0 for row in rows(sampled, "queues", link="path1"))


def test_a_queue_holds_what_it_was_given(sampled: Result) -> None:
    queue = rows(sampled, "queues", link="path1", direction="forward")
    longest = max(row["backlog_packets"] for row in queue)
    assert 70 <= longest <= 80
    assert queue[-1]["drops_packets"] > 0
    for row in steady(queue):
        # data in full frames; the last frame of a send buffer may be shorter
        assert (
            0.9 * FRAME_BYTES * row["backlog_packets"] <= row["backlog_bytes"] <= FRAME_BYTES * row["backlog_packets"]
        )


def data(result: Result, host: str, path: str) -> list[Row]:
    return rows(result, "sockets", host=host, path=path, flow="bulk", connection=0)


def test_round_trip_time_is_delay_and_queue(sampled: Result) -> None:
    """Two measurements agree: the round-trip time that TCP measures, and the wait in the queue at its rate.

    The median is used, because the smoothed round-trip time lags when the connection pauses and the queue empties.
    """
    queue = rows(sampled, "queues", link="path1", direction="forward")
    waits = [row["backlog_bytes"] * 8 / RATE for row in steady(queue)]
    measured = [row["rtt_us"] / 1e6 for row in steady(data(sampled, "client", "path1"))]
    assert len(measured) == len(waits) >= 30
    beyond_queue = statistics.median(rtt - wait for rtt, wait in zip(measured, waits, strict=True))
    # a packet's own transmission of 0.6 ms, and half of the transmission of the frame before it
    assert beyond_queue == pytest.approx(2 * DELAY_S + 1.5 * FRAME_BYTES * 8 / RATE, abs=FRAME_BYTES * 8 / RATE)
    assert all(row["min_rtt_us"] == pytest.approx(40_000, abs=700) for row in data(sampled, "client", "path0"))


def test_what_is_under_way_is_rate_times_round_trip_time(sampled: Result) -> None:
    """The test checks Little's law."""
    found = list(steady(data(sampled, "client", "path1")))
    under_way = sum(row["unacked_packets"] for row in found) / len(found)
    rtt_s = sum(row["rtt_us"] for row in found) / len(found) / 1e6
    assert under_way * FRAME_BYTES * 8 == pytest.approx(RATE * rtt_s, rel=0.05)


def test_bytes_of_subflows_are_those_of_interfaces(sampled: Result) -> None:
    """The time before the end counts only: packets after iperf3 has closed its sockets belong to no socket."""
    arrived = list(steady(rows(sampled, "interfaces", node="server")))[-1]
    moment = arrived["time_ns"]
    last = [row for path in ("path0", "path1") for row in data(sampled, "server", path) if row["time_ns"] == moment]
    received = sum(row["bytes_received"] for row in last)
    assert len(last) == 2
    # Ethernet, IP, TCP, timestamps, and on most packets MPTCP's DSS option of 20 to 28 bytes
    per_packet = (arrived["rx_bytes"] - received) / arrived["rx_packets"]
    assert 14 + 20 + 20 + 12 + 20 <= per_packet <= 14 + 20 + 20 + 12 + 28


def test_delivery_rate_is_that_of_the_link(sampled: Result) -> None:
    found = [row["delivery_bytes_per_s"] * 8 for row in steady(data(sampled, "client", "path1"))]
    payload = RATE * (1448 - 28) / FRAME_BYTES
    assert sorted(found)[len(found) // 2] == pytest.approx(payload, rel=0.03)


def test_retransmissions_are_told_by_sockets_and_counters_alike(sampled: Result) -> None:
    sockets: dict[tuple[str, int], int] = {}
    for row in rows(sampled, "sockets", host="client"):
        sockets[row["local"], row["local_port"]] = row["retransmits_packets"]
    (counted,) = (row["value"] for row in rows(sampled, "counters", host="client", name="TcpRetransSegs"))
    assert sum(sockets.values()) == counted
    assert sampled.metric("bulk.retransmits") <= counted


def test_events_are_half_round_trips_apart(sampled: Result) -> None:
    """SYN, SYN+ACK, ACK: each takes the delay of a path."""
    events = rows(sampled, "events", flow="bulk")
    names = [(row["host"], row["event"], row["path"]) for row in events if row["path"]]
    assert names == [
        ("client", "created", "path0"),
        ("server", "created", "path0"),
        ("server", "established", "path0"),
        ("client", "established", "path0"),
        ("client", "subflow established", "path1"),
        ("server", "subflow established", "path1"),
    ]
    times = [row["time_ns"] / 1e9 for row in events if row["path"]]
    for moment in times:
        assert moment % DELAY_S == pytest.approx(0, abs=0.001), times
    assert times[1] - times[0] == pytest.approx(DELAY_S, abs=0.001)
    assert times[5] - times[4] == pytest.approx(DELAY_S, abs=0.001)


def test_the_busiest_subflow_is_always_the_one_without_loss(sampled: Result) -> None:
    assert sampled.metric("bulk.share.path1") > 0.8
    assert sampled.metric("bulk.flapping") == 0
    assert 0 < sampled.metric("bulk.share.stdev.path1") < 0.2
    assert sampled.metric("bulk.share.stdev.path0") == pytest.approx(sampled.metric("bulk.share.stdev.path1"))


def test_a_sampled_run_repeats_byte_by_byte(sampled: Result, mprun: Callable[..., Result]) -> None:
    same = mprun("verify", sampled.run)
    assert same.status == 0, same.out + same.err


def test_tables_come_again_from_what_a_run_left_raw(
    sampled: Result, mprun: Callable[..., Result], tmp_path: Path
) -> None:
    copy = shutil.copytree(sampled.run, tmp_path / "copy")
    tables = {path.name: path.read_bytes() for path in (copy / "tables").iterdir()}
    (copy / "tables" / "sockets.parquet").write_bytes(tables["sockets.parquet"][:100])
    damaged = mprun("export", "--csv", copy)
    assert damaged.status == 1
    assert "sockets.parquet: damaged" in damaged.err
    shutil.rmtree(copy / "tables")
    shown = mprun("show", copy)
    assert shown.status == 0, shown.err
    assert {path.name: path.read_bytes() for path in (copy / "tables").iterdir()} == tables


def test_every_table_is_exported(sampled: Result, mprun: Callable[..., Result], tmp_path: Path) -> None:
    done = mprun("export", "--csv", sampled.run, "--to", tmp_path / "csv")
    assert done.status == 0, done.err
    for name in ("interfaces", "queues", "sockets", "events", "counters", "goodput"):
        lines = (tmp_path / "csv" / f"{name}.csv").read_text().splitlines()
        found = sampled.rows(name)
        assert len(lines) == len(found) + 1
        assert lines[0].split(",") == list(found[0])


FILE = """\
version: 1
hosts:
  client: {mptcp: {path_manager: fullmesh}}
  server: {mptcp: {path_manager: fullmesh}}
traffic:
  - {name: web, tool: http, from: client, to: server, protocol: mptcp, sizes: [4mb]}
"""


def test_bytes_of_a_file_are_those_of_its_subflows(mprun: Callable[..., Result], tmp_path: Path) -> None:
    """Two measurements agree over IPv6 towards the client, with the samples that every run has."""
    topology = TOPOLOGY.replace(", loss: {forward: 1%}", "").replace("version: 1", "version: 1\naddressing: ipv6")
    (tmp_path / "topo.yaml").write_text(topology)
    (tmp_path / "xp.yaml").write_text(FILE)
    result = mprun("-t", "topo", "-x", "xp", "--engine", "virtual", "--json")
    assert result.status == 0, result.out + result.err
    received = {row["path"]: row["bytes_received"] for row in rows(result, "sockets", host="client", flow="web")}
    sent = {row["path"]: row["bytes_acked"] for row in rows(result, "sockets", host="server", flow="web")}
    assert set(received) == set(sent) == {"path0", "path1"}
    assert result.metric("web.bytes") == 4 << 20
    # the header of the answer, and the byte that a FIN counts
    assert 0 <= sum(received.values()) - (4 << 20) <= 500
    assert sum(sent.values()) == pytest.approx(sum(received.values()), abs=4)
    # the experiment requests nothing for the router, and it has the totals that every node has
    first, last = rows(result, "interfaces", node="router", link="path0")
    assert first["time_ns"] < 10_000
    assert first["rx_packets"] == 0
    assert last["tx_bytes"] > received["path0"]


COMING_AND_GOING = """\
version: 1
topology: multi-path
paths: [{rate: 10mbit, delay: 10ms}, {rate: 10mbit, delay: 20ms}]
middleboxes: {router: {nat: {inside: [path0, path1]}}}
events:
  - {at: 1s, host: client, address: path1, state: removed}
  - {at: 2s, host: client, address: path1, state: added}
"""


def test_subflows_come_and_go_beyond_a_nat(mprun: Callable[..., Result], tmp_path: Path) -> None:
    """A subflow ends at once with its address, and exists again one round trip after the address returns.

    The server sees the subflow with the NAT's address.
    """
    (tmp_path / "topo.yaml").write_text(COMING_AND_GOING)
    (tmp_path / "xp.yaml").write_text(EXPERIMENT.replace("size: 15mb", "duration: 3s"))
    result = mprun("-t", "topo", "-x", "xp", "--engine", "virtual", "--json")
    assert result.status == 0, result.out + result.err
    times = {
        host: [row["time_ns"] / 1e9 for row in rows(result, "events", flow="bulk", host=host, path="path1")]
        for host in ("client", "server")
    }
    # established, closed, established; the client reports it when the answer has come, the server 20 ms later
    assert times["client"][1:] == pytest.approx([1, 2.04], abs=0.001)
    assert times["server"][2] == pytest.approx(2.06, abs=0.001)
    for host, local in (("client", "10.0.1.1"), ("server", "10.1.0.1")):
        found = rows(result, "sockets", flow="bulk", host=host, path="path1")
        assert {row["local"] for row in found} == {local}
        assert len({(row["local_port"], row["remote_port"]) for row in found}) == 2
    assert {row["remote"] for row in rows(result, "sockets", host="server", flow="bulk")} == {"10.1.0.2"}
    changes = [(row["time_ns"] // 1_000_000, row["host"], row["link"], row["value"]) for row in result.rows("changes")]
    assert changes == [(1000, "client", "path1", '"removed"'), (2000, "client", "path1", '"added"')]
    # absent for one of three seconds
    assert result.metric("bulk.share.stdev.path1") > 0.1


@pytest.mark.usefixtures("leaves_nothing")
@measures_real_time
@pytest.mark.alone
def test_cpu_time_in_real_time(mprun: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "topo.yaml").write_text(RATES_ONLY.replace("20mbit", "1gbit"))
    text = EXPERIMENT.replace("size: 15mb", "duration: 2s").replace("sockets: 100ms", "cpu: 100ms")
    (tmp_path / "xp.yaml").write_text(text)
    result = mprun("-t", "topo", "-x", "xp", "--engine", "real", "--json")
    assert result.status == 0, result.out + result.err
    used = {(row["host"], row["process"]): row["user_ns"] + row["system_ns"] for row in result.rows("cpu")}
    assert {("client", "bulk"), ("server", "bulk.server"), (None, "agent")} == set(used)
    # two paths of 1 Gbit/s keep both ends busy, for 2 s and the time before and after
    assert all(50_000_000 < used[end] < 3_000_000_000 for end in (("client", "bulk"), ("server", "bulk.server")))
    for metric, end in (("cpu.client", ("client", "bulk")), ("cpu.server", ("server", "bulk.server"))):
        last = rows(result, "cpu", host=end[0], process=end[1])[-1]
        assert result.metric(f"bulk.{metric}") == pytest.approx((last["user_ns"] + last["system_ns"]) / 1e9)
    for link in ("path0", "path1"):
        sent = rows(result, "interfaces", node="client", link=link)[-1]["tx_packets"]
        got = rows(result, "interfaces", node="router", link=link)[-1]["rx_packets"]
        queue = rows(result, "queues", link=link, direction="forward")[-1]
        assert sent == got + queue["drops_packets"] > 10_000
        assert queue["lost_packets"] is None
    for cpu in {row["cpu"] for row in result.rows("processors")}:
        last = rows(result, "processors", cpu=cpu)[-1]
        spent = sum(value for name, value in last.items() if name not in ("time_ns", "cpu"))
        # at most the available time, in ticks of 10 ms in each of eight states; time that a hypervisor takes unreported
        # is in none
        assert 0 < spent <= last["time_ns"] + 80_000_000
        assert sum(last[name] for name in ("user_ns", "system_ns", "softirq_ns")) > 0


def test_cpu_time_in_simulated_time_is_a_warning(mprun: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "topo.yaml").write_text(TOPOLOGY)
    ping = "version: 1\ntraffic: [{tool: ping, from: client, to: server, count: 2}]\nsample: {cpu: 1s}\n"
    (tmp_path / "xp.yaml").write_text(ping)
    result = mprun("-t", "topo", "-x", "xp", "--engine", "virtual", "--json")
    assert result.status == 0, result.out + result.err
    assert [text for text in result.summary["warnings"] if text.startswith("sample.cpu: has nothing to sample: ")]
    assert not (result.run / "tables" / "cpu.parquet").exists()


def test_packets_that_the_kernel_did_not_take_in_are_told_of(mprun: Callable[..., Result], tmp_path: Path) -> None:
    """A window leaves at one moment and arrives at one moment, because nothing has a rate.

    The kernel cannot hold so much.
    """
    (tmp_path / "topo.yaml").write_text(
        "version: 1\nnodes: {a: {kind: host}, b: {kind: host}}\nlinks: [{name: l, between: [a, b], delay: 10ms}]\n"
    )
    (tmp_path / "xp.yaml").write_text(
        "version: 1\nhosts: {a: {sysctl: {net.core.netdev_max_backlog: 2}}}\n"
        "traffic: [{name: bulk, tool: iperf3, from: a, to: b, duration: 1s}]\nsample: {interfaces: 500ms}\n"
    )
    result = mprun("-t", "topo", "-x", "xp", "--engine", "virtual", "--json")
    (warning,) = result.summary["warnings"]
    told = re.fullmatch(r"link 'l' forward: (\d+) packets lost outside its queue: .*", warning)
    assert told is not None, warning
    a, b = (rows(result, "interfaces", node=node)[-1] for node in ("a", "b"))
    # tx_packets are the packets that the peer accepted: the first are lost between a and the wire, the others at b
    lost = a["tx_drops"] + a["tx_packets"] - b["rx_packets"]
    assert int(told[1]) == lost > 0
    assert result.metric("bulk.retransmits") == lost
