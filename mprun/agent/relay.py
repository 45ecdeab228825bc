# SPDX-License-Identifier: Apache-2.0
"""A transparent TCP proxy: what nft redirects here is relayed to where it was going.

    python3 relay.py PORT

Each connection that arrives is answered at once, as proxies do, by plain TCP; another is opened from
this node's own address. An end of data is passed on as one, a reset as a reset. It reads on only when
what it read has been taken, so that a slow receiver slows its sender.
"""

from __future__ import annotations

import socket
import struct
import sys
import threading
from contextlib import suppress

# include/uapi/linux/netfilter_ipv4.h and netfilter_ipv6/ip6_tables.h
SO_ORIGINAL_DST = IP6T_SO_ORIGINAL_DST = 80
BLOCK_BYTES = 1 << 16
BACKLOG = 1024


def destination_of(client: socket.socket) -> tuple[str, int]:
    """Where a redirected connection was going (struct sockaddr_in or sockaddr_in6)."""
    mapped = client.getpeername()[0].startswith("::ffff:")
    if mapped:
        found = client.getsockopt(socket.SOL_IP, SO_ORIGINAL_DST, 16)
        return socket.inet_ntop(socket.AF_INET, found[4:8]), int.from_bytes(found[2:4], "big")
    found = client.getsockopt(socket.IPPROTO_IPV6, IP6T_SO_ORIGINAL_DST, 28)
    return socket.inet_ntop(socket.AF_INET6, found[8:24]), int.from_bytes(found[2:4], "big")


def relay(client: socket.socket) -> None:
    """Open the other connection and copy both ways until both have ended."""
    try:
        server = socket.create_connection(destination_of(client))
    except OSError:
        reset(client)
        return
    for one in (client, server):
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    back = threading.Thread(target=copy, args=(server, client))
    back.start()
    copy(client, server)
    back.join()
    client.close()
    server.close()


def copy(source: socket.socket, sink: socket.socket) -> None:
    """All that arrives at one, to the other; then its end, or its reset."""
    try:
        while block := source.recv(BLOCK_BYTES):
            sink.sendall(block)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        for one in (source, sink):
            with suppress(OSError):
                # wakes the thread that reads from it
                one.shutdown(socket.SHUT_RD)
            reset(one)


def reset(connection: socket.socket) -> None:
    """Close so that the peer is told of it by a reset (socket(7), SO_LINGER)."""
    with suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def main(port: int) -> None:
    with socket.create_server(("::", port), family=socket.AF_INET6, backlog=BACKLOG, dualstack_ipv6=True) as listener:
        while True:
            client, _ = listener.accept()
            threading.Thread(target=relay, args=(client,), daemon=True).start()


if __name__ == "__main__":
    main(int(sys.argv[1]))
