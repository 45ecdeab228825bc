# SPDX-License-Identifier: Apache-2.0
"""The headers of a packet in the kernel's memory (struct sk_buff)."""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Iterator

import gdb

from mprun.kernel.gdb.structure import read, text

TCP, UDP, ICMP, ICMPV6, SCTP = 6, 17, 1, 58, 132
NAMES = {TCP: "TCP", UDP: "UDP", ICMP: "ICMP", ICMPV6: "ICMPv6", SCTP: "SCTP"}
FLAGS = ("FIN", "SYN", "RST", "PSH", "ACK", "URG", "ECE", "CWR")
MPTCP = 30
# RFC 8684 3
SUBTYPES = (
    *("MP_CAPABLE", "MP_JOIN", "DSS", "ADD_ADDR", "REMOVE_ADDR", "MP_PRIO", "MP_FAIL", "MP_FASTCLOSE", "MP_TCPRST"),
)
OPTIONS = {2: "MSS", 3: "window scale", 4: "SACK permitted", 5: "SACK", 8: "timestamps"}


def packet_at(expression: str) -> gdb.Value:
    """Return the packet at an address or in a variable. Raises gdb.GdbError if there is none."""
    skb = gdb.parse_and_eval(expression).cast(gdb.lookup_type("struct sk_buff").pointer())
    if int(skb) == 0:
        raise gdb.GdbError("the address is 0: no packet is there")
    return skb


def network_bytes(skb: gdb.Value, most: int) -> bytes:
    """Return the bytes of a packet from its network header on, without bytes in page fragments.

    most: the largest size.
    """
    begin = int(skb["head"]) + int(skb["network_header"])
    end = int(skb["data"]) + int(skb["len"]) - int(skb["data_len"])
    return read(begin, min(most, end - begin)) if begin < end else b""


def describe(skb: gdb.Value) -> Iterator[str]:
    """Yield lines about a packet: its place, and each header."""
    device = text(skb["dev"]["name"]) if int(skb["dev"]) else "none"
    linear = int(skb["len"]) - int(skb["data_len"])
    yield f"skb {int(skb):#x}: {int(skb['len'])} bytes from data on, {linear} of them linear; device {device}"
    content = network_bytes(skb, 256)
    version = content[0] >> 4 if content else 0
    if version == 4 and len(content) >= 20:
        yield from _describe_ipv4(content)
    elif version == 6 and len(content) >= 40:
        yield from _describe_ipv6(content)
    else:
        yield f"no IP header; protocol {int.from_bytes(int(skb['protocol']).to_bytes(2, 'little'), 'big'):#06x}"


def _describe_ipv4(content: bytes) -> Iterator[str]:
    length, identifier, fragment = struct.unpack_from(">HHH", content, 2)
    header = (content[0] & 15) * 4
    protocol = content[9]
    ends = " > ".join(str(ipaddress.ip_address(content[at : at + 4])) for at in (12, 16))
    yield (
        f"IPv4 {ends}, {length} bytes, id {identifier}, TTL {content[8]}, TOS {content[1]:#04x}"
        + (", do not fragment" if fragment & 0x4000 else "")
    )
    yield from _describe_transport(protocol, content[header:], length - header)


def _describe_ipv6(content: bytes) -> Iterator[str]:
    length, protocol, hops = struct.unpack_from(">HBB", content, 4)
    ends = " > ".join(str(ipaddress.ip_address(content[at : at + 16])) for at in (8, 24))
    yield f"IPv6 {ends}, {length} bytes of payload, hop limit {hops}"
    yield from _describe_transport(protocol, content[40:], length)


def _describe_transport(protocol: int, content: bytes, size_bytes: int) -> Iterator[str]:
    name = NAMES.get(protocol, f"protocol {protocol}")
    if protocol == TCP and len(content) >= 20:
        yield from _describe_tcp(content, size_bytes)
    elif protocol in (UDP, SCTP) and len(content) >= 4:
        yield f"{name} {struct.unpack_from('>H', content)[0]} > {struct.unpack_from('>H', content, 2)[0]}"
    else:
        yield name


def _describe_tcp(content: bytes, size_bytes: int) -> Iterator[str]:
    source, destination, sequence, acknowledged = struct.unpack_from(">HHII", content)
    header = (content[12] >> 4) * 4
    flags = ",".join(name for bit, name in enumerate(FLAGS) if content[13] >> bit & 1)
    window = struct.unpack_from(">H", content, 14)[0]
    yield (
        f"TCP {source} > {destination} [{flags}] seq {sequence}, ack {acknowledged}, window {window}, "
        f"{size_bytes - header} bytes of data"
    )
    yield from _describe_options(content[20:header])


def _describe_options(options: bytes) -> Iterator[str]:
    """Yield a line for each option of a TCP header (RFC 9293 3.1). NOP and the end of the list are left out."""
    at = 0
    while at + 1 < len(options) and options[at] != 0:
        kind, length = options[at], options[at + 1]
        if kind == 1:
            at += 1
            continue
        if length < 2:
            return
        value = options[at + 2 : at + length]
        name = _describe_mptcp(value) if kind == MPTCP else OPTIONS.get(kind, f"option {kind}")
        yield f"  {name}, {length} bytes"
        at += length


def _describe_mptcp(value: bytes) -> str:
    """Return the subtype of an option of MPTCP, and for DSS its fields (RFC 8684 3.3)."""
    subtype = value[0] >> 4 if value else len(SUBTYPES)
    name = SUBTYPES[subtype] if subtype < len(SUBTYPES) else f"MPTCP subtype {subtype}"
    if name != "DSS" or len(value) < 2:
        return name
    flags, at, parts = value[1], 2, []
    if flags & 1:
        size = 8 if flags & 2 else 4
        parts.append(f"data ack {int.from_bytes(value[at : at + size], 'big')}")
        at += size
    if flags & 4:
        size = 8 if flags & 8 else 4
        parts.append(f"data seq {int.from_bytes(value[at : at + size], 'big')}")
        at += size
        parts.append(f"subflow seq {int.from_bytes(value[at : at + 4], 'big')}")
        parts.append(f"length {int.from_bytes(value[at + 4 : at + 6], 'big')}")
    return ", ".join([name, *parts, *(["DATA_FIN"] if flags & 16 else [])])
