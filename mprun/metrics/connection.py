# SPDX-License-Identifier: Apache-2.0
"""Find the connections of a flow and their subflows in what the agent observed.

The client's port identifies a data connection of the flow. MPTCP events have the token that the subflows of a
connection share. Sockets have the bytes of each subflow.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Sequence

from mprun.metrics.observation import Host, PathManagerEvent, SocketState, Tuple4
from mprun.model.frozen import Frozen
from mprun.model.intent import AddressedFlow, FlowPath

# Before an additional subflow exists, the connection has its handshake, the first data and its acknowledgement, and the
# subflow has its own handshake (RFC 8684 3.1, 3.2).
JOIN_ROUND_TRIPS = 4
# The time after which a lost packet of a handshake is sent again, before any round trip is known (RFC 6298 2.1).
FIRST_TIMEOUT_NS = 1_000_000_000
# tcpi_bytes_acked counts SYN and FIN as a byte each, and tcpi_bytes_received the FIN.
FLAG_BYTES = 2


class SendingEnd(Frozen):
    """The sending end of a subflow.

    - srtt_us: the smoothed round-trip time; 0 before the first measurement.
    - resent, resent_bytes: the number of segments that were sent again, and their payload.
    """

    srtt_us: int = 0
    resent: int = 0
    resent_bytes: int = 0


class Subflow(Frozen):
    """A subflow as its client saw it.

    - path: the name of its path; None if no path has its addresses.
    - bytes_acked, bytes_received: the payload from the client and to the client.
    - client, server: the last report of each end. That of the server is empty if the server has other addresses for the
      subflow.
    - is_sampled: an end reported it at least once, so its payload is known.
    """

    addresses: Tuple4
    path: str | None
    established_ns: int
    bytes_acked: int
    bytes_received: int
    client: SendingEnd
    server: SendingEnd
    is_sampled: bool = True


class Connection(Frozen):
    """A connection of a flow.

    - token: None for plain TCP.
    - lived_ns: the time from its begin to its end; None if one of them was not observed.
    - is_known: the server also has it as an MPTCP connection. If MP_CAPABLE was lost in the handshake, the server has a
      connection of plain TCP.
    """

    token: int | None
    subflows: tuple[Subflow, ...]
    lived_ns: int | None = None
    is_known: bool = False


def find_connections(
    observed: Host, peer: Host, ports: Iterable[int], paths: Sequence[FlowPath]
) -> tuple[Connection, ...]:
    """Return the connections to the server (`peer`) whose initial subflow began at one of `ports`.

    A subflow counts if both ends report that it is established, because a server may refuse it after the client's
    report. Behind a NAT, a subflow has another address. Linux keeps its port if this port is free.
    """
    wanted = set(ports)
    servers = servers_of(peer, paths)
    accepted = {event.addresses for event in peer.events if event.event == "subflow established"}
    known = {event.addresses for event in peer.events if event.event == "created"}
    names = {path.ends: path.name for path in paths}
    peers = {(b, q, a, p): state for (a, p, b, q), state in peer.sockets.items()}

    def subflow(event: PathManagerEvent) -> Subflow:
        addresses = event.addresses
        last, other = observed.sockets.get(addresses), peers.get(addresses)
        # MP_FASTCLOSE clears the counts of the initial subflow before it closes. The client's last sample may then be
        # half a second old, and a short transfer may have none. The server's counts are not cleared. They are used for
        # every subflow, because they also have the data whose acknowledgements are under way.
        return Subflow(
            addresses=addresses,
            path=names.get((addresses[0], addresses[2])),
            established_ns=event.at_ns,
            bytes_acked=_payload(last, other),
            bytes_received=_payload(other, last),
            client=_sending_end(last),
            server=_sending_end(other),
            is_sampled=last is not None or other is not None,
        )

    joined: dict[int | None, list[PathManagerEvent]] = {}
    ended: dict[int | None, int] = {}
    for event in observed.events:
        if event.event == "subflow established" and at_server(event.addresses, paths) in accepted:
            joined.setdefault(event.token, []).append(event)
        elif event.event == "closed":
            ended.setdefault(event.token, event.at_ns)
    connections = []
    for event in observed.events:
        if event.event == "created" and event.local_port in wanted and event.remote in servers:
            wanted.discard(event.local_port)
            token = event.token
            subflows = tuple(map(subflow, (event, *joined.get(token, ()))))
            lived_ns = ended[token] - event.at_ns if token in ended else None
            is_known = at_server(event.addresses, paths) in known
            connections.append(Connection(token, subflows, lived_ns, is_known))
    for addresses in observed.sockets:
        if addresses[1] in wanted and addresses[2] in servers:
            plain = PathManagerEvent(0, "created", None, *addresses)
            connections.append(Connection(None, (subflow(plain),)))
            wanted.discard(addresses[1])
    return tuple(connections)


def servers_of(peer: Host, paths: Sequence[FlowPath]) -> set[str]:
    """Return the addresses of the server of a flow. Other servers may have the same port. peer: its observation."""
    return {path.destination for path in paths} | {local for local, *_ in peer.sockets}


def subflows_of(connections: Iterable[Connection]) -> list[Subflow]:
    """Return the subflows of all connections, in their order."""
    return [subflow for connection in connections for subflow in connection.subflows]


def goes_forward(subflows: Iterable[Subflow]) -> bool:
    """Check whether the client sent more of the subflows' payload than its server did."""
    return sum(one.bytes_acked - one.bytes_received for one in subflows) >= 0


def counts_forward(flow: AddressedFlow, is_forward: bool) -> bool:
    """Check whether the metrics of a flow without `.back`, such as its goodput, are those of what its client sent.

    is_forward: the client sent more. The goodput of QUIC is that of the answers.
    """
    return flow.protocol != "quic" and (is_forward or bool(flow.options.get("bidirectional")))


def count_resent(flow: AddressedFlow, subflows: Sequence[Subflow]) -> dict[str, float]:
    """Return `retransmits`, and for a bidirectional flow also `retransmits.back`, as far as the senders reported it."""
    ways = {"retransmits": counts_forward(flow, goes_forward(subflows))}
    if flow.options.get("bidirectional"):
        ways["retransmits.back"] = False
    ends = {name: [one.client if forward else one.server for one in subflows] for name, forward in ways.items()}
    known = {name: [end.resent for end in some if end.srtt_us] for name, some in ends.items()}
    return {name: sum(resent) for name, resent in known.items() if resent}


def addresses_at(connection: Connection, paths: Sequence[FlowPath], is_client: bool) -> Tuple4:
    """Return the addresses by which an end of a flow knows a connection."""
    addresses = connection.subflows[0].addresses
    return addresses if is_client else at_server(addresses, paths)


def at_server(addresses: Tuple4, paths: Sequence[FlowPath]) -> Tuple4:
    """Return the addresses of a client's subflow as its server has them. Beyond a NAT, a server sees another client."""
    local, local_port, remote, remote_port = addresses
    seen = next((path.seen_from for path in paths if path.ends == (local, remote)), local)
    return remote, remote_port, seen, local_port


def find_brief(connections: Sequence[Connection], idle_ns: int, wanted: int) -> tuple[Connection, ...]:
    """Return the connections that ended before their missing subflows could have joined.

    idle_ns: the round trip of the slowest path. If another connection has all subflows, nothing forbids them. Then the
    longest round trip that any subflow saw counts: a join may wait in queues, and one of its packets may be lost.
    """
    lacking = [connection for connection in connections if len(connection.subflows) < wanted]
    longest_ns = JOIN_ROUND_TRIPS * idle_ns
    if len(lacking) < len(connections):
        subflows = subflows_of(connections)
        loaded_ns = 1000 * max(end.srtt_us for subflow in subflows for end in (subflow.client, subflow.server))
        longest_ns = JOIN_ROUND_TRIPS * max(idle_ns, loaded_ns) + FIRST_TIMEOUT_NS
    return tuple(one for one in lacking if one.lived_ns is not None and one.lived_ns < longest_ns)


def find_refused(observed: Host, connections: Iterable[Connection]) -> frozenset[str]:
    """Return the addresses of the server that answered the SYN of an additional subflow with a reset."""
    tokens = {connection.token for connection in connections}
    return frozenset(
        event.addresses[2]
        for event in observed.events
        if event.event == "subflow closed" and event.error == errno.ECONNREFUSED and event.token in tokens
    )


def ports_towards(observed: Host, server_ports: Iterable[int]) -> tuple[int, ...]:
    """Return the client's ports of the connections that it opened to these ports of servers."""
    towards = set(server_ports)
    # a subflow that was refused is closed without being established
    joins = ("subflow established", "subflow closed")
    additional = {event.addresses for event in observed.events if event.event in joins}
    created = {event.addresses for event in observed.events if event.event == "created"}
    initial = created | (set(observed.sockets) - additional)
    return tuple(sorted({local for _, local, _, remote in initial if remote in towards}))


def _payload(sender: SocketState | None, receiver: SocketState | None) -> int:
    """Return the payload that arrived from one end of a subflow, without the sequence numbers of SYN and FIN."""
    acked = sender.get("bytes_acked") - FLAG_BYTES if sender else 0
    arrived = max(acked, receiver.get("bytes_received") if receiver else 0, 0)
    sent = sender.get("bytes_sent") - sender.get("bytes_retransmitted") if sender else arrived
    # after the FIN, all payload has arrived; a sender's sample may be older than the receiver's
    return sent if not sent or (arrived and abs(arrived - sent) <= FLAG_BYTES) else arrived


def _sending_end(state: SocketState | None) -> SendingEnd:
    if state is None:
        return SendingEnd()
    return SendingEnd(state.get("rtt_us"), state.get("retransmits_packets"), state.get("bytes_retransmitted"))
