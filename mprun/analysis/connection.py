# SPDX-License-Identifier: Apache-2.0
"""From what the agent observed to the connections of a flow and their subflows.

A flow's data connection is known by its client's port; MPTCP events then give the token that its
subflows share, and sockets give each subflow's bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Tuple4 = tuple[str, int, str, int]


@dataclass(frozen=True)
class SendingEnd:
    """What an end says of what it sends. srtt_us: smoothed, 0 before any; resent: segments sent again."""

    srtt_us: int = 0
    resent: int = 0


@dataclass(frozen=True)
class Subflow:
    """One subflow as its client saw it. path: None where no path has its addresses.

    bytes_acked, bytes_received: payload in this subflow's two directions. client, server: what each end said last;
    nothing of the server where it knows the subflow by other addresses.
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
    """A connection of a flow; `token` None for plain TCP. lived_ns: None where nobody saw it begin and end."""

    token: int | None
    subflows: tuple[Subflow, ...]
    lived_ns: int | None = None


def find_connections(
    observed: Mapping[str, Any], peer: Mapping[str, Any], ports: Iterable[int], paths: Sequence[Mapping[str, Any]]
) -> tuple[Connection, ...]:
    """The connections whose initial subflow left from one of `ports`.

    observed, peer: the client's and the server's part of the agent's record. A subflow counts when
    both ends say that it is established: the client says so one packet before a server refuses it. Beyond
    a NAT it has another address, and keeps its port, as Linux has it wherever that is free.
    paths: those of the flow, from the intent.
    """
    wanted = set(ports)
    accepted = {
        (event["remote"], event["remote_port"], event["local"], event["local_port"])
        for event in peer["events"]
        if event["event"] == "subflow established"
    }
    names = {(path["source"], path["destination"]): path["name"] for path in paths}
    seen = {(path["source"], path["destination"]): path.get("source_seen", path["source"]) for path in paths}
    totals = _totals(observed)
    peers = {(b, q, a, p): state for (a, p, b, q), state in _totals(peer).items()}
    connections = []
    for event in observed["events"]:
        if event["event"] == "created" and event["local_port"] in wanted:
            wanted.discard(event["local_port"])
            members = [event] + [
                other
                for other in observed["events"]
                if other["event"] == "subflow established"
                and other["token"] == event["token"]
                and _as_seen(_addresses(other), seen) in accepted
            ]
            subflows = tuple(_subflow(member, member is event, totals, peers, names) for member in members)
            connections.append(Connection(event["token"], subflows, _lifetime(event, observed["events"])))
    for addresses in totals:
        if addresses[1] in wanted:
            plain = {"local": addresses[0], "local_port": addresses[1], "remote": addresses[2]}
            plain |= {"remote_port": addresses[3], "at_ns": 0}
            connections.append(Connection(None, (_subflow(plain, True, totals, peers, names),)))
            wanted.discard(addresses[1])
    return tuple(connections)


def ports_towards(observed: Mapping[str, Any], server_ports: Iterable[int]) -> tuple[int, ...]:
    """The client's ports of the connections that it opened to some ports of its servers."""
    towards = set(server_ports)
    additional = {_addresses(event) for event in observed["events"] if event["event"] == "subflow established"}
    initial = {_addresses(event) for event in observed["events"] if event["event"] == "created"} | set(
        _totals(observed)
    )
    return tuple(sorted({local for _, local, _, remote in initial - additional if remote in towards}))


def _lifetime(created: Mapping[str, Any], events: Sequence[Mapping[str, Any]]) -> int | None:
    """How long a connection lasted at the end that observed it, ns."""
    token = created["token"]
    ends = [event["at_ns"] for event in events if event["event"] == "closed" and event["token"] == token]
    return ends[0] - created["at_ns"] if ends else None


def _subflow(
    event: Mapping[str, Any],
    is_initial: bool,
    totals: Mapping[Tuple4, Mapping[str, Any]],
    peers: Mapping[Tuple4, Mapping[str, Any]],
    names: Mapping[tuple[str, str], str],
) -> Subflow:
    addresses = _addresses(event)
    last = totals.get(addresses, {})
    return Subflow(
        addresses=addresses,
        path=names.get((event["local"], event["remote"])),
        is_initial=is_initial,
        established_ns=event["at_ns"],
        bytes_acked=last.get("bytes_acked", 0),
        bytes_received=last.get("bytes_received", 0),
        client=_sending_end(last),
        server=_sending_end(peers.get(addresses, {})),
    )


def _sending_end(state: Mapping[str, Any]) -> SendingEnd:
    return SendingEnd(state.get("rtt_us", 0), state.get("retransmits_total", 0))


def _addresses(record: Mapping[str, Any]) -> Tuple4:
    return record["local"], record["local_port"], record["remote"], record["remote_port"]


def _as_seen(addresses: Tuple4, seen: Mapping[tuple[str, str], str]) -> Tuple4:
    """A subflow of the client as its server knows it."""
    local, local_port, remote, remote_port = addresses
    return seen.get((local, remote), local), local_port, remote, remote_port


def _totals(observed: Mapping[str, Any]) -> dict[Tuple4, Mapping[str, Any]]:
    """Each socket's last state: what the kernel said when it closed, else the last sample.

    A disconnected socket closes with its counts cleared, hence the larger of the two.
    """
    totals: dict[Tuple4, Mapping[str, Any]] = {}
    for record in (*observed["samples"], *observed["closed"]):
        key = _addresses(record)
        before = totals.get(key)
        volume = record.get("bytes_acked", 0) + record.get("bytes_received", 0)
        if before is None or volume >= before.get("bytes_acked", 0) + before.get("bytes_received", 0):
            totals[key] = record
    return totals
