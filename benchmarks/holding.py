# SPDX-License-Identifier: Apache-2.0
"""Compare the figures of a run of `benchmarks/physics.py` with the closed forms of its cell.

This module reads the files that every user has: the summary that `mprun --json` prints, the tables and the captures.
`benchmarks/segment.py` reads the captures. Other modules draw and print the cells.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars

from benchmarks import closed_form as form
from benchmarks import segment
from benchmarks.closed_form import Way
from benchmarks.configuration import OVERLOAD, SIGMAS, WINDOW_FULL, WITHIN, WORDS, Configuration, Direction

# A timer of the experiment kernel fires on a step of its clock of 256 ns. These are the timers of the delay and the
# rate of each link, and the timers by which a program sends and sees an arrival.
STEP_S = 256e-9
STEPS_OF_LINK, STEPS_OF_PROGRAMS = 2, 2
# ping(8) prints its mean to the microsecond.
PING_S = 1e-6
# The share of outcomes outside of a loss's interval.
OUTSIDE = 1e-4
# A data connection carried more than this; iperf3's control connection carries a tenth of it.
DATA_BYTES = 50_000
# A program that reads blocks is woken for this many bytes (mprun/kernel/guest/bulk.c). They may be missing at both ends
# of a count.
WAKE_BYTES = 8192
# Sockets are read a little before a flow is due to end.
END_NS = 10_000_000
# Linux's least time, in addition to the round trip, until a retransmission timeout (TCP_RTO_MIN).
TIMEOUT_NS = 200_000_000
REASONS = {
    "sent again": "the run counts more retransmissions than drops. The extra segments use a part of the rate",
    "timeout": "the run counts timeouts of the sender. Each takes 200 ms, Linux's minimum, and a round trip",
    "small window": "the run's samples show congestion windows below rate x round trip. The link was idle meanwhile",
}


@dataclass(frozen=True)
class Row:
    """A figure and the bounds of its closed form. unit: how it is printed (s, bit/s, share or a count)."""

    quantity: str
    unit: str
    asked: float
    low: float
    high: float
    got: float
    reason: str = ""

    @property
    def is_held(self) -> bool:
        return self.low <= self.got <= self.high or bool(self.reason)

    @property
    def asked_text(self) -> str:
        return spell(self.asked, self.unit)

    @property
    def got_text(self) -> str:
        return spell(self.got, self.unit)

    @property
    def deviation_text(self) -> str:
        if self.unit == "1":
            return f"{self.got - self.asked:+g}"
        return f"{(self.got / self.asked - 1) * 100:+.3f} %" if self.asked else spell(self.got, self.unit)

    @property
    def allowed_text(self) -> str:
        if self.low == self.high:
            return "exact"
        return f"{spell(self.low, self.unit)} to {spell(self.high, self.unit)}"


def spell(value: float, unit: str) -> str:
    """Spell a value for people."""
    if unit == "s":
        return f"{value * 1e3:.4f} ms"
    if unit == "bit/s":
        return f"{value / 1e6:.4f} Mbit/s"
    return f"{value * 100:.3f} %" if unit == "share" else f"{value:g}"


def near(quantity: str, unit: str, asked: float, got: float, floor: float = 0.0) -> Row:
    """Return a row that allows 2 %, or `floor` if that is more."""
    room = max(abs(asked) * WITHIN, floor)
    return Row(quantity, unit, asked, asked - room, asked + room, got)


def exact(quantity: str, asked: float, got: float) -> Row:
    return Row(quantity, "1", asked, asked, asked, got)


@dataclass(frozen=True)
class Evidence:
    """The files of a run, which are read when they are needed."""

    cell: Configuration
    summary: dict[str, Any]

    @property
    def path(self) -> Path:
        return Path(self.summary["directory"])

    def metric(self, name: str) -> float:
        """Return the metric's value, or NaN if the run does not have the metric. NaN is outside of all bounds."""
        return float(self.summary["metrics"].get(name, {"value": math.nan})["value"])

    def table(self, name: str) -> polars.DataFrame:
        return polars.read_parquet(self.path / "tables" / f"{name}.parquet")

    @cached_property
    def client(self) -> segment.Census:
        return segment.count(self.path / "pcap" / "client.pcap")

    @cached_property
    def server(self) -> segment.Census:
        return segment.count(self.path / "pcap" / "server.pcap")


def hold(cell: Configuration, summary: dict[str, Any]) -> Iterator[Row]:
    """Yield every figure of a cell."""
    evidence = Evidence(cell, summary)
    yield from HOLDERS[cell.kind](evidence)
    yield from hold_conservation(evidence)


def _steps_s(ways: int, links: int) -> float:
    return ways * (STEPS_OF_LINK * links + STEPS_OF_PROGRAMS) * STEP_S


def hold_ping(evidence: Evidence, name: str) -> Row:
    """Return the round trips over idle links."""
    cell = evidence.cell
    size = next(int(entry["size"].removesuffix("bytes")) for entry in cell.traffic if entry["name"] == name)
    frame = form.echo_frame_bytes(cell.family, size)
    asked = form.round_trip_s(cell.forward, cell.reverse, frame)
    floor = _steps_s(2, len(cell.links)) + PING_S
    return near(f"idle round trip, frames of {frame} bytes", "s", asked, evidence.metric(f"{name}.rtt"), floor)


def hold_delay(evidence: Evidence) -> Iterator[Row]:
    cell = evidence.cell
    yield hold_ping(evidence, "idle")
    yield hold_ping(evidence, "long")
    frame = form.udp_frame_bytes(cell.family, cell.facts["length"])
    ways: tuple[tuple[str, Way], ...] = (("there", cell.forward), ("back", cell.reverse))
    for name, way in ways:
        for value in ("min", "max"):
            got = evidence.metric(f"{name}.delay.{value}")
            asked = form.one_way_s(way, frame)
            quantity = f"one-way delay {WORDS[name]}, {value}, frames of {frame} bytes"
            yield near(quantity, "s", asked, got, _steps_s(1, len(cell.links)))


def hold_overload(evidence: Evidence) -> Iterator[Row]:
    cell = evidence.cell
    queue, frame_s, facts = cell.bottleneck.forward.queue_packets, cell.frame_s, cell.facts
    yield hold_ping(evidence, "idle")
    # the bottleneck's own frame time is part of the wait and of the idle time
    beyond_s = form.one_way_s(cell.forward, cell.frame_bytes) - frame_s
    load = evidence.table("datagrams").filter(polars.col("flow") == "load")
    first_ns = load["sent_ns"].min()
    steady = load.filter(polars.col("sent_ns") > first_ns + facts["fill_s"] * 1e9)
    asked = beyond_s + form.full_queue_mean_wait_s(queue, frame_s, OVERLOAD)
    mean = steady["delay_ns"].mean()
    yield near("delay behind the full queue", "s", asked, float(mean) / 1e9 if isinstance(mean, float) else math.nan)
    most = beyond_s + (queue + 1) * frame_s
    longest = steady["delay_ns"].max()
    got = float(longest) / 1e9 if isinstance(longest, int) else math.nan
    # a program that starts meanwhile, as the ping does, may make the others late by more than the clock's steps
    yield Row("longest delay behind the full queue", "s", most, most - frame_s, most * (1 + WITHIN), got)
    probe = form.echo_frame_bytes(cell.family)
    probe_s = cell.bottleneck.forward.hop.serialise_s(probe)
    asked = (
        form.round_trip_s(cell.forward, cell.reverse, probe)
        - probe_s
        + form.full_queue_probe_wait_s(queue, frame_s, OVERLOAD, probe_s)
        + form.follow_s(cell.forward, cell.frame_bytes, probe)
    )
    yield near("loaded round trip", "s", asked, evidence.metric("probe.rtt"))
    rate = cell.bottleneck.forward.rate_bit_per_s
    arrived = form.full_queue_arrivals(facts["packets"], queue, OVERLOAD)
    yield near("packets of the load that arrived", "1", arrived, len(load))
    asked = form.goodput_bit_per_s(rate, facts["payload"], cell.mtu)
    # packets of the queue arrive after the last packet was sent
    duration_s = max(facts["packets"] * facts["apart_s"], arrived * frame_s)
    yield near(
        "goodput of the load", "bit/s", arrived * facts["payload"] * 8 / duration_s, evidence.metric("load.goodput")
    )
    yield near("UDP share", "bit/s", asked, evidence.metric("share.goodput"))
    # the third server of the run
    port = 5203
    sent = evidence.client.datagrams.get((segment.OUTGOING, port), 0)
    got_there = evidence.server.datagrams.get((segment.INCOMING, port), 0)
    if sent:
        # iperf3 sees a loss when a later datagram arrives. With an overload below 2, no two in a row are lost.
        asked, floor = 1 - got_there / sent, 1 / sent
        yield near("UDP loss, by the captures", "share", asked, evidence.metric("share.loss"), floor)


def hold_jitter(evidence: Evidence) -> Iterator[Row]:
    cell = evidence.cell
    (link,) = cell.links
    if link.forward.jitter is None:
        raise ValueError(f"cell {cell.number} has no jitter")
    distribution, amount_us = link.forward.jitter
    amount_s, moments = amount_us / 1e6, form.jitter_moments(distribution)
    floor = _steps_s(1, 1)
    deviation = evidence.metric("varied.delay.stdev")
    yield near(f"standard deviation, {distribution}", "s", moments.stdev * amount_s, deviation, floor)
    frame = form.udp_frame_bytes(cell.family, cell.facts["length"])
    asked = form.one_way_s(cell.forward, frame) + moments.mean * amount_s
    yield near("mean delay", "s", asked, evidence.metric("varied.delay.mean"), floor)
    yield exact("packets", cell.facts["packets"], evidence.metric("varied.packets"))


def hold_loss(evidence: Evidence) -> Iterator[Row]:
    cell = evidence.cell
    (link,) = cell.links
    for name, direction in (("there", link.forward), ("back", link.reverse)):
        low, asked, high = _losses(direction, cell.facts["packets"])
        count = evidence.metric(f"{name}.packets")
        got = evidence.metric(f"{name}.loss") * count
        yield exact(f"packets {WORDS[name]}", cell.facts["packets"], count)
        yield Row(f"losses {WORDS[name]}", "1", asked, low, high, round(got, 6))


def _losses(direction: Direction, count: int) -> tuple[float, float, float]:
    """Return the least, the expected and the most losses."""
    loss = direction.loss
    if isinstance(loss, form.GilbertElliott):
        low, high = loss.interval(count, SIGMAS)
        return low, count * loss.loss, high
    share = float(loss or 0)
    least, most = form.binomial_interval(count, share, OUTSIDE)
    return least, count * share, most


def hold_slow_start(evidence: Evidence) -> Iterator[Row]:
    cell = evidence.cell
    yield hold_ping(evidence, "idle")
    for place, name in enumerate(("few", "many")):
        size = cell.facts[name]
        asked = form.slow_start(cell.forward, cell.reverse, cell.family, cell.mtu, size).completion_s
        floor = _steps_s(3, len(cell.links))
        got = evidence.metric(f"{name}.completion.mean")
        yield near(f"completion of {size} bytes", "s", asked, got, floor)
        sent = evidence.client.towards(5201 + place, segment.OUTGOING, 0)
        received = evidence.server.towards(5201 + place, segment.INCOMING, 0)
        if len(sent) == len(received) == 1:
            seen_s = (received[0].last_payload_ns - sent[0].first_ns) / 1e9
            yield near(f"completion of {size} bytes, from the captures", "s", asked, seen_s, floor)
        yield exact(f"bytes of {size}, by sequence numbers", sum(one.payload_bytes for one in received), size)
        yield exact(f"bytes of {size}, by the run", size, evidence.metric(f"{name}.bytes"))
        yield exact("retransmissions, by the captures", 0, sum(len(one.sent_again_ns) for one in sent))
        yield exact("retransmissions, by the run", 0, evidence.metric(f"{name}.retransmits"))


def hold_bulk(evidence: Evidence) -> Iterator[Row]:
    cell = evidence.cell
    yield hold_ping(evidence, "idle")
    payload = form.tcp_payload_bytes(cell.family, cell.mtu)
    asked = form.goodput_bit_per_s(cell.bottleneck.forward.rate_bit_per_s, payload, cell.mtu)
    yield with_reason(evidence, near("TCP goodput", "bit/s", asked, evidence.metric("bulk.goodput")))
    yield from hold_counts(evidence, "bulk", 5201)


def hold_multipath(evidence: Evidence) -> Iterator[Row]:
    cell = evidence.cell
    payload = form.tcp_payload_bytes(cell.family, cell.mtu, is_multipath=True)
    rate = sum(link.forward.rate_bit_per_s for link in cell.links)
    asked = form.goodput_bit_per_s(rate, payload, cell.mtu)
    yield with_reason(evidence, near("MPTCP goodput over both paths", "bit/s", asked, evidence.metric("bulk.goodput")))
    yield exact("subflows", 2, evidence.metric("bulk.subflows"))
    yield from hold_counts(evidence, "bulk", 5201)


def hold_fairness(evidence: Evidence) -> Iterator[Row]:
    cell = evidence.cell
    intervals = [_counted(evidence, entry) for entry in cell.traffic if "omit" in entry]
    fairness = evidence.metric("total.fairness")
    yield Row(f"Jain's index of {cell.flows} flows", "share", 1, 1 - WITHIN, 1 + 1e-9, fairness)
    index = form.shared_jain(intervals)
    # the table has microseconds
    yield Row("Jain's index, from table goodput", "share", index, index - 1e-6, index + 1e-6, fairness)
    if cell.discipline == "fifo":
        payload = form.tcp_payload_bytes(cell.family, cell.mtu)
        asked = form.goodput_bit_per_s(cell.bottleneck.forward.rate_bit_per_s, payload, cell.mtu)
        yield near("goodput of all", "bit/s", asked, evidence.metric("total.goodput"))
    for number in range(cell.flows):
        yield from hold_counts(evidence, f"flow{number}", 5201 + number)


def _counted(evidence: Evidence, entry: dict[str, Any]) -> list[tuple[float, float, float]]:
    """Return (begin, end, goodput) of the seconds that count, without the omitted ones.

    Data that arrives within a tenth of a second after the last second counts as part of it.
    """
    columns = ("start_s", "end_s", "goodput_bit_per_s")
    rows = evidence.table("goodput").filter(flow=entry["name"]).select(columns).sort("start_s").rows()
    end_s = rows[0][0] + int(entry["duration"].removesuffix("s")) + 0.1
    return [row for row in rows[int(entry["omit"]["start"].removesuffix("s")) :] if row[1] < end_s]


def hold_counts(evidence: Evidence, name: str, port: int) -> Iterator[Row]:
    """Retransmissions of all data connections to a port, and the bytes that arrived in order."""
    entry = next(one for one in evidence.cell.traffic if one["name"] == name)
    omitted, total = (int(text.removesuffix("s")) for text in (entry["omit"]["start"], entry["duration"]))
    sent = evidence.client.towards(port, segment.OUTGOING, DATA_BYTES)
    moments = sorted(moment for stream in sent for moment in stream.sent_again_ns)
    # The run counts from its first connection until the flow is over. Retransmissions until its sockets are closed may
    # be counted or not.
    begun_ns = min((stream.first_ns for stream in evidence.client.towards(port, segment.OUTGOING, 0)), default=0)
    over_ns = begun_ns + total * 1_000_000_000 - END_NS
    least = bisect_right(moments, over_ns)
    got = evidence.metric(f"{name}.retransmits")
    yield Row(f"{name}: retransmissions, by sequence numbers", "1", least, least, len(moments), got)
    received = evidence.server.towards(port, segment.INCOMING, DATA_BYTES)
    begun_ns = min((stream.first_ns for stream in received), default=0)
    window = (begun_ns + omitted * 1_000_000_000, begun_ns + total * 1_000_000_000)
    orders = [segment.follow_data(received)] if evidence.cell.is_multipath else [stream.order for stream in received]
    counted = sum(order.between(*window) for order in orders) * 8 / (total - omitted)
    # A fixed window may arrive in one burst, and iperf3's clock begins after the handshake: one more burst may count.
    # Linux doubles the buffer that a program asks for, so that the announced window is larger than this.
    mine = steady_sockets(evidence).filter(polars.col("flow") == name)
    windows = mine["snd_wnd_bytes"].to_list() if "window" in entry else []
    burst = max([2 * WAKE_BYTES, *windows])
    floor = burst * 8 / (total - omitted)
    yield near(f"{name}: goodput, by sequence numbers", "bit/s", counted, evidence.metric(f"{name}.goodput"), floor)


def hold_last(evidence: Evidence) -> Iterator[Row]:
    """Compare the loss of the last flow with what a queue of its size drops, and with the counters of the links."""
    cell = evidence.cell
    (entry,), packets, payload = cell.traffic, cell.facts["packets"], cell.facts["payload"]
    apart_s = payload * 8 / int(entry["rate"].removesuffix("bit"))
    arrivals_s = [number * apart_s for number in range(packets)]
    accepted = form.accepted_s(arrivals_s, cell.bottleneck.forward.queue_packets, cell.frame_s)
    lost = packets - len(accepted)
    yield exact("packets of the last flow", packets, evidence.metric("last.packets"))
    # an arrival and a departure at the same time may come in either order
    yield near("loss of the last flow", "share", lost / packets, evidence.metric("last.loss"), min(lost, 1) / packets)
    duration_s = int(entry["duration"].removesuffix("us")) / 1e6
    arriving_s = (accepted[-1][1] - accepted[0][1]) * len(accepted) / (len(accepted) - 1)
    asked = len(accepted) * payload * 8 / max(duration_s, arriving_s)
    yield near("goodput of the last flow", "bit/s", asked, evidence.metric("last.goodput"))
    beyond_s = form.one_way_s(cell.forward, cell.frame_bytes) - cell.frame_s
    most_s = beyond_s + max(sent_s - arrival_s for arrival_s, sent_s in accepted)
    floor = _steps_s(1, len(cell.links))
    yield near("longest delay of the last flow", "s", most_s, evidence.metric("last.delay.max"), floor)
    queues = evidence.table("queues").filter(polars.col("time_ns") == polars.col("time_ns").max())
    dropped = int(queues["drops_packets"].fill_null(0).sum())
    yield exact("packets that the queues dropped", round(evidence.metric("last.loss") * packets), dropped)


def hold_changes(evidence: Evidence) -> Iterator[Row]:
    """Compare the arrivals in each piece of a constant rate with what the link carries."""
    cell, facts = evidence.cell, evidence.cell.facts
    (link,) = cell.links
    table = evidence.table("datagrams").select("flow", at_ns=polars.col("sent_ns") + polars.col("delay_ns"))
    for name, direction in (("there", link.forward), ("back", link.reverse)):
        arrived = table.filter(polars.col("flow") == name)["at_ns"].sort().to_list()
        found = form.pieces(direction.rate_bit_per_s, facts["changes"][name], facts["begin_us"], facts["end_us"])
        for piece in found:
            low, high = (bisect_right(arrived, moment_us * 1000) for moment_us in (piece.begin_us, piece.end_us))
            when = f"{piece.begin_us / 1000:g} to {piece.end_us / 1000:g} ms at {piece.rate_bit_per_s / 1e6:.6f} Mbit/s"
            # the rest of a frame belongs to the next piece
            asked = piece.frames(cell.frame_bytes)
            yield Row(f"frames {WORDS[name]}, {when}", "1", asked, asked - 1, asked + 1, high - low)


def hold_transport(evidence: Evidence) -> Iterator[Row]:
    """Compare a transfer with the rate of its link. If it gets less, the run must name the cause."""
    cell, causes = evidence.cell, evidence.cell.facts["causes"]
    got = evidence.metric("bulk.goodput")
    asked = form.goodput_bit_per_s(cell.bottleneck.forward.rate_bit_per_s, cell.facts["payload"], cell.mtu)
    full = near("goodput", "bit/s", asked, got)
    told = [text for text in evidence.summary["warnings"] if text.startswith("bulk: ")]
    named = [cause for cause in causes if any(cause in text for text in told)]
    quantity = f"causes named of {got / asked * 100:.1f} % of the link's goodput: {', '.join(named) or 'none'}"
    yield full if full.is_held else exact(quantity, 1, len(named))
    if WINDOW_FULL in causes:
        yield _hold_tcp_window(evidence)
    elif "window_packets" in cell.facts:
        yield _hold_sctp_window(evidence)


def _hold_tcp_window(evidence: Evidence) -> Row:
    """Compare the goodput with the announced windows, in whole segments, of each round trip."""
    cell, payload = evidence.cell, evidence.cell.facts["payload"]
    rtt_s = form.round_trip_s(cell.forward, cell.reverse, cell.frame_bytes, form.tcp_frame_bytes(cell.family, 0))
    windows = steady_sockets(evidence)["snd_wnd_bytes"].to_list()
    packets = sum(window // payload for window in windows) / max(1, len(windows))
    asked = form.window_goodput_bit_per_s(packets, payload, rtt_s, cell.frame_s)
    return near("goodput of the announced windows", "bit/s", asked, evidence.metric("bulk.goodput"))


def _hold_sctp_window(evidence: Evidence) -> Row:
    """Compare the goodput of the second half with the window in each round trip.

    A SACK leaves when the second message of a pair arrives, before the program reads this message. It therefore
    announces the buffer without this message.
    """
    cell, payload = evidence.cell, evidence.cell.facts["payload"]
    there, back = form.sctp_frame_bytes(cell.family, payload), form.sack_frame_bytes(cell.family)
    rtt_s = form.round_trip_s(cell.forward, cell.reverse, there, back)
    frame_s = cell.bottleneck.forward.hop.serialise_s(there)
    asked = form.window_goodput_bit_per_s(cell.facts["window_packets"] - 1, payload, rtt_s, frame_s)
    rows = evidence.table("goodput").select("start_s", "end_s", "goodput_bit_per_s").sort("start_s").rows()
    half = rows[len(rows) // 2 :]
    got = sum((end_s - start_s) * rate for start_s, end_s, rate in half) / (half[-1][1] - half[0][0])
    return near("goodput of the second half", "bit/s", asked, got)


def hold_conservation(evidence: Evidence) -> Iterator[Row]:
    """Compare, on every link and direction, packets sent with packets received, dropped and lost. None is left."""
    ends = evidence.table("interfaces").filter(polars.col("time_ns") == polars.col("time_ns").max())
    queues = evidence.table("queues").filter(polars.col("time_ns") == polars.col("time_ns").max())
    nodes = {node: place for place, node in enumerate(_order(evidence.cell))}
    unaccounted, passed = 0, 0
    for link in sorted(set(ends["link"].drop_nulls())):
        rows = sorted(ends.filter(polars.col("link") == link).iter_rows(named=True), key=lambda row: nodes[row["node"]])
        for way, (sender, receiver) in (("forward", rows), ("reverse", rows[::-1])):
            gone = queues.filter((polars.col("link") == link) & (polars.col("direction") == way))
            counted = ("drops_packets", "lost_packets")
            accounted = sum(int(gone[column].fill_null(0).sum()) for column in counted)
            unaccounted += abs(sender["tx_packets"] - receiver["rx_packets"] - accounted)
            passed += sender["tx_packets"]
    yield exact(f"packets unaccounted for, of {passed} sent on all links", 0, unaccounted)
    if not evidence.cell.has_captures:
        return
    for host, census in (("client", evidence.client), ("server", evidence.server)):
        mine = ends.filter((polars.col("node") == host) & polars.col("link").is_not_null())
        sent, received = int(mine["tx_packets"].sum()), int(mine["rx_packets"].sum())
        yield exact(f"packets that {host} sent, by the capture", census.frames[segment.OUTGOING], sent)
        yield exact(f"packets that {host} received, by the capture", census.frames[segment.INCOMING], received)


def _order(cell: Configuration) -> list[str]:
    """Return the nodes from client to server. Forward is towards the server."""
    return ["client", "router", *(f"router{number}" for number in range(1, len(cell.links))), "server"]


# -- reasons ---------------------------------------------------------------------------------------------------------


def with_reason(evidence: Evidence, row: Row) -> Row:
    """Return the row, with the first reason whose predicted effect leaves a difference of less than 2 %."""
    if row.is_held or math.isnan(row.got):
        return row
    for name, predict in (
        ("sent again", predict_sent_again),
        ("timeout", predict_timeout),
        ("small window", predict_small_window),
    ):
        predicted = predict(evidence, row.asked)
        if abs(row.got - predicted) <= WITHIN * row.asked and abs(predicted - row.asked) > WITHIN * row.asked:
            text = f"{name}: predicts {(predicted / row.asked - 1) * 100:+.2f} %"
            return replace(row, reason=text)
    return row


def predict_sent_again(evidence: Evidence, asked: float) -> float:
    """Return the goodput without the segments that were sent again without a loss."""
    sockets = evidence.table("sockets").filter((polars.col("host") == "client") & polars.col("flow").is_not_null())
    last = sockets.group_by("local", "local_port").agg(polars.col("bytes_sent", "retransmits_packets").max())
    queues = evidence.table("queues").filter(polars.col("time_ns") == polars.col("time_ns").max())
    lost = int(queues["drops_packets"].fill_null(0).sum()) + int(queues["lost_packets"].fill_null(0).sum())
    payload = form.tcp_payload_bytes(evidence.cell.family, evidence.cell.mtu, evidence.cell.is_multipath)
    segments = int(last["bytes_sent"].sum()) / payload
    return asked * (1 - max(0, int(last["retransmits_packets"].sum()) - lost) / segments)


def predict_timeout(evidence: Evidence, asked: float) -> float:
    """Return the goodput if nothing arrives after each loss that only a timeout detects, until the timeout.

    The run counts timeouts. The capture shows the same number of silences of Linux's least time (TCP_RTO_MIN) or
    longer. A connection of several paths stops as a whole, because its send buffer holds only a few round trips.
    """
    counters = evidence.table("counters").filter(host="client", name="TcpExtTCPTimeouts")
    (entry,) = (one for one in evidence.cell.traffic if "omit" in one)
    omitted, total = (int(text.removesuffix("s")) for text in (entry["omit"]["start"], entry["duration"]))
    streams = evidence.client.towards(5201, segment.OUTGOING, DATA_BYTES)
    begin_ns = min(stream.first_payload_ns for stream in streams) + omitted * 10**9
    end_ns = begin_ns + (total - omitted) * 10**9
    silences = sorted(
        (max(one, begin_ns), min(other, end_ns))
        for stream in streams
        for (one, _), (other, _) in pairwise(stream.order.progress)
        if other - one >= TIMEOUT_NS and one < end_ns and other > begin_ns
    )
    if not 0 < len(silences) <= int(counters["value"].sum()):
        return asked
    silent_ns, until_ns = 0, begin_ns
    for one, other in silences:
        silent_ns += max(0, other - max(one, until_ns))
        until_ns = max(until_ns, other)
    return asked * (1 - silent_ns / (end_ns - begin_ns))


def steady_sockets(evidence: Evidence) -> polars.DataFrame:
    """Return the samples of the sender's sockets after the time that is omitted."""
    sockets = evidence.table("sockets").filter((polars.col("host") == "client") & polars.col("flow").is_not_null())
    entry = next(one for one in evidence.cell.traffic if "omit" in one)
    omitted_ns = int(entry["omit"]["start"].removesuffix("s")) * 1_000_000_000
    since = sockets["time_ns"].min()
    return sockets.filter(polars.col("time_ns") > (since if isinstance(since, int) else 0) + omitted_ns)


def predict_small_window(evidence: Evidence, asked: float) -> float:
    """Return the goodput that the sampled windows allow: on each path a window per round trip, up to the rate."""
    cell, sockets = evidence.cell, steady_sockets(evidence)
    paths = cell.links if cell.is_multipath else (cell.bottleneck,)
    total_rate = sum(link.forward.rate_bit_per_s for link in paths)
    predicted = 0.0
    for link in paths:
        mine = sockets.filter(polars.col("path") == link.name) if cell.is_multipath else sockets
        rtt_s = (link.forward.delay_us + link.reverse.delay_us) / 1e6 if cell.is_multipath else cell.rtt_s
        product = link.forward.rate_bit_per_s * rtt_s / 8 / cell.frame_bytes
        windows = mine["snd_cwnd_packets"].to_list()
        share = sum(min(1.0, window / product) if product else 1.0 for window in windows) / max(1, len(windows))
        predicted += asked * share * link.forward.rate_bit_per_s / total_rate
    return predicted


HOLDERS: dict[str, Callable[[Evidence], Iterator[Row]]] = {
    "delay": hold_delay,
    "overload": hold_overload,
    "jitter": hold_jitter,
    "loss": hold_loss,
    "slow start": hold_slow_start,
    "bulk": hold_bulk,
    "multipath": hold_multipath,
    "fairness": hold_fairness,
    "last": hold_last,
    "events": hold_changes,
    "trace": hold_changes,
    "transport": hold_transport,
}
