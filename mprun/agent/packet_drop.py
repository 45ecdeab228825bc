# SPDX-License-Identifier: Apache-2.0
"""Drop single packets by their number, with counting rules of nf_tables.

The rules are those of `iptables -m statistic --mode nth`. They are sent as netlink messages, because a process for them
would draw random numbers, and so change the later random numbers of the run.

Source: include/uapi/linux/netfilter/{nf_tables,nf_tables_compat,xt_statistic}.h of Linux.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from mprun.agent.message import attribute, attributes
from mprun.agent.rtnetlink import NLM_F_CREATE, Netlink

NETLINK_NETFILTER = 12
TABLE, CHAIN = b"mprun_drop\0", b"arriving\0"
NFNL_MSG_BATCH_BEGIN, NFNL_MSG_BATCH_END, NFNL_SUBSYS_NFTABLES = 0x10, 0x11, 10
NFT_MSG_NEWTABLE, NFT_MSG_NEWCHAIN, NFT_MSG_NEWRULE, NFT_MSG_GETRULE = (10 << 8 | n for n in (0, 3, 6, 7))
NFPROTO_INET, NF_INET_PRE_ROUTING, NF_IP_PRI_RAW, NF_DROP = 1, 0, -300, 0
NLM_F_APPEND, NLA_F_NESTED = 0x800, 0x8000
NFT_REG_VERDICT, NFT_REG_1 = 0, 1
NFT_META_IIF, NFT_META_L4PROTO = 4, 16
NFT_CMP_EQ, NFT_CMP_NEQ = 0, 1
XT_STATISTIC_MODE_NTH = 1
LARGEST = 0xFFFFFFFF
# the counts of errors and control, which are not packets of a transport
UNCOUNTED = (socket.IPPROTO_ICMP, socket.IPPROTO_ICMPV6)

# family, version, resource
_NFGENMSG = struct.Struct("=BBH")
# mode, flags, every, packet, count, and a pointer that the kernel sets
_STATISTIC = struct.Struct("=HHIIIQ")


def drop(netlink: Netlink, drops: Sequence[Mapping[str, Any]], index: Callable[[str], int]) -> None:
    """Drop packets that arrive in the namespace of a socket of NETLINK_NETFILTER. Raises NetlinkError.

    drops: of a plan, each with an interface and the numbers of its packets, in order. index: of an interface.
    """
    rules = [rule for one in drops for rule in _rules(index(one["interface"]), one["packets"])]
    hook = _nested(4, _big(1, NF_INET_PRE_ROUTING) + _big(2, NF_IP_PRI_RAW))
    create = NLM_F_CREATE
    netlink.send(
        [
            (NFNL_MSG_BATCH_BEGIN, 0, _NFGENMSG.pack(0, 0, socket.htons(NFNL_SUBSYS_NFTABLES))),
            (NFT_MSG_NEWTABLE, create, _of_inet(attribute(1, TABLE))),
            (NFT_MSG_NEWCHAIN, create, _of_inet(attribute(1, TABLE) + attribute(3, CHAIN) + hook + _kind(b"filter"))),
            *((NFT_MSG_NEWRULE, create | NLM_F_APPEND, rule) for rule in rules),
            (NFNL_MSG_BATCH_END, 0, _NFGENMSG.pack(0, 0, socket.htons(NFNL_SUBSYS_NFTABLES))),
        ]
    )


def count(netlink: Netlink) -> list[int]:
    """Return the number of packets that each rule has dropped, in the order of the rules. Raises NetlinkError."""
    found = []
    for body in netlink.dump(NFT_MSG_GETRULE, _of_inet(attribute(1, TABLE))):
        for name, data in _expressions(attributes(body[_NFGENMSG.size :])[4]):
            if name == b"counter":
                found.append(struct.unpack(">Q", attributes(data)[2])[0])
    return found


def _rules(interface: int, packets: Sequence[int]) -> Iterator[bytes]:
    """Yield a rule for each packet. A rule does not see the packets that the rules before it dropped."""
    uncounted = b"".join(_meta(NFT_META_L4PROTO) + _compare(NFT_CMP_NEQ, bytes([protocol])) for protocol in UNCOUNTED)
    of_interface = _meta(NFT_META_IIF) + _compare(NFT_CMP_EQ, struct.pack("=I", interface)) + uncounted
    for dropped, number in enumerate(packets):
        first = LARGEST - (number - dropped - 1)
        statistic = _STATISTIC.pack(XT_STATISTIC_MODE_NTH, 0, LARGEST, 0, first, 0)
        match = _expression(b"match", attribute(1, b"statistic\0") + _big(2, 0) + attribute(3, statistic))
        verdict = _nested(2, _nested(2, _big(1, NF_DROP)))
        is_dropped = _expression(b"immediate", _big(1, NFT_REG_VERDICT) + verdict)
        body = of_interface + match + _expression(b"counter", b"") + is_dropped
        yield _of_inet(attribute(1, TABLE) + attribute(2, CHAIN) + _nested(4, body))


def _expressions(rule: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the name and the attributes of each expression of a rule."""
    at = 0
    while at + 4 <= len(rule):
        (length,) = struct.unpack_from("=H", rule, at)
        if length < 4:
            return
        found = attributes(rule[at + 4 : at + length])
        yield found[1].rstrip(b"\0"), found.get(2, b"")
        at += (length + 3) & ~3


def _meta(key: int) -> bytes:
    return _expression(b"meta", _big(1, NFT_REG_1) + _big(2, key))


def _compare(operation: int, value: bytes) -> bytes:
    return _expression(b"cmp", _big(1, NFT_REG_1) + _big(2, operation) + _nested(3, attribute(1, value)))


def _expression(name: bytes, data: bytes) -> bytes:
    return _nested(1, attribute(1, name + b"\0") + _nested(2, data))


def _kind(name: bytes) -> bytes:
    return attribute(7, name + b"\0")


def _nested(kind: int, data: bytes) -> bytes:
    return attribute(kind | NLA_F_NESTED, data)


def _big(kind: int, value: int) -> bytes:
    """Return an attribute with a number of 32 bits in the order of the network."""
    return attribute(kind, struct.pack(">i" if value < 0 else ">I", value))


def _of_inet(body: bytes) -> bytes:
    return _NFGENMSG.pack(NFPROTO_INET, 0, 0) + body
