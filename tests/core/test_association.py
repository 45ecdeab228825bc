# SPDX-License-Identifier: Apache-2.0
"""SCTP packets from tshark are assigned to associations and paths, according to RFC 9260."""

from __future__ import annotations

import random
from collections import defaultdict
from typing import Any

import polars
import pytest

from mprun.captures import tshark
from mprun.captures.packet import PACKET_COLUMNS, ObservationPoint, read_packets, shape_packets
from mprun.captures.stream import REINJECTION, RETRANSMISSION
from mprun.captures.tcp_connection import CaptureConnections
from mprun.captures.tshark import FIELDS
from mprun.model.intent import FlowEnds
from tests.intents import flow

PATHS = {("10.0.0.1", "10.1.0.1"): "path0", ("10.0.1.1", "10.1.1.1"): "path1"}
CLIENT, SERVER = ("10.0.0.1", 1000), ("10.1.0.1", 5201)
OTHER_CLIENT, OTHER_SERVER = ("10.0.1.1", 1000), ("10.1.1.1", 5201)
CLIENT_TAG, SERVER_TAG = 0xAAAA0001, 0xBBBB0002
# The last numbers before the wraparound.
FIRST_TSN = 2**32 - 3


def line(at_s: float, source: tuple[str, int], destination: tuple[str, int], tag: int, **fields: Any) -> str:
    """Return a packet as a line of tshark's output."""
    values: dict[str, Any] = {
        **{"time": f"{at_s + 1000:.9f}", "interface": "client-eth0", "packet_type": 4, "length_bytes": 100},
        **{"ipv4_source": source[0], "ipv4_destination": destination[0], "ipv4_protocol": 132},
        **{"sctp_source_port": source[1], "sctp_destination_port": destination[1], "tag": f"0x{tag:08x}"},
        **fields,
    }
    return "\t".join(str(values.get(name, "")) for name in FIELDS) + "\n"


def data(at_s: float, *offsets: int, path: int = 0, size: int = 100, **fields: Any) -> str:
    """Return a packet with DATA chunks from the client."""
    source, destination = ((CLIENT, SERVER), (OTHER_CLIENT, OTHER_SERVER))[path]
    tsns = ",".join(str((FIRST_TSN + offset) % 2**32) for offset in offsets)
    kinds, lengths = (",".join([str(value)] * len(offsets)) for value in (0, size + 16))
    return line(at_s, source, destination, SERVER_TAG, chunks=kinds, chunk_lengths=lengths, tsns=tsns, **fields)


HANDSHAKE = [
    line(
        *(0, CLIENT, SERVER, 0),
        chunks=1,
        chunk_lengths=52,
        initiate_tag=f"0x{CLIENT_TAG:08x}",
        init_tsn=FIRST_TSN,
        own_ipv4="10.0.0.1,10.0.1.1",
    ),
    line(
        *(0.04, SERVER, CLIENT, CLIENT_TAG),
        chunks=2,
        chunk_lengths=292,
        initiate_tag=f"0x{SERVER_TAG:08x}",
        init_ack_tsn=7,
        own_ipv4="10.1.0.1,10.1.1.1",
    ),
    line(0.04, CLIENT, SERVER, SERVER_TAG, chunks=10, chunk_lengths=264),
    line(0.08, SERVER, CLIENT, CLIENT_TAG, chunks=11, chunk_lengths=4),
]
HEARTBEAT = [
    line(0.1, OTHER_CLIENT, OTHER_SERVER, SERVER_TAG, chunks=4, chunk_lengths=60),
    line(0.15, OTHER_SERVER, OTHER_CLIENT, CLIENT_TAG, chunks=5, chunk_lengths=60),
]


def trace(lines: list[str], portion: int = 1000) -> tuple[CaptureConnections, list[dict[str, Any]]]:
    """Return the trace, and the packets as rows of the table."""
    one = CaptureConnections(PATHS)
    rows = []
    for at in range(0, len(lines), portion):
        packets = one.follow(
            read_packets("".join(lines[at : at + portion]).encode(), ObservationPoint({}, {}), 1000 * 10**9)
        )
        table = shape_packets(packets, "client", at + 1)
        assert table.schema == polars.Schema(PACKET_COLUMNS)
        rows += table.to_dicts()
    return one, rows


@pytest.mark.parametrize("portion", [1, 3, 1000])
def test_an_association_of_two_paths(portion: int) -> None:
    acked = (FIRST_TSN + 3) % 2**32
    sent = [
        *HANDSHAKE,
        *HEARTBEAT,
        data(1, 0, 1),
        # the sequence numbers wrap around
        data(1.5, 2, 3, path=1),
        line(1.6, SERVER, CLIENT, CLIENT_TAG, chunks=3, chunk_lengths=16, cumulative_tsn=acked),
        line(1.7, SERVER, CLIENT, CLIENT_TAG, chunks="3,0", chunk_lengths="16,66", cumulative_tsn=acked, tsns=7),
        line(2, CLIENT, SERVER, SERVER_TAG, chunks=14, chunk_lengths=4),
    ]
    one, rows = trace(sent, portion)
    (association,) = one.tell_connections()
    assert (association["protocol"], association["subflows"], association["fallback"]) == ("sctp", 2, None)
    assert (association["forward_bytes"], association["reverse_bytes"]) == (400, 50)
    assert (association["source"], association["announced"]) == ("10.0.0.1", "10.0.1.1,10.1.1.1")
    assert (association["forward_gap_ns"], association["forward_gap_began_ns"]) == (500_000_000, 10**9)
    assert association["ended_by"] == "SHUTDOWN"
    first, second = one.tell_subflows()
    assert (first["kind"], first["path"], first["established_ns"]) == ("initial", "path0", 80_000_000)
    assert (second["kind"], second["path"], second["established_ns"]) == ("additional", "path1", 150_000_000)
    assert (first["closed_by"], second["closed_ns"]) == ("SHUTDOWN", 2 * 10**9)
    assert [one["forward_payload_bytes"] for one in (first, second)] == [200, 200]
    assert [row["flags"] for row in rows[:6]] == [
        *("INIT", "INIT_ACK", "COOKIE_ECHO", "COOKIE_ACK", "HEARTBEAT", "HEARTBEAT_ACK")
    ]
    carrying = [row for row in rows if row["payload_bytes"]]
    assert [row["flags"] for row in carrying] == ["DATA", "DATA", "SACK,DATA"]
    assert [row["seq"] for row in carrying] == [FIRST_TSN, 2**32 - 1, 7]
    assert [row["data_offset_bytes"] for row in carrying] == [0, 200, 0]
    assert [row["in_order_bytes"] for row in carrying] == [200, 400, 50]
    assert [row["data_acked_bytes"] for row in rows if row["data_acked_bytes"] is not None] == [400, 400]
    assert {row["protocol"] for row in rows} == {"sctp"}


def test_what_comes_again_is_retransmitted_or_reinjected() -> None:
    sent = [
        *HANDSHAKE,
        data(1, 0),
        data(1.1, 2),
        data(1.2, 2),
        data(1.3, 2, path=1),
        data(1.4, 2, path=1),
        data(1.5, 1, path=1),
    ]
    one, rows = trace(sent)
    again = [None, None, RETRANSMISSION, REINJECTION, RETRANSMISSION, None]
    assert [row["repeat"] for row in rows if row["payload_bytes"]] == again
    # behind a missing chunk, the offset in the data is unknown
    assert [row["data_offset_bytes"] for row in rows if row["payload_bytes"]] == [0, None, None, None, None, 100]
    assert [row["in_order_bytes"] for row in rows if row["payload_bytes"]] == [100, *[None] * 4, 300]
    (association,) = one.tell_connections()
    assert (association["forward_retransmissions"], association["forward_reinjections"]) == (2, 1)
    assert association["forward_bytes"] == 300


def test_random_losses_and_ways_agree_with_plain_counting() -> None:
    draw = random.Random(5)
    for _ in range(20):
        sent, new = list(HANDSHAKE), 0
        carried: dict[int, set[int]] = defaultdict(set)
        expected = []
        for n in range(300):
            offset, path, size = max(0, n // 2 - draw.randrange(12)), draw.randrange(2), draw.randrange(1, 1400)
            repeat = None
            if path in carried[offset]:
                repeat = RETRANSMISSION
            elif carried[offset]:
                repeat = REINJECTION
            else:
                new += size
            carried[offset].add(path)
            expected.append(repeat)
            sent.append(data(1 + n / 1000, offset, path=path, size=size))
        one, rows = trace(sent, portion=draw.randrange(1, 400))
        assert [row["repeat"] for row in rows if row["payload_bytes"]] == expected
        assert one.tell_connections()[0]["forward_bytes"] == new


def test_a_capture_with_a_gap_of_its_own_needs_no_more_memory_the_longer_it_is() -> None:
    """The first chunk is missing, so no data is ever in order."""
    sent = [*HANDSHAKE, *(data(1 + n / 1e5, *range(n, n + 50)) for n in range(1, 50_000, 50))]
    one, _ = trace(sent, portion=100)
    ((association, _, _), *_) = one._associations._ways.values()
    assert len(association.chunks[0].carriers) < 20_000
    assert len(association.chunks[0].sizes) < 10_000
    assert one.tell_connections()[0]["forward_bytes"] == 50_000 * 100


def test_an_association_that_began_before_the_capture() -> None:
    sent = [
        data(1, 10),
        line(1.1, SERVER, CLIENT, CLIENT_TAG, chunks=3, chunk_lengths=16, cumulative_tsn=FIRST_TSN),
        data(1.2, 11, path=1),
        line(1.3, OTHER_SERVER, OTHER_CLIENT, CLIENT_TAG, chunks=3, chunk_lengths=16, cumulative_tsn=FIRST_TSN),
    ]
    one, _ = trace(sent)
    (association,) = one.tell_connections()
    assert (association["subflows"], association["forward_bytes"]) == (2, 200)
    assert [subflow["kind"] for subflow in one.tell_subflows()] == ["under way", "additional"]


def test_an_opening_that_is_sent_again_and_one_that_is_another() -> None:
    again = HANDSHAKE[0].replace("10.1.0.1\t132", "10.1.1.1\t132", 1)
    assert again != HANDSHAKE[0]
    restarted = HANDSHAKE[0].replace("0xaaaa0001", "0xaaaa0003")
    one, _ = trace([HANDSHAKE[0], HANDSHAKE[0], again, *HANDSHAKE[1:], restarted])
    first, second = one.tell_connections()
    assert (first["subflows"], second["subflows"]) == (2, 1)


def test_sctp_within_udp_and_beside_tcp() -> None:
    udp = {"ipv4_protocol": 17, "udp_source_port": 9900, "udp_destination_port": 9900, "udp_length": 1480}
    one, rows = trace([*HANDSHAKE, data(1, 0, size=1444, **udp)])
    assert (rows[-1]["protocol"], rows[-1]["source_port"], rows[-1]["payload_bytes"]) == ("sctp", 1000, 1444)
    flows = [
        flow(tool="sctp", endpoints=FlowEnds("", "", 5202)),
        flow(tool="sctp", port=700, endpoints=FlowEnds("", "", 5201)),
        flow(tool="iperf3", endpoints=FlowEnds("", "", 5203)),
    ]
    assert tshark.decoding(flows) == ["-d", "udp.port==700,sctp", "-d", "udp.port==9900,sctp"]
    assert len(one.tell_connections()) == 1


def test_what_an_error_of_icmp_quotes_is_no_packet_of_the_association() -> None:
    quoted = data(1, 0).replace("10.0.0.1\t10.1.0.1\t132", "10.9.0.1,10.0.0.1\t10.0.0.1,10.1.0.1\t1,132")
    one, rows = trace([*HANDSHAKE, quoted])
    assert (rows[-1]["protocol"], rows[-1]["connection"]) == ("icmp", None)
    assert one.tell_connections()[0]["forward_bytes"] == 0


def test_a_capture_that_cut_chunks_off_says_so() -> None:
    short = "[Packet size limited during capture: SCTP truncated]"
    one, rows = trace([line(n, CLIENT, SERVER, tag, cut=short) for n, tag in enumerate((0, SERVER_TAG))])
    assert (one.cut_chunks, one.cut_packets) == (2, 0)
    assert [row["payload_bytes"] for row in rows] == [None, None]
    (association,) = one.tell_connections()
    assert (association["forward_bytes"], one.tell_subflows()[0]["forward_packets"]) == (0, 2)
