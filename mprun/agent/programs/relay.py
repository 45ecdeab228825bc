# SPDX-License-Identifier: Apache-2.0
"""A transparent TCP proxy: it relays connections that nft redirects here to their original destinations.

    python3 relay.py PORT

The proxy accepts each connection at once with plain TCP, as proxies do, and opens another connection from this node's
own address. It forwards an end of data as an end of data, and a reset as a reset. It reads more data only when the
previous data has been taken, so a slow receiver slows its sender.
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
    """Return the original destination of a redirected connection (struct sockaddr_in or sockaddr_in6)."""
    mapped = client.getpeername()[0].startswith("::ffff:")
    if mapped:
        found = client.getsockopt(socket.SOL_IP, SO_ORIGINAL_DST, 16)
        return socket.inet_ntop(socket.AF_INET, found[4:8]), int.from_bytes(found[2:4], "big")
    found = client.getsockopt(socket.IPPROTO_IPV6, IP6T_SO_ORIGINAL_DST, 28)
    return socket.inet_ntop(socket.AF_INET6, found[8:24]), int.from_bytes(found[2:4], "big")


def relay(client: socket.socket) -> None:
    """Open the other connection and copy in both directions until both have ended."""
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
    """Copy all data from one connection to the other, then its end or its reset."""
    try:
        while block := source.recv(BLOCK_BYTES):
            sink.sendall(block)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        for one in (source, sink):
            with suppress(OSError):
                # wakes the thread that reads from this connection
                one.shutdown(socket.SHUT_RD)
            reset(one)


def reset(connection: socket.socket) -> None:
    """Close with a reset to the peer (socket(7), SO_LINGER)."""
    with suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def main(port: int) -> None:
    """Accept connections until the program is killed."""
    with socket.create_server(("::", port), family=socket.AF_INET6, backlog=BACKLOG, dualstack_ipv6=True) as listener:
        while True:
            client, _ = listener.accept()
            threading.Thread(target=relay, args=(client,), daemon=True).start()


if __name__ == "__main__":
    main(int(sys.argv[1]))
