# SPDX-License-Identifier: Apache-2.0
"""A packet is found in another capture by what no hop changes, and what cannot be known stays unknown."""

from __future__ import annotations

import dataclasses
import struct
from dataclasses import dataclass
from ipaddress import ip_interface
from typing import Any

import polars as pl
import pytest

from mprun.captures.delay import (
    DUPLICATE,
    LOST,
    RECEIVED,
    UNKNOWN,
    CapturePair,
    choose_pairs,
    find_delays,
    match_equal,
    summarize,
)
from mprun.captures.identity import IDENTITY_COLUMNS, identify, kept_bytes
from mprun.captures.packet import PACKET_COLUMNS
from mprun.captures.pcapng import COOKED, ETHERNET, NANOSECOND_MAGIC, InterfaceDescription, PcapngConversion
from mprun.errors import SpecError
from mprun.model.network import Interface as NetworkInterface
from mprun.model.network import Node
from mprun.model.run_summary import CaptureFacts
from mprun.model.spec import Capture
from tests.intents import flow, intent

CLIENT, SERVER, NAT = "10.0.0.1", "10.1.0.1", "10.1.0.2"
PAIR = CapturePair("client", "server", frozenset({SERVER}))
PATHS = {(CLIENT, SERVER): "path0", (SERVER, CLIENT): "path0"}
FLOWS = {(SERVER, 5201): "bulk"}
TCP, UDP, SCTP = 6, 17, 132


@dataclass(frozen=True)
class Packet:
    """A packet of TCP, UDP or SCTP over IPv4, with the fields that hops change."""

    at_ms: float
    payload: bytes = b"x" * 100
    ip_id: int = 1
    seq: int = 0
    protocol: int = TCP
    source: str = CLIENT
    source_port: int = 40000
    destination: str = SERVER
    destination_port: int = 5201
    ttl: int = 64
    tos: int = 0
    checksum: int = 0
    offset: int = 0
    is_last: bool = True

    @property
    def body(self) -> bytes:
        if self.offset:
            return self.payload
        ports = struct.pack(">HH", self.source_port, self.destination_port)
        if self.protocol == TCP:
            return ports + struct.pack(">IIBBHHH", self.seq, 7, 0x50, 0x10, 500, self.checksum, 0) + self.payload
        if self.protocol == SCTP:
            return ports + struct.pack(">II", 99, self.checksum) + self.payload
        return ports + struct.pack(">HH", 8 + len(self.payload), self.checksum) + self.payload

    @property
    def bytes(self) -> bytes:
        """The packet from its IP header on."""
        fragment = self.offset // 8 | (0 if self.is_last else 0x2000) | (0 if self.offset else 0x4000)
        size = 20 + len(self.body)
        head = struct.pack(">BBHHHBBH", 0x45, self.tos, size, self.ip_id, fragment, self.ttl, self.protocol, self.ttl)
        ends = (bytes(map(int, address.split("."))) for address in (self.source, self.destination))
        return head + b"".join(ends) + self.body


def pcap(packets: list[bytes], link_type: int = COOKED, snaplen: int = 0) -> bytes:
    """Return a capture of IP packets as tcpdump writes it."""
    head = b"\x08\x00" + bytes(2) + struct.pack(">I", 5) + bytes(12) if link_type == COOKED else bytes(12) + b"\x08\x00"
    text = struct.pack("<IHHiIII", NANOSECOND_MAGIC, 2, 4, 0, 0, snaplen or 262144, link_type)
    for packet in packets:
        data = (head + packet)[: snaplen or None]
        text += struct.pack("<IIII", 0, 0, len(data), len(head + packet)) + data
    return text


def pcapng(capture: bytes) -> bytes:
    conversion = PcapngConversion("", {5: InterfaceDescription("client-eth0")})
    return conversion.begin(capture[:24]) + b"".join(conversion.convert([capture]))


def identity(packet: Packet) -> int | None:
    return identify(pcap([packet.bytes]), 1 << 16).identity[0]


def table(sent: list[Packet], received: list[Packet]) -> pl.LazyFrame:
    """Return the table `packets` of captures of the client and the server."""
    rows: list[dict[str, Any]] = []
    for capture, direction, packets in (("client", "out", sent), ("server", "in", received)):
        found = identify(pcapng(pcap([packet.bytes for packet in packets])), 1 << 16)
        for n, packet in enumerate(packets):
            ports = {} if packet.offset else {"source_port": packet.source_port}
            ports |= {} if packet.offset else {"destination_port": packet.destination_port}
            rows.append(
                {
                    **{"capture": capture, "number": n + 1, "time_ns": round(packet.at_ms * 1e6)},
                    **{"direction": direction, "protocol": {TCP: "tcp", UDP: "udp", SCTP: "sctp"}[packet.protocol]},
                    **{"source": packet.source, "destination": packet.destination, **ports},
                    **{"identity": found.identity[n], "ip_id": found.ip_id[n], "fragment": found.fragment[n]},
                }
            )
    return pl.LazyFrame(rows, schema=PACKET_COLUMNS | IDENTITY_COLUMNS)


def delays(sent: list[Packet], received: list[Packet], pair: CapturePair = PAIR) -> list[tuple[str, float | None]]:
    """Return state and delay in ms of each row."""
    found, _ = find_delays(table(sent, received), pair, PATHS, FLOWS)
    return [(state, None if ns is None else ns / 1e6) for state, ns in found.select("state", "delay_ns").iter_rows()]


def later(packet: Packet, ms: float, **changes: Any) -> Packet:
    return dataclasses.replace(packet, at_ms=packet.at_ms + ms, **changes)


# A packet at the end, after which no other packet is under way.
END = Packet(1000, ip_id=9999)
ENDED = later(END, 10)


@pytest.mark.parametrize("protocol", [TCP, UDP, SCTP])
def test_what_hops_change_is_not_part_of_the_identity(protocol: int) -> None:
    packet = Packet(0, protocol=protocol)
    nat = {"source": NAT, "source_port": 1, "ttl": 62, "tos": 3, "checksum": 77}
    assert identity(packet) == identity(later(packet, 5, **nat))
    assert identity(packet) != identity(dataclasses.replace(packet, ip_id=2))
    assert identity(packet) != identity(dataclasses.replace(packet, payload=b"x" * 99 + b"y"))
    assert identity(packet) != identity(dataclasses.replace(packet, payload=b"x" * 101))


def test_identities_do_not_depend_on_link_type_or_form_of_the_capture() -> None:
    packets = [Packet(0, seq=n).bytes for n in range(3)]
    found = [
        identify(pcap(packets), 1 << 16),
        identify(pcap(packets, ETHERNET), 1 << 16),
        identify(pcapng(pcap(packets)), 1 << 16),
        identify(pcapng(pcap(packets, ETHERNET)), 1 << 16),
    ]
    assert all(one == found[0] for one in found)
    assert len(set(found[0].identity)) == 3


def test_captures_with_other_snaplens_agree() -> None:
    """The bytes that all captures have are compared. 20 and 14 bytes of a snaplen are the link header."""
    assert kept_bytes([(0, True)]) == 1 << 16
    kept = kept_bytes([(0, True), (100, True), (96, False)])
    assert kept == 80
    packet = Packet(0).bytes
    found = [
        identify(pcap([packet]), kept),
        identify(pcap([packet], snaplen=100), kept),
        identify(pcap([packet], ETHERNET, snaplen=96), kept),
    ]
    assert all(one.identity == found[0].identity != [None] for one in found)


def test_a_packet_whose_header_has_too_small_a_length_has_an_identity() -> None:
    """Before, such a packet of a program ended `mprun packets` in a traceback."""
    packet = Packet(0).bytes
    found = [identify(pcap([packet[:2] + bytes([0, size]) + packet[4:]]), 1 << 16) for size in (0, 19)]
    assert all(one.identity == found[0].identity != [None] for one in found)


def test_other_packets_than_ip_have_no_identity() -> None:
    arp = pcap([b""]).replace(b"\x08\x00" + bytes(2), b"\x08\x06" + bytes(2))
    assert identify(arp, 1 << 16).identity == [None]
    # a snaplen that does not reach the end of the IP header
    assert identify(pcap([Packet(0).bytes], snaplen=30), 10).identity == [None]


def test_the_identity_over_ipv6_leaves_out_the_same() -> None:
    def packet(hop_limit: int, source: int, port: int, flow_label: int, data: bytes) -> int | None:
        body = struct.pack(">HHHH", port, 5201, 8 + len(data), port) + data
        head = struct.pack(">IHBB", 6 << 28 | flow_label, len(body), UDP, hop_limit) + bytes(15) + bytes([source])
        text = pcap([head + bytes(16) + body]).replace(b"\x08\x00" + bytes(2), b"\x86\xdd" + bytes(2))
        return identify(text, 1 << 16).identity[0]

    assert packet(64, 1, 4000, 7, b"data") == packet(62, 2, 5000, 0, b"data") is not None
    assert packet(64, 1, 4000, 7, b"data") != packet(64, 1, 4000, 7, b"dato")


def test_reordered_lost_and_retransmitted_packets() -> None:
    """A retransmission has another identification, so the lost packet and the retransmission are distinct."""
    sent = [Packet(n, ip_id=n + 1, seq=100 * n) for n in range(4)] + [Packet(50, ip_id=5, seq=100), END]
    received = [later(sent[0], 10), later(sent[3], 8), later(sent[2], 12), later(sent[4], 10), ENDED]
    received.sort(key=lambda packet: packet.at_ms)
    assert delays(sent, received) == [
        (RECEIVED, 10),
        (LOST, None),
        (RECEIVED, 12),
        (RECEIVED, 8),
        (RECEIVED, 10),
        (RECEIVED, 10),
    ]


def test_a_duplicate_has_a_row_of_its_own() -> None:
    sent = [Packet(0), END]
    received = [later(sent[0], 10), later(sent[0], 10.5), ENDED]
    assert delays(sent, received) == [(RECEIVED, 10), (DUPLICATE, 10.5), (RECEIVED, 10)]
    (row,) = summarize(find_delays(table(sent, received), PAIR, PATHS, FLOWS)[0])
    assert (row["packets"], row["received"], row["duplicate"], row["lost"]) == (2, 2, 1, 0)
    assert (row["path"], row["max_delay_ns"]) == ("path0", 10_000_000)


def test_a_packet_near_the_end_may_have_been_under_way() -> None:
    sent = [Packet(0), Packet(95, ip_id=2), Packet(101, ip_id=3)]
    assert delays(sent, [later(sent[0], 10)]) == [(RECEIVED, 10), (UNKNOWN, None), (UNKNOWN, None)]
    assert delays([*sent, END], [later(sent[0], 10), ENDED])[1:3] == [(LOST, None), (LOST, None)]


def test_equal_packets() -> None:
    """Packets without an identification field may be equal in all bytes."""
    first, second, third = ((n, 100 * n) for n in range(3))
    # as many arrivals as departures
    assert list(match_equal([first, second], [(7, 10), (8, 110)])) == [(0, 7, RECEIVED), (1, 8, RECEIVED)]
    assert list(match_equal([first, second], [(7, 110), (8, 111)])) == [(0, 7, RECEIVED), (1, 8, RECEIVED)]
    # only the first was under way, the second is lost
    assert list(match_equal([first, second], [(7, 10)])) == [(0, 7, RECEIVED)]
    # either of two was under way
    assert list(match_equal([first, second], [(7, 110)])) == [(0, None, UNKNOWN), (1, None, UNKNOWN)]
    assert list(match_equal([first, second, third], [(7, 150), (8, 210)])) == [
        (0, None, UNKNOWN),
        (1, None, UNKNOWN),
        (2, 8, RECEIVED),
    ]


def test_behind_a_nat_a_packet_has_other_addresses() -> None:
    sent = [Packet(0), Packet(1, ip_id=2), END]
    received = [later(packet, 10, source=NAT, source_port=1024, ttl=62, checksum=5) for packet in (sent[0], END)]
    assert delays(sent, received) == [(RECEIVED, 10), (LOST, None), (RECEIVED, 10)]
    back = [dataclasses.replace(one, source=SERVER, destination=NAT, destination_port=1024) for one in sent]
    there = [dataclasses.replace(one, at_ms=one.at_ms + 10, destination=CLIENT) for one in (back[0], back[2])]
    # the server's packets have the address of the NAT, which is not that of the receiving host
    assert delays(back, there, CapturePair("client", "server", frozenset({CLIENT}))) == [
        (RECEIVED, 10),
        (LOST, None),
        (RECEIVED, 10),
    ]
    found, _ = find_delays(table(back, there), PAIR, PATHS, {})
    assert set(found["path"]) == {"path0"}


def test_equal_packets_of_two_flows_behind_a_nat_cannot_be_told_apart() -> None:
    sent = [Packet(0, protocol=UDP), Packet(0, protocol=UDP, source="10.0.1.1"), END]
    received = [later(one, 10, source=NAT, source_port=port) for port, one in enumerate(sent[:2])]
    assert delays(sent, [*received, ENDED])[:2] == [(UNKNOWN, None), (UNKNOWN, None)]


def test_a_changed_packet_is_found_by_its_identification() -> None:
    pair = dataclasses.replace(PAIR, is_altered=True)
    sent = [Packet(0), Packet(1, ip_id=2), Packet(500, ip_id=1), END]
    received = [later(sent[0], 10, seq=5), later(sent[2], 11, seq=5), ENDED]
    # after 65535 packets, the field has the same value again
    assert delays(sent, received, pair) == [(RECEIVED, 10), (LOST, None), (RECEIVED, 11), (RECEIVED, 10)]


def test_packets_of_a_proxy_are_left_out_with_a_warning() -> None:
    found, warnings = find_delays(
        table([Packet(0), Packet(1, ip_id=2)], [Packet(5, ip_id=77, seq=3)]),
        dataclasses.replace(PAIR, is_altered=True),
        PATHS,
        FLOWS,
    )
    assert found.height == 0
    assert "no packet of the first capture is in the second" in warnings[0]
    assert "2 packets are left out, because a middlebox" in warnings[1]


def test_fragments_match_fragments_and_what_is_fragmented_on_the_way_is_unknown() -> None:
    first = Packet(0, protocol=UDP, payload=b"a" * 992, is_last=False)
    second = Packet(0.5, protocol=UDP, payload=b"b" * 200, offset=1000)
    whole = Packet(2, protocol=UDP, ip_id=2, payload=b"c" * 1192)
    parts = [
        dataclasses.replace(whole, at_ms=12, payload=b"c" * 992, is_last=False),
        dataclasses.replace(whole, at_ms=13, payload=b"c" * 200, offset=1000),
    ]
    sent, received = [first, second, whole, END], [later(first, 10), later(second, 10), *parts, ENDED]
    assert delays(sent, received) == [(RECEIVED, 10), (RECEIVED, 10), (UNKNOWN, None), (RECEIVED, 10)]
    (warning,) = find_delays(table(sent, received), PAIR, PATHS, FLOWS)[1]
    assert "1 packets were fragmented on the way" in warning


def test_only_packets_on_their_way_to_the_receiver_can_be_lost() -> None:
    other = Packet(1, destination="10.9.0.1")
    assert delays([Packet(0), other, END], [later(Packet(0), 10), ENDED]) == [(RECEIVED, 10), (RECEIVED, 10)]
    # a router's capture has those flows that pass the router
    assert delays([Packet(0), other, END], [later(Packet(0), 10), ENDED], CapturePair("client", "server")) == [
        (RECEIVED, 10),
        (RECEIVED, 10),
    ]


def test_without_all_packets_of_the_receiver_none_counts_as_lost() -> None:
    pair = dataclasses.replace(PAIR, is_complete=False)
    sent = [Packet(0), Packet(1, ip_id=2), END]
    assert delays(sent, [later(sent[0], 10), ENDED], pair)[1] == (UNKNOWN, None)


def node(name: str, kind: str, address: str) -> Node:
    addresses = (ip_interface(f"{address}/24"),)
    return Node(name, kind, (NetworkInterface(f"{name}-eth0", name, "path0", "", addresses, False, 0),))  # type: ignore[arg-type]


NODES = (node("client", "host", CLIENT), node("router", "router", "10.0.0.2"), node("server", "host", SERVER))
WHOLE = {name: CaptureFacts(name, packets=5, passed=5, lost=0) for name in ("client", "server", "router")}


def test_pairs_are_the_captures_of_both_hosts_of_a_flow() -> None:
    wanted = intent(
        nodes=NODES,
        traffic=(flow(),),
        captures=(Capture("client"), Capture("client", link="path0"), Capture("router"), Capture("server")),
    )
    pairs = list(choose_pairs(wanted, WHOLE, ()))
    assert [(pair.sender, pair.receiver) for pair in pairs] == [("client", "server"), ("server", "client")]
    assert all(pair.is_complete and pair.addresses for pair in pairs)
    (pair,) = choose_pairs(wanted, WHOLE, [("client-path0", "router")])
    assert (pair.sender, pair.receiver, pair.addresses) == ("client-path0", "router", frozenset())
    for bad, reason in (
        (("client", "routr"), "no capture 'routr': did you mean 'router'?"),
        (("client", "client-path0"), "are captures of the same node"),
    ):
        with pytest.raises(SpecError, match=reason):
            list(choose_pairs(wanted, WHOLE, [bad]))


@pytest.mark.parametrize(
    ("capture", "facts"),
    [
        (Capture("server", filter="tcp"), {}),
        (Capture("server"), {"packets": 4}),
        (Capture("server"), {"lost": 1}),
        (Capture("server"), {"lost": None}),
    ],
)
def test_a_capture_with_a_filter_or_a_size_is_not_complete(capture: Capture, facts: dict[str, Any]) -> None:
    wanted = intent(nodes=NODES, traffic=(flow(),), captures=(Capture("client"), capture))
    (pair,) = choose_pairs(wanted, WHOLE | {"server": WHOLE["server"]._replace(**facts)}, [("client", "server")])
    assert not pair.is_complete
