# SPDX-License-Identifier: Apache-2.0
"""Closed forms of the figures of networks with exact links, from arithmetic and from the protocols' documents.

`benchmarks/physics.py` compares runs with these forms. This module imports nothing but Python's library, because a
form that used mprun's code would share its mistakes.

The model of a link direction: a frame waits for the propagation delay, and then for the rate. The rate sends bit by
bit: a frame takes its length divided by the rate, whether the link was idle or not, and leaves with its last bit
(store and forward). The queue holds its limit and, beside that, the frame that is being sent.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise

# Ethernet II without preamble and checksum, as captures and tc count a frame.
ETHERNET_BYTES = 14
# RFC 791 and RFC 8200, without options and extension headers.
IP_BYTES = {"ipv4": 20, "ipv6": 40}
# RFC 768; RFC 9293; RFC 792 and RFC 4443 (echo).
UDP_BYTES, TCP_BYTES, ECHO_BYTES = 8, 20, 8
# RFC 9260 3 (common header), 3.3.1 (DATA without payload) and 3.3.4 (SACK without gaps).
SCTP_BYTES, DATA_BYTES, SACK_BYTES = 12, 16, 16
# RFC 7323: ten bytes and two of padding in every segment.
TIMESTAMPS_BYTES = 12
# Maximum segment size 4, SACK permitted 2, timestamps 10, padding 1, window scale 3 (RFC 9293, 2018, 7323).
SYN_OPTIONS_BYTES = 20
# RFC 8684 3.3: kind, length, subtype and flags 4, Data ACK 4, data sequence number 8, subflow sequence number 4,
# data-level length 2, padded from 22 to 24. Linux sends a Data ACK of 4 bytes until its peer has sent data itself,
# since then it has seen no sequence number of 8 bytes to answer.
DSS_BYTES = 24
# RFC 6928, and Linux's TCP_INIT_CWND.
INITIAL_WINDOW = 10
# The field of a SYN has 16 bits and is not scaled (RFC 7323 2.2).
FIRST_WINDOW_BYTES = 65535


# -- frames --------------------------------------------------------------------------------------------------------


def echo_frame_bytes(family: str, payload_bytes: int = 56) -> int:
    """Return the size of a ping's frame. 56 bytes are ping(8)'s default."""
    return ETHERNET_BYTES + IP_BYTES[family] + ECHO_BYTES + payload_bytes


def udp_frame_bytes(family: str, payload_bytes: int) -> int:
    return ETHERNET_BYTES + IP_BYTES[family] + UDP_BYTES + payload_bytes


def udp_payload_bytes(family: str, mtu_bytes: int) -> int:
    """Return the payload of a full packet."""
    return mtu_bytes - IP_BYTES[family] - UDP_BYTES


def tcp_frame_bytes(family: str, payload_bytes: int, option_bytes: int = TIMESTAMPS_BYTES) -> int:
    return ETHERNET_BYTES + IP_BYTES[family] + TCP_BYTES + option_bytes + payload_bytes


def tcp_payload_bytes(family: str, mtu_bytes: int, is_multipath: bool = False) -> int:
    """Return the payload of a full segment with timestamps and, over MPTCP, with the mapping and Data ACK of DSS."""
    options = TIMESTAMPS_BYTES + (DSS_BYTES if is_multipath else 0)
    return mtu_bytes - IP_BYTES[family] - TCP_BYTES - options


def goodput_bit_per_s(rate_bit_per_s: float, payload_bytes: int, mtu_bytes: int) -> float:
    """Return the payload rate of a busy link with full frames."""
    return rate_bit_per_s * payload_bytes / (mtu_bytes + ETHERNET_BYTES)


# -- ways through the network --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Hop:
    """A direction of a link."""

    rate_bit_per_s: float
    delay_s: float

    def serialise_s(self, frame_bytes: int) -> float:
        return frame_bytes * 8 / self.rate_bit_per_s


Way = Sequence[Hop]


def one_way_s(way: Way, frame_bytes: int) -> float:
    """Return the time of a single frame over idle links: propagation and serialisation on each link."""
    return sum(hop.delay_s + hop.serialise_s(frame_bytes) for hop in way)


def round_trip_s(forward: Way, reverse: Way, frame_bytes: int, back_bytes: int | None = None) -> float:
    """Return the idle round trip. The returning frame is as long as the first one, or has `back_bytes`."""
    return one_way_s(forward, frame_bytes) + one_way_s(reverse, back_bytes or frame_bytes)


def bottleneck_bit_per_s(way: Way) -> float:
    return min(hop.rate_bit_per_s for hop in way)


def product_packets(forward: Way, reverse: Way, frame_bytes: int) -> float:
    """Return the bandwidth-delay product in frames: the bottleneck's rate times the propagation there and back."""
    delay_s = sum(hop.delay_s for hop in (*forward, *reverse))
    return bottleneck_bit_per_s(forward) * delay_s / 8 / frame_bytes


# -- a queue that is offered more than its rate ----------------------------------------------------------------------


def fill_s(queue_packets: int, frame_s: float, overload: float) -> float:
    """Return the time in which a queue fills, if frames arrive `overload` times as fast as they leave."""
    return (queue_packets + 1) * frame_s / (overload - 1)


def full_queue_arrivals(packets: int, queue_packets: int, overload: float) -> float:
    """Return how many of `packets` arrive: one in `overload` while they are sent, then the contents of the queue."""
    return min(packets, packets / overload + queue_packets + 1)


def full_queue_mean_wait_s(queue_packets: int, frame_s: float, overload: float) -> float:
    """Return the mean time from a frame's arrival at a full queue to its last bit, for the frames of the load.

    A frame is accepted only when a place is free. It is then the last of `queue_packets` that wait, behind the rest of
    the frame in service. Frames arrive every frame_s / overload. If `overload` is irrational, the first arrival after a
    departure comes uniformly within this time after the departure, frame_s / (2 overload) in the mean. The wait is the
    rest of the frame in service, queue_packets - 1 other frames, and the frame itself.
    """
    return (queue_packets + 1) * frame_s - frame_s / (2 * overload)


def full_queue_probe_wait_s(queue_packets: int, frame_s: float, overload: float, probe_s: float) -> float:
    """Return the mean time of a rare probe in the full queue. The probe itself takes `probe_s` on the link.

    A probe is accepted between a departure and the next arrival. This time u is uniform from 0 to frame_s / overload. A
    probe meets an interval in proportion to its length, at a uniform place. In the mean this is E(u^2) / (2 E(u)) =
    frame_s / (3 overload) after the departure. Then the probe waits for the rest of the frame in service and the
    queue_packets - 1 frames before it.
    """
    return queue_packets * frame_s - frame_s / (3 * overload) + probe_s


def follow_s(way: Way, frame_bytes: int, probe_bytes: int) -> float:
    """Return how long a probe waits on later links for the full frame before it. The first link is the slowest.

    The probe leaves the first link its own time after that frame. If the frame takes longer than that on the next link,
    the probe waits for the rest.
    """
    behind_s, waits_s = way[0].serialise_s(probe_bytes), 0.0
    for hop in way[1:]:
        wait_s = max(0.0, hop.serialise_s(frame_bytes) - behind_s)
        waits_s += wait_s
        behind_s += wait_s + hop.serialise_s(probe_bytes) - hop.serialise_s(frame_bytes)
    return waits_s


def accepted_s(arrivals_s: Sequence[float], queue_packets: int, frame_s: float) -> list[tuple[float, float]]:
    """Return arrival and last bit of each frame that a queue accepts. A frame that finds no free place is dropped."""
    starts_s: list[float] = []
    found: list[tuple[float, float]] = []
    for arrival_s in arrivals_s:
        if len(starts_s) - bisect_right(starts_s, arrival_s) < queue_packets:
            starts_s.append(max(arrival_s, found[-1][1]) if found else arrival_s)
            found.append((arrival_s, starts_s[-1] + frame_s))
    return found


# -- a rate that changes -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RateChange:
    """A change of a rate, from `at_us` on.

    lasts_us: the time that a temporary change lasts. None: it is permanent.
    over_us, step_us: the time in which a ramp reaches its rate, and the time of a step. 0: it is no ramp.
    """

    at_us: int
    rate_bit_per_s: float
    lasts_us: int | None = None
    over_us: int = 0
    step_us: int = 0

    @property
    def moments_us(self) -> tuple[int, ...]:
        """Return the times at which this change may change the rate."""
        if self.over_us:
            return tuple(range(self.at_us, self.at_us + self.over_us + 1, self.step_us))
        return (self.at_us,) if self.lasts_us is None else (self.at_us, self.at_us + self.lasts_us)


def rate_at(moment_us: int, first_bit_per_s: float, changes: Sequence[RateChange]) -> float:
    """Return the rate at a time. changes: in the order of the file.

    The temporary change that began last holds. If none lasts, the permanent change that began last holds. Of changes
    that begin at once, the later one in the file counts as the later one (docs/links.md, "Overlapping changes").
    """
    begun = sorted((one for one in changes if one.at_us <= moment_us), key=lambda one: one.at_us)
    temporary = [one for one in begun if one.lasts_us is not None and moment_us < one.at_us + one.lasts_us]
    if temporary:
        return temporary[-1].rate_bit_per_s
    return _permanent_rate(moment_us, first_bit_per_s, [one for one in begun if one.lasts_us is None])


def _permanent_rate(moment_us: int, first_bit_per_s: float, begun: Sequence[RateChange]) -> float:
    """Return the permanent rate. A ramp begins with the permanent rate that held before it."""
    if not begun:
        return first_bit_per_s
    *before, last = begun
    if not last.over_us:
        return last.rate_bit_per_s
    steps = min(moment_us - last.at_us, last.over_us) // last.step_us
    start = _permanent_rate(last.at_us, first_bit_per_s, before)
    return start + (last.rate_bit_per_s - start) * steps * last.step_us / last.over_us


@dataclass(frozen=True)
class Piece:
    """A time of a constant rate."""

    begin_us: int
    end_us: int
    rate_bit_per_s: float

    def frames(self, frame_bytes: int) -> float:
        """Return how many frames a busy link sends. It sends the rest of a frame at the new rate."""
        return self.rate_bit_per_s * (self.end_us - self.begin_us) / 1e6 / 8 / frame_bytes


def pieces(first_bit_per_s: float, changes: Sequence[RateChange], begin_us: int, end_us: int) -> list[Piece]:
    """Return the times between two changes, from `begin_us` to `end_us`."""
    moments = {begin_us, end_us, *(moment for one in changes for moment in one.moments_us)}
    cuts = sorted(moment for moment in moments if begin_us <= moment <= end_us)
    return [Piece(one, other, rate_at(one, first_bit_per_s, changes)) for one, other in pairwise(cuts)]


# -- windows -----------------------------------------------------------------------------------------------------------


def window_goodput_bit_per_s(packets: float, payload_bytes: int, rtt_s: float, frame_s: float) -> float:
    """Return the payload rate of a window of `packets` in each round trip.

    Every second packet is acknowledged. The first one of a pair waits for the other, `frame_s` at the bottleneck.
    """
    return packets * payload_bytes * 8 / (rtt_s + frame_s)


def sctp_frame_bytes(family: str, payload_bytes: int) -> int:
    """Return the size of a packet with a DATA chunk, which is padded to 4 bytes (RFC 9260 3 and 3.3.1)."""
    return ETHERNET_BYTES + IP_BYTES[family] + SCTP_BYTES + DATA_BYTES + math.ceil(payload_bytes / 4) * 4


def sack_frame_bytes(family: str) -> int:
    """Return the size of a packet with a SACK chunk without gaps (RFC 9260 3.3.4)."""
    return ETHERNET_BYTES + IP_BYTES[family] + SCTP_BYTES + SACK_BYTES


# -- jitter ----------------------------------------------------------------------------------------------------------

# iproute2's tables of distributions hold values times 8192 in 16 bits, so no value exceeds 32767 / 8192 (tc-netem).
TABLE_LIMIT = 32767 / 8192


@dataclass(frozen=True)
class Moments:
    """The mean, standard deviation and kurtosis of a distribution, for a jitter of 1."""

    mean: float
    stdev: float
    kurtosis: float


def moments(quantile_values: Sequence[float]) -> Moments:
    count = len(quantile_values)
    mean = sum(quantile_values) / count
    second, fourth = (sum((value - mean) ** power for value in quantile_values) / count for power in (2, 4))
    return Moments(mean, math.sqrt(second), fourth / second**2)


QUANTILES = 1 << 16


def _normal_quantile(share: float) -> float:
    """The inverse of the normal distribution function, by bisection of erfc."""
    low, high = -10.0, 10.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if math.erfc(-middle / math.sqrt(2)) / 2 < share else (low, middle)
    return (low + high) / 2


def _pareto_quantile(share: float) -> float:
    """Return a quantile of the Pareto distribution with exponent 3, as in iproute2's netem/pareto.c.

    Its mean is 1.5. It is shifted to a mean of 0 and multiplied by 4/3.
    """
    return (math.pow(1 - share, -1 / 3) - 1.5) * 4 / 3


def _limited(value: float) -> float:
    return max(-TABLE_LIMIT, min(TABLE_LIMIT, value))


@cache
def jitter_moments(distribution: str) -> Moments:
    """Return the moments of netem's distributions, from their definitions and the limit of their tables.

    - uniform: from -1 to 1.
    - normal: standard normal.
    - pareto: see `_pareto_quantile`.
    - paretonormal: a quarter of the normal quantile and three quarters of the Pareto quantile (iproute2's
      netem/paretonormal.c).
    """
    shares = [(number + 0.5) / QUANTILES for number in range(QUANTILES)]
    if distribution == "uniform":
        return Moments(0.0, 1 / math.sqrt(3), 9 / 5)
    if distribution == "normal":
        return moments([_limited(_normal_quantile(share)) for share in shares])
    if distribution == "pareto":
        return moments([_limited(_pareto_quantile(share)) for share in shares])
    return moments(
        [_limited(_normal_quantile(share)) / 4 + 3 * _limited(_pareto_quantile(share)) / 4 for share in shares]
    )


def stdev_error(count: int, kurtosis: float) -> float:
    """Return the relative standard error of the standard deviation of `count` independent values."""
    return math.sqrt((kurtosis - 1) / (4 * count))


def needed_values(kurtosis: float, within: float, sigmas: float) -> int:
    """Return the least count for which `sigmas` standard errors are `within` of the standard deviation."""
    return math.ceil((kurtosis - 1) / 4 * (sigmas / within) ** 2)


# -- loss ------------------------------------------------------------------------------------------------------------


def binomial_interval(count: int, probability: float, outside: float) -> tuple[int, int]:
    """Return the least and the most losses of `count`.

    At most the share `outside` of outcomes is outside, half on each side.
    """
    logarithms = [
        math.lgamma(count + 1)
        - math.lgamma(number + 1)
        - math.lgamma(count - number + 1)
        + number * math.log(probability)
        + (count - number) * math.log1p(-probability)
        for number in range(count + 1)
    ]
    return _least(logarithms, outside / 2), count - _least(logarithms[::-1], outside / 2)


def _least(logarithms: Sequence[float], tail: float) -> int:
    total = 0.0
    for number, logarithm in enumerate(logarithms):
        total += math.exp(logarithm)
        if total > tail:
            return number
    return len(logarithms)


@dataclass(frozen=True)
class GilbertElliott:
    """A loss model with two states.

    It changes from good to bad with probability p, and back with r. All frames in the bad state are lost.
    """

    p: float
    r: float

    @property
    def loss(self) -> float:
        return self.p / (self.p + self.r)

    def interval(self, count: int, sigmas: float) -> tuple[float, float]:
        """Return the mean losses of `count` frames, minus and plus `sigmas` standard deviations.

        The state is correlated by 1 - p - r from one frame to the next. The variance is therefore that of independent
        losses times (2 - p - r) / (p + r).
        """
        mean = count * self.loss
        deviation = math.sqrt(mean * (1 - self.loss) * (2 - self.p - self.r) / (self.p + self.r))
        return mean - sigmas * deviation, mean + sigmas * deviation


# -- slow start ------------------------------------------------------------------------------------------------------


@dataclass
class _Stage:
    """A direction of a link while frames pass it in order."""

    hop: Hop
    free_s: float = 0.0
    starts_s: list[float] = field(default_factory=list)
    most_waiting: int = 0

    def leave_s(self, arrival_s: float, frame_bytes: int) -> float:
        ready_s = arrival_s + self.hop.delay_s
        start_s = max(ready_s, self.free_s)
        self.starts_s.append(start_s)
        # frames whose sending has not begun when this frame arrives, and this frame
        waiting = len(self.starts_s) - bisect_right(self.starts_s, ready_s)
        self.most_waiting = max(self.most_waiting, waiting)
        self.free_s = start_s + self.hop.serialise_s(frame_bytes)
        return self.free_s


def _pass(stages: Sequence[_Stage], moment_s: float, frame_bytes: int) -> float:
    for stage in stages:
        moment_s = stage.leave_s(moment_s, frame_bytes)
    return moment_s


@dataclass(frozen=True)
class SlowStart:
    """A transfer in slow start.

    completion_s: the arrival of its last byte, counted from the connection's opening. waiting: the most frames that
    waited, on each hop.
    """

    completion_s: float
    waiting: tuple[int, ...]


def slow_start(forward: Way, reverse: Way, family: str, mtu_bytes: int, size_bytes: int) -> SlowStart:
    """Follow each segment of a transfer of `size_bytes` without loss.

    SYN, SYN ACK and ACK come first. The congestion window is 10 segments at first. Each acknowledged segment frees two
    places: its own, and one by which the window grows (RFC 5681; RFC 3465 with no limit, as in Linux).

    Until the first acknowledgement the receive window is that of the SYN ACK; then it is ample. Each segment is
    acknowledged at once. Linux does not delay acknowledgements while its receive window grows (tcp_grow_window()), and
    large buffers let it grow.
    """
    segment_bytes = tcp_payload_bytes(family, mtu_bytes)
    sizes = [segment_bytes] * (size_bytes // segment_bytes)
    if size_bytes % segment_bytes:
        sizes.append(size_bytes % segment_bytes)
    there, back = [_Stage(hop) for hop in forward], [_Stage(hop) for hop in reverse]
    syn_bytes = tcp_frame_bytes(family, 0, SYN_OPTIONS_BYTES)
    pure_bytes = tcp_frame_bytes(family, 0)
    opened_s = _pass(back, _pass(there, 0.0, syn_bytes), syn_bytes)
    _pass(there, opened_s, pure_bytes)
    first_flight = min(INITIAL_WINDOW, FIRST_WINDOW_BYTES // segment_bytes)
    acknowledged_s: list[float] = []
    last_s = opened_s
    for number, size in enumerate(sizes):
        # segment n, from 0, is sent when INITIAL_WINDOW + 2 a > n, with a acknowledged segments
        needed = max(0, math.ceil((number + 1 - INITIAL_WINDOW) / 2), int(number >= first_flight))
        allowed_s = acknowledged_s[needed - 1] if needed else opened_s
        last_s = _pass(there, allowed_s, tcp_frame_bytes(family, size))
        acknowledged_s.append(_pass(back, last_s, pure_bytes))
    return SlowStart(last_s, tuple(stage.most_waiting for stage in there))


def comes_before_probe(forward: Way, reverse: Way, family: str, mtu_bytes: int) -> bool:
    """Return True if acknowledgements arrive before Linux probes for a lost tail although nothing was lost.

    The probe is due two round trips after the last segment, as the handshake measured them. The handshake's frames are
    short. Therefore a full frame must not take longer than two such round trips.
    """
    syn_bytes = tcp_frame_bytes(family, 0, SYN_OPTIONS_BYTES)
    handshake_s = round_trip_s(forward, reverse, syn_bytes)
    full_s = round_trip_s(forward, reverse, mtu_bytes + ETHERNET_BYTES, tcp_frame_bytes(family, 0))
    return full_s < 2 * handshake_s


# -- shares ----------------------------------------------------------------------------------------------------------


def jain(values: Sequence[float]) -> float:
    """Return Jain's index of fairness: (sum of x)^2 / (n sum of x^2)."""
    return sum(values) ** 2 / (len(values) * sum(value**2 for value in values))


def shared_jain(flows: Sequence[Sequence[tuple[float, float, float]]]) -> float:
    """Return the mean of Jain's index over the time in which two or more flows ran and one of them got data.

    Within each interval, the same flows ran. Each flow is a list of (begin, end, rate) without gaps, in seconds and in
    any unit of rate.
    """
    moments = sorted({end for flow in flows for end in (flow[0][0], flow[-1][1])})
    weighted = shared = 0.0
    for begin, end in pairwise(moments):
        running = [flow for flow in flows if flow[0][0] <= begin and end <= flow[-1][1]]
        got = [sum(max(0.0, min(end, b) - max(begin, a)) * rate for a, b, rate in flow) for flow in running]
        if len(running) > 1 and any(got):
            weighted += (end - begin) * jain(got)
            shared += end - begin
    return weighted / shared
