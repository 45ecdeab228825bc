# SPDX-License-Identifier: Apache-2.0
"""Record what the kernel reports about a host's connections: MPTCP events, states of sockets, sockets that close.

The path manager's events (`ip mptcp monitor`) show which subflows belong to which connection. The destroy broadcast of
sock_diag holds each TCP socket's last struct tcp_info with its final counts.

MP_FASTCLOSE disconnects the initial subflow before it ends the connection, which clears the subflow's counts. Sockets
are therefore sampled too, the last time just before a flow is due to end.
"""

from __future__ import annotations

import errno
import socket
import struct
import time

from mprun.agent import mptcp_event, record
from mprun.agent.message import INET_DIAG_INFO, INET_DIAG_SKMEMINFO, SOCK_DIAG_BY_FAMILY, TCPDIAG_GETSOCK, attribute
from mprun.agent.record import Recorder
from mprun.agent.rtnetlink import Netlink, NetlinkError

NETLINK_SOCK_DIAG = 4
# The destroy groups of sock_diag for TCP over IPv4 and IPv6 (a server listens on both with one socket).
TCP_DESTROY_GROUPS = 1 << 0 | 1 << 2
# All states but those without data to report: waiting for stray segments, and listening.
TIME_WAIT, LISTEN = 6, 10
SPEAKING = 0xFFF & ~(1 << TIME_WAIT) & ~(1 << LISTEN)
SO_RCVBUFFORCE = 33
# struct inet_diag_req
_REQUEST = struct.pack("=BBBB48xII", socket.AF_UNSPEC, 0, 0, 1 << (INET_DIAG_INFO - 1), SPEAKING, 0)
INET_DIAG_REQ_PROTOCOL = 3
_OF_MPTCP = 1 << (INET_DIAG_INFO - 1) | 1 << (INET_DIAG_SKMEMINFO - 1)
# struct inet_diag_req_v2 of each family. Its field for the protocol is too small for MPTCP's number, which is therefore
# in an attribute.
_MPTCP = [
    struct.pack("=BBBxI48x", family, socket.IPPROTO_TCP, _OF_MPTCP, SPEAKING)
    + attribute(INET_DIAG_REQ_PROTOCOL, struct.pack("=I", 262))
    for family in (socket.AF_INET, socket.AF_INET6)
]


class Observer:
    """Records what happens on one host. Create it while inside the host's namespace."""

    def __init__(self, host: str, recorder: Recorder) -> None:
        self._recorder = recorder
        self._source = recorder.add_source({"host": host})
        self._closed = Netlink(NETLINK_SOCK_DIAG, TCP_DESTROY_GROUPS)
        self._diag = Netlink(NETLINK_SOCK_DIAG)
        self._tells_progress = True
        self._has_mptcp = False
        self._mptcp = Netlink(mptcp_event.NETLINK_GENERIC)
        mptcp_event.subscribe(self._mptcp)
        for link in (self._closed, self._mptcp):
            _enlarge(link)
            link.socket.setblocking(False)

    def fileno(self) -> int:
        """Return the descriptor that becomes readable when there are MPTCP events."""
        return self._mptcp.socket.fileno()

    def read_events(self) -> None:
        """Record the MPTCP events that are waiting."""
        self._has_mptcp |= self._record_waiting(record.EVENTS, self._mptcp)

    def read_closed(self) -> None:
        """Record the sockets that have closed.

        Call this often, because the kernel keeps only some hundreds or thousands of closed sockets. If more sockets
        close at once, the loss is recorded too: a program that connects in a loop closes thousands in an instant.
        """
        while True:
            try:
                self._record_waiting(record.CLOSED, self._closed)
                return
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise
                self._recorder.write(record.LOST, self._source, time.monotonic_ns(), [])

    def _record_waiting(self, kind: int, link: Netlink) -> bool:
        """Record the waiting datagrams. Return True if there were any."""
        datagrams = mptcp_event.waiting(link)
        if datagrams:
            self._recorder.write(kind, self._source, time.monotonic_ns(), datagrams)
        return bool(datagrams)

    def sample(self, at_ns: int) -> None:
        """Record the state of every TCP socket, and of every MPTCP connection if the host has had any."""
        self._recorder.write(record.SOCKETS, self._source, at_ns, self._diag.dump_raw(TCPDIAG_GETSOCK, _REQUEST))
        if self._has_mptcp:
            self._sample_connections(record.CONNECTIONS, at_ns)

    def sample_progress(self, at_ns: int) -> None:
        """Record how much data of every MPTCP connection has arrived."""
        self._sample_connections(record.PROGRESS, at_ns)

    def _sample_connections(self, kind: int, at_ns: int) -> None:
        """Record the state of every MPTCP connection. Do nothing on a kernel that cannot report it."""
        if not self._tells_progress:
            return
        try:
            answers = [part for request in _MPTCP for part in self._diag.dump_raw(SOCK_DIAG_BY_FAMILY, request)]
        except NetlinkError:
            self._tells_progress = False
            return
        self._recorder.write(kind, self._source, at_ns, answers)

    def close(self) -> None:
        """Close the sockets."""
        self._closed.close()
        self._diag.close()
        self._mptcp.close()


def _enlarge(link: Netlink) -> None:
    """Enlarge the receive buffer. In a user namespace, the limit is the host's limit for all users.

    If this is not enough, reading fails with ENOBUFS. For MPTCP events the run then fails too.
    """
    try:
        link.socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 22)
    except PermissionError:
        link.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
