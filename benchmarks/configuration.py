# SPDX-License-Identifier: Apache-2.0
"""A seeded generator of configurations for `benchmarks/physics.py`: networks and their traffic.

Each kind of cell draws its rates and round-trip times from equal strata of the whole range (Latin hypercube). Its
address families, packet sizes, queues and numbers of links come from lists of which each value is used in turn. The
closed forms need three more rules: a transfer long enough to be steady, a queue that holds what slow start sends, and a
number of packets that keeps all cells under ten minutes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from benchmarks import closed_form as form
from benchmarks.closed_form import Hop

LEAST_RATE_BIT_PER_S, DECADES = 100_000, 4
MOST_RATE_BIT_PER_S = LEAST_RATE_BIT_PER_S * 10**DECADES
MOST_RTT_S = 0.7
MTUS = (1280, 1500, 1500, 4000, 9000)
FAMILIES = ("ipv4", "ipv6")
LEAST_QUEUE, MOST_QUEUE = 25, 3000
# The most packets of bulk transfers in a cell. A packet costs up to 0.1 ms of CPU time with its captures.
MOST_PACKETS = 100_000
# Irrational, so that arrivals and departures of a full queue meet at every phase (the golden ratio).
OVERLOAD = (1 + math.sqrt(5)) / 2
# The standard errors that chance may explain. One value in 16,000 exceeds 4.
SIGMAS = 4.0
WITHIN = 0.02
# The round trips in which a transfer is counted, see `_steady_seconds`. The data of an MPTCP connection may also wait
# for a time-out of a subflow, so the count is twice as long.
STEADY_TRIPS, MULTIPATH_TRIPS = 100, 200
# The frames of the shortest piece of a constant rate at the least rate, so that one frame is within 1 %, and the number
# of such pieces.
PIECE_FRAMES, PIECES = 100, 12
# The names of flows in one direction: their ends, and the direction in files.
WAYS = {"there": ("client", "server"), "back": ("server", "client")}
WORDS = {"there": "forward", "back": "reverse"}
# Words of the warnings that name a cause.
WINDOW_FULL, BUFFERS_FULL, TIMER = (
    "receive window was full",
    "buffers were full",
    "retransmission timer (T3-rtx) expired",
)
QUEUE_SHORT = "the queue of 'first' forward holds"
# The number of cells of each kind for each seed, 40 in all.
COUNTS = {
    "delay": 3,
    "overload": 4,
    "jitter": 4,
    "loss": 2,
    "slow start": 4,
    "bulk": 4,
    "multipath": 3,
    "fairness": 2,
    "last": 4,
    "events": 3,
    "trace": 3,
    "transport": 4,
}
LARGE_BUFFERS = {
    "net.ipv4.tcp_rmem": "4096 268435456 268435456",
    "net.ipv4.tcp_wmem": "4096 33554432 268435456",
}
# Buffers that Linux tunes, up to more than any cell needs. Over MPTCP, the first subflow would fill a large initial
# send buffer before the second has joined.
TUNED_BUFFERS = {
    "net.ipv4.tcp_rmem": "4096 131072 67108864",
    "net.ipv4.tcp_wmem": "4096 16384 67108864",
}


@dataclass(frozen=True)
class Direction:
    """A direction of a link. loss: a share or a Gilbert-Elliott pair. jitter: a distribution and an amount."""

    rate_bit_per_s: int
    delay_us: int
    queue_packets: int
    loss: float | form.GilbertElliott | None = None
    jitter: tuple[str, int] | None = None

    @property
    def hop(self) -> Hop:
        return Hop(self.rate_bit_per_s, self.delay_us / 1e6)


@dataclass(frozen=True)
class Link:
    name: str
    forward: Direction
    reverse: Direction


@dataclass(frozen=True)
class Configuration:
    """A cell. `links` are in series between client and server, or side by side if the cell is `multipath`."""

    number: int
    kind: str
    family: str
    mtu: int
    links: tuple[Link, ...]
    traffic: tuple[dict[str, Any], ...] = ()
    buffers: dict[str, str] = field(default_factory=dict)
    # values that the closed forms need in addition to the network, by name
    facts: dict[str, Any] = field(default_factory=dict)
    discipline: str = "fifo"
    flows: int = 1
    # files beside the two files, by name: schedules and traces
    files: dict[str, str] = field(default_factory=dict)
    # of the topology
    events: tuple[dict[str, Any], ...] = ()
    has_captures: bool = True
    # the interval of samples of sockets; 0: mprun's default
    sampled_us: int = 0

    @property
    def forward(self) -> tuple[Hop, ...]:
        return tuple(link.forward.hop for link in self.links)

    @property
    def reverse(self) -> tuple[Hop, ...]:
        return tuple(link.reverse.hop for link in reversed(self.links))

    @property
    def is_multipath(self) -> bool:
        return self.kind == "multipath"

    @property
    def frame_bytes(self) -> int:
        return self.mtu + form.ETHERNET_BYTES

    @property
    def bottleneck(self) -> Link:
        return min(self.links, key=lambda link: link.forward.rate_bit_per_s)

    @property
    def frame_s(self) -> float:
        """The time of a full frame on the forward bottleneck."""
        return self.bottleneck.forward.hop.serialise_s(self.frame_bytes)

    @property
    def rtt_s(self) -> float:
        """The propagation there and back, over all links in series."""
        return sum(hop.delay_s for hop in (*self.forward, *self.reverse))


def draw(seed: int) -> list[Configuration]:
    """The 40 cells of a seed."""
    generator = Random(f"physics {seed}")
    total = sum(COUNTS.values())
    families, mtus = (_dealt(values, total, generator) for values in (FAMILIES, MTUS))
    cells: list[Configuration] = []
    for kind, count in COUNTS.items():
        rates, trips = _strata(count, generator), _strata(count, generator)
        for place in range(count):
            number = len(cells)
            start = _Start(number, kind, place, families[number], mtus[number], rates[place], trips[place])
            cells.append(KINDS[kind](start, generator))
    return cells


@dataclass(frozen=True)
class _Start:
    """The drawn values with which each kind begins. `rate` and `trip` are in [0, 1), each from its own stratum."""

    number: int
    kind: str
    place: int
    family: str
    mtu: int
    rate: float
    trip: float

    @property
    def rate_bit_per_s(self) -> int:
        """Return any whole number. mprun rounds a link's rate to a multiple of 8, which is far below 2 %."""
        return round(LEAST_RATE_BIT_PER_S * 10 ** (DECADES * self.rate))

    @property
    def frame_s(self) -> float:
        """The time of a full frame."""
        return (self.mtu + form.ETHERNET_BYTES) * 8 / self.rate_bit_per_s

    def rtt_s(self, most_s: float = MOST_RTT_S) -> float:
        """Return the round trip, up to `most_s`. Short ones are more frequent, and the lowest 4 % of draws are 0."""
        most_s = min(most_s, MOST_RTT_S)
        return 0.0 if self.trip < 0.04 else most_s * self.trip**2.5


def _dealt(values: tuple[Any, ...], count: int, generator: Random) -> list[Any]:
    """Deal each value equally often, in a drawn order."""
    dealt = [values[number % len(values)] for number in range(count)]
    generator.shuffle(dealt)
    return dealt


def _strata(count: int, generator: Random) -> list[float]:
    found = [(number + generator.random()) / count for number in range(count)]
    generator.shuffle(found)
    return found


def _queue(rate_bit_per_s: float, rtt_s: float, frame_bytes: int, times: float) -> int:
    """`times` the bandwidth-delay product, in frames, within the limits."""
    product = rate_bit_per_s * rtt_s / 8 / frame_bytes
    return max(LEAST_QUEUE, min(MOST_QUEUE, math.ceil(product * times)))


def _split(rtt_s: float, generator: Random) -> tuple[int, int]:
    """Return the delays of both directions in us. In half of all cells they differ, by a ratio of up to 4."""
    share = generator.choice((0.5, generator.uniform(0.2, 0.8)))
    forward_us = round(rtt_s * 1e6 * share)
    return forward_us, round(rtt_s * 1e6) - forward_us


def _limit(rate_bit_per_s: float) -> int:
    """Return the rate within the range of rates."""
    limited: float = max(LEAST_RATE_BIT_PER_S, min(MOST_RATE_BIT_PER_S, rate_bit_per_s))
    return round(limited)


def _link(name: str, start: _Start, rate_bit_per_s: int, rtt_s: float, times: float, generator: Random) -> Link:
    """Return a link.

    In half of all cells its reverse rate is the forward rate, otherwise a fifth to five times of it.
    """
    back_bit_per_s = generator.choice((rate_bit_per_s, _limit(rate_bit_per_s * 5 ** generator.uniform(-1, 1))))
    there_us, back_us = _split(rtt_s, generator)
    queue = _queue(rate_bit_per_s, rtt_s, start.mtu + form.ETHERNET_BYTES, times)
    return Link(name, Direction(rate_bit_per_s, there_us, queue), Direction(back_bit_per_s, back_us, queue))


def _series(start: _Start, rtt_s: float, times: float, generator: Random) -> tuple[Link, ...]:
    """Return a link, or two links of which the second is at least twice as fast, if the range allows it."""
    first = _link("first", start, start.rate_bit_per_s, rtt_s, times, generator)
    if generator.random() < 0.5 or start.rate_bit_per_s > 200_000_000:
        return (first,)
    share = generator.uniform(0.1, 0.5)
    factor = generator.uniform(2, 5)
    first_ways, second_ways = [], []
    for way in (first.forward, first.reverse):
        second_us = round(way.delay_us * share)
        first_ways.append(replace(way, delay_us=way.delay_us - second_us))
        second_ways.append(replace(way, rate_bit_per_s=round(way.rate_bit_per_s * factor), delay_us=second_us))
    return (Link("first", *first_ways), Link("second", *second_ways))


def _base(start: _Start, links: tuple[Link, ...]) -> Configuration:
    return Configuration(start.number, start.kind, start.family, start.mtu, links)


def _us(seconds: float) -> str:
    return f"{math.ceil(seconds * 1e6)}us"


def _after(name: str, seconds: float) -> dict[str, str]:
    return {"after": name, "offset": _us(seconds)}


def _ping(name: str, size: int, cell: Configuration, **more: Any) -> dict[str, Any]:
    """Return pings that find the links idle."""
    frame = form.echo_frame_bytes(cell.family, size)
    apart_s = form.round_trip_s(cell.forward, cell.reverse, frame) + 0.2
    values = {"name": name, "tool": "ping", "from": "client", "to": "server", "count": 5, "size": f"{size}bytes"}
    return {**values, "interval": f"{math.ceil(apart_s * 1e3)}ms", **more}


def _udp(name: str, payload: int, apart_s: float, packets: int, **more: Any) -> dict[str, Any]:
    """Return `packets` of mprun's own numbered packets, about `apart_s` apart. Their rate is a whole number of bits."""
    rate = math.floor(payload * 8 / apart_s)
    duration_s = (packets + 0.5) * payload * 8 / rate
    values = {"name": name, "tool": "udp", "from": "client", "to": "server", "length": f"{payload}bytes"}
    return {**values, "rate": f"{rate}bit", "duration": _us(duration_s), **more}


def _idle_s(cell: Configuration) -> float:
    """Return a time longer than the round trip of a full frame."""
    return form.round_trip_s(cell.forward, cell.reverse, cell.frame_bytes) + 0.1


# -- kinds -----------------------------------------------------------------------------------------------------------


def draw_delay(start: _Start, generator: Random) -> Configuration:
    """Draw single frames and pings of several lengths over idle links."""
    cell = _base(start, _series(start, start.rtt_s(), 1, generator))
    echo = start.mtu - form.IP_BYTES[start.family] - form.ECHO_BYTES
    length = generator.randint(100, form.udp_payload_bytes(start.family, start.mtu))
    apart_s = _idle_s(cell)
    traffic = (
        _ping("idle", 56, cell),
        _ping("long", generator.randint(500, echo), cell, start=_after("idle", 1)),
        _udp("there", length, apart_s, 20, start=_after("long", 1)),
        {**_udp("back", length, apart_s, 20, start=_after("there", 1)), "from": "server", "to": "client"},
    )
    return replace(cell, traffic=traffic, facts={"length": length})


def draw_overload(start: _Start, generator: Random) -> Configuration:
    """Draw UDP faster than the bottleneck: its share, the delay behind a full queue, and pings during it."""
    # a full queue of jumbo frames at the lowest rates takes 15 s, which is longer than ping(8) waits
    slow = start.rate_bit_per_s < 400_000
    start = replace(start, mtu=min(start.mtu, 1500) if slow else start.mtu)
    times = generator.choice((0.0, 0.5, 1.0, 3.0))
    cell = _base(start, _series(start, start.rtt_s(), times, generator))
    queue = cell.bottleneck.forward.queue_packets
    payload = form.udp_payload_bytes(start.family, start.mtu)
    fill_s = form.fill_s(queue, cell.frame_s, OVERLOAD)
    # 3000 frames of a load alone, and as many of a second load with thirty pings during it, at whole milliseconds. At
    # the lowest rates there are fewer frames, so that each load takes five minutes at most.
    steady_s = max(0.06, min(3000 * cell.frame_s, 300.0))
    apart_s = cell.frame_s / OVERLOAD
    packets = math.ceil((fill_s + steady_s) / apart_s)
    drained_s = (queue + 2) * cell.frame_s + _idle_s(cell)
    load = _udp("load", payload, apart_s, packets, start=_after("idle", 1))
    again = _udp("again", payload, apart_s, packets, start=_after("load", drained_s))
    # not a whole number of frame times: otherwise all pings would meet the queue at the same phase
    interval_ms = max(1, math.ceil((steady_s / 30 + cell.frame_s / OVERLOAD) * 1e3))
    probe = {
        **_ping("probe", 56, cell),
        "start": {"after": "again", "of": "start", "offset": _us(fill_s + 2 * cell.frame_s)},
        "interval": f"{interval_ms}ms",
        "count": max(5, math.floor(steady_s * 1e3 / interval_ms) - 3),
    }
    offered = generator.uniform(1.1, 1.5)
    seconds = _udp_seconds(cell.frame_s, fill_s)
    share = {
        "name": "share",
        "tool": "iperf3",
        "from": "client",
        "to": "server",
        "protocol": "udp",
        "length": f"{payload}bytes",
        "rate": f"{round(start.rate_bit_per_s * offered)}bit",
        "duration": f"{seconds[0] + seconds[1]}s",
        "omit": {"start": f"{seconds[0]}s"},
        "start": _after("again", drained_s),
    }
    facts = {"fill_s": fill_s, "packets": packets, "apart_s": apart_s, "payload": payload}
    return replace(cell, traffic=(_ping("idle", 56, cell), load, again, probe, share), facts=facts)


def _udp_seconds(frame_s: float, fill_s: float) -> tuple[int, int]:
    """Return the whole seconds to omit and to count: at least 200 packets, so that one packet is half a percent."""
    omitted = math.ceil(2 * frame_s + min(fill_s, 2.0)) + 1 if frame_s > 1e-4 else 1
    return omitted, max(1, math.ceil(200 * frame_s))


def draw_jitter(start: _Start, generator: Random) -> Configuration:
    """Draw the delay of small packets at a twentieth of the rate.

    If the jitter is short compared with the time between packets, no packet meets another. If it is long, a packet
    waits for another after its delay, for T / 40 in the mean. This adds T^2 / 60 to a variance of many T^2.
    """
    distribution = ("uniform", "normal", "pareto", "paretonormal")[start.place % 4]
    rtt_s = max(start.rtt_s(), 0.002)
    there_us, back_us = _split(rtt_s, generator)
    # small enough to keep every delay above zero: tables end at 4 times the amount
    amount_us = max(10, round(there_us * generator.uniform(0.05, 0.24)))
    rate_bit_per_s = max(start.rate_bit_per_s, 1_000_000)
    queue = _queue(rate_bit_per_s, rtt_s, start.mtu + form.ETHERNET_BYTES, 1)
    link = Link(
        "first",
        Direction(rate_bit_per_s, there_us, queue, jitter=(distribution, amount_us)),
        Direction(rate_bit_per_s, back_us, queue),
    )
    cell = _base(start, (link,))
    payload = 100
    frame_s = link.forward.hop.serialise_s(form.udp_frame_bytes(start.family, payload))
    packets = form.needed_values(form.jitter_moments(distribution).kurtosis, WITHIN, SIGMAS)
    apart_s = 20 * frame_s
    traffic = (_udp("varied", payload, apart_s, packets),)
    return replace(cell, traffic=traffic, facts={"length": payload, "packets": packets})


def draw_loss(start: _Start, generator: Random) -> Configuration:
    """Draw packets at a tenth of the rate. Each direction has its own loss."""
    cell = _base(start, (_link("first", start, start.rate_bit_per_s, start.rtt_s(), 1, generator),))
    (link,) = cell.links
    shares = [10 ** generator.uniform(-3, -1) for _ in range(2)]
    if start.place % 2:
        p = generator.uniform(0.002, 0.02)
        there: float | form.GilbertElliott = form.GilbertElliott(round(p, 5), round(generator.uniform(0.1, 0.5), 5))
    else:
        there = round(shares[0], 5)
    back = round(shares[1], 5)
    link = replace(link, forward=replace(link.forward, loss=there), reverse=replace(link.reverse, loss=back))
    payload, packets = 200, 20_000
    slowest = min(link.forward.rate_bit_per_s, link.reverse.rate_bit_per_s)
    apart_s = 10 * form.udp_frame_bytes(start.family, payload) * 8 / slowest
    traffic = (
        _udp("there", payload, apart_s, packets),
        {**_udp("back", payload, apart_s, packets), "from": "server", "to": "client"},
    )
    return replace(cell, links=(link,), traffic=traffic, facts={"packets": packets})


def draw_slow_start(start: _Start, generator: Random) -> Configuration:
    """Draw two transfers that end before a loss: one within the first window, and one of many round trips."""
    if 1.2 * start.frame_s > MOST_RTT_S / 2:
        start = replace(start, mtu=min(MTUS))
    cell = _base(start, _series(start, start.rtt_s(MOST_RTT_S - 1.2 * start.frame_s), 4, generator))
    if not form.comes_before_probe(cell.forward, cell.reverse, start.family, start.mtu):
        # a longer round trip: otherwise the handshake's short frames would suggest one that a full frame cannot meet
        first = cell.links[0]
        extra_us = math.ceil(start.frame_s * 1.2e6)
        first = replace(first, reverse=replace(first.reverse, delay_us=first.reverse.delay_us + extra_us))
        cell = replace(cell, links=(first, *cell.links[1:]))
    segment = form.tcp_payload_bytes(start.family, start.mtu)
    most = round(10 ** generator.uniform(1.5, 3.5))
    found = [round(segment * generator.uniform(0.7, 10)), _largest(cell, most * segment)]
    files = {f"{name}.csv": f"at,size\n0s,{size}bytes\n" for name, size in zip(("few", "many"), found, strict=True)}
    base = {"tool": "flows", "from": "client", "to": "server", "congestion": "reno"}
    traffic = (
        _ping("idle", 56, cell),
        {"name": "few", **base, "schedule": "few.csv", "start": _after("idle", 1)},
        {"name": "many", **base, "schedule": "many.csv", "start": _after("few", 5)},
    )
    return replace(cell, traffic=traffic, buffers=LARGE_BUFFERS, facts={"few": found[0], "many": found[1]}, files=files)


def _largest(cell: Configuration, size: int) -> int:
    """Return the size, or the largest smaller size whose frames the queues hold."""
    limits = [link.forward.queue_packets for link in cell.links]

    def fits(candidate: int) -> bool:
        found = form.slow_start(cell.forward, cell.reverse, cell.family, cell.mtu, candidate)
        # two places stay free, because frames that arrive and leave at the same time may do so in either order
        return all(waiting <= limit - 2 for waiting, limit in zip(found.waiting, limits, strict=True))

    if fits(size):
        return size
    low, high = 1, size
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _filled_s(product: float, rtt_s: float) -> float:
    """Return the time in which cubic fills a path of `product` packets if slow start ends early.

    Slow start doubles the window each round trip. HyStart may end it from 16 packets on. Cubic covers the rest in
    (packets / 0.4)^(1/3) seconds (RFC 9438 4.2, C = 0.4). Reno covers it with a packet each round trip. The shorter
    time counts.
    """
    doubling_s = rtt_s * math.log2(product / form.INITIAL_WINDOW + 2)
    return doubling_s + min(math.cbrt(product / 0.4), product * rtt_s) + 2 * rtt_s


def _steady_seconds(product: float, rtt_s: float, frame_s: float, trips: int) -> tuple[int, int]:
    """Return the whole seconds to omit and to count: at least 500 packets, and `trips` round trips with a full queue.

    A program that reads in order waits a round trip for a lost segment. Then it gets the data of a round trip at once.
    A count that begins or ends in between is wrong by up to that amount.
    """
    return math.ceil(_filled_s(product, rtt_s)) + 1, max(2, math.ceil(max(500 * frame_s, trips * rtt_s)))


def _fitting_rtt_s(start: _Start, frame_s: float, times: float, most_packets: float, trips: int) -> float:
    """Return the longest round trip for which a steady transfer has at most `most_packets` packets."""

    def packets(rtt_s: float) -> float:
        product = rtt_s / frame_s
        loaded_s = rtt_s + max(LEAST_QUEUE, times * product) * frame_s
        return sum(_steady_seconds(product * (1 + times), loaded_s, frame_s, trips)) / frame_s

    low, high = 0.0, MOST_RTT_S
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if packets(middle) <= most_packets else (low, middle)
    return low


def draw_bulk(start: _Start, generator: Random) -> Configuration:
    """Draw a cubic transfer that keeps its link busy.

    The queue holds 0.5 to 3 bandwidth-delay products. After a loss cubic keeps 0.7 of the window, which is then more
    than the product (0.7 * 1.5 = 1.05).
    """
    frame_s = start.frame_s
    times = generator.uniform(0.5, 3)
    rtt_s = start.rtt_s(_fitting_rtt_s(start, frame_s, times, MOST_PACKETS, STEADY_TRIPS))
    cell = _base(start, _series(start, rtt_s, times, generator))
    queue = cell.bottleneck.forward.queue_packets
    product = cell.rtt_s / cell.frame_s
    loaded_s = cell.rtt_s + queue * cell.frame_s
    seconds = _steady_seconds(product + queue, loaded_s, cell.frame_s, STEADY_TRIPS)
    bulk = _bulk("bulk", seconds, loaded_s, start=_after("idle", 1))
    traffic = (_ping("idle", 56, cell), bulk)
    return replace(cell, traffic=traffic, buffers=TUNED_BUFFERS)


def _bulk(name: str, seconds: tuple[int, int], loaded_s: float, **more: Any) -> dict[str, Any]:
    """Return a transfer. Its end, on a control connection through the same queue, may take many round trips."""
    omitted, counted = seconds
    return {
        "name": name,
        "tool": "iperf3",
        "from": "client",
        "to": "server",
        "duration": f"{omitted + counted}s",
        "omit": {"start": f"{omitted}s"},
        "timeout": f"{omitted + counted + 60 + math.ceil(60 * loaded_s)}s",
        **more,
    }


def draw_multipath(start: _Start, generator: Random) -> Configuration:
    """Draw MPTCP over two paths whose round trips, with full queues, differ by a factor of 2 at most.

    Linux' send buffer of a connection holds about two windows of each subflow. Data that waits for the slower path
    amounts to all rates times the longest round trip. Up to this ratio it fits into the send buffer.
    """
    most = MOST_PACKETS / 2
    frame_s = start.frame_s
    times = generator.uniform(0.7, 1.5)
    rtt_s = start.rtt_s(_fitting_rtt_s(start, frame_s, times, most, MULTIPATH_TRIPS))
    first = _link("path0", start, start.rate_bit_per_s, rtt_s, times, generator)
    other_bit_per_s = _limit(start.rate_bit_per_s * 2 ** generator.uniform(-1.5, 0))
    loaded_s = rtt_s + first.forward.queue_packets * frame_s
    other_frame_s = frame_s * start.rate_bit_per_s / other_bit_per_s
    other_rtt_s = rtt_s * generator.uniform(0.7, 1.4)
    second = _link("path1", start, other_bit_per_s, other_rtt_s, times, generator)
    # a queue that takes as long as the first path's queue
    queue = max(LEAST_QUEUE, math.ceil((loaded_s - other_rtt_s) / other_frame_s))
    second = replace(second, forward=replace(second.forward, queue_packets=queue))
    cell = _base(start, (first, second))
    product = (loaded_s + other_frame_s * queue) / frame_s
    # the data waits for the path with the longer round trip
    loaded_s = max(loaded_s, other_rtt_s + queue * other_frame_s)
    seconds = _steady_seconds(product, loaded_s, frame_s, MULTIPATH_TRIPS)
    bulk = _bulk("bulk", seconds, loaded_s, protocol="mptcp")
    return replace(cell, traffic=(bulk,), buffers=TUNED_BUFFERS)


def draw_fairness(start: _Start, generator: Random) -> Configuration:
    """Draw two to six equal flows over one link.

    Either fq_codel serves them in turn, or equal windows share the rate of a queue that holds all of them.
    """
    has_windows = bool(start.place % 2)
    # windows of 64 kB and more would wait for minutes at the lowest rates
    start = replace(start, rate=max(start.rate, 1 / DECADES)) if has_windows else start
    frame_s = start.frame_s
    flows = generator.randint(2, 6)
    rtt_s = start.rtt_s(min(0.1, _fitting_rtt_s(start, frame_s, 1, MOST_PACKETS, STEADY_TRIPS)))
    link = _link("first", start, start.rate_bit_per_s, rtt_s, 1, generator)
    # twice the product, shared by the flows; at least ten segments
    window = max(10 * start.mtu, math.ceil(2 * rtt_s * start.rate_bit_per_s / 8 / flows), 1 << 16)
    # Linux doubles what a program asks for (socket(7))
    queue = max(100 * flows, math.ceil(2 * flows * window / start.mtu) if has_windows else 0)
    link = replace(link, forward=replace(link.forward, queue_packets=queue))
    cell = _base(start, (link,))
    omitted, counted = _steady_seconds(rtt_s / frame_s, rtt_s, frame_s, STEADY_TRIPS)
    waiting_s = 2 * flows * window * 8 / (start.rate_bit_per_s) if has_windows else 0.0
    seconds = (omitted + math.ceil(2 * waiting_s), max(counted, math.ceil(300 * flows * frame_s + 3 * waiting_s)))
    # cubic's HyStart would keep the windows of late flows small for many seconds
    more = {"window": f"{window}bytes", "congestion": "reno"} if has_windows else {}
    loaded_s = rtt_s + queue * frame_s
    traffic = tuple(_bulk(f"flow{number}", seconds, loaded_s, **more) for number in range(flows))
    if has_windows:
        return replace(cell, traffic=traffic, flows=flows)
    return replace(cell, traffic=traffic, flows=flows, buffers=TUNED_BUFFERS, discipline="fq_codel")


def draw_last(start: _Start, generator: Random) -> Configuration:
    """Draw UDP as the last flow. When its sender ends, its packets are under way, or wait in a queue.

    Half of the cells have no capture, since a capture lets a run last longer.
    """
    kind = start.place % 4
    if kind == 0:
        # a round trip of two to eight seconds, and a load below the rate
        links, load, packets = _series(start, 2 + 6 * start.trip, 1, generator), generator.uniform(0.3, 0.9), 200
    else:
        links, load = _series(start, start.rtt_s(), 1, generator), OVERLOAD
        places = LEAST_QUEUE if kind == 3 else generator.randint(300, MOST_QUEUE)
        first, *more = links
        links = (replace(first, forward=replace(first.forward, queue_packets=places)), *more)
        # the queue grows by a place for each 1 / (1 - 1 / OVERLOAD) packets: it holds all packets, or half of them
        packets = math.floor(places * OVERLOAD / (OVERLOAD - 1) * (0.9 if kind == 1 else 2)) + 500 * (kind == 3)
    cell = replace(_base(start, links), has_captures=bool(generator.getrandbits(1)))
    payload = form.udp_payload_bytes(start.family, start.mtu)
    traffic = (_udp("last", payload, cell.frame_s / load, packets),)
    return replace(cell, traffic=traffic, facts={"payload": payload, "packets": packets})


def _draw_loads(
    start: _Start, rates: dict[str, list[int]], grid_ms: int, generator: Random
) -> tuple[Configuration, int, int]:
    """Return a link with UDP loads of both directions that exceed all rates, for PIECES times `grid_ms`.

    Return the begin and the end of this time in us as well. rates: of each direction, the first rate first. Before the
    begin, the loads cross the link and fill its queues.
    """
    rtt_s = start.rtt_s(PIECES * grid_ms / 1e3)
    there_us, back_us = _split(rtt_s, generator)
    begin_us = math.ceil(max(there_us, back_us) / 1e3 + 2 * grid_ms) * 1000
    end_us = begin_us + PIECES * grid_ms * 1000
    ways = []
    traffic = []
    for (name, ends), delay_us in zip(WAYS.items(), (there_us, back_us), strict=True):
        found = rates[name]
        payload = form.udp_payload_bytes(start.family, start.mtu)
        apart_s = (start.mtu + form.ETHERNET_BYTES) * 8 / max(found) / OVERLOAD
        entry = _udp(name, payload, apart_s, math.ceil(end_us / 1e6 / apart_s))
        traffic.append({**entry, "from": ends[0], "to": ends[1]})
        ways.append(Direction(found[0], delay_us, generator.randint(LEAST_QUEUE, 200)))
    cell = replace(_base(start, (Link("first", *ways),)), traffic=tuple(traffic), has_captures=False)
    return cell, begin_us, end_us


def _around(start: _Start, generator: Random) -> int:
    """Return a rate of up to four times more or less than the cell's."""
    return _limit(start.rate_bit_per_s * 4 ** generator.uniform(-1, 1))


def _grid_ms(start: _Start, rates: dict[str, list[int]]) -> int:
    """Return the time of PIECE_FRAMES frames at the least rate, in whole milliseconds."""
    return math.ceil(PIECE_FRAMES * (start.mtu + form.ETHERNET_BYTES) * 8e3 / min(min(one) for one in rates.values()))


def draw_events(start: _Start, generator: Random) -> Configuration:
    """Draw six to nine events of a link's rate that overlap: permanent and temporary ones, repetitions and ramps.

    All times are on a grid, so that no piece of a constant rate is shorter than the grid.
    """
    rates: dict[str, list[int]] = {name: [start.rate_bit_per_s] for name in WAYS}
    drawn = []
    for _ in range(generator.randint(6, 9)):
        names = generator.choice((["there"], ["back"], ["there", "back"], ["there", "back"]))
        values = {name: _around(start, generator) for name in names}
        for name, value in values.items():
            rates[name].append(value)
        slot, length = generator.randrange(PIECES - 1), generator.randint(1, 4)
        drawn.append((generator.choice(("set", "for", "for", "ramp", "every")), slot, length, values))
    grid_ms = _grid_ms(start, rates)
    cell, begin_us, end_us = _draw_loads(start, rates, grid_ms, generator)
    grid_us = grid_ms * 1000
    events: list[dict[str, Any]] = []
    changes: dict[str, list[form.RateChange]] = {name: [] for name in WAYS}
    for kind, slot, length, values in drawn:
        at_us, written = begin_us + slot * grid_us, {WORDS[name]: f"{value}bit" for name, value in values.items()}
        event = {"at": f"{at_us}us", "link": "first", "set": {"rate": written}}
        starts, lasts_us, over_us = [at_us], None, 0
        if kind == "ramp":
            over_us = length * grid_us
            event.update(over=f"{over_us}us", step=f"{grid_us}us")
        elif kind != "set":
            lasts_us = length * grid_us
            event["for"] = f"{lasts_us}us"
        if kind == "every":
            apart_us = (length + 1) * grid_us
            event.update(every=f"{apart_us}us", until=f"{end_us}us")
            starts = list(range(at_us, end_us, apart_us))
        events.append(event)
        for name, value in values.items():
            changes[name] += [form.RateChange(one, value, lasts_us, over_us, grid_us * bool(over_us)) for one in starts]
    facts = {"changes": changes, "begin_us": begin_us, "end_us": end_us}
    return replace(cell, events=tuple(events), facts=facts)


def draw_trace(start: _Start, generator: Random) -> Configuration:
    """Draw the rates of a link from a file: a trace of rates, a mahimahi trace, or a schedule."""
    kind = ("rates", "mahimahi", "schedule")[start.place % 3]
    count = generator.randint(4, 8)
    rates = {name: [_around(start, generator) for _ in range(count + 1)] for name in WAYS}
    if kind != "schedule":
        # one file for both directions
        rates["back"] = [rates["back"][0], *rates["there"][1:]]
    grid_ms = _grid_ms(start, rates)
    cell, begin_us, end_us = _draw_loads(start, rates, grid_ms, generator)
    frame_bits = cell.frame_bytes * 8
    played: dict[str, list[float]] = {name: [*values[1:]] for name, values in rates.items()}
    event: dict[str, Any] = {"at": f"{begin_us}us", "link": "first"}
    if kind == "rates":
        text = "".join(f"{rate}bit\n" for rate in played["there"])
        event.update(trace="trace", format="rates", interval=f"{grid_ms}ms", until=f"{end_us}us")
    elif kind == "mahimahi":
        # opportunities of whole milliseconds; the second interval has none, and the last one ends with one
        counts = [math.floor(rate * grid_ms / 1e3 / frame_bits) for rate in played["there"]]
        counts[1] = 0
        moments = [
            number * grid_ms + generator.randint(1, grid_ms) for number, one in enumerate(counts) for _ in range(one)
        ]
        text = "".join(f"{moment}\n" for moment in sorted([*moments[:-1], count * grid_ms]))
        played = {name: [one * frame_bits * 1e3 / grid_ms for one in counts] for name in WAYS}
        event.update(trace="trace", interval=f"{grid_ms}ms", until=f"{end_us}us")
    else:
        rows = zip(*played.values(), strict=True)
        lines = [f"{number * grid_ms}ms,{there}bit,{back}bit\n" for number, (there, back) in enumerate(rows)]
        text = "at,rate.forward,rate.reverse\n" + "".join(lines)
        if generator.getrandbits(1):
            event["schedule"] = "trace"
        else:
            text += f"{count * grid_ms}ms,,\n"
            event.update(trace="trace", format="schedule", until=f"{end_us}us")
    begins_us = range(begin_us, end_us, grid_ms * 1000)
    if "until" not in event:
        begins_us = begins_us[:count]
    changes = {
        name: [form.RateChange(at_us, values[number % count]) for number, at_us in enumerate(begins_us)]
        for name, values in played.items()
    }
    facts = {"changes": changes, "begin_us": begin_us, "end_us": end_us}
    return replace(cell, events=(event,), files={"trace": text}, facts=facts)


def draw_transport(start: _Start, generator: Random) -> Configuration:
    """Draw a transfer over one path that a small buffer or a small queue holds back. The run must name the cause.

    In turn: TCP with a small receive buffer, TCP with a small queue, the kernel's SCTP with a small receive buffer, and
    SCTP in user space with one. The bandwidth-delay product is at least 2.5 windows.
    """
    kind = ("receive window", "queue", "kernel's SCTP", "SCTP in user space")[start.place % 4]
    if "SCTP" in kind:
        start = replace(start, mtu=1500)
    window, times = generator.randint(100, 250), generator.uniform(2.5, 5)
    # Linux sends the packets of a millisecond at once, and waits if the window has no place for all of them. Compared
    # with a long round trip this is little.
    least_s = 0.1 if kind == "receive window" else 0.02
    rtt_s = least_s * (MOST_RTT_S / least_s) ** start.trip
    rate_bit_per_s = _limit(window * times * (start.mtu + form.ETHERNET_BYTES) * 8 / rtt_s)
    link = _link("first", start, rate_bit_per_s, rtt_s, 1, generator)
    # the way back carries all acknowledgements
    link = replace(link, reverse=replace(link.reverse, rate_bit_per_s=rate_bit_per_s))
    seconds = max(8, math.ceil(2 * STEADY_TRIPS * rtt_s))
    entry: dict[str, Any] = {"name": "bulk", "from": "client", "to": "server", "duration": f"{seconds}s"}
    facts: dict[str, Any] = {"payload": form.tcp_payload_bytes(start.family, start.mtu)}
    buffers = TUNED_BUFFERS
    if kind == "receive window":
        entry |= {"tool": "iperf3", "omit": {"start": f"{seconds // 4}s"}}
        buffers = {**TUNED_BUFFERS, "net.ipv4.tcp_rmem": " ".join(["4096", *[str(window * start.mtu)] * 2])}
        facts["causes"] = (WINDOW_FULL,)
    elif kind == "queue":
        entry |= {"tool": "iperf3", "omit": {"start": f"{seconds // 4}s"}}
        queue = generator.randint(4, 12)
        link = replace(link, forward=replace(link.forward, queue_packets=queue))
        facts["causes"] = (QUEUE_SHORT,)
    elif kind == "kernel's SCTP":
        # the association's window is half of the socket's buffer, and the send buffer holds more
        message = 1400
        entry |= {"tool": "netperfmeter", "protocol": "sctp", "message": f"{message}bytes"}
        entry["send_buffer"] = f"{window * message * 8}bytes"
        default, most = "net.core.rmem_default", "net.core.wmem_max"
        buffers = {default: str(2 * window * message), most: str(window * message * 8)}
        facts |= {"causes": (BUFFERS_FULL,), "payload": message, "window_packets": window}
    else:
        entry |= {"tool": "sctp", "receive_buffer": f"{window * 1000}bytes", "send_buffer": f"{window * 8000}bytes"}
        buffers = {}
        facts["causes"] = (BUFFERS_FULL, TIMER)
    cell = replace(_base(start, (link,)), traffic=(entry,), buffers=buffers)
    return replace(cell, facts=facts, has_captures=False, sampled_us=100_000)


KINDS: dict[str, Callable[[_Start, Random], Configuration]] = {
    "delay": draw_delay,
    "overload": draw_overload,
    "jitter": draw_jitter,
    "loss": draw_loss,
    "slow start": draw_slow_start,
    "bulk": draw_bulk,
    "multipath": draw_multipath,
    "fairness": draw_fairness,
    "last": draw_last,
    "events": draw_events,
    "trace": draw_trace,
    "transport": draw_transport,
}
