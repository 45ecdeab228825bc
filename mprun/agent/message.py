# SPDX-License-Identifier: Apache-2.0
"""Messages and attributes of netlink(7) as bytes. `rtnetlink.Netlink` has the sockets."""

from __future__ import annotations

import struct
from collections.abc import Iterator

NLMSG_ERROR, NLMSG_DONE = 2, 3
# Requests of sock_diag(7), and attributes of their answers. The older request is for all address families at once, the
# newer one for a single family (linux/inet_diag.h, linux/sock_diag.h).
TCPDIAG_GETSOCK, SOCK_DIAG_BY_FAMILY = 18, 20
INET_DIAG_INFO, INET_DIAG_SKMEMINFO = 2, 7
HEADER = struct.Struct("=IHHII")
_ATTRIBUTE = struct.Struct("=HH")
# Padding by length modulo 4.
_PADDING = (b"", b"\0\0\0", b"\0\0", b"\0")


def attribute(kind: int, value: bytes) -> bytes:
    """Return the bytes of one attribute of this kind, padded to a multiple of four (netlink(7))."""
    length = 4 + len(value)
    return _ATTRIBUTE.pack(length, kind) + value + _PADDING[length & 3]


def attributes(data: bytes) -> dict[int, bytes]:
    """Return the attributes of a message by kind. Of repeated attributes, the last one counts."""
    found = {}
    at, last = 0, len(data) - 4
    unpack = _ATTRIBUTE.unpack_from
    while at <= last:
        length, kind = unpack(data, at)
        if length < 4:
            break
        found[kind & 0x3FFF] = data[at + 4 : at + length]
        at += (length + 3) & ~3
    return found


def find_attribute(data: bytes, at: int, end: int, kind: int) -> tuple[int, int]:
    """Return the begin and end of an attribute's value, among the attributes from `at` to `end`. Raises KeyError."""
    while at + 4 <= end:
        length, one = _ATTRIBUTE.unpack_from(data, at)
        if one == kind:
            return at + 4, at + length
        if length < 4:
            break
        at += (length + 3) & ~3
    raise KeyError(kind)


def split_messages(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Return (type, sequence number, body) of each message in a datagram, or in several datagrams that are joined."""
    size = HEADER.size
    at, last = 0, len(data) - size
    while at <= last:
        length, kind, _flags, number, _pid = HEADER.unpack_from(data, at)
        if length < size:
            return
        yield kind, number, data[at + size : at + length]
        at += (length + 3) & ~3
