# SPDX-License-Identifier: Apache-2.0
"""Find out why a flow over MPTCP got plain TCP, or fewer subflows than its endpoints allow.

The MIB counters of both ends (nstat(8), MPTcpExt*) show the last packet of a handshake (RFC 8684 3.1 and 3.2) that
arrived. The counters of a middlebox are better evidence, and come first.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from mprun.metrics.interference import NONE, Interference
from mprun.model.spec import Mptcp

# An end that falls back after it has sent or received MP_CAPABLE counts one of these for the connection.
_FALLBACKS = ("MPCapableSYNTXDrop", "MPCapableFallbackACK", "MPCapableDataFallback", "DssFallback")


def has_fallen_back(client: Mapping[str, int], server: Mapping[str, int]) -> bool:
    """Check whether every connection that began as MPTCP continued as TCP (RFC 8684 3.7)."""
    return 0 < _count(client, "MPCapableSYNTX") <= count_fallbacks(client, server)


def count_fallbacks(client: Mapping[str, int], server: Mapping[str, int]) -> int:
    """Return the number of connections between the two that began as MPTCP and continued as TCP."""
    return max(map(_count_own_fallbacks, (client, server)))


def _count_own_fallbacks(end: Mapping[str, int]) -> int:
    return sum(_count(end, name) for name in _FALLBACKS)


def is_left_alone(sender: Mapping[str, int], receiver: Mapping[str, int]) -> bool:
    """Check whether the receiver has fallen back to TCP in connections in which the sender still uses MPTCP."""
    return _count_own_fallbacks(sender) < _count_own_fallbacks(receiver)


def explain_plain_tcp(client: Mapping[str, int], server: Mapping[str, int], interference: Interference = NONE) -> str:
    """Return the cause of a connection without MPTCP."""
    # connections after the first one that was given up do not ask for MPTCP (net.mptcp.blackhole_timeout)
    given_up = _count(client, "MPCapableSYNTXDrop") or _count(client, "MPCapableSYNTXDisabled")
    if not _count(client, "MPCapableSYNTX") and not given_up:
        return "the application opened a plain TCP socket: no MP_CAPABLE was sent"
    culprit = interference.blame("proxy.intercepted", "strip.mp_capable", "strip.mptcp")
    if culprit and not _count(client, "MPCapableSYNACKRX"):
        return culprit
    if given_up:
        return (
            "the client's kernel gave MPTCP up, as its SYN with MP_CAPABLE had no answer in time (MPCapableSYNTXDrop): "
            "the round trip is longer than the time-outs of a SYN, or something drops what has the option"
        )
    if not _count(server, "MPCapableSYNRX"):
        return (
            "MP_CAPABLE was sent and no MPTCP socket received it: the server's program listens on plain TCP, or "
            "something between the hosts removes the option"
        )
    if not _count(client, "MPCapableSYNACKRX"):
        return "the server answered MP_CAPABLE and its answer lost the option: something between the hosts removes it"
    fallback = "the connection fell back to TCP after its handshake (fallback, RFC 8684 3.7)"
    culprit = culprit or interference.blame("strip.dss", "strip.add_addr")
    return f"{fallback}: {culprit}" if culprit else fallback


def explain_settings(client: Mptcp, server: Mptcp, wanted: float) -> str | None:
    """Return how the MPTCP settings of two hosts give fewer subflows than were expected; None if they do not."""
    if client.path_manager == "default":
        flags = [flag for endpoint in client.endpoints for flag in endpoint.flags]
        if not flags:
            return (
                "the client's path manager is default, which opens no subflow by itself: write fullmesh, or endpoints"
            )
        if not {"subflow", "fullmesh"} & set(flags):
            has = ", ".join(dict.fromkeys(flags))
            return f"endpoint flags: the client opens subflows from endpoints with subflow or fullmesh, and has {has}"
    if client.subflows is not None and 1 + client.subflows < wanted:
        return f"limits: the client may open {client.subflows} additional subflows"
    # ndiffports goes to the address that it knows
    if client.path_manager != "ndiffports" and server.path_manager == "default":
        return (
            "the server's path manager is default, which announces no address by itself: write fullmesh, or endpoints"
        )
    return None


def explain_missing_subflows(
    client: Mapping[str, int],
    server: Mapping[str, int],
    wanted: int,
    got: int,
    accepted: int | None,
    interference: Interference = NONE,
    refused: Collection[str] = (),
) -> str:
    """Return the cause of fewer subflows than the endpoints allow.

    accepted: the client's `add_addr_accepted`. refused: addresses of the server that answered a join with a reset.
    """
    sent, received = _count(client, "MPJoinSynTx"), _count(server, "MPJoinSynRx")
    answered = _count(client, "MPJoinSynAckRx")
    if sent > received:
        lost = "MP_JOIN was sent and did not arrive" if not received else f"{sent - received} of {sent} joins were lost"
        rules = ("strip.mp_join", "strip.mptcp", "proxy.intercepted", "firewall.refused", "nat.unsolicited")
        if culprit := interference.blame(*rules):
            return f"{lost}: {culprit}"
        if refused:
            # a listener counts a join that it refuses as received
            return (
                f"no program listens at {', '.join(sorted(refused))}: the server's program has to take joins there too"
            )
    elif sent > answered and (culprit := interference.blame("alter.mp_join")):
        return f"MP_JOIN arrived with a token that no connection has: {culprit}"
    elif sent > answered and (culprit := interference.blame("strip.mp_join", "strip.mptcp")):
        return f"MP_JOIN arrived and its answer did not: {culprit}"
    if _count(server, "AddAddrTx") and not _count(client, "AddAddr"):
        unknown = "the client never learnt of the server's other addresses: ADD_ADDR was sent and did not arrive"
        if culprit := interference.blame("alter.add_addr"):
            return f"{unknown} as it was, as its HMAC shows (RFC 8684 3.4.1): {culprit}"
        culprit = interference.blame("strip.add_addr", "strip.mptcp")
        return f"{unknown}: {culprit}" if culprit else unknown
    if accepted is not None and _count(client, "AddAddr") > accepted:
        return f"limits: the client takes {accepted} of the announced addresses (add_addr_accepted)"
    if not sent:
        missing = (
            "no join was sent: the client has no endpoint for its other addresses, no route from them, or closed its "
            "direction before it could"
        )
        return _blame_routes(client, server) or missing
    if not received:
        lost = "MP_JOIN was sent and did not arrive: no route from that address, or the path drops it"
        return _blame_routes(client, server) or lost
    if not answered:
        if _count(server, "MPJoinRejected") or _count(server, "MPJoinPortSynRx"):
            return "the server refused the join: its limits allow no further subflow"
        # a SYN and ACK that no socket takes is answered by a reset, which the server counts
        if server.get("TcpExtEmbryonicRsts"):
            return (
                "join unanswered: the server's answer reached the client and no subflow took it; an endpoint that is "
                "bound to a device takes none that comes by another one"
            )
        return _blame_routes(client, server) or (
            "join unanswered: the server received MP_JOIN and its answer did not come back: no route to that address, "
            "or the path drops it"
        )
    if not _count(server, "MPJoinAckRx"):
        return "the server refused the join: its limits allow no further subflow"
    if sent > answered:
        lost = f"{sent - answered} of {sent} joins had no answer: a path was down or lossy during the handshake"
        return _blame_routes(client, server) or lost
    if dropped := _count(client, "AddAddrDrop"):
        return (
            f"Linux dropped {dropped} of the announced addresses, as it takes one at a time (AddAddrDrop); the server "
            "announces them again after net.mptcp.add_addr_timeout"
        )
    return f"{answered} joins were answered, and the connection still had {got} subflows instead of {wanted}"


def _blame_routes(client: Mapping[str, int], server: Mapping[str, int]) -> str | None:
    """Return what the routing of an end did to packets (IPReversePathFilter, IpOutNoRoutes); None if nothing."""
    for name, end in (("client", client), ("server", server)):
        if dropped := end.get("TcpExtIPReversePathFilter"):
            return f"rp_filter of the {name} dropped {dropped} packets, whose way back is another interface"
        if lost := end.get("IpOutNoRoutes"):
            return f"{lost} packets of the {name} had no route: a source rule, or a route in its table, is missing"
    return None


def _count(counters: Mapping[str, int], name: str) -> int:
    return counters.get(f"MPTcpExt{name}", 0)
