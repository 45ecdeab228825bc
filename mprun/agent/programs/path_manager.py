# SPDX-License-Identifier: Apache-2.0
"""A path manager in user space: several subflows for each pair of addresses.

    python3 -m mprun.agent.programs.path_manager NUMBER LIMIT LOCAL,REMOTE,ID[,backup] ...

The kernel's own path manager opens at most one subflow for each pair. This program works for a host whose
net.mptcp.pm_type is 1. It receives an event for each connection that the host opens (mptcp_pm on generic netlink,
Documentation/netlink/specs/mptcp_pm.yaml).

It opens NUMBER subflows between the addresses of each pair, but no more than LIMIT besides the initial subflow.
Subflows to the destination of the connection are opened at once. Subflows to another address are opened when the peer
has announced it (ADD_ADDR). ID is the identifier of the local address (RFC 8684 3.4.1).

The program prints `ready` on standard error once it receives events.
"""

from __future__ import annotations

import select
import socket
import struct
import sys
from dataclasses import dataclass
from typing import Any

from mprun.agent.message import attribute
from mprun.agent.mptcp_event import NETLINK_GENERIC, read_events, subscribe, waiting
from mprun.agent.rtnetlink import Netlink, NetlinkError

# include/uapi/linux/mptcp_pm.h
MPTCP_PM_VER, MPTCP_PM_CMD_SUBFLOW_CREATE = 1, 10
ATTR_ADDR, ATTR_TOKEN, ATTR_ADDR_REMOTE = 1, 4, 6
ADDR_FAMILY, ADDR_ID, ADDR_ADDR4, ADDR_ADDR6, ADDR_PORT, ADDR_FLAGS = 1, 2, 3, 4, 5, 6
FLAG_SUBFLOW, FLAG_BACKUP = 1 << 1, 1 << 2
NESTED = 1 << 15


@dataclass(frozen=True)
class AddressPair:
    """Two addresses to open subflows between. number: the identifier of the local address."""

    local: str
    remote: str
    number: int
    backup: bool

    @classmethod
    def parse(cls, text: str) -> AddressPair:
        """Return the pair that an argument `LOCAL,REMOTE,ID[,backup]` describes."""
        local, remote, number, *rest = text.split(",")
        return cls(local, remote, int(number), "backup" in rest)


@dataclass
class OpenedConnection:
    """A connection that this host opened: the addresses and the port of its initial subflow."""

    local: str
    remote: str
    port: int
    opened: int = 0


class PathManager:
    """Decides which subflows to open for this host's connections, which it keeps by token."""

    def __init__(self, number: int, limit: int, pairs: list[AddressPair]) -> None:
        self.number = number
        self.limit = limit
        self.pairs = pairs
        self.connections: dict[int, OpenedConnection] = {}

    def take(self, event: dict[str, Any]) -> list[tuple[int, AddressPair, int, int]]:
        """Return the subflows to open after an event: token, pair, identifier of the local address, remote port."""
        if "token" not in event:
            return []
        token = event["token"]
        if event["event"] == "established" and not event.get("server_side"):
            connection = OpenedConnection(event["local"], event["remote"], event["remote_port"])
            self.connections[token] = connection
            return self._open(token, connection, connection.remote)
        if event["event"] == "announced" and token in self.connections:
            return self._open(token, self.connections[token], event["remote"])
        if event["event"] == "closed":
            self.connections.pop(token, None)
        return []

    def _open(self, token: int, connection: OpenedConnection, remote: str) -> list[tuple[int, AddressPair, int, int]]:
        """Return the subflows to open. Every pair gets its first subflow before any pair gets its second."""
        found = []
        for n in range(self.number):
            for pair in self.pairs:
                is_first = (pair.local, pair.remote) == (connection.local, connection.remote)
                if pair.remote != remote or (n == 0 and is_first) or connection.opened == self.limit:
                    continue
                connection.opened += 1
                # the address of the initial subflow has identifier 0, whatever its endpoint's identifier is
                number = 0 if pair.local == connection.local else pair.number
                found.append((token, pair, number, connection.port))
        return found


def request(token: int, pair: AddressPair, number: int, port: int) -> bytes:
    """Return the body of a request for a subflow."""
    flags = FLAG_SUBFLOW | (FLAG_BACKUP if pair.backup else 0)
    local = _address(pair.local) + attribute(ADDR_ID, bytes([number])) + attribute(ADDR_FLAGS, struct.pack("=I", flags))
    remote = _address(pair.remote) + attribute(ADDR_PORT, struct.pack("=H", port))
    return (
        struct.pack("=BBH", MPTCP_PM_CMD_SUBFLOW_CREATE, MPTCP_PM_VER, 0)
        + attribute(ATTR_TOKEN, struct.pack("=I", token))
        + attribute(ATTR_ADDR | NESTED, local)
        + attribute(ATTR_ADDR_REMOTE | NESTED, remote)
    )


def _address(text: str) -> bytes:
    family = socket.AF_INET6 if ":" in text else socket.AF_INET
    kind = ADDR_ADDR6 if ":" in text else ADDR_ADDR4
    return attribute(ADDR_FAMILY, struct.pack("=H", family)) + attribute(kind, socket.inet_pton(family, text))


def main(arguments: list[str]) -> int:
    """Open subflows until the program is killed."""
    manager = PathManager(int(arguments[0]), int(arguments[1]), [AddressPair.parse(text) for text in arguments[2:]])
    events, requests = Netlink(NETLINK_GENERIC), Netlink(NETLINK_GENERIC)
    family = subscribe(events)
    if family is None:
        print("this kernel has no MPTCP", file=sys.stderr)
        return 1
    events.socket.setblocking(False)
    print("ready", file=sys.stderr, flush=True)
    while True:
        select.select([events.socket], [], [])
        for event in read_events(b"".join(waiting(events))):
            for token, pair, number, port in manager.take(event):
                try:
                    requests.send([(family.number, 0, request(token, pair, number, port))])
                except NetlinkError as error:
                    print(f"{pair.local} to {pair.remote}: {error}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
