# SPDX-License-Identifier: Apache-2.0
"""The identity of a packet: a digest of the bytes that no hop changes. Pure.

The digest leaves out addresses, ports, TTL, traffic class, the DF flag, options of IPv4 and all checksums. So it is the
same behind a NAT, and after a router or queue has set ECN. `mprun.captures.delay` finds packets by it.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mprun.captures.pcapng import COOKED, ETHERNET, LINK_HEADERS, frames

if TYPE_CHECKING:
    import polars

_IPV4, _IPV6 = b"\x08\x00", b"\x86\xdd"
_IPV6_HEADER_BYTES = 40
# After an IP header, the parts of each protocol that hops may change: ports (or ICMP's identifier) and checksum.
_ICMP, _TCP, _UDP, _ICMPV6, _SCTP = 1, 6, 17, 58, 132
_CHANGED: dict[int, tuple[tuple[int, int], ...]] = {
    _TCP: ((0, 4), (16, 18)),
    _UDP: ((0, 4), (6, 8)),
    _SCTP: ((0, 4), (8, 12)),
    _ICMP: ((2, 6),),
    _ICMPV6: ((2, 6),),
}
_MORE_FRAGMENTS_AND_OFFSET = 0x3FFF
_read_number = struct.Struct("<q").unpack
_read_ip = struct.Struct(">xxHHH").unpack_from
_WHOLE = 1 << 16
# The columns of identities, which follow those of `mprun.captures.packet`.
IDENTITY_COLUMNS: dict[str, type] = {"ip_id": int, "fragment": bool, "identity": int}


@dataclass
class Identities:
    """The identities of the packets of a capture, in order.

    - identity: a digest of 64 bits; None if the packet is not of IP or its header is not whole.
    - ip_id: the identification field of IPv4.
    - fragment: True for a fragment of IPv4.
    """

    identity: list[int | None] = field(default_factory=list)
    ip_id: list[int | None] = field(default_factory=list)
    fragment: list[bool] = field(default_factory=list)

    def frame(self) -> polars.DataFrame:
        """Return the identities as a table, with a row for each packet."""
        import polars as pl

        return pl.DataFrame({name: getattr(self, name) for name in IDENTITY_COLUMNS}, schema=IDENTITY_COLUMNS)


def kept_bytes(snaplens: list[tuple[int, bool]]) -> int:
    """Return how many bytes of each IP packet all captures of a run have, so that their identities agree.

    snaplens: of each capture the snaplen (0: whole packets), and whether it is of all interfaces of its node.
    """
    heads = [(snaplen, LINK_HEADERS[COOKED if is_cooked else ETHERNET][0]) for snaplen, is_cooked in snaplens]
    return min((max(0, snaplen - head) for snaplen, head in heads if snaplen), default=_WHOLE)


def identify(portion: bytes, kept: int) -> Identities:
    """Return the identities of the packets of a portion. kept: the bytes of an IP packet to use."""
    found = Identities()
    for link_type, data in frames(portion):
        head, at = LINK_HEADERS.get(link_type, (0, 0))
        kind = data[at : at + 2]
        packet = data[head : head + kept]
        if head and kind == _IPV4 and len(packet) >= 20:
            total, ip_id, fragment = _read_ip(packet)
            fragment &= _MORE_FRAGMENTS_AND_OFFSET
            length = (packet[0] & 15) * 4
            protocol = packet[9]
            body = packet[length:total]
            # a program can send a header with any length
            start = struct.pack(">HHHBB", max(0, total - length), ip_id, fragment, 4, protocol)
            identity = _digest(start, body, 0 if fragment & 0x1FFF else protocol)
        elif head and kind == _IPV6 and len(packet) >= _IPV6_HEADER_BYTES:
            ip_id, fragment, protocol = None, 0, packet[6]
            size = int.from_bytes(packet[4:6], "big")
            body = packet[_IPV6_HEADER_BYTES : _IPV6_HEADER_BYTES + size]
            identity = _digest(struct.pack(">HBB", size, 6, protocol), body, protocol)
        else:
            identity, ip_id, fragment = None, None, 0
        found.identity.append(identity)
        found.ip_id.append(ip_id)
        found.fragment.append(fragment != 0)
    return found


def _digest(start: bytes, body: bytes, protocol: int) -> int:
    digest = hashlib.blake2b(start, digest_size=8)
    begin = 0
    for low, high in _CHANGED.get(protocol, ()):
        digest.update(body[begin:low])
        begin = high
    digest.update(body[begin:])
    number: int = _read_number(digest.digest())[0]
    return number
