# SPDX-License-Identifier: Apache-2.0
"""The MPTCP connections of the kernel and their subflows."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import gdb

from mprun.kernel.gdb import structure

# include/net/tcp_states.h, from 1 on
STATES = (
    *("ESTABLISHED", "SYN_SENT", "SYN_RECV", "FIN_WAIT1", "FIN_WAIT2", "TIME_WAIT", "CLOSE", "CLOSE_WAIT"),
    *("LAST_ACK", "LISTEN", "CLOSING", "NEW_SYN_RECV"),
)


def list_connections() -> Iterator[gdb.Value]:
    """Yield each connection that has a token, as a pointer to struct mptcp_sock, in the order of the tokens' table.

    The table has tens of thousands of chains, most of them empty. So their first pointers are read all at once.
    """
    pointer = gdb.lookup_type("struct mptcp_sock").pointer()
    table = structure.variable("token_hash")
    size_bytes = table.dereference().type.sizeof
    begin = structure.offset_of("token_bucket", "msk_chain.first")
    content = structure.read(int(table), (int(structure.variable("token_mask")) + 1) * size_bytes)
    for number in range(len(content) // size_bytes):
        (first,) = struct.unpack_from("=Q", content, number * size_bytes + begin)
        # an odd address ends a chain
        if not first & 1:
            for sock in structure.null_ended_entries(table[number]["msk_chain"], "sock", "__sk_common.skc_nulls_node"):
                yield sock.cast(pointer)


def common_of(sock: gdb.Value) -> gdb.Value:
    """Return the part that every socket has (struct sock_common), from a pointer to any socket."""
    return sock.cast(gdb.lookup_type("struct sock_common").pointer()).dereference()


def namespace_of(sock: gdb.Value) -> int:
    """Return the address of a socket's network namespace."""
    return int(common_of(sock)["skc_net"]["net"])


def state_of(sock: gdb.Value) -> str:
    """Return the state of a socket."""
    number = int(common_of(sock)["skc_state"])
    return STATES[number - 1] if 0 < number <= len(STATES) else str(number)


def ends_of(sock: gdb.Value) -> str:
    """Return both ends of a socket: addresses and ports."""
    common = common_of(sock)
    is_ipv4 = int(common["skc_family"]) == structure.AF_INET
    own, peer = ("skc_rcv_saddr", "skc_daddr") if is_ipv4 else ("skc_v6_rcv_saddr", "skc_v6_daddr")
    return " > ".join(
        f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
        for address, port in (
            (structure.address_of(common[own]), int(common["skc_num"])),
            (structure.address_of(common[peer]), structure.port_of(common["skc_dport"])),
        )
    )


def describe(connection: gdb.Value) -> Iterator[str]:
    """Yield lines about a connection and its subflows."""
    yield (
        f"token {int(connection['token']):08x}, {state_of(connection)}, {ends_of(connection)}, msk {int(connection):#x}"
    )
    sent = int(connection["snd_nxt"]) - int(connection["snd_una"])
    yield (
        f"  data: snd_una {int(connection['snd_una'])}, snd_nxt {int(connection['snd_nxt'])} ({sent} bytes between), "
        f"ack_seq {int(connection['ack_seq'])}"
    )
    for subflow in structure.entries(connection["conn_list"], "mptcp_subflow_context", "node"):
        yield from _describe_subflow(subflow)


def _describe_subflow(subflow: gdb.Value) -> Iterator[str]:
    sock = subflow["tcp_sock"]
    tcp = sock.cast(gdb.lookup_type("struct tcp_sock").pointer())
    flags = [name for name, is_set in _flags(subflow) if is_set]
    yield (
        f"  subflow {int(subflow['subflow_id'])}: {ends_of(sock)}, {state_of(sock)}"
        + (f", {', '.join(flags)}" if flags else "")
        + f", sk {int(sock):#x}"
    )
    una, nxt = int(tcp["snd_una"]), int(tcp["snd_nxt"])
    yield (
        f"    cwnd {int(tcp['snd_cwnd'])}, srtt {(int(tcp['srtt_us']) >> 3) / 1000:.3f} ms, snd_una {una}, "
        f"snd_nxt {nxt} ({(nxt - una) % 2**32} bytes between)"
    )


def _flags(subflow: gdb.Value) -> Iterator[tuple[str, bool]]:
    yield "backup (the peer's wish)", bool(int(subflow["backup"]))
    yield "backup (the own wish)", bool(int(subflow["request_bkup"]))
    yield "stale", bool(int(subflow["stale"]))
    yield "closing", bool(int(subflow["closing"]))
    yield "not fully established", not int(subflow["fully_established"])
