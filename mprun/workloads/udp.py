# SPDX-License-Identifier: Apache-2.0
"""`udp`: numbered packets at a constant rate, with loss, reordering and the one-way delay of each packet.

Both ends run on one kernel and read one clock. The delay of a packet is the time from its sending to its reading.
Sender and receiver are `mprun.agent.programs.datagrams`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

from pydantic import Field

from mprun.inputs.keys.field import SIZE_SCHEMA, checked
from mprun.inputs.keys.file_model import KeyProblem
from mprun.inputs.keys.traffic_entry import MOST_DATAGRAM_BYTES, FlowRate, PositiveTime, ServedEntry
from mprun.model import engine_paths
from mprun.model.capabilities import Capabilities
from mprun.model.metric import delays, less
from mprun.model.plan import Ready
from mprun.model.spec import Flow
from mprun.model.units import SIZE
from mprun.workloads import tool
from mprun.workloads.tool import PYTHON, Endpoints, Outputs, Portion, Program, Result, TimeLimit, Work

PROGRAMS = {"python3": Program("python3")}
PORTS = 1
METRICS = {
    **delays("delay", "time from the sending of a packet to its reading"),
    "goodput": tool.goodput(f"payload that arrived, divided by {tool.LONGER}"),
    "loss": less("ratio", "share of the packets that did not arrive"),
    "reordered": less(
        "ratio", "share of the arrived packets that arrived after a packet with a higher number (RFC 4737)"
    ),
    "duplicates": tool.total("count", "packets that arrived more than once", better="lower"),
    "packets": tool.total("count", "packets that were sent"),
}

PROGRAM = f"{engine_paths.PROGRAMS}/datagrams.py"
RECEIVED = "packets"
# Number, sent, received; each packet holds the number and the sending time.
_RECORD, LEAST_BYTES = struct.Struct("<QQQ"), 16
# The payload that fills a packet of 1500 bytes over IPv4.
FULL_BYTES = 1472
MOST_PACKETS = 1_000_000
TIME_LIMIT = TimeLimit(30)


_NO_LENGTH = (
    f"{{}} bytes are not between {LEAST_BYTES}, for number and time, and {MOST_DATAGRAM_BYTES}, what fits into an IP "
    "packet: write '1000bytes'"
)
_LENGTHS = range(LEAST_BYTES, MOST_DATAGRAM_BYTES + 1)
Length = Annotated[int, *checked(SIZE.parse, SIZE_SCHEMA, _LENGTHS.__contains__, _NO_LENGTH)]


class Entry(ServedEntry):
    """UDP packets at a constant rate."""

    tool: Literal["udp"]
    protocol: Literal["udp"] = "udp"
    """The transport protocol."""
    rate_bit_per_s: FlowRate = Field(alias="rate", examples=["1mbit"])
    """The rate of payload."""
    duration: PositiveTime = Field(examples=["10s"])
    """The time to send."""
    length_bytes: Length | None = Field(None, alias="length")
    """The payload of a packet. Default: the largest payload for the path's MTU."""

    def find_conflicts(self) -> Iterator[KeyProblem]:
        packets = _due(self.duration, self.rate_bit_per_s, self.length_bytes or FULL_BYTES)
        if packets > MOST_PACKETS:
            yield "rate", f"amounts to {packets} packets, and each is recorded: write less, or longer packets"
        if packets < 1:
            yield "duration", "is too short for a single packet at this rate: write a longer one, or a higher rate"


def work(flow: Flow, ends: Endpoints, capabilities: Capabilities) -> Work:
    """Return the receiver, which listens until the end of the run, and the sender."""
    assert flow.duration_ns is not None
    packets = max(1, _due(flow.duration_ns, flow.options["rate_bit_per_s"], flow.options["length_bytes"]))
    address, port = ends.destination_address, str(ends.port)
    file = tool.kept(flow, RECEIVED)
    receiving = (*PYTHON, PROGRAM, "receive", address, port, file)
    facts = (f"length={flow.options['length_bytes']}", f"rate={flow.options['rate_bit_per_s']}", f"packets={packets}")
    sender = tool.make_client(flow, (*PYTHON, PROGRAM, "send", address, port, *facts))
    return Work((sender,), (tool.make_server(flow, receiving, Ready("udp", port), keeps=(file,)),))


def parse(flow: Flow, outputs: Outputs) -> Result:
    """Return goodput, delays, loss, reordering and duplicates of the packets that arrived."""
    said = outputs.log(flow.name).strip()
    if not said.isdigit():
        return Result(error=tool.said_by(flow, outputs, "it did not report how many packets it sent"))
    arrived = tool.read_records(outputs, RECEIVED, _RECORD)
    if arrived is None:
        return Result(error="the receiver's record is missing or not whole")
    first: dict[int, int] = {}
    for number, sent_ns, received_ns in arrived:
        first.setdefault(number, received_ns - sent_ns)
    sent = int(said)
    length_bytes = flow.options["length_bytes"]
    moments = [received_ns for _, _, received_ns in arrived]
    counted_ns = tool.counted_ns(flow, max(moments, default=0) - min(moments, default=0), len(arrived))
    values = {
        "goodput": len(first) * length_bytes * 8e9 / counted_ns,
        "loss": 1 - len(first) / sent,
        "reordered": count_reordered([number for number, _, _ in arrived]) / max(1, len(arrived)),
        "duplicates": len(arrived) - len(first),
        "packets": sent,
    }
    rows = ((number, sent_ns - outputs.zero_ns, received_ns - sent_ns) for number, sent_ns, received_ns in arrived)
    return Result(
        values,
        tables={"datagrams": tool.tabulate(("sequence", "sent_ns", "delay_ns"), rows)} if arrived else {},
        delays_ns={"delay": list(first.values())},
        portions={"goodput": [_whole(flow, arrived, len(first) * length_bytes, outputs.zero_ns)]} if arrived else {},
        lost_packets=sent - len(first),
    )


def _whole(flow: Flow, arrived: Sequence[tuple[int, int, int]], size_bytes: int, zero_ns: int) -> Portion:
    """Return all payload from the flow's start to its end, or to the last arrival.

    Queues may hold packets for longer than the flow's time.
    """
    bits, rate = flow.options["length_bytes"] * 8, flow.options["rate_bit_per_s"]
    # a packet is late if the sender had to wait for a CPU, but never early
    began_ns = min(sent_ns - number * bits * 10**9 // rate for number, sent_ns, _ in arrived) - zero_ns
    ended_ns = max(received_ns for _, _, received_ns in arrived) - zero_ns
    return Portion(began_ns, max(ended_ns, began_ns + (flow.duration_ns or 0)), size_bytes)


def _due(duration_ns: int, rate_bit_per_s: int, length_bytes: int) -> int:
    """Return the number of packets that are due within a time."""
    return duration_ns * rate_bit_per_s // (length_bytes * 8 * 10**9)


def count_reordered(numbers: Sequence[int]) -> int:
    """Return the packets that arrive after a packet with a higher number (RFC 4737, 3.3). Copies do not count."""
    expected, seen, reordered = 0, set(), 0
    for number in numbers:
        if number >= expected:
            expected = number + 1
        elif number not in seen:
            reordered += 1
        seen.add(number)
    return reordered
