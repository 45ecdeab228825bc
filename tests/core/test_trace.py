# SPDX-License-Identifier: Apache-2.0
"""MPTCP packets from tshark are assigned to connections and subflows, according to RFC 8684."""

from __future__ import annotations

import random
from typing import Any

import polars
import pytest

from mprun.captures.packet import PACKET_COLUMNS, ObservationPoint, read_packets, shape_packets
from mprun.captures.stream import REINJECTION, RETRANSMISSION, Carriers, token_of
from mprun.captures.tcp_connection import CaptureConnections
from mprun.captures.tshark import FIELDS
from mprun.model.sequence_space import Seen

PLACE = ObservationPoint({"client-eth0": "path0", "client-eth1": "path1"}, {})
PATHS = {("10.0.0.1", "10.1.0.1"): "path0", ("10.0.1.1", "10.1.0.1"): "path1"}
SERVER = ("10.1.0.1", 5201)
ONE, OTHER = ("10.0.0.1", 1000), ("10.0.1.1", 2000)
# RFC 8684 gives no example. These values are computed from sha256 of the key's eight octets.
CLIENT_KEY, SERVER_KEY = 0x0102030405060708, 0xFFEEDDCCBBAA9988
SYN, ACK, FIN = 2, 16, 1


def test_seen_agrees_with_a_set_of_bytes() -> None:
    draw = random.Random(7)
    for _ in range(200):
        seen, known = Seen(), set[int]()
        for _ in range(40):
            begin = draw.randrange(60)
            end = begin + draw.randrange(1, 12)
            new = set(range(begin, end)) - known
            assert seen.add(begin, end) == len(new)
            known |= new
            front = next(n for n in range(100) if n not in known)
            assert seen.front == front
            assert seen.is_whole == (len(known) == front)


def line(at_s: float, source: tuple[str, int], destination: tuple[str, int], flags: int, **fields: Any) -> str:
    """Return a packet as a line of tshark's output."""
    family = "ipv6" if ":" in source[0] else "ipv4"
    values: dict[str, Any] = {
        **{"time": f"{at_s + 1000:.9f}", "interface": "client-eth0", "packet_type": 4, "length_bytes": 100},
        **{f"{family}_source": source[0], f"{family}_destination": destination[0], f"{family}_protocol": 6},
        **{"tcp_source_port": source[1], "tcp_destination_port": destination[1], "flags": f"0x{flags:04x}"},
        **{"seq": 0, "ack": 0, "tcp_payload": 0},
        **fields,
    }
    return "\t".join(str(values.get(name, "")) for name in FIELDS) + "\n"


def idsn(key: int) -> int:
    import hashlib

    return int.from_bytes(hashlib.sha256(key.to_bytes(8, "big")).digest()[-8:], "big")


def data(at_s: float, source: tuple[str, int], seq: int, offset: int, ssn: int, **fields: Any) -> str:
    """Return a packet with 100 bytes from the client at an offset of its data."""
    dsn = (idsn(CLIENT_KEY) + 1 + offset) % (1 << 64)
    mapping = {"subtype": 2, "dsn": dsn, "ssn": ssn, "mapping_bytes": 100}
    return line(at_s, source, SERVER, ACK, seq=seq, tcp_payload=100, **mapping | fields)


HANDSHAKE = [
    line(0, ONE, SERVER, SYN, seq=99, subtype=0),
    line(0.04, SERVER, ONE, SYN | ACK, seq=499, subtype=0, sender_key=SERVER_KEY),
    line(0.04, ONE, SERVER, ACK, seq=100, subtype=0, sender_key=CLIENT_KEY, receiver_key=SERVER_KEY),
]
JOIN = [
    # sequence numbers pass 2^32 within the subflow
    line(1, OTHER, SERVER, SYN, seq=2**32 - 101, subtype=1, token=token_of(SERVER_KEY), address_id=2, backup="True"),
    line(1.04, SERVER, OTHER, SYN | ACK, seq=799, subtype=1, backup="False"),
    line(1.04, OTHER, SERVER, ACK, seq=2**32 - 100, subtype=1),
]


def trace(
    lines: list[str], forwards: bool = False, portion: int = 1000
) -> tuple[CaptureConnections, list[dict[str, Any]]]:
    """Return the trace, and the packets as rows of the table."""
    one = CaptureConnections(PATHS, forwards)
    rows = []
    for at in range(0, len(lines), portion):
        packets = one.follow(read_packets("".join(lines[at : at + portion]).encode(), PLACE, 1000 * 10**9))
        table = shape_packets(packets, "client", at + 1)
        assert table.schema == polars.Schema(PACKET_COLUMNS)
        rows += table.to_dicts()
    return one, rows


@pytest.mark.parametrize("portion", [1, 3, 1000])
def test_an_mptcp_connection_with_a_join(portion: int) -> None:
    sent = [
        *HANDSHAKE,
        data(0.1, ONE, 100, 0, 1),
        *JOIN,
        data(1.1, OTHER, 2**32 - 100, 100, 1),
        data(1.2, OTHER, 0, 200, 101),
        line(1.3, SERVER, ONE, ACK, subtype=2, data_ack=(idsn(CLIENT_KEY) + 301) % (1 << 32)),
        line(1.4, ONE, SERVER, FIN | ACK, seq=200, subtype=7),
    ]
    one, rows = trace(sent, portion=portion)
    (connection,) = one.tell_connections()
    assert connection["protocol"] == "mptcp"
    assert connection["token"] == token_of(SERVER_KEY)
    assert (connection["subflows"], connection["forward_bytes"], connection["fallback"]) == (2, 300, None)
    assert connection["ended_by"] == "MP_FASTCLOSE"
    assert (connection["forward_gap_ns"], connection["forward_gap_began_ns"]) == (10**9, 10**8)
    assert connection["forward_bit_per_s"] == pytest.approx(300 * 8 / 1.1)
    first, second = one.tell_subflows()
    assert (first["kind"], first["path"], first["backup"], first["closed_by"]) == ("initial", "path0", None, "FIN")
    assert (second["kind"], second["path"], second["backup"], second["address_id"]) == ("additional", "path1", True, 2)
    assert (second["opened_ns"], second["established_ns"]) == (10**9, 1_040_000_000)
    assert (second["forward_payload_bytes"], second["forward_new_bytes"]) == (200, 200)
    assert [row["data_offset_bytes"] for row in rows if row["payload_bytes"]] == [0, 100, 200]
    assert [row["subflow_offset_bytes"] for row in rows if row["payload_bytes"]] == [0, 0, 100]
    assert [row["in_order_bytes"] for row in rows if row["payload_bytes"]] == [100, 200, 300]
    assert [row["data_acked_bytes"] for row in rows if row["data_acked_bytes"] is not None] == [300]
    assert [row["options"] for row in rows[:4]] == ["MP_CAPABLE"] * 3 + ["DSS"]
    assert (rows[0]["flags"], rows[0]["link"], rows[0]["direction"], rows[0]["number"]) == ("SYN", "path0", "out", 1)


def test_what_comes_again_is_retransmitted_or_reinjected() -> None:
    sent = [
        *HANDSHAKE,
        *JOIN,
        data(2, ONE, 100, 0, 1),
        data(2.1, ONE, 200, 100, 101),
        # the same bytes on the same subflow; then data of this subflow on the other subflow
        data(2.2, ONE, 100, 0, 1),
        data(2.3, OTHER, 2**32 - 100, 100, 1),
        # the second time on the other subflow
        data(2.4, OTHER, 2**32 - 100, 100, 1),
        data(2.5, OTHER, 0, 200, 101),
    ]
    one, rows = trace(sent)
    assert [row["repeat"] for row in rows if row["payload_bytes"]] == [
        *(None, None, RETRANSMISSION, REINJECTION, RETRANSMISSION, None)
    ]
    (connection,) = one.tell_connections()
    assert (connection["forward_retransmissions"], connection["forward_reinjections"]) == (2, 1)
    assert connection["forward_bytes"] == 300


def test_data_that_its_subflow_sent_with_another_mapping_is_retransmitted() -> None:
    """After a subflow has closed, MPTCP sends all pending data again on the others."""
    sent = [
        *HANDSHAKE,
        *JOIN,
        data(2, ONE, 100, 0, 1),
        data(2.1, OTHER, 2**32 - 100, 100, 1),
        data(2.2, ONE, 200, 200, 101),
        # all of it again, in new places of the first subflow
        *(data(2.3, ONE, 300 + 100 * n, 100 * n, 201 + 100 * n) for n in range(3)),
    ]
    _, rows = trace(sent)
    assert [row["repeat"] for row in rows if row["payload_bytes"]][3:] == [RETRANSMISSION, REINJECTION, RETRANSMISSION]


def test_the_carriers_of_data_agree_with_a_table_of_bytes() -> None:
    draw = random.Random(7)
    for _ in range(200):
        carriers, known = Carriers(), dict[int, int]()
        for _ in range(40):
            begin, subflow = draw.randrange(60), draw.randrange(3)
            end = begin + draw.randrange(1, 12)
            carriers.add(begin, end, subflow)
            known |= dict.fromkeys(range(begin, end), subflow)
            assert [carriers.find(at) for at in range(80)] == [known.get(at) for at in range(80)]


def test_a_subflow_that_is_reset_in_its_handshake_is_never_established() -> None:
    """A middlebox may remove MP_JOIN from the answer. The reset acknowledges the answer."""
    answer, reset = JOIN[1].replace("\t1\t", "\t\t"), line(1.04, OTHER, SERVER, 4 | ACK, seq=2**32 - 100)
    one, _ = trace([*HANDSHAKE, JOIN[0], answer, reset])
    first, second = one.tell_subflows()
    assert first["established_ns"] == 40_000_000
    assert (second["established_ns"], second["closed_by"]) == (None, "RST")


def test_packets_that_share_a_mapping_have_their_own_place_in_the_data() -> None:
    mapping = {"mapping_bytes": 300}
    # the second packet has no option: it belongs to the mapping of the first
    second = line(0.2, ONE, SERVER, ACK, seq=200, tcp_payload=100)
    sent = [*HANDSHAKE, data(0.1, ONE, 100, 0, 1, **mapping), second, data(0.3, ONE, 300, 0, 1, **mapping)]
    _, rows = trace(sent)
    assert [row["data_offset_bytes"] for row in rows if row["payload_bytes"]] == [0, 100, 200]


def test_data_of_the_handshake_begins_the_data() -> None:
    first = line(0.1, ONE, SERVER, ACK, seq=100, tcp_payload=100, subtype=0, sender_key=CLIENT_KEY, mapping_bytes=100)
    one, rows = trace([*HANDSHAKE[:2], first, data(0.2, ONE, 200, 100, 101)])
    assert [row["data_offset_bytes"] for row in rows if row["payload_bytes"]] == [0, 100]
    assert one.tell_connections()[0]["fallback"] is None


@pytest.mark.parametrize(
    ("answer", "further", "fallback"),
    [
        ({}, [], "no MP_CAPABLE in the answer"),
        (
            {"subtype": 0, "sender_key": SERVER_KEY},
            [line(0.1, ONE, SERVER, ACK, seq=100, tcp_payload=50)],
            "data without",
        ),
        ({"subtype": 0, "sender_key": SERVER_KEY}, [data(0.1, ONE, 100, 0, 1, mapping_bytes=0)], "infinite mapping"),
        ({"subtype": 0, "sender_key": SERVER_KEY}, [line(0.1, SERVER, ONE, ACK, subtype=6)], "MP_FAIL"),
    ],
)
def test_fallbacks(answer: dict[str, Any], further: list[str], fallback: str) -> None:
    sent = [HANDSHAKE[0], line(0.04, SERVER, ONE, SYN | ACK, seq=499, **answer), *further]
    (connection,) = trace(sent)[0].tell_connections()
    assert connection["fallback"].startswith(fallback)


def test_plain_tcp_over_ipv6() -> None:
    client, server = ("fd00::1", 1000), ("fd00::2", 80)
    sent = [
        line(0, client, server, SYN, seq=99),
        line(0.1, server, client, SYN | ACK, seq=0),
        line(0.2, client, server, ACK, seq=100, tcp_payload=70),
        line(0.3, client, server, ACK, seq=100, tcp_payload=70),
    ]
    (connection,) = trace(sent)[0].tell_connections()
    assert (connection["protocol"], connection["fallback"], connection["forward_bytes"]) == ("tcp", None, 70)
    assert (connection["source"], connection["forward_retransmissions"]) == ("fd00::1", 1)


def test_data_of_a_syn_begins_the_data() -> None:
    """TCP Fast Open does this. The sequence number of the SYN stands before the first byte."""
    sent = [
        line(0, ONE, SERVER, SYN, seq=100, tcp_payload=30),
        line(0.1, SERVER, ONE, SYN | ACK, seq=900),
        line(0.2, ONE, SERVER, ACK, seq=131, tcp_payload=20),
    ]
    one, rows = trace(sent)
    assert [(row["subflow_offset_bytes"], row["in_order_bytes"]) for row in (rows[0], rows[2])] == [(0, 30), (30, 50)]
    assert one.tell_connections()[0]["forward_bytes"] == 50


def test_a_forwarding_node_counts_each_packet_once() -> None:
    packet = {"seq": 100, "tcp_payload": 70}
    arrives, leaves = ({**packet, "packet_type": kind} for kind in (0, 4))
    sent = [line(0, ONE, SERVER, ACK, **arrives), line(0, ONE, SERVER, ACK, **leaves)]
    one, rows = trace(sent, forwards=True)
    assert [row["direction"] for row in rows] == ["in", "out"]
    assert [row["connection"] for row in rows] == [0, None]
    assert one.tell_connections()[0]["forward_retransmissions"] == 0


def test_a_nat_counts_each_packet_by_its_addresses_inside() -> None:
    """Each packet passes two links, with another address of the client outside."""
    outside = ("10.9.0.1", 1000)
    sent = [
        line(0, ONE, SERVER, SYN, seq=99, packet_type=0),
        line(0, outside, SERVER, SYN, seq=99, interface="client-eth1"),
        line(0.04, SERVER, outside, SYN | ACK, seq=499, interface="client-eth1", packet_type=0),
        line(0.04, SERVER, ONE, SYN | ACK, seq=499),
        line(0.05, ONE, SERVER, ACK, seq=100, tcp_payload=70, packet_type=0),
    ]
    one = CaptureConnections(PATHS, forwards=True, inside=["path0"], outside=[outside[0]])
    one.follow(read_packets("".join(sent).encode(), PLACE, 0))
    (connection,), (subflow,) = one.tell_connections(), one.tell_subflows()
    assert (connection["source"], connection["forward_bytes"]) == ("10.0.0.1", 70)
    assert (subflow["kind"], subflow["forward_packets"], subflow["reverse_packets"]) == ("initial", 2, 1)


def test_a_nat_counts_packets_that_do_not_pass_it_inside() -> None:
    """Two hosts outside talk to each other through the NAT's router. Their connection was not listed."""
    sent = [
        line(0, ONE, SERVER, SYN, seq=99, packet_type=0, interface="client-eth1"),
        line(0.04, SERVER, ONE, SYN | ACK, seq=499, packet_type=0, interface="client-eth1"),
        line(0.05, ONE, SERVER, ACK, seq=100, tcp_payload=70, packet_type=0, interface="client-eth1"),
        line(0.05, ONE, SERVER, ACK, seq=100, tcp_payload=70, packet_type=4, interface="client-eth1"),
    ]
    one = CaptureConnections(PATHS, forwards=True, inside=["path0"], outside=["10.9.0.1"])
    one.follow(read_packets("".join(sent).encode(), PLACE, 0))
    (connection,) = one.tell_connections()
    assert connection["forward_bytes"] == 70


def test_the_end_of_data_is_no_acknowledged_byte() -> None:
    sent = [*HANDSHAKE, data(0.1, ONE, 100, 0, 1)]
    sent += [
        line(0.2, SERVER, ONE, ACK, subtype=2, data_ack=(idsn(CLIENT_KEY) + 1 + at) % (1 << 64)) for at in (100, 101)
    ]
    _, rows = trace(sent)
    assert [row["data_acked_bytes"] for row in rows[-2:]] == [100, 100]


def test_a_capture_that_began_late_or_cut_the_options_off_says_what_it_can() -> None:
    late, _ = trace([data(0, ONE, 5000, 700, 301), data(0.1, ONE, 5100, 800, 401)])
    (connection,) = late.tell_connections()
    assert (connection["protocol"], connection["forward_bytes"], connection["token"]) == ("mptcp", 200, None)
    assert late.tell_subflows()[0]["kind"] == "under way"
    short = "[Packet size limited during capture: MPTCP truncated]"
    cut = line(0.1, ONE, SERVER, ACK, seq=100, tcp_payload=100, subtype=2, cut=short)
    one, rows = trace([*HANDSHAKE, cut])
    assert one.cut_packets == 1
    assert (rows[-1]["new_bytes"], one.tell_connections()[0]["fallback"]) == (None, None)


def test_a_connection_that_began_before_the_capture_is_still_that_of_its_client() -> None:
    """The first packet is one of the server, and acknowledges data from before the capture."""
    key, flags = (idsn(CLIENT_KEY) + 1) % (1 << 64), {"subtype": 2}
    sent = [
        line(0, SERVER, ONE, ACK, seq=900, **flags, data_ack=key + 600),
        data(0.1, ONE, 5000, 700, 301),
        line(0.2, SERVER, ONE, ACK, seq=900, **flags, data_ack=key + 600),
        line(0.3, SERVER, ONE, ACK, seq=900, **flags, data_ack=key + 800),
    ]
    one = CaptureConnections(PATHS, servers={SERVER})
    rows = one.follow(read_packets("".join(sent).encode(), PLACE, 0))
    (connection,), (subflow,) = one.tell_connections(), one.tell_subflows()
    assert (connection["source"], connection["forward_bytes"], connection["reverse_bytes"]) == ("10.0.0.1", 100, 0)
    assert (subflow["kind"], subflow["established_ns"]) == ("under way", None)
    assert rows["data_acked_bytes"].to_list() == [None, None, None, 100]


def test_what_is_no_tcp_is_a_packet_too() -> None:
    ping = line(0, ONE, SERVER, 0).split("\t")
    for name in ("flags", "seq", "ack", "tcp_payload", "tcp_source_port", "tcp_destination_port"):
        ping[list(FIELDS).index(name)] = ""
    ping[list(FIELDS).index("ipv4_protocol")] = "1,6"
    _, rows = trace(["\t".join(ping), *HANDSHAKE])
    assert (rows[0]["protocol"], rows[0]["connection"], rows[1]["connection"]) == ("icmp", None, 0)


@pytest.mark.parametrize(
    "quoted",
    [
        {"ipv4_protocol": "1,6", "tcp_payload": 1448},
        {"ipv4_protocol": "1,17", "seq": "", "ack": "", "tcp_payload": "", "udp_length": 1008},
    ],
)
def test_an_error_of_icmp_has_nothing_of_the_packet_that_it_quotes(quoted: dict[str, Any]) -> None:
    _, [row] = trace([line(0, SERVER, ONE, ACK, **quoted)])
    known = [name for name, value in row.items() if value is not None]
    assert row["protocol"] == "icmp"
    assert known[-4:] == ["protocol", "source", "destination", "length_bytes"]


def test_a_packet_that_is_cut_within_its_tcp_header_belongs_to_no_connection() -> None:
    one, rows = trace([*HANDSHAKE, line(0.05, ONE, SERVER, ACK, seq=100).replace("0x0010", "")])
    assert [row["connection"] for row in rows] == [0, 0, 0, None]
    assert len(one.tell_connections()) == 1


def test_nothing_is_an_empty_table() -> None:
    assert trace([])[1] == []
    assert len(shape_packets(CaptureConnections({}).follow(read_packets(b"", PLACE, 0)), "a", 1)) == 0


@pytest.mark.parametrize(
    ("macs", "directions"),
    [({"client-eth0": "02:00:00:00:00:01"}, ["out", "in", None]), ({}, [None, None, None])],
)
def test_directions_of_one_interface_follow_from_its_mac(macs: dict[str, str], directions: list[str | None]) -> None:
    senders = ("02:00:00:00:00:01", "02:00:00:00:00:02", "")
    lines = [line(0, ONE, SERVER, ACK, packet_type="", mac=mac) for mac in senders]
    packets = read_packets("".join(lines).encode(), ObservationPoint({}, macs), 0)
    assert packets["direction"].to_list() == directions
