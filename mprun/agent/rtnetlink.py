# SPDX-License-Identifier: Apache-2.0
"""The part of ip(8) that a plan uses, as rtnetlink(7) messages in batches.

A process costs 20 ms in the experiment kernel and a message far less than 1 ms. The agent therefore uses netlink
itself. It translates the plan's own commands, so the plan shows exactly what is done.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence

from mprun.agent.message import HEADER, NLMSG_DONE, NLMSG_ERROR, attribute, attributes, split_messages

NLM_F_REQUEST, NLM_F_ACK, NLM_F_DUMP = 1, 4, 0x300
NLM_F_REPLACE, NLM_F_EXCL, NLM_F_CREATE = 0x100, 0x200, 0x400
RTM_NEWLINK, RTM_NEWADDR, RTM_NEWROUTE, RTM_NEWNEIGH, RTM_NEWRULE = 16, 20, 24, 28, 32
RTM_DELADDR, RTM_DELROUTE = 21, 25
RTM_GETLINK, RTM_GETADDR, RTM_GETROUTE, RTM_GETRULE = 18, 22, 26, 34
IFLA_ADDRESS, IFLA_IFNAME, IFLA_MTU, IFLA_MASTER, IFLA_LINKINFO, IFLA_NET_NS_FD = 1, 3, 4, 10, 18, 28
IFLA_QDISC, IFLA_OPERSTATE, IFLA_NUM_TX_QUEUES, IFLA_NUM_RX_QUEUES, IFLA_CARRIER = 6, 16, 31, 32, 33
IF_OPER_UP = 6
IFLA_INFO_KIND, IFLA_INFO_DATA, VETH_INFO_PEER = 1, 2, 1
IFLA_INFO_SLAVE_KIND, IFLA_INFO_SLAVE_DATA, IFLA_BRPORT_STATE, BR_STATE_FORWARDING = 4, 5, 1, 3
IFA_ADDRESS, IFA_LOCAL = 1, 2
IFA_F_NODAD = 2
RTA_DST, RTA_OIF, RTA_GATEWAY, RTA_METRICS, RTA_MULTIPATH, RTA_TABLE = 1, 4, 5, 8, 9, 15
RTAX_LOCK, RTAX_CC_ALGO = 1, 16
NDA_DST, NDA_LLADDR = 1, 2
FRA_SRC, FRA_TABLE = 2, 15
NLMSGERR_ATTR_MSG = 1
SOL_NETLINK, NETLINK_EXT_ACK, NETLINK_CAP_ACK = 270, 11, 10
IFF_UP = 1
NUD_PERMANENT = 0x80
RT_TABLE_MAIN, RTPROT_BOOT, RTN_UNICAST, RT_SCOPE_UNIVERSE, RT_SCOPE_LINK = 254, 3, 1, 0, 253
FR_ACT_TO_TBL = 1

# A batch stays well below the size of the socket's buffers, because its answers must fit into the receive buffer too.
# Each answer uses about 800 bytes of it.
BATCH_BYTES, BATCH_MESSAGES = 24_000, 100

_IFINFO = struct.Struct("=BxHiII")
_NEXTHOP = struct.Struct("=HBBi")


# One buffer for all sockets. A new buffer of this size for each answer would be mapped and unmapped. These are some of
# the most expensive calls in the experiment kernel.
_BUFFER = bytearray(1 << 18)


class NetlinkError(Exception):
    """A refusal of a message by the kernel. `number`: the index of the message in its batch, from 0."""

    def __init__(self, number: int, reason: str) -> None:
        self.number = number
        super().__init__(reason)


def ways(data: bytes) -> frozenset[tuple[int, bytes | None]]:
    """Return (index of the interface, gateway) of each next hop in an RTA_MULTIPATH."""
    found = set()
    at = 0
    while at + _NEXTHOP.size <= len(data):
        length, _flags, _weight, index = _NEXTHOP.unpack_from(data, at)
        if length < _NEXTHOP.size:
            break
        found.add((index, attributes(data[at + _NEXTHOP.size : at + length]).get(RTA_GATEWAY)))
        at += (length + 3) & ~3
    return frozenset(found)


class Netlink:
    """A netlink socket. It belongs to the namespace in which it was opened."""

    def __init__(self, family: int = socket.NETLINK_ROUTE, groups: int = 0) -> None:
        self.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, family)
        self.socket.setsockopt(SOL_NETLINK, NETLINK_EXT_ACK, 1)
        self.socket.setsockopt(SOL_NETLINK, NETLINK_CAP_ACK, 1)
        self.socket.bind((0, groups))

    def close(self) -> None:
        """Close the socket."""
        self.socket.close()

    def send(self, messages: Sequence[tuple[int, int, bytes]]) -> None:
        """Send (type, flags, body) messages and wait until all are done.

        Raises NetlinkError for the first message that the kernel refuses. Later messages may have been carried out.
        """
        first = 0
        while first < len(messages):
            last, size = first, 0
            while last < len(messages) and last - first < BATCH_MESSAGES and size < BATCH_BYTES:
                size += HEADER.size + len(messages[last][2])
                last += 1
            # the kernel reports every refusal, but success only for the last message: each answer is a system call
            asks = [NLM_F_REQUEST] * (last - first - 1) + [NLM_F_REQUEST | NLM_F_ACK]
            parts = []
            for number, ask in zip(range(first, last), asks, strict=True):
                kind, flags, body = messages[number]
                parts.append(HEADER.pack(HEADER.size + len(body), kind, flags | ask, number, 0))
                parts.append(body + bytes(-len(body) % 4))
            self.socket.send(b"".join(parts))
            self._wait_for(last - 1)
            first = last

    def _wait_for(self, last: int) -> None:
        """Wait until the message with this number is acknowledged. The kernel has done earlier messages by then."""
        while True:
            for kind, number, body in split_messages(self._receive()):
                if kind == NLMSG_ERROR:
                    check_acknowledgement(number, body)
                    if number == last:
                        return

    def dump(self, kind: int, body: bytes) -> Iterator[bytes]:
        """Yield the bodies of the answers to a dump request. Raises NetlinkError."""
        for answer, _, content in split_messages(b"".join(self.dump_raw(kind, body))):
            if answer != NLMSG_DONE:
                yield content

    def dump_raw(self, kind: int, body: bytes) -> list[bytes]:
        """Return the datagrams of the answer to a dump request; the last one ends with NLMSG_DONE.

        Raises NetlinkError.
        """
        length = HEADER.size + len(body)
        self.socket.send(HEADER.pack(length, kind, NLM_F_REQUEST | NLM_F_DUMP, 0, 0) + body)
        answers = []
        while True:
            answers.append(self._receive())
            for answer, number, content in split_messages(answers[-1]):
                if answer == NLMSG_DONE:
                    return answers
                if answer == NLMSG_ERROR:
                    check_acknowledgement(number, content)

    def _receive(self) -> bytes:
        return bytes(memoryview(_BUFFER)[: self.socket.recv_into(_BUFFER)])


def check_acknowledgement(number: int, body: bytes) -> None:
    """Raise NetlinkError if an acknowledgement is a refusal."""
    (code,) = struct.unpack_from("=i", body)
    if code:
        reason = os.strerror(-code)
        explained = attributes(body[4 + HEADER.size :]).get(NLMSGERR_ATTR_MSG)
        if explained:
            reason += ": " + explained.rstrip(b"\0").decode()
        raise NetlinkError(number, reason)


def read_states(netlink: Netlink) -> Iterator[tuple[str, bool]]:
    """Yield each interface, and True if it works.

    An interface works when the kernel has seen its carrier and given it its qdisc. The end of a veth pair that was
    brought up first names its qdisc before this, and the operational state tells. An end whose other end is down does
    not wait. A port of a bridge must also be forwarding, which may be later.
    """
    for body in netlink.dump(RTM_GETLINK, _IFINFO.pack(0, 0, 0, 0, 0)):
        found = attributes(body[_IFINFO.size :])
        name = found[IFLA_IFNAME].rstrip(b"\0").decode()
        info = attributes(found.get(IFLA_LINKINFO, b""))
        is_seen = info.get(IFLA_INFO_KIND) != b"veth\0" or found[IFLA_CARRIER][0] == 0
        is_active = found[IFLA_QDISC] != b"noop\0" and (is_seen or found[IFLA_OPERSTATE][0] == IF_OPER_UP)
        yield name, is_active and _forwards(info)


def _forwards(info: Mapping[int, bytes]) -> bool:
    """Return True if the interface of this IFLA_LINKINFO is no port of a bridge, or is forwarding."""
    if info.get(IFLA_INFO_SLAVE_KIND) != b"bridge\0":
        return True
    return attributes(info[IFLA_INFO_SLAVE_DATA])[IFLA_BRPORT_STATE][0] == BR_STATE_FORWARDING


class Translator:
    """Translates the words of an `ip` command to a message.

    index: the index of an interface in the current namespace. namespace: the descriptor of a named namespace.
    new_index: the index for a new interface of a named namespace.
    """

    def __init__(
        self, index: Callable[[str], int], namespace: Callable[[str], int], new_index: Callable[[str, str], int]
    ) -> None:
        self._index = index
        self._namespace = namespace
        self._new_index = new_index
        self._objects = {
            "address": self._address,
            "route": self._route,
            "rule": self._rule,
            "neighbour": self._neighbour,
        }

    def translate(self, words: Sequence[str]) -> tuple[int, int, bytes]:
        """Return (type, flags, body) of a command without its leading `ip`. Raises ValueError if it is unknown."""
        family = socket.AF_INET
        if words[0] == "-6":
            family, words = socket.AF_INET6, words[1:]
        if words[0] == "link":
            return self._link(words[1:])
        if words[0] not in self._objects:
            raise ValueError(f"not a command that the agent knows: ip {' '.join(words)}")
        return self._objects[words[0]](family, words[1:])

    def _link(self, words: Sequence[str]) -> tuple[int, int, bytes]:
        verb, name = words[0], words[1]
        rest = _pairs(words[2:], flags=("up", "down", "peer"))
        if verb == "set":
            extra = b""
            if "master" in rest:
                extra = attribute(IFLA_MASTER, struct.pack("=I", self._index(rest["master"])))
            if "mtu" in rest:
                extra += attribute(IFLA_MTU, struct.pack("=I", int(rest["mtu"])))
            up = IFF_UP if "up" in rest else 0
            mask = IFF_UP if {"up", "down"} & rest.keys() else 0
            return RTM_NEWLINK, 0, _IFINFO.pack(0, 0, self._index(name), up, mask) + extra
        if rest["type"] == "veth":
            middle = list(words).index("peer")
            mine, peer = _pairs(words[2:middle]), _pairs(words[middle + 1 :])
            body = self._new_interface(name, mine)
            other = attribute(VETH_INFO_PEER, self._new_interface(peer["name"], peer))
            info = attribute(IFLA_INFO_KIND, b"veth") + attribute(IFLA_INFO_DATA, other)
        else:
            body = self._new_interface(name, {})
            info = attribute(IFLA_INFO_KIND, rest["type"].encode())
        return RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, body + attribute(IFLA_LINKINFO, info)

    def _new_interface(self, name: str, settings: dict[str, str]) -> bytes:
        where = settings.get("netns", "")
        body = _IFINFO.pack(0, 0, self._new_index(where, name), 0, 0)
        body += attribute(IFLA_IFNAME, name.encode() + b"\0")
        if "address" in settings:
            body += attribute(IFLA_ADDRESS, bytes.fromhex(settings["address"].replace(":", "")))
        for name, kind in (("numtxqueues", IFLA_NUM_TX_QUEUES), ("numrxqueues", IFLA_NUM_RX_QUEUES)):
            if name in settings:
                body += attribute(kind, struct.pack("=I", int(settings[name])))
        if where:
            body += attribute(IFLA_NET_NS_FD, struct.pack("=I", self._namespace(where)))
        return body

    def _address(self, family: int, words: Sequence[str]) -> tuple[int, int, bytes]:
        address, _, prefix = words[1].partition("/")
        packed = socket.inet_pton(family, address)
        flags = IFA_F_NODAD if "nodad" in words else 0
        body = struct.pack("=BBBBI", family, int(prefix), flags, 0, self._index(words[3]))
        body += attribute(IFA_LOCAL, packed) + attribute(IFA_ADDRESS, packed)
        return (RTM_DELADDR, 0, body) if words[0] == "delete" else (RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, body)

    def _route(self, family: int, words: Sequence[str]) -> tuple[int, int, bytes]:
        words, congestion = _split_congestion(words)
        several = [at for at, word in enumerate(words) if word == "nexthop"]
        rest = _pairs(words[2 : several[0] if several else None])
        network, _, prefix = ("", "", "0") if words[1] == "default" else words[1].partition("/")
        scope = RT_SCOPE_UNIVERSE if "via" in words else RT_SCOPE_LINK
        table = int(rest.get("table", RT_TABLE_MAIN))
        body = struct.pack("=BBBBBBBBI", family, int(prefix), 0, 0, min(table, 255), RTPROT_BOOT, scope, RTN_UNICAST, 0)
        if int(prefix):
            body += attribute(RTA_DST, socket.inet_pton(family, network))
        if several:
            ways = [_pairs(words[at + 1 : end]) for at, end in zip(several, [*several[1:], None], strict=True)]
            body += attribute(RTA_MULTIPATH, b"".join(self._way(family, way) for way in ways))
        else:
            body += self._gateway(family, rest)
            body += attribute(RTA_OIF, struct.pack("=I", self._index(rest["dev"])))
        body += attribute(RTA_TABLE, struct.pack("=I", table)) + congestion
        return (RTM_DELROUTE, 0, body) if words[0] == "delete" else (RTM_NEWROUTE, _new(words[0]), body)

    def _gateway(self, family: int, way: dict[str, str]) -> bytes:
        return attribute(RTA_GATEWAY, socket.inet_pton(family, way["via"])) if "via" in way else b""

    def _way(self, family: int, way: dict[str, str]) -> bytes:
        """Return a struct rtnexthop with its gateway (rtnetlink(7))."""
        gateway = self._gateway(family, way)
        return _NEXTHOP.pack(_NEXTHOP.size + len(gateway), 0, 0, self._index(way["dev"])) + gateway

    def _rule(self, family: int, words: Sequence[str]) -> tuple[int, int, bytes]:
        rest = _pairs(words[1:])
        table = int(rest["table"])
        source = socket.inet_pton(family, rest["from"])
        body = struct.pack("=BBBBBBBBI", family, 0, 8 * len(source), 0, min(table, 255), 0, 0, FR_ACT_TO_TBL, 0)
        body += attribute(FRA_SRC, source)
        body += attribute(FRA_TABLE, struct.pack("=I", table))
        return RTM_NEWRULE, NLM_F_CREATE | NLM_F_EXCL, body

    def _neighbour(self, family: int, words: Sequence[str]) -> tuple[int, int, bytes]:
        rest = _pairs(words[2:])
        body = struct.pack("=BxxxiHBB", family, self._index(rest["dev"]), NUD_PERMANENT, 0, 0)
        body += attribute(NDA_DST, socket.inet_pton(family, words[1]))
        body += attribute(NDA_LLADDR, bytes.fromhex(rest["lladdr"].replace(":", "")))
        return RTM_NEWNEIGH, _new(words[0]), body


def _split_congestion(words: Sequence[str]) -> tuple[Sequence[str], bytes]:
    """Return a route's words without `congctl lock NAME` at their end, and RTA_METRICS for it (ip-route(8))."""
    if words[-3:-1] != ["congctl", "lock"]:
        return words, b""
    metrics = attribute(RTAX_LOCK, struct.pack("=I", 1 << RTAX_CC_ALGO))
    metrics += attribute(RTAX_CC_ALGO, words[-1].encode() + b"\0")
    return words[:-3], attribute(RTA_METRICS, metrics)


def congestion_of(route: Mapping[int, bytes]) -> tuple[str, bool] | None:
    """Return the congestion control of a route, and True if it is locked; None if the route has none.

    route: its attributes.
    """
    metrics = attributes(route.get(RTA_METRICS, b""))
    if RTAX_CC_ALGO not in metrics:
        return None
    (locked,) = struct.unpack("=I", metrics.get(RTAX_LOCK, bytes(4)))
    return metrics[RTAX_CC_ALGO].rstrip(b"\0").decode(), bool(locked & 1 << RTAX_CC_ALGO)


def _new(verb: str) -> int:
    """Return the flags of `add`, which refuses an existing object, or of `replace`, which accepts it."""
    return NLM_F_CREATE | (NLM_F_REPLACE if verb == "replace" else NLM_F_EXCL)


def _pairs(words: Sequence[str], flags: Sequence[str] = ()) -> dict[str, str]:
    """Return `via A dev B up` as a dict. `flags` are words without a value."""
    found = {}
    at = 0
    while at < len(words):
        if words[at] in flags:
            found[words[at]] = ""
            at += 1
        else:
            found[words[at]] = words[at + 1]
            at += 2
    return found
