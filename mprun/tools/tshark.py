# SPDX-License-Identifier: Apache-2.0
"""tshark(1): the packets of a capture as lines of fields, one line a packet.

Each packet is dissected by itself: what needs the packets before it (streams, retransmissions, mappings) is
`mprun.analysis.trace`, so that a capture may be read in portions, by several processes at once.
"""

from __future__ import annotations

from mprun.tools.tool import Program

PROGRAMS = {"tshark": Program("tshark", "--version")}

# Our name of each field -> tshark's.
FIELDS = {
    "time": "frame.time_epoch",
    "interface": "frame.interface_name",
    "packet_type": "sll.pkttype",
    "mac": "eth.src",
    "length_bytes": "frame.len",
    "ipv4_source": "ip.src",
    "ipv4_destination": "ip.dst",
    "ipv4_protocol": "ip.proto",
    "ipv6_source": "ipv6.src",
    "ipv6_destination": "ipv6.dst",
    "ipv6_protocol": "ipv6.nxt",
    "tcp_source_port": "tcp.srcport",
    "tcp_destination_port": "tcp.dstport",
    "udp_source_port": "udp.srcport",
    "udp_destination_port": "udp.dstport",
    "flags": "tcp.flags",
    "seq": "tcp.seq_raw",
    "ack": "tcp.ack_raw",
    "tcp_payload": "tcp.len",
    "udp_length": "udp.length",
    "subtype": "tcp.options.mptcp.subtype",
    "sender_key": "tcp.options.mptcp.sendkey",
    "receiver_key": "tcp.options.mptcp.recvkey",
    "token": "tcp.options.mptcp.recvtok",
    "address_id": "tcp.options.mptcp.addrid",
    "backup": "tcp.options.mptcp.backup.flag",
    "data_ack": "tcp.options.mptcp.rawdataack",
    "dsn": "tcp.options.mptcp.rawdataseqno",
    "ssn": "tcp.options.mptcp.subflowseqno",
    "mapping_bytes": "tcp.options.mptcp.datalvllen",
    "announced_ipv4": "tcp.options.mptcp.ipv4",
    "announced_ipv6": "tcp.options.mptcp.ipv6",
    "echo": "tcp.options.mptcp.echo",
    "cut": "_ws.short",
}
# What would take time, or look at the packets before.
_PREFERENCES = (
    "tcp.analyze_sequence_numbers:FALSE",
    "tcp.relative_sequence_numbers:FALSE",
    "tcp.desegment_tcp_streams:FALSE",
    "tcp.calculate_timestamps:FALSE",
    "mptcp.analyze_mptcp:FALSE",
    "ip.defragment:FALSE",
    "ipv6.defragment:FALSE",
)


def argv() -> list[str]:
    """Reads a capture from standard input; fields of a packet are apart by tabs, values of one field by commas."""
    words = ["tshark", "-n", "-r", "-", "-T", "fields"]
    for preference in _PREFERENCES:
        words += ["-o", preference]
    for field in FIELDS.values():
        words += ["-e", field]
    return words
