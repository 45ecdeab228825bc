# SPDX-License-Identifier: Apache-2.0
"""The part of ip(8) that a plan uses, as rtnetlink(7) messages in batches.

A process costs 20 ms in the experiment kernel and a message well under one, so the agent speaks
netlink itself. It reads the plan's own commands: what a person would type is what is done.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Callable, Iterator, Sequence

NLM_F_REQUEST, NLM_F_ACK, NLM_F_DUMP, NLM_F_EXCL, NLM_F_CREATE = 1, 4, 0x300, 0x200, 0x400
NLMSG_ERROR, NLMSG_DONE = 2, 3
RTM_NEWLINK, RTM_NEWADDR, RTM_NEWROUTE, RTM_NEWNEIGH, RTM_NEWRULE = 16, 20, 24, 28, 32
RTM_GETADDR, RTM_GETROUTE, RTM_GETRULE = 22, 26, 34
IFLA_ADDRESS, IFLA_IFNAME, IFLA_MASTER, IFLA_LINKINFO, IFLA_NET_NS_FD = 1, 3, 10, 18, 28
IFLA_INFO_KIND, IFLA_INFO_DATA, VETH_INFO_PEER = 1, 2, 1
IFA_ADDRESS, IFA_LOCAL = 1, 2
RTA_DST, RTA_OIF, RTA_GATEWAY, RTA_TABLE = 1, 4, 5, 15
NDA_DST, NDA_LLADDR = 1, 2
FRA_SRC, FRA_TABLE = 2, 15
NLMSGERR_ATTR_MSG = 1
SOL_NETLINK, NETLINK_EXT_ACK, NETLINK_CAP_ACK = 270, 11, 10
IFF_UP = 1
NUD_PERMANENT = 0x80
RT_TABLE_MAIN, RTPROT_BOOT, RTN_UNICAST, RT_SCOPE_UNIVERSE, RT_SCOPE_LINK = 254, 3, 1, 0, 253
FR_ACT_TO_TBL = 1

# Stays well below the socket's buffers, in which the answers must fit too.
BATCH_BYTES = 24_000

_HEADER = struct.Struct("=IHHII")
_IFINFO = struct.Struct("=BxHiII")


class NetlinkError(Exception):
    """The kernel refused a message; `number` says which of the batch, counted from 0."""

    def __init__(self, number: int, reason: str) -> None:
        self.number = number
        super().__init__(reason)


def attribute(kind: int, value: bytes) -> bytes:
    """One attribute, padded (netlink(7))."""
    length = 4 + len(value)
    return struct.pack("=HH", length, kind) + value + bytes(-length % 4)


def attributes(data: bytes) -> dict[int, bytes]:
    """Attributes of a message by kind; of repeated ones the last."""
    found = {}
    at = 0
    while at + 4 <= len(data):
        length, kind = struct.unpack_from("=HH", data, at)
        if length < 4:
            break
        found[kind & 0x3FFF] = data[at + 4 : at + length]
        at += (length + 3) & ~3
    return found


class Netlink:
    """A netlink socket; it belongs to the namespace in which it was opened."""

    def __init__(self, family: int = socket.NETLINK_ROUTE, groups: int = 0) -> None:
        self.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, family)
        self.socket.setsockopt(SOL_NETLINK, NETLINK_EXT_ACK, 1)
        self.socket.setsockopt(SOL_NETLINK, NETLINK_CAP_ACK, 1)
        self.socket.bind((0, groups))

    def close(self) -> None:
        self.socket.close()

    def send(self, messages: Sequence[tuple[int, int, bytes]]) -> None:
        """Send (type, flags, body) messages and wait until all are acknowledged.

        Raises NetlinkError for the first that the kernel refuses; those after it may be done.
        """
        first = 0
        while first < len(messages):
            last, size = first, 0
            parts = []
            while last < len(messages) and size < BATCH_BYTES:
                kind, flags, body = messages[last]
                length = _HEADER.size + len(body)
                parts.append(_HEADER.pack(length, kind, flags | NLM_F_REQUEST | NLM_F_ACK, last, 0))
                parts.append(body + bytes(-length % 4))
                size += length
                last += 1
            self.socket.send(b"".join(parts))
            waiting = last - first
            while waiting:
                for kind, number, body in self._receive():
                    if kind == NLMSG_ERROR:
                        waiting -= 1
                        check_acknowledgement(number, body)
            first = last

    def dump(self, kind: int, body: bytes) -> Iterator[bytes]:
        """The bodies of the answers to a dump request."""
        length = _HEADER.size + len(body)
        self.socket.send(_HEADER.pack(length, kind, NLM_F_REQUEST | NLM_F_DUMP, 0, 0) + body)
        while True:
            for answer, number, content in self._receive():
                if answer == NLMSG_DONE:
                    return
                if answer == NLMSG_ERROR:
                    check_acknowledgement(number, content)
                yield content

    def _receive(self) -> list[tuple[int, int, bytes]]:
        return list(split_messages(self.socket.recv(1 << 18)))


def split_messages(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """(type, sequence number, body) of each message in a datagram."""
    at = 0
    while at + _HEADER.size <= len(data):
        length, kind, _flags, number, _pid = _HEADER.unpack_from(data, at)
        if length < _HEADER.size:
            return
        yield kind, number, data[at + _HEADER.size : at + length]
        at += (length + 3) & ~3


def check_acknowledgement(number: int, body: bytes) -> None:
    """Raise NetlinkError if an acknowledgement is a refusal."""
    (code,) = struct.unpack_from("=i", body)
    if code:
        reason = os.strerror(-code)
        explained = attributes(body[4 + _HEADER.size :]).get(NLMSGERR_ATTR_MSG)
        if explained:
            reason += ": " + explained.rstrip(b"\0").decode()
        raise NetlinkError(number, reason)


class Translator:
    """`ip ...` words to a message, given where interfaces and namespaces are.

    index: number of an interface in the namespace at hand. namespace: descriptor of a named one.
    new_index: the number that a new interface of a named namespace gets.
    """

    def __init__(
        self, index: Callable[[str], int], namespace: Callable[[str], int], new_index: Callable[[str, str], int]
    ) -> None:
        self._index = index
        self._namespace = namespace
        self._new_index = new_index

    def translate(self, words: Sequence[str]) -> tuple[int, int, bytes]:
        """(type, flags, body) of one command without its leading `ip`; ValueError if it is unknown."""
        objects = {"link": self._link, "address": self._address, "route": self._route}
        objects |= {"rule": self._rule, "neighbour": self._neighbour}
        if words[0] not in objects:
            raise ValueError(f"not a command that the agent knows: ip {' '.join(words)}")
        return objects[words[0]](words[1:])

    def _link(self, words: Sequence[str]) -> tuple[int, int, bytes]:
        verb, name = words[0], words[1]
        rest = _pairs(words[2:], flags=("up", "peer"))
        if verb == "set":
            extra = b""
            if "master" in rest:
                extra = attribute(IFLA_MASTER, struct.pack("=I", self._index(rest["master"])))
            up = IFF_UP if "up" in rest else 0
            return RTM_NEWLINK, 0, _IFINFO.pack(0, 0, self._index(name), up, up) + extra
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
        if where:
            body += attribute(IFLA_NET_NS_FD, struct.pack("=I", self._namespace(where)))
        return body

    def _address(self, words: Sequence[str]) -> tuple[int, int, bytes]:
        address, _, prefix = words[1].partition("/")
        packed = socket.inet_aton(address)
        body = struct.pack("=BBBBI", socket.AF_INET, int(prefix), 0, 0, self._index(words[3]))
        body += attribute(IFA_LOCAL, packed) + attribute(IFA_ADDRESS, packed)
        return RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, body

    def _route(self, words: Sequence[str]) -> tuple[int, int, bytes]:
        rest = _pairs(words[2:])
        network, _, prefix = ("0.0.0.0", "", "0") if words[1] == "default" else words[1].partition("/")
        scope = RT_SCOPE_UNIVERSE if "via" in rest else RT_SCOPE_LINK
        table = int(rest.get("table", RT_TABLE_MAIN))
        body = struct.pack(
            "=BBBBBBBBI", socket.AF_INET, int(prefix), 0, 0, min(table, 255), RTPROT_BOOT, scope, RTN_UNICAST, 0
        )
        if int(prefix):
            body += attribute(RTA_DST, socket.inet_aton(network))
        if "via" in rest:
            body += attribute(RTA_GATEWAY, socket.inet_aton(rest["via"]))
        body += attribute(RTA_OIF, struct.pack("=I", self._index(rest["dev"])))
        body += attribute(RTA_TABLE, struct.pack("=I", table))
        return RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, body

    def _rule(self, words: Sequence[str]) -> tuple[int, int, bytes]:
        rest = _pairs(words[1:])
        table = int(rest["table"])
        body = struct.pack("=BBBBBBBBI", socket.AF_INET, 0, 32, 0, min(table, 255), 0, 0, FR_ACT_TO_TBL, 0)
        body += attribute(FRA_SRC, socket.inet_aton(rest["from"]))
        body += attribute(FRA_TABLE, struct.pack("=I", table))
        return RTM_NEWRULE, NLM_F_CREATE | NLM_F_EXCL, body

    def _neighbour(self, words: Sequence[str]) -> tuple[int, int, bytes]:
        rest = _pairs(words[2:])
        body = struct.pack("=BxxxiHBB", socket.AF_INET, self._index(rest["dev"]), NUD_PERMANENT, 0, 0)
        body += attribute(NDA_DST, socket.inet_aton(words[1]))
        body += attribute(NDA_LLADDR, bytes.fromhex(rest["lladdr"].replace(":", "")))
        return RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_EXCL, body


def _pairs(words: Sequence[str], flags: Sequence[str] = ()) -> dict[str, str]:
    """`via A dev B up` as a dict; `flags` stand alone."""
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
