# SPDX-License-Identifier: Apache-2.0
"""Receive and read the events of the kernel's MPTCP path manager, as `ip mptcp monitor` shows them."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from mprun.agent.message import HEADER, NLMSG_ERROR, attribute, attributes, split_messages
from mprun.agent.rtnetlink import Netlink, NetlinkError, check_acknowledgement

NETLINK_GENERIC = 16
GENL_ID_CTRL, CTRL_CMD_GETFAMILY = 16, 3
CTRL_ATTR_FAMILY_ID, CTRL_ATTR_FAMILY_NAME, CTRL_ATTR_MCAST_GROUPS = 1, 2, 7
CTRL_ATTR_MCAST_GRP_NAME, CTRL_ATTR_MCAST_GRP_ID = 1, 2
SOL_NETLINK, NETLINK_ADD_MEMBERSHIP = 270, 1

# enum mptcp_event_type and mptcp_event_attr (include/uapi/linux/mptcp_pm.h)
EVENTS = {
    1: "created",
    2: "established",
    3: "closed",
    6: "announced",
    7: "removed",
    10: "subflow established",
    11: "subflow closed",
    13: "subflow priority",
    15: "listener created",
    16: "listener closed",
}
TOKEN, LOC_ID, REM_ID, SADDR4, SADDR6, DADDR4, DADDR6, SPORT, DPORT, BACKUP, ERROR = 1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12
SERVER_SIDE = 18


class NetlinkFamily(NamedTuple):
    """A generic netlink family: its number, and the numbers of its multicast groups by name."""

    number: int
    groups: Mapping[str, int]


def subscribe(link: Netlink) -> NetlinkFamily | None:
    """Subscribe a generic netlink socket to MPTCP events. Return None if the kernel has no MPTCP."""
    family = find_family(link, "mptcp_pm")
    if family is not None:
        link.socket.setsockopt(SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, family.groups["mptcp_pm_events"])
    return family


def find_family(link: Netlink, name: str) -> NetlinkFamily | None:
    """Return a generic netlink family; None if the kernel has none of that name."""
    body = struct.pack("=BBH", CTRL_CMD_GETFAMILY, 1, 0) + attribute(CTRL_ATTR_FAMILY_NAME, name.encode() + b"\0")
    link.socket.send(HEADER.pack(HEADER.size + len(body), GENL_ID_CTRL, 1, 0, 0) + body)
    for kind, number, answer in split_messages(link.socket.recv(1 << 16)):
        if kind == NLMSG_ERROR:
            try:
                check_acknowledgement(number, answer)
            except NetlinkError:
                return None
            continue
        family = attributes(answer[4:])
        groups = {}
        for entry in attributes(family.get(CTRL_ATTR_MCAST_GROUPS, b"")).values():
            group = attributes(entry)
            number_of_group = struct.unpack("=I", group[CTRL_ATTR_MCAST_GRP_ID])[0]
            groups[group[CTRL_ATTR_MCAST_GRP_NAME].rstrip(b"\0").decode()] = number_of_group
        return NetlinkFamily(struct.unpack("=H", family[CTRL_ATTR_FAMILY_ID])[0], groups)
    return None


def waiting(link: Netlink) -> list[bytes]:
    """Return the datagrams that wait at a non-blocking socket."""
    datagrams: list[bytes] = []
    while True:
        try:
            datagrams.append(link.socket.recv(1 << 16))
        except BlockingIOError:
            return datagrams


def read_events(datagrams: bytes) -> Iterator[dict[str, Any]]:
    """Return the events in datagrams: the kind of event, the connection's token, the subflow's addresses and ports."""
    for _, _, body in split_messages(datagrams):
        kind = EVENTS.get(body[0])
        if kind:
            yield {"event": kind, **_read_attributes(attributes(body[4:]))}


def _read_attributes(found: Mapping[int, bytes]) -> dict[str, Any]:
    event: dict[str, Any] = {}
    if TOKEN in found:
        event["token"] = struct.unpack("=I", found[TOKEN])[0]
    for name, kind in (("local_id", LOC_ID), ("remote_id", REM_ID), ("backup", BACKUP), ("error", ERROR)):
        if kind in found:
            event[name] = found[kind][0]
    if found.get(SERVER_SIDE, b"\0")[0]:
        event["server_side"] = True
    for name, kinds in (("local", (SADDR4, SADDR6)), ("remote", (DADDR4, DADDR6))):
        for kind in kinds:
            if kind in found:
                event[name] = spell_address(found[kind])
    for name, kind in (("local_port", SPORT), ("remote_port", DPORT)):
        if kind in found:
            event[name] = struct.unpack("!H", found[kind])[0]
    return event


def spell_address(packed: bytes) -> str:
    """Return a packed address of 4 or 16 bytes as text. An IPv4-mapped IPv6 address is written as IPv4."""
    if len(packed) == 16 and packed[:12] == bytes(10) + b"\xff\xff":
        packed = packed[12:]
    return socket.inet_ntop(socket.AF_INET if len(packed) == 4 else socket.AF_INET6, packed)
