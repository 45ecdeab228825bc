# SPDX-License-Identifier: Apache-2.0
"""What the kernel tells of connections as they happen: MPTCP events and closed sockets.

The path manager's events (`ip mptcp monitor`) say which subflows belong to which connection, and
sock_diag's destroy broadcast holds each TCP socket's last struct tcp_info with its final counts.
The initial subflow of a connection ended by MP_FASTCLOSE is disconnected first, which clears its
counts; so sockets are sampled too, the last time just before a flow is due to end.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from mprun.agent.rtnetlink import Netlink, NetlinkError, attribute, attributes, check_acknowledgement, split_messages

NETLINK_SOCK_DIAG, NETLINK_GENERIC = 4, 16
SOCK_DIAG_BY_FAMILY = 20
# sock_diag's destroy groups for TCP over IPv4 and IPv6 (a server listens on both by one socket)
TCP_DESTROY_GROUPS = 1 << 0 | 1 << 2
NOT_LISTENING = 0xFFF & ~(1 << 10)
GENL_ID_CTRL, CTRL_CMD_GETFAMILY = 16, 3
CTRL_ATTR_FAMILY_ID, CTRL_ATTR_FAMILY_NAME, CTRL_ATTR_MCAST_GROUPS = 1, 2, 7
CTRL_ATTR_MCAST_GRP_NAME, CTRL_ATTR_MCAST_GRP_ID = 1, 2
SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, SO_RCVBUFFORCE = 270, 1, 33
INET_DIAG_INFO = 2

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

# struct tcp_info (include/uapi/linux/tcp.h): name, offset, format. Newer kernels append to it.
TCP_INFO = (
    ("state", 0, "B"),
    ("retransmits_total", 100, "I"),
    ("rtt_us", 68, "I"),
    ("snd_cwnd", 80, "I"),
    ("bytes_acked", 120, "Q"),
    ("bytes_received", 128, "Q"),
    ("segs_out", 136, "I"),
    ("segs_in", 140, "I"),
    ("min_rtt_us", 148, "I"),
    ("bytes_sent", 200, "Q"),
    ("bytes_retrans", 208, "Q"),
)


class Observer:
    """Collects one host's events; open it while inside the host's namespace."""

    def __init__(self, host: str) -> None:
        self.host = host
        self.events: list[dict[str, Any]] = []
        self.closed: list[dict[str, Any]] = []
        self.samples: list[dict[str, Any]] = []
        self._closed = Netlink(NETLINK_SOCK_DIAG, TCP_DESTROY_GROUPS)
        self._diag = Netlink(NETLINK_SOCK_DIAG)
        self._mptcp = Netlink(NETLINK_GENERIC)
        subscribe(self._mptcp)
        for link in (self._closed, self._mptcp):
            _enlarge(link)
            link.socket.setblocking(False)

    def fileno(self) -> int:
        """The descriptor that tells of MPTCP events."""
        return self._mptcp.socket.fileno()

    def read(self) -> None:
        """Take in all that is waiting."""
        now_ns = time.monotonic_ns()
        self.events += [{"at_ns": now_ns, **event} for event in read_events(self._mptcp)]
        for body in _waiting(self._closed):
            closed = _socket(body)
            if closed:
                self.closed.append({"at_ns": now_ns, **closed})

    def sample(self) -> None:
        """Record the state of every TCP socket that is not listening (struct inet_diag_req_v2)."""
        now_ns = time.monotonic_ns()
        for family in (socket.AF_INET, socket.AF_INET6):
            extensions = 1 << (INET_DIAG_INFO - 1)
            body = struct.pack("=BBBxI", family, socket.IPPROTO_TCP, extensions, NOT_LISTENING) + bytes(48)
            for answer in self._diag.dump(SOCK_DIAG_BY_FAMILY, body):
                found = _socket(answer)
                if found:
                    self.samples.append({"at_ns": now_ns, **found})

    def close(self) -> None:
        self._closed.close()
        self._diag.close()
        self._mptcp.close()


def _enlarge(link: Netlink) -> None:
    """Room for many messages; in a user namespace no more than the host lets anybody have. Where that
    is not enough, reading fails with ENOBUFS and so does the run."""
    try:
        link.socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 22)
    except PermissionError:
        link.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)


def _waiting(link: Netlink) -> list[bytes]:
    bodies: list[bytes] = []
    while True:
        try:
            data = link.socket.recv(1 << 16)
        except BlockingIOError:
            return bodies
        bodies += [body for _, _, body in split_messages(data)]


@dataclass(frozen=True)
class Family:
    """A family of generic netlink: its number, and those of its multicast groups by name."""

    number: int
    groups: Mapping[str, int]


def subscribe(link: Netlink) -> Family | None:
    """Have a generic netlink socket told of MPTCP events; None where the kernel has no MPTCP."""
    family = find_family(link, "mptcp_pm")
    if family is not None:
        link.socket.setsockopt(SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, family.groups["mptcp_pm_events"])
    return family


def read_events(link: Netlink) -> Iterator[dict[str, Any]]:
    """The MPTCP events that wait at a socket that does not block (include/uapi/linux/mptcp_pm.h)."""
    for body in _waiting(link):
        kind = EVENTS.get(body[0])
        if kind:
            yield {"event": kind, **_event(attributes(body[4:]))}


def find_family(link: Netlink, name: str) -> Family | None:
    """A family of generic netlink; None where the kernel has none of that name."""
    body = struct.pack("=BBH", CTRL_CMD_GETFAMILY, 1, 0) + attribute(CTRL_ATTR_FAMILY_NAME, name.encode() + b"\0")
    link.socket.send(struct.pack("=IHHII", 16 + len(body), GENL_ID_CTRL, 1, 0, 0) + body)
    for kind, number, answer in split_messages(link.socket.recv(1 << 16)):
        if kind == 2:
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
        return Family(struct.unpack("=H", family[CTRL_ATTR_FAMILY_ID])[0], groups)
    return None


def _event(found: dict[int, bytes]) -> dict[str, Any]:
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
                event[name] = _address(found[kind])
    for name, kind in (("local_port", SPORT), ("remote_port", DPORT)):
        if kind in found:
            event[name] = struct.unpack("!H", found[kind])[0]
    return event


def _address(packed: bytes) -> str:
    if len(packed) == 16 and packed[:12] == bytes(10) + b"\xff\xff":
        packed = packed[12:]
    return socket.inet_ntop(socket.AF_INET if len(packed) == 4 else socket.AF_INET6, packed)


def _socket(body: bytes) -> dict[str, Any] | None:
    """A struct inet_diag_msg with its struct tcp_info; None without the latter."""
    family = body[0]
    local_port, remote_port = struct.unpack_from("!HH", body, 4)
    length = 4 if family == socket.AF_INET else 16
    info = attributes(body[72:]).get(INET_DIAG_INFO)
    if info is None:
        return None
    closed: dict[str, Any] = {
        "local": _address(body[8 : 8 + length]),
        "remote": _address(body[24 : 24 + length]),
        "local_port": local_port,
        "remote_port": remote_port,
    }
    for name, offset, form in TCP_INFO:
        if offset + struct.calcsize(form) <= len(info):
            closed[name] = struct.unpack_from("=" + form, info, offset)[0]
    return closed
