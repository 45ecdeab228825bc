# SPDX-License-Identifier: Apache-2.0
"""The packets of QUIC in a datagram, by what their headers tell without keys. Pure.

Long headers are in the clear (RFC 8999, RFC 9000 17.2; RFC 9369 for version 2). A packet with a short header has
neither a type nor a length in the clear, and is the last one of its datagram. Packet numbers are encrypted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from ipaddress import ip_address
from typing import NamedTuple

from mprun.captures.pcapng import LINK_HEADERS, frames

INITIAL, EARLY, HANDSHAKE, RETRY = "Initial", "0-RTT", "Handshake", "Retry"
NEGOTIATION, SHORT = "Version Negotiation", "1-RTT"
# The kinds of packets that open a connection.
OPENING = (INITIAL, EARLY, HANDSHAKE, RETRY, NEGOTIATION)
VERSION_2 = 0x6B3343CF
_TYPES = (INITIAL, EARLY, HANDSHAKE, RETRY)
_TYPES_2 = (RETRY, INITIAL, EARLY, HANDSHAKE)
_LONG, _UDP = 0x80, 17
_TAG_BYTES = 16


class QuicPacket(NamedTuple):
    """A packet of QUIC.

    - kind: the type of a long header, or 1-RTT.
    - version: of a long header; None for 1-RTT.
    - destination, source: the connection identifiers of a long header.
    - token: of an Initial or Retry packet.
    - size_bytes: with its header.
    """

    kind: str
    version: int | None
    destination: bytes
    source: bytes
    token: bytes
    size_bytes: int


class Datagram(NamedTuple):
    """A datagram of UDP. ecn: the two bits of ECN in its IP header (RFC 3168 5)."""

    source: str
    source_port: int
    destination: str
    destination_port: int
    ecn: int
    payload: bytes
    payload_bytes: int


def read_datagram(packet: bytes) -> Datagram | None:
    """Return the datagram in an IP packet; None if it has none, or is a later fragment."""
    if len(packet) < 20:
        return None
    if packet[0] >> 4 == 4:
        begin, protocol, ecn = (packet[0] & 15) * 4, packet[9], packet[1] & 3
        addresses = packet[12:16], packet[16:20]
        if int.from_bytes(packet[6:8], "big") & 0x1FFF:
            return None
    else:
        begin, protocol, ecn = 40, packet[6], packet[1] >> 4 & 3
        addresses = packet[8:24], packet[24:40]
    if protocol != _UDP or len(packet) < begin + 8:
        return None
    source_port, destination_port, length = (
        int.from_bytes(packet[begin + n : begin + n + 2], "big") for n in (0, 2, 4)
    )
    source, destination = (str(ip_address(address)) for address in addresses)
    payload = packet[begin + 8 : begin + length]
    return Datagram(source, source_port, destination, destination_port, ecn, payload, max(0, length - 8))


def read_quic(payload: bytes) -> Iterator[QuicPacket]:
    """Yield the packets of a datagram in order, as far as their headers are complete."""
    offset = 0
    # a sender may fill a datagram with zeros after its packets
    while offset < len(payload) and (offset == 0 or payload[offset]):
        found = _read_packet(payload, offset)
        if found is None:
            return
        yield found
        offset += found.size_bytes


def _read_packet(data: bytes, begin: int) -> QuicPacket | None:
    first = data[begin]
    if not first & _LONG:
        return QuicPacket(SHORT, None, b"", b"", b"", len(data) - begin)
    version = int.from_bytes(data[begin + 1 : begin + 5], "big")
    try:
        destination, offset = _read_bytes(data, begin + 5, data[begin + 5], 1)
        source, offset = _read_bytes(data, offset, data[offset], 1)
        kind = (_TYPES_2 if version == VERSION_2 else _TYPES)[first >> 4 & 3] if version else NEGOTIATION
        if kind in (NEGOTIATION, RETRY):
            token = data[offset:-_TAG_BYTES] if kind == RETRY else b""
            return QuicPacket(kind, version, destination, source, token, len(data) - begin)
        token = b""
        if kind == INITIAL:
            size, size_bytes = _read_number(data, offset)
            token, offset = _read_bytes(data, offset, size, size_bytes)
        length, length_bytes = _read_number(data, offset)
    except IndexError:
        return None
    return QuicPacket(kind, version, destination, source, token, offset + length_bytes + length - begin)


def _read_bytes(data: bytes, offset: int, size: int, head_bytes: int) -> tuple[bytes, int]:
    """Return a field of this size after its length, and the offset after it. Raises IndexError if it is cut."""
    end = offset + head_bytes + size
    if end > len(data):
        raise IndexError
    return data[offset + head_bytes : end], end


def _read_number(data: bytes, offset: int) -> tuple[int, int]:
    """Return a number of variable length and its size in bytes (RFC 9000 16). Raises IndexError if it is cut."""
    size = 1 << (data[offset] >> 6)
    if offset + size > len(data):
        raise IndexError
    return int.from_bytes(data[offset : offset + size], "big") & ((1 << (8 * size - 2)) - 1), size


def list_kinds(portion: bytes, ports: Collection[int]) -> tuple[list[str | None], int]:
    """Return the kinds of the packets in each datagram of a capture; None for what is no QUIC.

    Also return the number of datagrams whose packets are not all in the capture. ports: of servers.
    """
    found: list[str | None] = []
    cut = 0
    for link_type, data in frames(portion):
        head, _ = LINK_HEADERS.get(link_type, (0, 0))
        datagram = read_datagram(data[head:]) if head else None
        kinds = None
        if datagram is not None and not {datagram.source_port, datagram.destination_port}.isdisjoint(ports):
            kinds, is_cut = find_kinds(datagram)
            cut += is_cut
        found.append(kinds or None)
    return found, cut


def find_kinds(datagram: Datagram) -> tuple[str, bool]:
    """Return the kinds of the packets in a datagram, each once, and whether more packets may have been cut off."""
    packets = list(read_quic(datagram.payload))
    kinds = dict.fromkeys(packet.kind for packet in packets)
    # a packet of another kind is the last one of its datagram
    may_follow = kinds.keys() <= {INITIAL, EARLY, HANDSHAKE}
    read_bytes = max(len(datagram.payload), sum(packet.size_bytes for packet in packets))
    return ",".join(kinds), may_follow and read_bytes < datagram.payload_bytes
