# SPDX-License-Identifier: Apache-2.0
"""Lengths of UDP packets. The default fills an IP packet of the smallest MTU along the path. A longer length gives a
warning.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from mprun.inputs.ways import FlowPaths
from mprun.model.problem import Notes
from mprun.model.spec import Family, Flow
from mprun.workloads.tool import LENGTH, tool_of

_UDP_HEADER_BYTES = 8
# RFC 791, RFC 8200.
_IP_HEADER_BYTES: Mapping[Family, int] = {"ipv4": 20, "ipv6": 40}
# The least MTU without fragments of a protocol over IPv4. Linux sends TCP segments of 48 bytes (TCP_MIN_SND_MSS) after
# headers of 40 bytes; a QUIC handshake has datagrams of 1200 bytes (RFC 9000, section 14).
_LEAST_MTU: Mapping[str, int] = {"tcp": 88, "mptcp": 88, "quic": 1228}
# The names of a packet's payload: in a flow's options, and in a file.
_NAMES = {LENGTH: "length", "message_bytes": "message"}


def fill_lengths(paths: FlowPaths, flows: Sequence[Flow]) -> tuple[Flow, ...]:
    """Return flows with a packet length for each flow of UDP. The hosts of each flow are joined. paths: as they are."""
    filled = []
    for flow in flows:
        lacks = flow.protocol == "udp" and LENGTH in tool_of(flow).Entry.model_fields and LENGTH not in flow.options
        options = {**flow.options, LENGTH: _most_bytes(paths, flow)} if lacks else flow.options
        filled.append(replace(flow, options=options) if lacks else flow)
    return tuple(filled)


def check_lengths(paths: FlowPaths, notes: Notes) -> None:
    """Warn of flows whose packets are longer than what their path carries in one piece."""
    smallest = min((link.mtu for link in paths.topology.links), default=0)
    for n, flow in enumerate(paths.experiment.traffic):
        least = _LEAST_MTU.get(flow.protocol, 0)
        for path in paths.of(flow) if least > smallest else ():
            if (mtu := paths.ways.find_mtu(flow, path)) < least:
                message = f"has packets of {least} bytes, and the MTU of '{path.name}' is {mtu}: each is sent in"
                notes.warn(("traffic", n, "protocol"), f"{message} fragments, write 'mtu: {least}' or more")
                break
        given = next((option for option in _NAMES if option in flow.options), None)
        if flow.protocol != "udp" or given is None or not paths.of(flow):
            continue
        most, length = _most_bytes(paths, flow), flow.options[given]
        if isinstance(length, int) and length > most:
            message = (
                f"is {length} bytes, and the MTU of the path carries {most} in one packet: each is sent in fragments"
            )
            notes.warn(("traffic", n, _NAMES[given]), f"{message}, write '{most}bytes' or less")


def _most_bytes(paths: FlowPaths, flow: Flow) -> int:
    """The payload of the longest packet that the path of a flow of UDP carries in one piece."""
    path = paths.of(flow)[0]
    return paths.ways.find_mtu(flow, path) - _IP_HEADER_BYTES[path.family] - _UDP_HEADER_BYTES
