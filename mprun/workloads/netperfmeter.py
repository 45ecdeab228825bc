# SPDX-License-Identifier: Apache-2.0
"""`netperfmeter`: bulk or paced messages over TCP, MPTCP, the kernel's SCTP or UDP, see netperfmeter(1).

Its passive side has three consecutive ports. The middle one is for data. The port above is for the control connection,
which always uses SCTP. The port below is for the MPTCP of a patched kernel. Here mptcpize's library is used for MPTCP
instead.

At the end the active side collects the measurements of both sides: scalars, and vectors with a line for each message.
"""

from __future__ import annotations

import bz2
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import accumulate, chain, pairwise
from typing import Annotated, Any, Literal

from pydantic import Field

from mprun.inputs.keys.field import Whole
from mprun.inputs.keys.file_model import KeyProblem
from mprun.inputs.keys.traffic_entry import (
    MOST_DATAGRAM_BYTES,
    CongestionName,
    FlowRate,
    ServedEntry,
    Size,
    message_size,
    whole_seconds,
)
from mprun.model.capabilities import Capabilities
from mprun.model.metric import OF_CONNECTIONS, OF_HANDOVER, less
from mprun.model.plan import Ready
from mprun.model.spec import Flow
from mprun.model.units import RATE, TIME
from mprun.workloads import tool
from mprun.workloads.tool import Endpoints, Movement, Outputs, Portion, Program, Result, Table, TimeLimit, Work

PROGRAMS = {"netperfmeter": Program("netperfmeter")}
PORTS = 3
METRICS = {
    "goodput": tool.goodput(
        "payload that the receiver's program got, divided by the time from its first message to its last. Over UDP: "
        f"divided by {tool.LONGER}"
    ),
    "bytes": tool.total("size", "payload that the receiver's program got"),
    "retransmits": tool.total("count", "segments that all subflows sent again", ("tcp", "mptcp"), "lower"),
    "loss": less("ratio", "share of the messages that did not arrive", ("udp",)),
    **OF_CONNECTIONS,
    # of MPTCP by the kernel, of SCTP by the arrival times of messages
    **{name: replace(metric, protocols=("mptcp", "sctp")) for name, metric in OF_HANDOVER.items()},
}

# A measurement ends with the transfer of the passive side's results over the same network.
TIME_LIMIT = TimeLimit(120)
# The payload that fits into a packet of 1500 bytes over SCTP, and nearly so over TCP and UDP. The passive side's socket
# is always IPv6, and its SCTP leaves room for the longer header.
DEFAULT_MESSAGE_BYTES, DEFAULT_REVERSE_BYTES = 1452, 1432
# The shortest time without arrivals that is reported, in ns.
STANDSTILL_NS = 10_000_000
# By default netperfmeter sends larger messages in parts.
WHOLE_BYTES = 16_000
# A smaller share of the requested rate gives a warning.
LEAST_OFFERED = 0.97
SCALARS, VECTORS, CONFIGURATION = "flow.sca", "flow.vec.bz2", "flow.config"

_SCALAR = re.compile(r'^scalar "netPerfMeter\.(?:active|passive)\.([^"]+)"\s+"([^"]+)"\s+(\S+)$', re.MULTILINE)
_REMOTE = re.compile(r"Remote Address +=.*:(\d+)$", re.MULTILINE)
_INTERVAL = re.compile(r'^\d+ (\d+) [\d.]+ [\d.]+\t(\d+) ".*" [\d.]+\t"Received" (\d+) ', re.MULTILINE)
_ARRIVAL = re.compile(r"^\d+ (\d+) [\d.]+ \d+\t\d+ \d+ \d+\t\d+ \d+ \d+\t([\d.-]+) ", re.MULTILINE)
_MESSAGE = re.compile(r"^\d+ (\d+) [\d.]+ (\d+)\t\d+ \d+ \d+\t(\d+) \d+ \d+\t([\d.-]+) [\d.-]+ ([\d.]+)$", re.MULTILINE)


_Message = Annotated[int, *message_size("1452bytes", f" ('{MOST_DATAGRAM_BYTES}bytes' over UDP)")]


class Entry(ServedEntry):
    """Messages from one program to another, see netperfmeter(1)."""

    tool: Literal["netperfmeter"]
    protocol: Literal["tcp", "mptcp", "sctp", "udp"] = "tcp"
    """The transport protocol. `sctp` is the kernel's SCTP."""
    duration: Annotated[int, *whole_seconds("netperfmeter")] = Field(examples=["10s"])
    """The time to send, in whole seconds."""
    rate_bit_per_s: FlowRate | None = Field(None, alias="rate")
    """The rate of payload of each connection. `udp` needs it. Default: as fast as possible."""
    message_bytes: _Message | None = Field(None, alias="message")
    """The size of a message. Default: 1452bytes, or 1432bytes from the server."""
    reverse: bool = False
    """Let the server send and the client receive."""
    parallel: Annotated[int, Whole(1, 128, "each has a socket at both ends")] = 1
    """The number of parallel connections."""
    unordered: bool = False
    """Deliver messages in the order of arrival. Only for `sctp`."""
    send_buffer_bytes: Size | None = Field(None, alias="send_buffer")
    """The send buffer of the sockets. net.core.wmem_max must allow it. Default: 233016bytes."""
    receive_buffer_bytes: Size | None = Field(None, alias="receive_buffer")
    """The receive buffer of the sockets. net.core.rmem_max must allow it. Default: 233016bytes."""
    congestion: CongestionName | None = None
    """The congestion control of `tcp` and `mptcp`, by its name in the kernel. Default: the host's."""
    messages: bool = False
    """Write a table with a row for each message."""

    def options(self) -> dict[str, object]:
        return super().options() | {"message_bytes": self._whole_message_bytes()}

    def _whole_message_bytes(self) -> int:
        return self.message_bytes or (DEFAULT_REVERSE_BYTES if self.reverse else DEFAULT_MESSAGE_BYTES)

    def find_conflicts(self) -> Iterator[KeyProblem]:
        if self.protocol == "udp" and self.rate_bit_per_s is None:
            yield "rate", "is missing: write 'rate: 10mbit', as UDP has no rate of its own"
        if self.protocol == "udp" and (self.message_bytes or 0) > MOST_DATAGRAM_BYTES:
            yield "message", f"is more than fits into a UDP packet: write '{MOST_DATAGRAM_BYTES}bytes' or less"
        if self.unordered and self.protocol != "sctp":
            yield "unordered", f"is for SCTP, not for {self.protocol}: remove it"
        if self.congestion and self.protocol not in ("tcp", "mptcp"):
            yield "congestion", f"can be chosen for tcp and mptcp, not {self.protocol}: remove it"

    def find_doubts(self) -> Iterator[KeyProblem]:
        yield from super().find_doubts()
        bits = self._whole_message_bytes() * 8
        if self.rate_bit_per_s is not None and bits * 10**9 > self.rate_bit_per_s * self.duration:
            least = -(-10 * bits * 10**9 // self.duration)
            every = TIME.render(bits * 10**9 // self.rate_bit_per_s)
            one = f"is a message of {bits // 8} bytes every {every}, so that only one is sent within the flow's"
            yield "rate", f"{one} {TIME.render(self.duration)}: write '{RATE.render(least)}' or more for ten of them"


def work(flow: Flow, ends: Endpoints, capabilities: Capabilities) -> Work:
    """Return the passive side and the active side. The active side leaves the measurements of both."""
    environment = tool.mptcp_environment(flow, capabilities)
    port = ends.ports[1]
    both = {"env": environment, "needs": ("sctp",)}
    server = tool.make_server(flow, ("netperfmeter", str(port), "-quiet", "-quiet"), Ready("port", str(port)), **both)
    assert flow.duration_ns is not None
    files = {"-scalar": SCALARS, "-vector": VECTORS, "-config": CONFIGURATION}
    argv = ["netperfmeter", tool.join_port(ends.destination_address, port), "-quiet", "-quiet"]
    argv += [f"{option}={tool.kept(flow, name)}" for option, name in files.items()]
    for _ in _streams(flow):
        argv += [f"-{'tcp' if flow.protocol == 'mptcp' else flow.protocol}", _flow_words(flow)]
    argv.append(f"-runtime={flow.duration_ns / 1e9:g}")
    client = tool.make_client(flow, argv, keeps=tuple(tool.kept(flow, name) for name in _left(flow)), **both)
    return Work((client,), (server,))


def _streams(flow: Flow) -> range:
    """Return the numbers of the parallel connections of a flow."""
    return range(flow.options.get("parallel", 1))


def _name(file: str, side: str, stream: int | None = None) -> str:
    """Return the name under which netperfmeter writes a file of a side, or of one of its streams."""
    of_stream = "" if stream is None else f"-{stream:08d}-0000"
    return file.replace(".", f"-{side}{of_stream}.", 1)


def _flow_words(flow: Flow) -> str:
    """Return FLOWSPEC of netperfmeter(1): messages per second and their size, out and in, then options."""
    options = flow.options
    size = options["message_bytes"]
    rate = options["rate_bit_per_s"] / 8 / size if "rate_bit_per_s" in options else 0
    sends, silent = [f"const{rate:.9g}", f"const{size}"], ["const0", "const0"]
    words = [*silent, *sends] if options.get("reverse") else [*sends, *silent]
    if size > WHOLE_BYTES:
        words.append(f"maxmsgsize={size}")
    for word, option in (("sndbuf", "send_buffer_bytes"), ("rcvbuf", "receive_buffer_bytes")):
        if option in options:
            words.append(f"{word}={options[option]}")
    if options.get("unordered"):
        words.append("unordered=1")
    if flow.congestion:
        words.append(f"cc={flow.congestion}")
    return ":".join(words)


def _left(flow: Flow) -> Iterator[str]:
    """Yield the names of the files that netperfmeter writes. It derives them from the names that it was given."""
    yield CONFIGURATION
    for side in ("active", "passive"):
        yield _name(SCALARS, side)
        yield _name(VECTORS, side)
        yield from (_name(VECTORS, side, stream) for stream in _streams(flow))


def parse(flow: Flow, outputs: Outputs) -> Result:
    """Return the sums over the parallel flows of one entry, as the receiver's side measured them."""
    sides = ("active", "passive") if flow.options.get("reverse") else ("passive", "active")
    receiver, sender = (_read_scalars(outputs, side) for side in sides)
    if receiver is None or sender is None:
        said = (outputs.log(flow.name, "err") + outputs.log(f"{flow.name}.server", "err")).strip()
        # notes about other transports hide the reason
        errors = "\n".join(line for line in said.splitlines() if line.startswith("ERROR"))
        return Result(error=f"{(errors or said)[-500:]}{_remedy_of_limit(flow, said)}" or "it left no scalars")
    received = [values for name, values in receiver.items() if name.startswith("flow[") and values["Received Packets"]]
    if not received:
        return Result(error="nothing arrived")
    is_udp, side = flow.protocol == "udp", sides[0]
    sent = [values for name, values in sender.items() if name.startswith("flow[")]
    sent_packets = sum(one["Transmitted Packets"] for one in sent)
    offered_bytes = sum(one["Transmitted Bytes"] for one in sent)
    if is_udp and side == "active":
        counted = sum(_count_in_time(flow, outputs, stream, receiver, sender) for stream in _streams(flow))
        offered_bytes, sent_packets = offered_bytes * counted / sent_packets, counted
    bytes_ = sum(values["Received Bytes"] for values in received)
    arrived_packets = sum(one["Received Packets"] for one in received)
    length_ns = 1e3 * (max(v["Last Reception"] for v in received) - min(v["First Reception"] for v in received))
    if is_udp:
        length_ns = tool.counted_ns(flow, length_ns, arrived_packets)
    elif all(values["Received Packets"] < 2 for values in received):
        length_ns = 0
    values = {"bytes": bytes_} | ({"goodput": bytes_ * 8e9 / length_ns} if length_ns else {})
    if is_udp:
        values["loss"] = 1 - arrived_packets / sent_packets
    # the passive side's data port, as the active side printed it
    ports = _REMOTE.findall(outputs.log(flow.name))[:1] if flow.protocol in ("tcp", "mptcp") else ()
    portions = _find_portions(flow, outputs, side, receiver)
    tables = {"goodput": _tabulate(flow, portions)} if length_ns else {}
    if flow.options.get("messages"):
        tables["messages"] = _read_messages(flow, outputs, side)
    return Result(
        values,
        tables=tables,
        server_ports=tuple(map(int, ports)),
        warnings=(*_doubt(flow, offered_bytes), *(() if length_ns else (_tell_few_messages(flow),))),
        movement=_find_movement(flow, outputs, side, arrived_packets >= sent_packets)
        if flow.protocol == "sctp"
        else None,
        portions={"goodput": list(chain(*portions.values()))} if length_ns else {},
        lost_packets=round(sent_packets - arrived_packets) if is_udp else 0,
    )


def _count_in_time(
    flow: Flow, outputs: Outputs, stream: int, receiver: Mapping[str, dict[str, float]], sender: Mapping[str, Any]
) -> float:
    """Return the messages that the passive side sent over UDP while the active side read, and correct its first time.

    The active side begins to read when some messages wait already, and the passive side sends a second longer.
    """
    got, gave = receiver[f"flow[{stream}]"], sender[f"flow[{stream}]"]
    sent, span_us = gave["Transmitted Packets"], gave["Last Transmission"] - gave["First Transmission"]
    due = int((flow.duration_ns or 0) / 1e3 * (sent - 1) / span_us) + 1 if span_us else sent
    vector = _read_vector(outputs, "active", stream)
    arrived = [(int(at_us), float(ms) * 1e3, int(number)) for at_us, number, _, ms, _ in _MESSAGE.findall(vector)]
    if arrived:
        got["First Reception"] = min(at - delay for at, delay, _ in arrived) + min(delay for _, delay, _ in arrived)
        last = max(number for *_, number in arrived) + 1
        # by its clock, the last of the messages may be late
        due = last if due <= last + 2 else due
    return float(min(due, sent))


def _remedy_of_limit(flow: Flow, said: str) -> str:
    """Return the remedy if netperfmeter printed that a host limits the size of a buffer; else an empty text."""
    for side, limit in (("send", "wmem_max"), ("receive", "rmem_max")):
        if f"actual {side} buffer size <" in said:
            least = f"net.core.{limit}: {flow.options[f'{side}_buffer_bytes']}"
            return f": the kernel's limit is lower: give a host 'sysctl: {{{least}}}'"
    return ""


def _tell_few_messages(flow: Flow) -> str:
    higher = ", or a higher rate" if "rate_bit_per_s" in flow.options else ""
    return f"no connection got two messages, which a goodput needs: write a longer duration{higher}"


def _doubt(flow: Flow, sent_bytes: float) -> Iterator[str]:
    if "rate_bit_per_s" not in flow.options or not flow.duration_ns:
        return
    asked_mbit = flow.options["rate_bit_per_s"] * flow.options.get("parallel", 1) / 1e6
    offered_mbit = sent_bytes * 8e3 / flow.duration_ns
    if offered_mbit < LEAST_OFFERED * asked_mbit:
        # over UDP, a larger message is sent in fragments
        larger = "" if flow.protocol == "udp" else "a larger message, or "
        yield (
            f"it offered {offered_mbit:.3g} of {asked_mbit:.3g} Mbit/s: netperfmeter waits whole milliseconds from one "
            f"message to the next, so write {larger}several flows in parallel"
        )


def _read_scalars(outputs: Outputs, side: str) -> dict[str, dict[str, float]] | None:
    """Return object (`flow[0]`, `total`) -> name -> value; None if the file is missing."""
    text = outputs.file(_name(SCALARS, side))
    if text is None:
        return None
    found: dict[str, dict[str, float]] = {}
    for thing, name, value in _SCALAR.findall(text.decode(errors="replace")):
        found.setdefault(thing, {})[name] = float(value)
    return found or None


def _tabulate(flow: Flow, portions: Mapping[int, list[Portion]]) -> Table:
    """Return a row for each stream and second, from the stream's first message to its last."""
    direction = "back" if flow.options.get("reverse") else "forth"
    rows = (
        (direction, stream, one.begin_ns / 1e9, one.end_ns / 1e9, one.size_bytes * 8e9 / (one.end_ns - one.begin_ns))
        for stream, some in portions.items()
        for one in some
        if one.end_ns > one.begin_ns
    )
    return tool.tabulate(("direction", "stream", "start_s", "end_s", "goodput_bit_per_s"), rows)


def _from_zero_s(outputs: Outputs, at_us: str) -> float:
    """Return a time of the real-time clock in microseconds (netperfmeter's format) as seconds from time zero."""
    return (int(at_us) * 1_000 - outputs.epoch_ns) / 1e9


def _find_portions(
    flow: Flow, outputs: Outputs, side: str, receiver: Mapping[str, Mapping[str, float]]
) -> dict[int, list[Portion]]:
    """Return the payload of each stream between two lines of the vector.

    The first portion begins with the stream's first message, and the last one ends with its last message, or over UDP
    at the end of the flow's time if that is later. receiver: the scalars of this side.
    """
    least_us = (flow.duration_ns or 0) // 1_000 if flow.protocol == "udp" else 0
    intervals = _INTERVAL.findall(_read_vector(outputs, side))
    portions: dict[int, list[Portion]] = {}
    for stream in _streams(flow):
        scalars = receiver.get(f"flow[{stream}]", {})
        if not scalars.get("Received Packets"):
            continue
        first_us, last_us = (int(scalars[f"{which} Reception"]) for which in ("First", "Last"))
        last_us = max(last_us, first_us + least_us)
        known = [(int(at_us), int(size)) for at_us, number, size in intervals if int(number) == stream]
        cuts = [(min(max(at_us, first_us), last_us), size) for at_us, size in known]
        cuts = [(first_us, 0), *cuts, (last_us, int(scalars["Received Bytes"]))]
        portions[stream] = [
            Portion(begin_us * 1_000 - outputs.epoch_ns, end_us * 1_000 - outputs.epoch_ns, after - before)
            for (begin_us, before), (end_us, after) in pairwise(cuts)
        ]
    return portions


def _read_messages(flow: Flow, outputs: Outputs, side: str) -> Table:
    """Return a row for each message, with times from time zero. The delay is from its sending to its arrival.

    netperfmeter leaves out messages that arrive before both sides have begun to measure.
    """
    rows = (
        (stream, _from_zero_s(outputs, at_us), int(sequence), int(bytes_), float(delay_ms), float(jitter_ms))
        for stream in _streams(flow)
        for at_us, sequence, bytes_, delay_ms, jitter_ms in _MESSAGE.findall(_read_vector(outputs, side, stream))
    )
    return tool.tabulate(("stream", "time_s", "sequence", "bytes", "delay_ms", "jitter_ms"), rows)


def _find_movement(flow: Flow, outputs: Outputs, side: str, is_whole: bool) -> Movement | None:
    """Return when messages of all parallel streams were in transit, and when none arrived. `side` received them.

    is_whole: all messages arrived. If not, the missing messages count as in transit until the end of the flow's time.
    """
    arrivals = []
    for stream in _streams(flow):
        for at_us, delay_ms in _ARRIVAL.findall(_read_vector(outputs, side, stream)):
            at_ns = int(at_us) * 1_000 - outputs.epoch_ns
            arrivals.append((at_ns, at_ns - round(float(delay_ms) * 1e6)))
    if not arrivals:
        return None
    arrivals.sort()
    # a message that was lost arrives later than messages sent after it
    earliest = list(accumulate((sent_ns for _, sent_ns in reversed(arrivals)), min))[::-1]
    stood = [
        (max(before, sent), at)
        for (before, _), (at, _), sent in zip(arrivals, arrivals[1:], earliest[1:], strict=False)
    ]
    began_ns, ended_ns = earliest[0], arrivals[-1][0]
    if not is_whole:
        last_ns, ended_ns = ended_ns, max(ended_ns, began_ns + (flow.duration_ns or 0))
        stood.append((last_ns, ended_ns))
    return Movement(began_ns, ended_ns, [(since, until) for since, until in stood if until - since >= STANDSTILL_NS])


def _read_vector(outputs: Outputs, side: str, stream: int | None = None) -> str:
    try:
        return bz2.decompress(outputs.file(_name(VECTORS, side, stream)) or b"").decode(errors="replace")
    except (OSError, ValueError):
        return ""
