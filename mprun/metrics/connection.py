# SPDX-License-Identifier: Apache-2.0
"""From what the agent observed to the connections of a flow and their subflows.

A flow's data connection is known by its client's port; MPTCP events then give the token that its
subflows share, and sockets give each subflow's bytes.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from mprun.metrics.observation import Host, PathManagerEvent, SocketState, Tuple4
from mprun.model.intent import FlowPath

# A further subflow takes the connection's handshake, the first data and its acknowledgement, and a handshake of its
# own with its last packet (RFC 8684 3.1, 3.2).
JOIN_ROUND_TRIPS = 4
# After which what a handshake has lost is sent again, before any round trip is known (RFC 6298 2.1).
FIRST_TIMEOUT_NS = 1_000_000_000
# tcpi_bytes_acked counts SYN and FIN as a byte each.
_FLAGS = 2


@dataclass(frozen=True)
class SendingEnd:
    """The sending end of a subflow.

    `srtt_us`: the smoothed round-trip time, 0 before any. `resent`: segments sent again. `resent_bytes`: their payload.
    """

    srtt_us: int = 0
    resent: int = 0
    resent_bytes: int = 0


@dataclass(frozen=True)
class Subflow:
    """A subflow as its client saw it. `path`: None if no path has its addresses.

    `bytes_acked`, `bytes_received`: payload in the two directions. `client`, `server`: the last report of each end.
    The server's is empty if the server knows the subflow by other addresses.
    """

    addresses: Tuple4
    path: str | None
    is_initial: bool
    established_ns: int
    bytes_acked: int
    bytes_received: int
    client: SendingEnd
    server: SendingEnd


@dataclass(frozen=True)
class Connection:
    """A connection of a flow; `token` None for plain TCP. lived_ns: None where nobody saw it begin and end.

    is_known: whether the server had it as one of MPTCP; for it, one whose handshake lost MP_CAPABLE is plain TCP.
    """

    token: int | None
    subflows: tuple[Subflow, ...]
    lived_ns: int | None = None
    is_known: bool = False


def find_connections(
    observed: Host, peer: Host, ports: Iterable[int], paths: Sequence[FlowPath]
) -> tuple[Connection, ...]:
    """The connections whose initial subflow left from one of `ports`.

    observed, peer: what is known of the client and of the server. A subflow counts when
    both ends say that it is established: the client says so one packet before a server refuses it. Beyond
    a NAT it has another address, and keeps its port, as Linux has it wherever that is free.
    paths: those of the flow, from the intent.
    """
    wanted = set(ports)
    accepted = {event.turned for event in peer.events if event.event == "subflow established"}
    known = {event.turned for event in peer.events if event.event == "created"}
    names = {path.ends: path.name for path in paths}
    seen = {path.ends: path.seen_from for path in paths}
    totals = observed.sockets
    peers = {(b, q, a, p): state for (a, p, b, q), state in peer.sockets.items()}
    joined: dict[int | None, list[PathManagerEvent]] = {}
    ended: dict[int | None, int] = {}
    for event in observed.events:
        if event.event == "subflow established" and _as_seen(event.addresses, seen) in accepted:
            joined.setdefault(event.token, []).append(event)
        elif event.event == "closed":
            ended.setdefault(event.token, event.at_ns)
    connections = []
    for event in observed.events:
        if event.event == "created" and event.local_port in wanted:
            wanted.discard(event.local_port)
            token = event.token
            members = [event, *joined.get(token, ())]
            subflows = tuple(_subflow(member, member is event, totals, peers, names) for member in members)
            lived_ns = ended[token] - event.at_ns if token in ended else None
            is_known = _as_seen(event.addresses, seen) in known
            connections.append(Connection(token, subflows, lived_ns, is_known))
    for addresses in totals:
        if addresses[1] in wanted:
            plain = PathManagerEvent(0, "created", None, *addresses)
            connections.append(Connection(None, (_subflow(plain, True, totals, peers, names),)))
            wanted.discard(addresses[1])
    return tuple(connections)


def goes_forward(subflows: Iterable[Subflow]) -> bool:
    """Check whether the client sent more of the subflows' payload than its server did."""
    return sum(one.bytes_acked - one.bytes_received for one in subflows) >= 0


def addresses_at(connection: Connection, paths: Sequence[FlowPath], is_client: bool) -> Tuple4:
    """Return the addresses by which an end of a flow knows a connection; a server beyond a NAT sees another client."""
    local, local_port, remote, remote_port = connection.subflows[0].addresses
    if is_client:
        return local, local_port, remote, remote_port
    seen = {path.source: path.seen_from for path in paths}
    return remote, remote_port, seen.get(local, local), local_port


def find_brief(connections: Sequence[Connection], idle_ns: int, wanted: int) -> tuple[Connection, ...]:
    """Return the connections that ended before their missing subflows could have joined.

    idle_ns: the round trip of the slowest path. If another connection has all subflows, nothing forbids them. Then the
    longest round trip that any subflow saw counts: a join may wait in queues, and one of its packets may be lost.
    """
    lacking = [connection for connection in connections if len(connection.subflows) < wanted]
    longest_ns = JOIN_ROUND_TRIPS * idle_ns
    if len(lacking) < len(connections):
        subflows = [subflow for connection in connections for subflow in connection.subflows]
        loaded_ns = 1000 * max(end.srtt_us for subflow in subflows for end in (subflow.client, subflow.server))
        longest_ns = JOIN_ROUND_TRIPS * max(idle_ns, loaded_ns) + FIRST_TIMEOUT_NS
    return tuple(one for one in lacking if one.lived_ns is not None and one.lived_ns < longest_ns)


def find_refused(observed: Host, connections: Iterable[Connection]) -> frozenset[str]:
    """Addresses of the server from which a reset answered a SYN that was to join one of them."""
    tokens = {connection.token for connection in connections}
    return frozenset(
        event.addresses[2]
        for event in observed.events
        if event.event == "subflow closed" and event.error == errno.ECONNREFUSED and event.token in tokens
    )


def ports_towards(observed: Host, server_ports: Iterable[int]) -> tuple[int, ...]:
    """The client's ports of the connections that it opened to some ports of its servers."""
    towards = set(server_ports)
    # one that was refused is closed without having been established
    joins = ("subflow established", "subflow closed")
    additional = {event.addresses for event in observed.events if event.event in joins}
    created = {event.addresses for event in observed.events if event.event == "created"}
    initial = created | (set(observed.sockets) - additional)
    return tuple(sorted({local for _, local, _, remote in initial if remote in towards}))


def _subflow(
    event: PathManagerEvent,
    is_initial: bool,
    totals: Mapping[Tuple4, SocketState],
    peers: Mapping[Tuple4, SocketState],
    names: Mapping[tuple[str, str], str],
) -> Subflow:
    addresses = event.addresses
    last, peer = totals.get(addresses), peers.get(addresses)
    # MP_FASTCLOSE clears the counts of the initial subflow before it closes. The client's last sample may then be half
    # a second old, and a short transfer may have none. The server's counts are not cleared. They are taken of every
    # subflow: the initial one would else be ahead of the others by the data whose acknowledgements are under way.
    return Subflow(
        addresses=addresses,
        path=names.get((addresses[0], addresses[2])),
        is_initial=is_initial,
        established_ns=event.at_ns,
        bytes_acked=max(last.get("bytes_acked") if last else 0, peer.get("bytes_received") if peer else 0),
        bytes_received=max(last.get("bytes_received") if last else 0, peer.get("bytes_acked") - _FLAGS if peer else 0),
        client=_sending_end(last),
        server=_sending_end(peer),
    )


def _sending_end(state: SocketState | None) -> SendingEnd:
    if state is None:
        return SendingEnd()
    return SendingEnd(state.get("rtt_us"), state.get("retransmits_packets"), state.get("bytes_retransmitted"))


def _as_seen(addresses: Tuple4, seen: Mapping[tuple[str, str], str]) -> Tuple4:
    """A subflow of the client as its server knows it."""
    local, local_port, remote, remote_port = addresses
    return seen.get((local, remote), local), local_port, remote, remote_port
