# SPDX-License-Identifier: Apache-2.0
"""tshark(1): the packets of a capture as lines of fields, one line for each packet.

Each packet is dissected alone. `mprun.captures.tcp_connection` does what needs earlier packets (streams,
retransmissions, mappings). So several processes can read portions of a capture at once.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable

from mprun.errors import MachineError
from mprun.model.intent import AddressedFlow
from mprun.workloads.sctp import udp_port
from mprun.workloads.tool import Program

PROGRAMS = {"tshark": Program("tshark", "--version")}

# mprun's name of each field -> tshark's name.
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
    "data_fin": "tcp.options.mptcp.datafin.flag",
    "sctp_source_port": "sctp.srcport",
    "sctp_destination_port": "sctp.dstport",
    "tag": "sctp.verification_tag",
    "chunks": "sctp.chunk_type",
    "chunk_lengths": "sctp.chunk_length",
    "tsns": "sctp.data_tsn_raw",
    "cumulative_tsn": "sctp.sack_cumulative_tsn_ack_raw",
    "initiate_tag": "sctp.initiate_tag",
    "init_tsn": "sctp.init_initial_tsn",
    "init_ack_tsn": "sctp.initack_initial_tsn",
    "own_ipv4": "sctp.parameter_ipv4_address",
    "own_ipv6": "sctp.parameter_ipv6_address",
    "cut": "_ws.short",
}
# Dissections that are slow, or need earlier packets, are off.
_PREFERENCES = (
    "tcp.analyze_sequence_numbers:FALSE",
    "tcp.relative_sequence_numbers:FALSE",
    "tcp.desegment_tcp_streams:FALSE",
    "tcp.calculate_timestamps:FALSE",
    "mptcp.analyze_mptcp:FALSE",
    "sctp.tsn_analysis:FALSE",
    "sctp.relative_tsns:FALSE",
    "sctp.reassembly:FALSE",
    "sctp.ulp_dissection:FALSE",
    "ip.defragment:FALSE",
    "ipv6.defragment:FALSE",
)


def need() -> str:
    """Return the path of tshark. Raises MachineError if it is not installed."""
    if program := shutil.which("tshark"):
        return program
    raise MachineError("reading captures needs tshark: apt-get install tshark")


def argv(flows: Iterable[AddressedFlow]) -> list[str]:
    """Return the command that reads a capture from standard input.

    Tabs separate fields, commas separate values of a field.

    flows: the flows of the run's intent.
    """
    words = ["tshark", "-n", "-r", "-", "-T", "fields", *decoding(flows)]
    for preference in _PREFERENCES:
        words += ["-o", preference]
    for field in FIELDS.values():
        words += ["-e", field]
    return words


def decoding(flows: Iterable[AddressedFlow]) -> list[str]:
    """Return the options that tell tshark and Wireshark the UDP ports of SCTP. They know only port 9899."""
    mine = ((flow.port, flow.endpoints.port) for flow in flows if flow.tool == "sctp")
    ports = sorted({udp_port(asked, port) for asked, port in mine if port is not None})
    return [word for port in ports for word in ("-d", f"udp.port=={port},sctp")]
