# SPDX-License-Identifier: Apache-2.0
"""The closed forms of `make physics` are independent of mprun, and equal to results worked out by hand."""

from __future__ import annotations

import ast
import math
import struct
from pathlib import Path

import pytest

from benchmarks import closed_form as form
from benchmarks import configuration, segment
from benchmarks.closed_form import Hop

ROOT = Path(__file__).parents[2]
BENCHMARKS = ROOT / "benchmarks"
# The benchmark, and the modules of mprun that each of its modules may import: none, because it runs mprun as a user
# does.
ENTRY = "physics"
GOLDEN = (1 + math.sqrt(5)) / 2


# -- independence ----------------------------------------------------------------------------------------------------


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: a relative import"
            assert node.module
            names |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
        elif isinstance(node, ast.Call):
            called = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
            assert called not in ("__import__", "import_module", "exec_module"), f"{path}: imports at run time"
    return names


def modules_of(entry: str) -> set[str]:
    """Return the benchmark's modules, starting from the module that is run."""
    found, waiting = set(), {entry}
    while waiting:
        name = waiting.pop()
        found.add(name)
        names = {one.removeprefix("benchmarks.").split(".")[0] for one in imported(BENCHMARKS / f"{name}.py")}
        waiting |= {one for one in names if (BENCHMARKS / f"{one}.py").exists()} - found
    return found


def test_benchmark_is_made_of_these_modules() -> None:
    assert modules_of(ENTRY) == {"physics", "holding", "configuration", "inputs", "closed_form", "segment"}


@pytest.mark.parametrize("name", sorted(modules_of(ENTRY)))
def test_benchmark_imports_nothing_of_mprun(name: str) -> None:
    roots = {one.split(".")[0] for one in imported(BENCHMARKS / f"{name}.py")}
    assert "mprun" not in roots


def test_closed_forms_import_the_library_only() -> None:
    roots = {one.split(".")[0] for one in imported(BENCHMARKS / "closed_form.py")}
    assert roots == {"__future__", "bisect", "collections", "dataclasses", "functools", "itertools", "math"}


# -- frames and delays -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("got", "asked"),
    [
        # 14 Ethernet, 20 IP, 8 ICMP, 56 payload
        (form.echo_frame_bytes("ipv4"), 98),
        (form.echo_frame_bytes("ipv6"), 118),
        (form.udp_frame_bytes("ipv4", 1472), 1514),
        (form.udp_payload_bytes("ipv6", 1280), 1232),
        # 1500 - 20 - 20 - 12
        (form.tcp_payload_bytes("ipv4", 1500), 1448),
        (form.tcp_payload_bytes("ipv6", 1500), 1428),
        (form.tcp_payload_bytes("ipv4", 1500, is_multipath=True), 1424),
        (form.tcp_frame_bytes("ipv4", 1448), 1514),
        (form.tcp_frame_bytes("ipv6", 0), 86),
    ],
)
def test_frames(got: int, asked: int) -> None:
    assert got == asked


def test_goodput_of_twenty_megabits() -> None:
    """20 Mbit/s x 1448 / 1514 = 19.1281 Mbit/s; two paths of MPTCP carry 40 x 1424 / 1514 = 37.6222."""
    assert form.goodput_bit_per_s(20e6, 1448, 1500) == pytest.approx(19_128_137, abs=1)
    assert form.goodput_bit_per_s(40e6, 1424, 1500) == pytest.approx(37_622_193, abs=1)


def test_single_frame() -> None:
    """1200 bytes of UDP are 1242 bytes on the wire: 9936 bits take 33.12 ms at 0.3 Mbit/s.

    The propagation takes 50 ms.
    """
    assert form.one_way_s([Hop(0.3e6, 0.05)], 1242) == pytest.approx(0.08312)


def test_two_links_store_and_forward() -> None:
    """1250 bytes are 10,000 bits: 10 ms at 1 Mbit/s and 1 ms at 10 Mbit/s. The propagation takes 3 and 4 ms."""
    way = [Hop(1e6, 0.003), Hop(10e6, 0.004)]
    assert form.one_way_s(way, 1250) == pytest.approx(0.018)
    assert form.round_trip_s(way, way[::-1], 1250) == pytest.approx(0.036)
    assert form.round_trip_s(way, way[::-1], 1250, 125) == pytest.approx(0.018 + 0.007 + 0.0011)


def test_idle_round_trip_of_lab_01() -> None:
    """98 bytes at 20 Mbit/s take 39.2 us in each direction. The propagation takes 40 ms."""
    hops = [Hop(20e6, 0.02)]
    assert form.round_trip_s(hops, hops, form.echo_frame_bytes("ipv4")) == pytest.approx(0.0400784)


def test_bandwidth_delay_product() -> None:
    """12.112 Mbit/s x 100 ms = 1,211,200 bits, a hundred frames of 1514 bytes."""
    assert form.product_packets([Hop(12.112e6, 0.06)], [Hop(1e6, 0.04)], 1514) == pytest.approx(100)


# -- full queues -----------------------------------------------------------------------------------------------------


def test_full_queue_by_hand() -> None:
    """The queue has 25 places and one frame in transmission, 1 ms each.

    At twice the rate it fills in 26 ms. The mean wait is then 25.75 ms.
    """
    assert form.fill_s(25, 1e-3, 2) == pytest.approx(0.026)
    assert form.full_queue_mean_wait_s(25, 1e-3, 2) == pytest.approx(0.02575)
    assert form.full_queue_probe_wait_s(25, 1e-3, 2, 1e-4) == pytest.approx(0.025 - 1e-3 / 6 + 1e-4)
    assert form.full_queue_arrivals(1000, 25, 2) == 526
    assert form.full_queue_arrivals(20, 25, 2) == 20


def test_probe_behind_a_frame() -> None:
    """The probe waits for 4 ms of the 5 ms on the second link, because it arrives 1 ms after the frame.

    1250 and 125 bytes take 10 and 1 ms at 1 Mbit/s, and 5 and 0.5 ms at 2 Mbit/s. On a third link as fast as the
    second, the probe is 0.5 ms behind, so it waits for 4.5 of the 5 ms.
    """
    first, second = Hop(1e6, 0.01), Hop(2e6, 0.02)
    assert form.follow_s([first], 1250, 125) == 0
    assert form.follow_s([first, second], 1250, 125) == pytest.approx(0.004)
    assert form.follow_s([first, second, second], 1250, 125) == pytest.approx(0.004 + 0.0045)


def served(queue: int, overload: float, packets: int, probes_s: list[float]) -> tuple[list[float], list[float]]:
    """Return the waits of frames and of zero-length probes in a drop-tail queue, simulated event by event.

    A frame takes 1 s.
    """
    events = sorted([(number / overload, 0) for number in range(packets)] + [(moment, 1) for moment in probes_s])
    departures: list[float] = []
    waits: tuple[list[float], list[float]] = ([], [])
    for moment, kind in events:
        departures = [departure for departure in departures if departure > moment]
        if len(departures) > queue:
            continue
        end = (departures[-1] if departures else moment) + (0.0 if kind else 1.0)
        waits[kind].append(end - moment)
        if not kind:
            departures.append(end)
    return waits


def test_full_queue_against_one_that_is_followed() -> None:
    """The means of the closed forms equal the means of a simulated queue of 25 frames, over 4000 frames."""
    fill = form.fill_s(25, 1, GOLDEN)
    probes = [fill + 7.1 * number + 0.37 * math.sqrt(number) for number in range(1, 340)]
    frames, probed = served(25, GOLDEN, 4000, probes)
    steady = frames[math.ceil(fill * GOLDEN) + 1 :]
    assert sum(steady) / len(steady) == pytest.approx(form.full_queue_mean_wait_s(25, 1, GOLDEN), rel=2e-4)
    assert max(steady) <= 26
    # a hundred probes, spread over 1 / GOLDEN: the standard error is 0.18 / 10
    assert len(probed) > 80
    assert sum(probed) / len(probed) == pytest.approx(form.full_queue_probe_wait_s(25, 1, GOLDEN, 0), abs=0.06)


def test_queue_that_drops() -> None:
    """A queue of one place, frames of 1 s every 0.4 s: those at 0.8, 1.6, 2.4 and 2.8 s find the place taken."""
    found = form.accepted_s([number * 0.4 for number in range(8)], 1, 1)
    assert [arrival_s for arrival_s, _ in found] == pytest.approx([0, 0.4, 1.2, 2.0])
    assert [sent_s for _, sent_s in found] == pytest.approx([1, 2, 3, 4])


def test_queue_that_holds_all() -> None:
    """Three frames at once: the last one waits for the two others."""
    assert form.accepted_s([5, 5, 5], 25, 2) == [(5, 7), (5, 9), (5, 11)]
    assert form.accepted_s([0, 10], 25, 2) == [(0, 2), (10, 12)]


def test_full_queue_drops_what_exceeds_the_rate() -> None:
    packets = 4000
    accepted = form.accepted_s([number / GOLDEN for number in range(packets)], 25, 1)
    assert len(accepted) == pytest.approx(form.full_queue_arrivals(packets, 25, GOLDEN), abs=2)


# -- rates that change -----------------------------------------------------------------------------------------------

MBIT = 1_000_000


def rates(*changes: form.RateChange, end: int = 30) -> list[tuple[int, float]]:
    """Return begin and rate of each piece of a link of 1 Mbit/s, in Mbit/s. Times are small numbers."""
    found = [(one.begin_us, one.rate_bit_per_s / MBIT) for one in form.pieces(MBIT, changes, 0, end)]
    return [one for number, one in enumerate(found) if not number or found[number - 1][1] != one[1]]


def lasting(at: int, rate: float, lasts: int | None = None) -> form.RateChange:
    return form.RateChange(at, rate * MBIT, lasts)


def ramp(at: int, rate: float, over: int, step: int) -> form.RateChange:
    return form.RateChange(at, rate * MBIT, over_us=over, step_us=step)


@pytest.mark.parametrize(
    ("changes", "asked"),
    [
        pytest.param([lasting(5, 2, 10), lasting(10, 3, 10)], [(0, 1), (5, 2), (10, 3), (20, 1)], id="later-one-holds"),
        pytest.param([lasting(5, 2, 20), lasting(10, 3, 5)], [(0, 1), (5, 2), (10, 3), (15, 2), (25, 1)], id="inside"),
        pytest.param([lasting(10, 3, 10), lasting(10, 2, 5)], [(0, 1), (10, 2), (15, 3), (20, 1)], id="order-of-file"),
        pytest.param([lasting(10, 2), lasting(10, 3)], [(0, 1), (10, 3)], id="order-of-permanent-ones"),
        pytest.param(
            [lasting(5, 2, 10), lasting(10, 3, 10), lasting(12, 4)], [(0, 1), (5, 2), (10, 3), (20, 4)], id="documented"
        ),
        pytest.param([ramp(10, 5, 4, 1), lasting(12, 9)], [(0, 1), (11, 2), (12, 9)], id="ends-a-ramp"),
        pytest.param(
            [lasting(5, 7, 6), ramp(10, 5, 4, 1)], [(0, 1), (5, 7), (11, 2), (12, 3), (13, 4), (14, 5)], id="covers"
        ),
        pytest.param(
            [ramp(10, 5, 4, 1), ramp(12, 1, 2, 1)], [(0, 1), (11, 2), (12, 3), (13, 2), (14, 1)], id="ramp-in-a-ramp"
        ),
    ],
)
def test_events_that_overlap(changes: list[form.RateChange], asked: list[tuple[int, float]]) -> None:
    """The results follow from docs/links.md, "Overlapping changes"."""
    assert rates(*changes) == asked


def test_frames_of_a_piece() -> None:
    """2 Mbit/s for 0.5 s are 1,000,000 bits: 100 frames of 1250 bytes."""
    assert form.Piece(0, 500_000, 2 * MBIT).frames(1250) == pytest.approx(100)
    (piece,) = form.pieces(MBIT, [], 250_000, 500_000)
    assert piece.frames(1250) == pytest.approx(25)


# -- windows ---------------------------------------------------------------------------------------------------------


def test_window() -> None:
    """100 messages of 1250 bytes are 1,000,000 bits. They take 99 ms, and 1 ms until the second one of a pair."""
    assert form.window_goodput_bit_per_s(100, 1250, 0.099, 0.001) == pytest.approx(10e6)


def test_sctp_frames() -> None:
    """14 Ethernet, 20 IP, 12 common header, 16 DATA or SACK; 1399 bytes of payload are padded to 1400."""
    assert form.sctp_frame_bytes("ipv4", 1399) == 1462
    assert form.sack_frame_bytes("ipv6") == 82


# -- chance ----------------------------------------------------------------------------------------------------------


def test_pareto_by_hand() -> None:
    """X = (U^(-1/3) - 3/2) 4/3 up to 4, so U^(-1/3) up to 9/2, for which U = p = (2/9)^3.

    E(U^(-1/3)) = 3/2 (1 - p^(2/3)) + 9/2 p = 1.475309 and E(U^(-2/3)) = 3 (1 - p^(1/3)) + 81/4 p = 2.555556, so
    the deviation is 4/3 sqrt(2.555556 - 1.475309^2) = 0.820862 and the mean 4/3 (1.475309 - 1.5) = -0.032922.
    """
    found = form.jitter_moments("pareto")
    assert found.mean == pytest.approx(-0.032922, abs=2e-5)
    assert found.stdev == pytest.approx(0.820862, rel=1e-4)


def test_even_and_normal_jitter() -> None:
    """The uniform jitter has 1 / sqrt(3).

    The normal jitter has 1, of which values beyond 4 take less than a thousandth.
    """
    assert form.jitter_moments("uniform").stdev == pytest.approx(0.57735, abs=1e-5)
    assert form.jitter_moments("normal").stdev == pytest.approx(1, abs=1e-3)
    assert form.jitter_moments("normal").kurtosis == pytest.approx(3, abs=0.01)


def test_mixed_jitter_lies_between() -> None:
    """The standard deviation lies between 0.6645 and 0.8656.

    The jitter is a quarter of a normal and three quarters of a pareto jitter, both rising with one share. Its deviation
    is at most the weighted sum of deviations, 0.25 x 1 + 0.75 x 0.8209 = 0.8656. It is at least the deviation of
    uncorrelated values, sqrt(0.25^2 + 0.6157^2) = 0.6645.
    """
    assert 0.6645 < form.jitter_moments("paretonormal").stdev < 0.8656
    assert form.jitter_moments("paretonormal").mean == pytest.approx(0.75 * -0.032922, abs=2e-4)


def test_values_needed() -> None:
    """A normal jitter needs 2 / 4 (4 / 0.02)^2 = 20,000 values. Their standard error is 1 / 200."""
    assert form.needed_values(3, 0.02, 4) == 20_000
    assert form.stdev_error(20_000, 3) == pytest.approx(0.005)


def test_binomial_interval() -> None:
    """Ten draws of 10 %: 0 has 34.9 %, 3 or more 7.0 %, 4 or more 1.3 %. Two draws of 50 %: 0 has 25 %."""
    assert form.binomial_interval(10, 0.1, 0.1) == (0, 3)
    assert form.binomial_interval(2, 0.5, 0.6) == (1, 1)


def test_bursts() -> None:
    """With p = 1 % and r = 19 %, 5 % are lost. The variance is 1.8 / 0.2 = 9 times 10,000 x 0.05 x 0.95 = 475."""
    model = form.GilbertElliott(0.01, 0.19)
    assert model.loss == pytest.approx(0.05)
    low, high = model.interval(10_000, 1)
    assert (low, high) == pytest.approx((500 - math.sqrt(4275), 500 + math.sqrt(4275)))


# -- slow start ------------------------------------------------------------------------------------------------------


def test_first_window() -> None:
    """Ten segments over 3 Mbit/s and 200 ms of round trip are complete after 0.340944 s.

    The time has three propagations, SYN and SYN ACK of 74 bytes, an ACK of 66, and ten segments of 1514: 0.3 s + (2 x
    74 + 66 + 15140) x 8 / 3e6 s. Nine segments wait behind the first, and the first waits behind the ACK.
    """
    hops = [Hop(3e6, 0.1)]
    found = form.slow_start(hops, hops, "ipv4", 1500, 14_480)
    assert found.completion_s == pytest.approx(0.340944)
    assert found.waiting == (10,)


def test_second_window() -> None:
    """An eleventh segment leaves with the first acknowledgement: a round trip later, plus 1514 and 66 bytes."""
    hops = [Hop(100e6, 0.1)]
    found = form.slow_start(hops, hops, "ipv4", 1500, 14_481)
    # the eleventh segment has a single byte: 14 + 20 + 20 + 12 + 1
    seconds = 0.5 + (74 + 74 + 66 + 1514 + 66 + 67) * 8 / 100e6
    assert found.completion_s == pytest.approx(seconds)


def test_windows_double() -> None:
    """On very fast links, 150 segments need four flights of 10, 20, 40 and 80 segments.

    150 segments end after 1.5 round trips and 3 more, and 151 segments after 4 more.
    """
    hops = [Hop(1e12, 0.1)]
    four, five = (form.slow_start(hops, hops, "ipv4", 1500, 1448 * count).completion_s for count in (150, 151))
    assert four == pytest.approx(0.9, abs=1e-4)
    assert five == pytest.approx(1.1, abs=1e-4)


def test_first_flight_of_large_segments() -> None:
    """A SYN ACK announces 65,535 bytes at most: seven segments of 8948.

    So the eighth segment comes a round trip later.
    """
    hops = [Hop(1e12, 0.1)]
    seven, eight = (form.slow_start(hops, hops, "ipv4", 9000, 8948 * count).completion_s for count in (7, 8))
    assert seven == pytest.approx(0.3, abs=1e-4)
    assert eight == pytest.approx(0.5, abs=1e-4)


def test_slow_link_sets_the_pace() -> None:
    """A link is never idle if acknowledgements come in time: 100 segments of 12.112 ms each, and the handshake."""
    hops = [Hop(1e6, 0.001)]
    found = form.slow_start(hops, hops, "ipv4", 1500, 144_800)
    assert found.completion_s == pytest.approx(0.003 + (2 * 74 + 66 + 100 * 1514) * 8 / 1e6)


def test_tail_probe() -> None:
    """After a handshake of 12 ms, a full frame of 121 ms triggers a tail loss probe. After 400 ms it does not."""
    near, far = [Hop(0.1e6, 0.0)], [Hop(0.1e6, 0.2)]
    assert not form.comes_before_probe(near, near, "ipv4", 1500)
    assert form.comes_before_probe(far, far, "ipv4", 1500)


def test_fairness_index() -> None:
    assert form.jain([3, 3, 3]) == pytest.approx(1)
    assert form.jain([1, 0]) == pytest.approx(0.5)


def test_jain_while_the_same_flows_ran() -> None:
    """The first flow runs alone from 0 to 1 s. Both are equal from 1 to 3 s. The second sends nothing from 3 to 4 s."""
    first = [(0.0, 2.0, 5.0), (2.0, 4.0, 5.0)]
    second = [(1.0, 3.0, 5.0), (3.0, 4.0, 0.0)]
    got = 3 * 5, 2 * 5
    assert form.shared_jain([first, second]) == pytest.approx(form.jain(got))
    third = [(1.0, 3.0, 5.0)]
    assert form.shared_jain([first, third]) == pytest.approx(1)


# -- counts from captures --------------------------------------------------------------------------------------------

CLIENT, SERVER = bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2])
START = (1 << 32) - 1000


def block(kind: int, body: bytes) -> bytes:
    body += bytes(-len(body) % 4)
    return struct.pack("<II", kind, len(body) + 12) + body + struct.pack("<I", len(body) + 12)


def cooked(time_ns: int, direction: int, ip: bytes) -> bytes:
    packet = struct.pack(">HHIHBB8x", segment.IPV4, 0, 2, 1, direction, 6) + ip
    return block(6, struct.pack("<IIIII", 1, time_ns >> 32, time_ns & 0xFFFFFFFF, len(packet), 4000) + packet)


def tcp(offset: int, payload: int, flags: int = 16, port: int = 40_000, options: bytes = b"") -> bytes:
    """Return a segment from client to server with only its headers captured."""
    header = 20 + len(options)
    head = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + header + payload, 0, 0, 64, 6, 0, CLIENT, SERVER)
    sequence = (START + offset) % (1 << 32)
    return head + struct.pack(">HHIIBBHHH", port, 5201, sequence, 0, header << 2, flags, 0, 0, 0) + options


def mapping(data_sequence: int, subflow_sequence: int, length: int) -> bytes:
    """Return two octets of padding and a DSS option of 22 octets.

    The option has a Data ACK of 4 octets and a data sequence number of 8 (RFC 8684, section 3.3).
    """
    return bytes([1, 1, 30, 22, 0x20, 0x0D]) + struct.pack(">IQIH", 7, data_sequence, subflow_sequence, length)


def capture(*packets: bytes) -> bytes:
    interface = struct.pack("<HHI", segment.COOKED, 0, 128) + struct.pack("<HHB3x", 9, 1, 9) + struct.pack("<HH", 0, 0)
    return block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)) + block(1, interface) + b"".join(packets)


def test_counts_by_sequence_numbers(tmp_path: Path) -> None:
    """Four segments of 500 octets pass the end of the sequence space. The second is lost and sent again."""
    path = tmp_path / "client.pcap"
    sent = [(0, 0, segment.SYN), (1, 500, 16), (501, 500, 16), (1001, 500, 16), (501, 500, 16), (1501, 500, 17)]
    frames = [
        cooked(1000 + number, segment.OUTGOING, tcp(offset, payload, flags))
        for number, (offset, payload, flags) in enumerate(sent)
    ]
    path.write_bytes(capture(*frames))
    (stream,) = segment.count(path).towards(5201, segment.OUTGOING, 0)
    assert stream.sent_again_ns == [1004]
    assert stream.payload_bytes == 2000
    assert (stream.first_payload_ns, stream.last_payload_ns) == (1001, 1005)


def test_what_arrives_in_order(tmp_path: Path) -> None:
    """At the receiver the third segment comes before the second. The second makes the payload grow by both."""
    path = tmp_path / "server.pcap"
    came = [(0, 0, segment.SYN), (1, 500, 16), (1001, 500, 16), (501, 500, 16), (501, 500, 16)]
    frames = [
        cooked(2000 + number, segment.INCOMING, tcp(offset, payload, flags))
        for number, (offset, payload, flags) in enumerate(came)
    ]
    path.write_bytes(capture(*frames))
    census = segment.count(path)
    (stream,) = census.towards(5201, segment.INCOMING, 0)
    assert census.frames == {segment.OUTGOING: 0, segment.INCOMING: 5}
    assert stream.payload_bytes == 1500
    assert stream.order.between(2001, 2002) == 0
    assert stream.order.between(2001, 2003) == 1000


def test_pieces_that_overlap() -> None:
    """Overlapping pieces: when the first bytes arrive, all data up to the last piece is in order at once."""
    order = segment.Order()
    for moment, (first, last) in enumerate([(10, 20), (20, 30), (15, 20), (0, 12)]):
        order.take(moment, first, last - first)
    assert order.progress == [(3, 30)]


def test_data_of_two_subflows(tmp_path: Path) -> None:
    """The data grows by 500 and then by 1000 octets. A reinjection adds nothing.

    One mapping of 1000 octets lies in two segments of the first subflow. The 500 octets after the mapping arrived
    earlier on the second subflow.
    """
    path = tmp_path / "server.pcap"
    base = (1 << 63) + 5
    came = [
        (40_000, 0, 0, segment.SYN, b""),
        (40_001, 0, 0, segment.SYN, b""),
        (40_000, 1, 500, 16, mapping(base, 1, 1000)),
        (40_001, 1, 500, 16, mapping(base + 1000, 1, 500)),
        (40_000, 501, 500, 16, mapping(base, 1, 1000)),
        (40_001, 501, 500, 16, mapping(base + 500, 501, 500)),
    ]
    frames = [
        cooked(3000 + number, segment.INCOMING, tcp(offset, payload, flags, port, options))
        for number, (port, offset, payload, flags, options) in enumerate(came)
    ]
    path.write_bytes(capture(*frames))
    subflows = segment.count(path).towards(5201, segment.INCOMING, 0)
    assert len(subflows) == 2
    assert segment.follow_data(subflows).progress == [(3002, 500), (3004, 1500)]


def test_other_captures_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "ethernet.pcap"
    path.write_bytes(block(1, struct.pack("<HHI", 1, 0, 128) + struct.pack("<HH", 0, 0)))
    with pytest.raises(ValueError, match="link type 1 "):
        segment.count(path)


# -- what is drawn ---------------------------------------------------------------------------------------------------


def test_a_seed_draws_the_same_cells() -> None:
    assert configuration.draw(5) == configuration.draw(5)
    assert configuration.draw(5) != configuration.draw(6)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_cells_cover_the_ranges(seed: int) -> None:
    cells = configuration.draw(seed)
    assert [cell.number for cell in cells] == list(range(40))
    assert {cell.mtu for cell in cells} == {1280, 1500, 4000, 9000}
    assert {cell.family for cell in cells} == {"ipv4", "ipv6"}
    links = [link for cell in cells for link in cell.links]
    rates = [direction.rate_bit_per_s for link in links for direction in (link.forward, link.reverse)]
    # strata of a quarter, and less, of four decades
    assert min(rates) < 400_000
    assert max(rates) > 250_000_000
    assert all(100_000 <= rate <= 5_000_000_000 for rate in rates)
    # tc counts whole bytes per second: nearly all rates are rounded
    assert sum(rate % 8 > 0 for rate in rates) > 0.7 * len(rates)
    trips = [cell.rtt_s for cell in cells if not cell.is_multipath]
    assert min(trips) < 0.01
    assert max(trips) > 0.3
    assert {len(cell.links) for cell in cells} == {1, 2}
    assert {cell.kind for cell in cells} == set(configuration.COUNTS)
    drawn = [link.forward.queue_packets for cell in cells if cell.kind != "transport" for link in cell.links]
    assert min(drawn) == configuration.LEAST_QUEUE


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_cells_of_the_new_kinds(seed: int) -> None:
    """Events overlap, each kind of file is used, and nothing follows the last flow."""
    cells = configuration.draw(seed)
    events = [event for cell in cells if cell.kind == "events" for event in cell.events]
    assert {key for event in events for key in event} >= {"set", "for", "every", "over"}
    for cell in cells:
        if cell.kind in ("events", "trace"):
            facts = cell.facts
            for name, way in (("there", cell.links[0].forward), ("back", cell.links[0].reverse)):
                found = form.pieces(way.rate_bit_per_s, facts["changes"][name], facts["begin_us"], facts["end_us"])
                assert (found[0].begin_us, found[-1].end_us) == (facts["begin_us"], facts["end_us"])
                # an interval of a mahimahi trace without opportunities carries nothing
                assert all(piece.frames(cell.frame_bytes) > 99 for piece in found if piece.rate_bit_per_s)
    traces = [cell for cell in cells if cell.kind == "trace"]
    assert {event.get("format") for cell in traces for event in cell.events} >= {"rates", None}
    assert all(set(cell.files) == {"trace"} for cell in traces)
    last = [cell for cell in cells if cell.kind == "last"]
    assert all(len(cell.traffic) == 1 and cell.traffic[0]["tool"] == "udp" for cell in last)
    transports = {entry["tool"] for cell in cells if cell.kind == "transport" for entry in cell.traffic}
    assert transports == {"iperf3", "netperfmeter", "sctp"}
