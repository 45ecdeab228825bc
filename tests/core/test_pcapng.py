# SPDX-License-Identifier: Apache-2.0
"""pcap is converted to pcapng: the same packets, for any size of portions, with the names of their interfaces."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest

from mprun.captures.pcapng import (
    COOKED,
    ETHERNET,
    NANOSECOND_MAGIC,
    CapturedFrame,
    InterfaceDescription,
    PcapngConversion,
    Portions,
    cut,
    read_frames,
    read_packet,
)
from mprun.errors import MprunError

INTERFACES = {101: InterfaceDescription("client-eth0", "path0", "path0: 20 Mbit/s"), 1: InterfaceDescription("lo")}


def pcap(link_type: int, packets: list[tuple[int, bytes]]) -> bytes:
    """Return a file as tcpdump writes it. packets: (ns, captured bytes of 1500)."""
    header = struct.pack("<IHHiIII", NANOSECOND_MAGIC, 2, 4, 0, 0, 100, link_type)
    records = [struct.pack("<IIII", *divmod(at_ns, 10**9), len(data), 1500) + data for at_ns, data in packets]
    return header + b"".join(records)


def cooked(index: int, payload: bytes) -> bytes:
    return struct.pack(">HHIHBB8s", 0x0800, 0, index, 1, 0, 6, bytes(8)) + payload


def convert(conversion: PcapngConversion, data: bytes, portion: int) -> bytes:
    portions = [data[at : at + portion] for at in range(0, len(data), portion)]
    return conversion.begin(data[:24]) + b"".join(conversion.convert(portions))


def read(data: bytes) -> tuple[list[tuple[int, bytes]], list[tuple[int, int, bytes]]]:
    """Return the options of the section and of each interface, and (interface, ns, bytes) of the packets.

    This reader follows the standard and does not use mprun's code.
    """
    options, packets = [], []
    while data:
        kind, length = struct.unpack("<II", data[:8])
        assert length % 4 == 0
        assert struct.unpack("<I", data[length - 4 : length])[0] == length
        body, data = data[8 : length - 4], data[length:]
        if kind == 6:
            number, high, low, captured, original = struct.unpack("<IIIII", body[:20])
            assert original == 1500
            packets.append((number, high << 32 | low, body[20 : 20 + captured]))
            continue
        rest = body[16:] if kind == 0x0A0D0D0A else body[8:]
        while rest[:4] != bytes(4):
            code, size = struct.unpack("<HH", rest[:4])
            options.append((code, rest[4 : 4 + size]))
            rest = rest[4 + size + -size % 4 :]
    return options, packets


PACKETS = [(1_700_000_000_123_456_789 + n * 10**6, cooked((101, 1, 7)[n % 3], b"x" * n)) for n in range(9)]


@pytest.mark.parametrize("portion", [1, 23, 24, 25, 100, 10_000])
def test_each_packet_keeps_its_time_and_bytes_and_gets_its_interface(portion: int) -> None:
    conversion = PcapngConversion("of a test", INTERFACES)
    options, packets = read(convert(conversion, pcap(COOKED, PACKETS), portion))
    # lo, client-eth0, and an interface that was unknown before
    assert packets == [((1, 0, 2)[n % 3], at_ns, data) for n, (at_ns, data) in enumerate(PACKETS)]
    assert (1, b"of a test") in options
    assert [value for code, value in options if code == 2] == [b"lo", b"client-eth0", b"interface 7"]
    assert (3, b"path0") in options
    assert (conversion.packets, conversion.first_ns) == (9, PACKETS[0][0])
    assert conversion.is_whole


def test_a_capture_of_one_interface_has_its_name_whatever_its_number() -> None:
    conversion = PcapngConversion("", {7: InterfaceDescription("router-eth0")})
    _, packets = read(convert(conversion, pcap(ETHERNET, PACKETS), 1000))
    assert {number for number, _, _ in packets} == {0}
    assert len(packets) == 9


@pytest.mark.parametrize("cut", [1, 10, 20, 40])
def test_a_packet_that_was_cut_off_is_left_out(cut: int) -> None:
    conversion = PcapngConversion("", INTERFACES)
    _, packets = read(convert(conversion, pcap(COOKED, PACKETS)[:-cut], 64))
    assert len(packets) == conversion.packets == 8
    assert not conversion.is_whole


def test_what_follows_a_broken_length_is_left_out() -> None:
    conversion = PcapngConversion("", INTERFACES)
    data = pcap(COOKED, PACKETS[:2]) + b"\xff" * 400
    _, packets = read(convert(conversion, data, 64))
    assert len(packets) == 2
    assert not conversion.is_whole


def test_files_of_a_ring_follow_each_other() -> None:
    conversion = PcapngConversion("", INTERFACES)
    first, second = pcap(COOKED, PACKETS[:4]), pcap(COOKED, PACKETS[4:])
    data = convert(conversion, first, 50) + b"".join(conversion.convert([second]))
    assert [at_ns for _, at_ns, _ in read(data)[1]] == [at_ns for at_ns, _ in PACKETS]


@pytest.mark.parametrize("data", [b"", b"short", bytes(24)])
def test_what_is_no_capture_is_refused(data: bytes) -> None:
    with pytest.raises(MprunError, match="no capture of tcpdump"):
        PcapngConversion("", INTERFACES).begin(data)


def portions(data: bytes, packets: int, chunk: int) -> tuple[list[bytes], bool]:
    split = Portions(packets)
    found = list(split.split(data[at : at + chunk] for at in range(0, len(data), chunk)))
    return found, split.is_whole


@pytest.mark.parametrize("chunk", [7, 64, 10_000])
@pytest.mark.parametrize("packets", [1, 4, 9, 100])
def test_portions_are_captures_themselves(packets: int, chunk: int) -> None:
    sealed = convert(PcapngConversion("", INTERFACES), pcap(COOKED, PACKETS), 1000)
    found, is_whole = portions(sealed, packets, chunk)
    assert is_whole
    assert len(found) == -(-9 // packets)
    # the third packet is of an interface that is described midway: all later portions know it
    assert [packet for portion in found for packet in read(portion)[1]] == read(sealed)[1]


@pytest.mark.parametrize("chunk", [7, 10_000])
def test_portions_of_what_tcpdump_wrote(chunk: int) -> None:
    data = pcap(COOKED, PACKETS)
    found, is_whole = portions(data, 4, chunk)
    assert is_whole
    assert all(portion[:24] == data[:24] for portion in found)
    assert b"".join(portion[24:] for portion in found) == data[24:]


@pytest.mark.parametrize(
    "make", [lambda data: data, lambda data: convert(PcapngConversion("", INTERFACES), data, 1000)]
)
def test_what_comes_before_a_cut_is_kept(make: Callable[[bytes], bytes]) -> None:
    data = make(pcap(COOKED, PACKETS))
    found, is_whole = portions(data[:-9], 4, 64)
    assert not is_whole
    assert len(found) == 2


@pytest.mark.parametrize("data", [b"", b"short", b"no capture at all, but long enough"])
def test_what_is_no_capture_has_no_portions(data: bytes) -> None:
    with pytest.raises(MprunError, match="is no capture"):
        portions(data, 4, 64)


@pytest.mark.parametrize("portion", [1, 100, 10_000])
def test_a_packet_is_found_by_its_number(portion: int) -> None:
    data = convert(PcapngConversion("of a test", INTERFACES), pcap(COOKED, PACKETS), 10_000)
    for number, (at_ns, content) in enumerate(PACKETS, 1):
        found, count = read_packet(iter([data[at : at + portion] for at in range(0, len(data), portion)]), number)
        name = ("client-eth0", "lo", "interface 7")[(number - 1) % 3]
        assert (found, count) == (CapturedFrame(at_ns, name, COOKED, 1500, content), number)
        assert found is not None
        assert found.network_bytes == b"x" * (number - 1)
    assert read_packet([data], 10) == (None, 9)
    with pytest.raises(MprunError, match="it is no pcapng"):
        read_packet([pcap(ETHERNET, [(1, b"x" * 60)])], 1)


@pytest.mark.parametrize("portion", [7, 100, 10_000])
def test_a_part_of_a_capture_is_a_capture_with_its_interfaces(portion: int) -> None:
    packets = [(n * 1000, cooked(101, bytes([n]))) for n in range(1, 31)]
    whole = convert(PcapngConversion("about it", INTERFACES), pcap(COOKED, packets), 1000)
    part = cut((whole[at : at + portion] for at in range(0, len(whole), portion)), 9, 12)
    assert [(one.at_ns, one.interface) for one in read_frames([part])] == [
        (n * 1000, "client-eth0") for n in range(9, 13)
    ]
    assert read(part)[0] == read(whole)[0]
    # bounds beyond the packets are none
    assert len(list(read_frames([cut([whole], -5, 3)]))) == 3
    assert cut([whole], 1, 1000) == whole
    with pytest.raises(MprunError, match="is no pcapng"):
        cut([pcap(COOKED, packets)], 1, 2)


def test_a_block_too_short_for_a_packet_is_none() -> None:
    """The block has the kind of a packet and nothing else, as in a damaged file."""
    head = convert(PcapngConversion("", INTERFACES), pcap(COOKED, []), 100)
    assert list(read_frames([head + struct.pack("<IIII", 6, 16, 0, 16)])) == []
