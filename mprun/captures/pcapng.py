# SPDX-License-Identifier: Apache-2.0
"""Convert tcpdump's pcap files to pcapng with named interfaces, and split captures into portions. Pure.

In a capture of all interfaces, each packet begins with the number of its interface (LINUX_SLL2). In pcapng, every
interface becomes a block with name, link and comment. The headers contain nothing about this machine.
Source: draft-ietf-opsawg-pcap, draft-ietf-opsawg-pcapng.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field

from mprun.errors import MprunError
from mprun.model.frozen import Frozen

NANOSECOND_MAGIC, MICROSECOND_MAGIC = 0xA1B23C4D, 0xA1B2C3D4
HEADER_BYTES, RECORD_BYTES = 24, 16
# Link types: Ethernet, and LINUX_SLL2, which libpcap uses for captures of all interfaces.
ETHERNET, COOKED = 1, 276
# The bytes of the link header, and the place of the EtherType in it.
LINK_HEADERS = {ETHERNET: (14, 12), COOKED: (20, 0)}
# The number of packets that are read at once on the way to one of them.
_PORTION = 10_000
SECTION, INTERFACE, PACKET = 0x0A0D0D0A, 1, 6
# The bytes of a packet's block before its data.
_PACKET_HEAD_BYTES = 28
BYTE_ORDER = 0x1A2B3C4D
END_OF_OPTIONS, COMMENT = 0, 1
SHB_USERAPPL, IF_NAME, IF_DESCRIPTION, IF_TSRESOL = 4, 2, 3, 9
# libpcap keeps at most this many bytes of a packet. A larger length shows that the file is damaged.
MOST_CAPTURED = 262_144
APPLICATION = "mprun"

_read_header = struct.Struct("<IHHiIII").unpack_from
# seconds, nanoseconds, captured length, original length; in a cooked capture also the number of the interface
_read_record = struct.Struct("<IIII").unpack_from
_read_cooked = struct.Struct("<IIII4xI").unpack_from
_read_block = struct.Struct("<II").unpack_from
_length = struct.Struct("<I").pack
# Packs the block of a packet of one size at one interface; the length of the block; the number of the interface.
_PacketForm = tuple[Callable[..., bytes], int, int]


class CaptureContent(Frozen):
    """The content of a capture's file.

    - first_ns: time of the first packet, counted from time zero; None without packets.
    - problem: empty if the conversion succeeded.
    - quic: the facts of each flow of QUIC whose server was captured (`QuicObserver.tell`), by the flow's name.
    - warnings: the reasons why facts are missing.
    """

    packets: int
    first_ns: int | None
    problem: str = ""
    quic: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


class InterfaceDescription(Frozen):
    """The texts in the file about one interface of the captured node."""

    name: str
    description: str = ""
    comment: str = ""


class PcapngConversion:
    """The conversion of one capture from pcap to pcapng.

    Call `begin` once, then `convert` for each file of the capture in order.
    - interfaces: by the kernel's number. A capture of one interface has only one entry, with any number.
    - packets: the number of packets converted so far.
    - first_ns: the time of the first packet, in the clock of the capture.
    - is_whole: all packets were complete.
    """

    def __init__(self, comment: str, interfaces: Mapping[int, InterfaceDescription]) -> None:
        self.packets = 0
        self.first_ns: int | None = None
        self.is_whole = True
        self._comment = comment
        self._interfaces = dict(sorted(interfaces.items()))
        self._numbers: dict[int, int] = {}
        self._forms: dict[tuple[int, int], _PacketForm] = {}

    def begin(self, header: bytes) -> bytes:
        """Return the blocks before the first packet. header: the header of the first pcap file.

        Raises MprunError if this is not the header of a pcap file with nanoseconds.
        """
        magic, _, _, _, _, snaplen, link_type = _read_header(header) if len(header) >= HEADER_BYTES else (0,) * 7
        if magic != NANOSECOND_MAGIC:
            raise MprunError("is no capture of tcpdump in nanoseconds")
        self._link_type, self._snaplen = link_type & 0xFFFF, snaplen
        options = _option(COMMENT, self._comment.encode()) + _option(SHB_USERAPPL, APPLICATION.encode())
        body = struct.pack("<IHHq", BYTE_ORDER, 1, 0, -1) + options + _option(END_OF_OPTIONS, b"")
        blocks = [_block(SECTION, body)]
        for number, interface in self._interfaces.items():
            blocks.append(self._add(_swap(number), interface))
        return b"".join(blocks)

    def convert(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the packets of one pcap file as blocks. An incomplete packet at the end is left out."""
        rest = b""
        offset = HEADER_BYTES
        for chunk in chunks:
            data = rest + chunk
            blocks, offset = self._take(data, offset)
            rest, offset = data[offset:], max(0, offset - len(data))
            if blocks:
                yield b"".join(blocks)
            if not self.is_whole:
                return
        self.is_whole &= not rest

    def _take(self, data: bytes, offset: int) -> tuple[list[bytes], int]:
        """Return the blocks of the complete packets in `data` from `offset` on, and the offset where they end."""
        blocks: list[bytes] = []
        is_cooked = self._link_type == COOKED
        read = _read_cooked if is_cooked else _read_record
        needed = RECORD_BYTES + (8 if is_cooked else 0)
        end = len(data)
        key = 0
        while offset + needed <= end:
            if is_cooked:
                seconds, rest_ns, captured, original, key = read(data, offset)
            else:
                seconds, rest_ns, captured, original = read(data, offset)
            if captured > MOST_CAPTURED:
                self.is_whole = False
                break
            begin = offset + RECORD_BYTES
            if begin + captured > end:
                break
            form = self._forms.get((captured, key))
            if form is None:
                if is_cooked and key not in self._numbers:
                    blocks.append(self._add(key, InterfaceDescription(f"interface {_swap(key)}")))
                form = self._forms[captured, key] = _form_of(captured, self._numbers[key] if is_cooked else 0)
            pack, length, number = form
            at_ns = seconds * 1_000_000_000 + rest_ns
            offset = begin + captured
            high, low = at_ns >> 32, at_ns & 0xFFFFFFFF
            blocks.append(pack(PACKET, length, number, high, low, captured, original, data[begin:offset], length))
            self.packets += 1
            if self.first_ns is None:
                self.first_ns = at_ns
        return blocks, offset

    def _add(self, key: int, interface: InterfaceDescription) -> bytes:
        """Give an interface the next number, and return its block."""
        self._numbers[key] = len(self._numbers)
        options = _option(IF_NAME, interface.name.encode()) + _option(IF_TSRESOL, b"\x09")
        for kind, text in ((IF_DESCRIPTION, interface.description), (COMMENT, interface.comment)):
            options += _option(kind, text.encode()) if text else b""
        body = struct.pack("<HHI", self._link_type, 0, self._snaplen) + options + _option(END_OF_OPTIONS, b"")
        return _block(INTERFACE, body)


def _swap(number: int) -> int:
    """Return the number of an interface, which tcpdump writes in network byte order."""
    return int.from_bytes(_length(number), "big")


def _form_of(captured: int, number: int) -> _PacketForm:
    """Return the form of the blocks of packets of this size at an interface."""
    length = 32 + captured + -captured % 4
    return struct.Struct(f"<IIIIIII{captured}s{-captured % 4}xI").pack, length, number


def _option(kind: int, value: bytes) -> bytes:
    return struct.pack("<HH", kind, len(value)) + value + bytes(-len(value) % 4)


def _block(kind: int, body: bytes) -> bytes:
    length = 12 + len(body)
    return struct.pack("<II", kind, length) + body + _length(length)


class Portions:
    """A splitter of a capture (pcap or pcapng) into portions, each of which is a complete capture with all headers.

    - packets: the number of packets in each portion but the last.
    - is_whole: all packets were complete; known at the end.
    """

    def __init__(self, packets: int) -> None:
        self.is_whole = True
        self._most = packets

    def split(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the portions of a capture. Raises MprunError if the data is neither pcapng nor pcap."""
        data = b""
        head: list[bytes] = []
        later: list[bytes] = []
        is_pcapng: bool | None = None
        begin = offset = count = 0
        for chunk in chunks:
            data, begin, offset = data[begin:] + chunk, 0, offset - begin
            if is_pcapng is None:
                if len(data) < HEADER_BYTES:
                    continue
                is_pcapng = _is_pcapng(data)
                if not is_pcapng:
                    head, begin, offset = [data[:HEADER_BYTES]], HEADER_BYTES, HEADER_BYTES
            while offset + RECORD_BYTES <= len(data):
                kind, length = _read_block(data, offset) if is_pcapng else _read_length(data, offset)
                if length < 12 or length > MOST_CAPTURED + 1024:
                    self.is_whole = False
                    break
                if offset + length > len(data):
                    break
                if kind in (SECTION, INTERFACE):
                    block = data[offset : offset + length]
                    # a header block after packets keeps its place in this portion and opens the later portions
                    (later if count else head).append(block)
                    begin = begin if count else offset + length
                count += kind == PACKET
                offset += length
                if count == self._most:
                    yield b"".join(head) + data[begin:offset]
                    head += later
                    later, begin, count = [], offset, 0
            if not self.is_whole:
                break
        if is_pcapng is None:
            raise MprunError("is no capture: it has no header")
        self.is_whole &= offset == len(data)
        if count:
            yield b"".join(head) + data[begin:offset]


class CapturedFrame(Frozen):
    """A captured packet.

    - at_ns: its time on the clock of the capture.
    - interface: the name of its interface.
    - length_bytes: its length on the link; `content` may have fewer bytes.
    - content: its captured bytes.
    """

    at_ns: int
    interface: str
    link_type: int
    length_bytes: int
    content: bytes

    @property
    def network_bytes(self) -> bytes:
        """The content from the header of the network layer on."""
        head, _ = LINK_HEADERS.get(self.link_type, LINK_HEADERS[ETHERNET])
        return self.content[head:]


def _read_blocks(chunks: Iterable[bytes]) -> Iterator[tuple[int, int, bytes]]:
    """Yield the number of the portion, the kind and the bytes of each block of a capture in pcapng.

    Each portion after the first begins with the same headers. Raises MprunError if the data is no pcapng.
    """
    for number, portion in enumerate(Portions(_PORTION).split(chunks)):
        if not _is_pcapng(portion):
            raise MprunError("is no capture that mprun has finished: it is no pcapng")
        offset = 0
        while offset + 12 <= len(portion):
            kind, length = _read_block(portion, offset)
            yield number, kind, portion[offset : offset + length]
            offset += length


def read_frames(chunks: Iterable[bytes]) -> Iterator[CapturedFrame]:
    """Yield the packets of a capture in pcapng. Raises MprunError if the data is no pcapng."""
    interfaces: list[tuple[int, str]] = []
    for _, kind, block in _read_blocks(chunks):
        if kind == SECTION:
            interfaces = []
        elif kind == INTERFACE:
            interfaces.append(_read_interface(block))
        elif kind == PACKET and len(block) >= _PACKET_HEAD_BYTES:
            index, high, low, captured, size = struct.unpack_from("<IIIII", block, 8)
            link_type, name = interfaces[index]
            data = block[_PACKET_HEAD_BYTES : _PACKET_HEAD_BYTES + captured]
            yield CapturedFrame(high << 32 | low, name, link_type, size, data)


def read_packet(chunks: Iterable[bytes], number: int) -> tuple[CapturedFrame | None, int]:
    """Return a packet of a capture in pcapng by its number from 1 on, and the number of packets read until then.

    The packet is None if the capture has fewer packets. Raises MprunError if the data is no pcapng.
    """
    count = 0
    for count, frame in enumerate(read_frames(chunks), 1):
        if count == number:
            return frame, count
    return None, count


def cut(chunks: Iterable[bytes], first: int, last: int) -> bytes:
    """Return a capture (pcapng) with the packets of a capture in pcapng from one number to another, counted from 1.

    Raises MprunError if the data is no pcapng.
    """
    kept: list[bytes] = []
    count = 0
    for portion, kind, block in _read_blocks(chunks):
        count += kind == PACKET
        if count >= first if kind == PACKET else portion == 0:
            kept.append(block)
        if count >= last:
            break
    return b"".join(kept)


def to_pcap(frame: CapturedFrame) -> bytes:
    """Return a capture (pcap) with this packet alone, at time 0."""
    header = struct.pack("<IHHiIII", NANOSECOND_MAGIC, 2, 4, 0, 0, MOST_CAPTURED, frame.link_type)
    return header + struct.pack("<IIII", 0, 0, len(frame.content), frame.length_bytes) + frame.content


def _read_interface(block: bytes) -> tuple[int, str]:
    """Return the link type and the name in the block of an interface."""
    offset, name = 16, ""
    while offset + 4 <= len(block):
        kind, length = struct.unpack_from("<HH", block, offset)
        if kind == IF_NAME:
            name = block[offset + 4 : offset + 4 + length].decode(errors="replace")
        if kind == END_OF_OPTIONS:
            break
        offset += 4 + length + -length % 4
    return int.from_bytes(block[8:10], "little"), name


def frames(capture: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the link type and the captured bytes of each complete packet of a capture (pcap or pcapng).

    Raises MprunError if the data is neither pcapng nor pcap.
    """
    is_pcapng = _is_pcapng(capture)
    link_types = [] if is_pcapng else [_read_header(capture)[6] & 0xFFFF]
    offset = 0 if is_pcapng else HEADER_BYTES
    # the place of the captured length in a block or record, and of the packet's bytes
    captured_at, data_at = (20, _PACKET_HEAD_BYTES) if is_pcapng else (8, RECORD_BYTES)
    number = 0
    while offset + RECORD_BYTES <= len(capture):
        kind, length = _read_block(capture, offset) if is_pcapng else _read_length(capture, offset)
        if length < 12 or offset + length > len(capture):
            break
        if kind == SECTION:
            link_types = []
        elif kind == INTERFACE:
            link_types.append(int.from_bytes(capture[offset + 8 : offset + 10], "little"))
        elif kind == PACKET:
            if is_pcapng:
                number = int.from_bytes(capture[offset + 8 : offset + 12], "little")
            begin = offset + data_at
            captured = int.from_bytes(capture[offset + captured_at : offset + captured_at + 4], "little")
            yield link_types[number] if number < len(link_types) else -1, capture[begin : begin + captured]
        offset += length


def _is_pcapng(header: bytes) -> bool:
    """Return True for pcapng and False for pcap, both in little-endian order. Raises MprunError for other data."""
    if _read_block(header, 0)[0] == SECTION:
        return True
    if _read_header(header)[0] not in (NANOSECOND_MAGIC, MICROSECOND_MAGIC):
        raise MprunError("is no capture: neither pcapng nor pcap")
    return False


def _read_length(data: bytes, offset: int) -> tuple[int, int]:
    """Return the kind and the length in bytes of a pcap record, as if it were a block."""
    return PACKET, RECORD_BYTES + int.from_bytes(data[offset + 8 : offset + 12], "little")
