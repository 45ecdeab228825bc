# SPDX-License-Identifier: Apache-2.0
"""`iperf3`: bulk transfer over TCP, MPTCP or SCTP, or UDP at a given rate, see iperf3(1).

With MPTCP, iperf3 has two connections: one for control and one for data. `data_ports` distinguishes them. Versions
before 3.19 cannot open MPTCP sockets. The library of mptcpize then replaces their sockets.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import accumulate
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from mprun.inputs.keys.field import SIZE_SCHEMA, TIME_SCHEMA, VOLUME_SCHEMA, Whole, checked
from mprun.inputs.keys.file_model import KeyProblem
from mprun.inputs.keys.traffic_entry import (
    MOST_DATAGRAM_BYTES,
    CongestionName,
    FlowRate,
    OmitEntry,
    ServedEntry,
    Size,
    whole_seconds,
)
from mprun.model.capabilities import Capabilities
from mprun.model.frozen import Frozen
from mprun.model.metric import OF_CONNECTIONS, less
from mprun.model.plan import Process, Ready
from mprun.model.spec import Flow, Protocol
from mprun.model.units import NS_PER_S, SIZE, TIME, VOLUME, format_measured
from mprun.workloads import tool
from mprun.workloads.account import tell_iperf3
from mprun.workloads.tool import LENGTH, Endpoints, Outputs, Portion, Program, Result, TimeLimit, Work

PROGRAMS = {"iperf3": Program("iperf3", "--version")}
PORTS = 1
TCP: tuple[Protocol, ...] = ("tcp", "mptcp")
METRICS = {
    "goodput": tool.goodput("payload that the receiver's program got, divided by the flow's time"),
    "bytes": tool.total("size", "payload that the receiver's program got"),
    "retransmits": tool.total("count", "segments that all subflows sent again", TCP, "lower"),
    "loss": less("ratio", "share of the packets that did not arrive before the end of the test", ("udp",)),
    "goodput.back": tool.goodput("for a bidirectional flow, the goodput from its destination to its source"),
    "bytes.back": tool.total("size", "for a bidirectional flow, the payload that its source got"),
    "retransmits.back": tool.total(
        "count", "for a bidirectional flow, the segments that its destination sent again", TCP, "lower"
    ),
    "loss.back": less("ratio", "for a bidirectional flow, the loss in the direction to its source", ("udp",)),
    **OF_CONNECTIONS,
}

# The payload that fits into a packet of 1500 bytes. With iperf3's default of 64 KiB, three messages fill a send buffer.
SCTP_MESSAGE_BYTES = 1_452
# This many UDP packets are sent at once, if timers allow it.
BURST_PACKETS = 4
# The receiver's clock starts half a round trip late. A shorter last interval belongs to the end of the test.
MINIMUM_INTERVAL_S = 0.1
# The bytes that the server sends on the control connection until the test is over: one for each state.
STATES_BYTES = 4
# A smaller part of a size that did not arrive is no reason for a warning, and may be under way.
CLEAR_SHARE = 0.02
# The key of an interval of a bidirectional test for the data that the server sent.
BACK = "sum_bidir_reverse"
# iperf3's MAX_BLOCKSIZE.
MOST_BLOCK_BYTES = 1 << 20
# The payload of a TCP write.
BLOCK_BYTES = 128 << 10


_NO_SECONDS = "iperf3 reports whole seconds, not {}: write '1s'"
_NO_BLOCK = f"{{}} bytes at a time are not between 1 and {MOST_BLOCK_BYTES}: write '128kb'"
WholeSeconds = Annotated[int, *whole_seconds("iperf3")]
Omitted = Annotated[int, *checked(TIME.parse, TIME_SCHEMA, lambda ns: ns % NS_PER_S == 0, _NO_SECONDS, TIME.render)]
_WINDOW = replace(VOLUME, noun="window", maximum=512 << 20, too_large="iperf3 takes no more", canonical=("byte", "mb"))
Window = Annotated[int, *checked(_WINDOW.parse, VOLUME_SCHEMA, bool, "is zero: write '1byte' or more")]
Block = Annotated[int, *checked(SIZE.parse, SIZE_SCHEMA, lambda size: 0 < size <= MOST_BLOCK_BYTES, _NO_BLOCK)]


class OmitSecondsEntry(OmitEntry):
    """The time to leave out of the goodput, in whole seconds, to measure a steady state."""

    start_ns: Omitted = Field(0, alias="start")
    """The time to leave out at the beginning."""
    end_ns: Omitted = Field(0, alias="end")
    """The time to leave out at the end."""


class Entry(ServedEntry):
    """Bulk transfer, see iperf3(1)."""

    UNSAID = ("bidirectional",)
    ELSEWHERE: ClassVar[Mapping[str, str]] = {
        **ServedEntry.ELSEWHERE,
        "cmt": "is a key of another tool, whose SCTP uses several paths at once: write 'tool: sctp'",
    }
    tool: Literal["iperf3"]
    protocol: Literal["tcp", "mptcp", "udp", "sctp"] = "tcp"
    """The transport protocol. `sctp` is the kernel's SCTP."""
    rate_bit_per_s: FlowRate | None = Field(None, alias="rate")
    """The rate of payload of each connection. `udp` needs it."""
    duration: WholeSeconds | None = Field(None, examples=["10s"])
    """The time to send, in whole seconds. Use either `duration` or `size`."""
    size_bytes: Size | None = Field(None, alias="size")
    """The number of bytes that the client writes. Use it instead of `duration`. Data that is still in flight at the end
    is not received."""
    omit: OmitSecondsEntry | None = None
    """The times to leave out of the goodput, to measure a steady state."""
    length_bytes: Block | None = Field(None, alias="length")
    """The payload of a UDP packet, of an SCTP message, or of a TCP write. A smaller `size` of TCP or SCTP is sent at
    once. Default: for UDP the largest payload for the path's MTU, for SCTP 1452bytes, for TCP 128kb."""
    window_bytes: Window | None = Field(None, alias="window")
    """The socket buffers of both ends. Default: the kernel tunes the buffers."""
    congestion: CongestionName | None = None
    """The congestion control of both ends. Default: the hosts'."""
    reverse: bool = False
    """Let the server send and the client receive."""
    bidirectional: bool = False
    """Let both ends send: the client on one connection, the server on another."""
    parallel: Annotated[int, Whole(1, 128, "iperf3 takes no more streams")] = 1
    """The number of parallel connections."""

    def find_conflicts(self) -> Iterator[KeyProblem]:
        if self.protocol == "udp":
            if self.rate_bit_per_s is None:
                yield "rate", "is missing: write 'rate: 10mbit', as UDP has no rate of its own"
            if self.length_bytes is not None and self.length_bytes > MOST_DATAGRAM_BYTES:
                yield "length", f"is more than fits into a UDP packet: write '{MOST_DATAGRAM_BYTES}bytes' or less"
        if self.protocol in ("udp", "sctp") and self.congestion is not None:
            yield "congestion", "is for TCP: remove it, or write 'protocol: tcp'"
        if self.duration is None and self.size_bytes is None:
            yield "duration", "is missing: write 'duration: 10s', or how much, as in 'size: 100mb'"
        if self.duration is not None and self.size_bytes is not None:
            yield "size", "conflicts with 'duration': remove one of the two"
        elif self.size_bytes is not None and self.bidirectional:
            yield "size", "would end both directions once they have it together: write 'duration: 10s'"
        if self.bidirectional and self.reverse:
            yield "reverse", "conflicts with 'bidirectional', which has both directions: remove it"
        if self.omit is not None:
            yield from self.omit.find_excess(self.duration)


# A client also connects, drains queues and exchanges results.
TIME_LIMIT = TimeLimit(30)


def work(flow: Flow, ends: Endpoints, capabilities: Capabilities) -> Work:
    """Return a server for one test, and a client whose output is JSON that includes the server's JSON."""
    argv = ("iperf3", "--server", "--one-off", "--json", "--port", str(ends.port), *_mptcp_flag(flow, capabilities))
    environment = _preload(flow, capabilities, receives=not flow.options.get("reverse"))
    server = tool.make_server(flow, argv, Ready("port", str(ends.port)), env=environment, needs=_needs(flow))
    return Work((_client(flow, ends, capabilities),), (server,))


def _client(flow: Flow, ends: Endpoints, capabilities: Capabilities) -> Process:
    options = flow.options
    argv = ["iperf3", "--client", ends.destination_address, "--port", str(ends.port)]
    if flow.duration_ns is None:
        argv += ["--bytes", str(options["size_bytes"])]
    else:
        argv += ["--time", f"{flow.duration_ns / 1e9:g}"]
    argv += ["--json", "--get-server-output"]
    argv += ["--reverse"] if options.get("reverse") else []
    argv += ["--bidir"] if options.get("bidirectional") else []
    if flow.protocol == "udp":
        argv += ["--udp", "--pacing-timer", str(_pacing_us(options))]
    if flow.protocol == "sctp":
        argv.append("--sctp")
    length_bytes = options.get(LENGTH, SCTP_MESSAGE_BYTES if flow.protocol == "sctp" else BLOCK_BYTES)
    if flow.protocol != "udp":
        # iperf3 writes whole blocks
        length_bytes = min(length_bytes, options.get("size_bytes", length_bytes))
    if LENGTH in options or length_bytes < BLOCK_BYTES:
        argv += ["--length", str(length_bytes)]
    if "rate_bit_per_s" in options:
        argv += ["--bitrate", str(options["rate_bit_per_s"])]
    if "window_bytes" in options:
        argv += ["--window", str(options["window_bytes"])]
    if flow.congestion is not None:
        argv += ["--congestion", flow.congestion]
    if options.get("parallel", 1) != 1:
        argv += ["--parallel", str(options["parallel"])]
    # a client that receives a size waits for its last bytes, which the library would hold back
    receives = flow.duration_ns is not None and bool(options.get("reverse") or options.get("bidirectional"))
    argv += _mptcp_flag(flow, capabilities)
    return tool.make_client(flow, argv, env=_preload(flow, capabilities, receives), needs=_needs(flow))


def _needs(flow: Flow) -> tuple[str, ...]:
    return ("sctp",) if flow.protocol == "sctp" else ()


def _pacing_us(options: Mapping[str, Any]) -> int:
    """Return iperf3's interval for sending due packets, in us.

    Its default of one millisecond makes bursts of a hundred packets at 1 Gbit/s, which no short queue holds.
    """
    packets_us: float = BURST_PACKETS * options["length_bytes"] * 8e6 / options["rate_bit_per_s"]
    return round(min(1_000, max(50, packets_us)))


def _mptcp_flag(flow: Flow, capabilities: Capabilities) -> tuple[str, ...]:
    return ("--mptcp",) if flow.protocol == "mptcp" and capabilities.iperf3_speaks_mptcp else ()


def _preload(flow: Flow, capabilities: Capabilities, receives: bool) -> dict[str, str]:
    wrapped = {} if capabilities.iperf3_speaks_mptcp else tool.mptcp_environment(flow, capabilities)
    libraries = list(wrapped.values())
    if receives and capabilities.bulk_library:
        libraries.append(capabilities.bulk_library)
    return {"LD_PRELOAD": ":".join(libraries)} if libraries else {}


def parse(flow: Flow, outputs: Outputs) -> Result:
    """Return goodput, bytes, loss, and retransmits of all subflows.

    Goodput is the payload that the receiver's program got in the flow's time. iperf3's own mean divides by the time
    until its control connection is closed. A single loss on this connection makes this time 0.2 s longer. Here only
    whole intervals of the test count.
    """
    output = outputs.log(flow.name)
    try:
        report: dict[str, Any] = json.loads(output)
    except ValueError:
        return Result(error="its output is not whole: " + (output.strip()[-200:] or "it printed nothing"))
    if "error" in report:
        error = str(report["error"])
        if "socket buffer size not set correctly" in error:
            size = flow.options["window_bytes"]
            remedy = f"net.core.rmem_max: {size}, net.core.wmem_max: {size}"
            error += f": a host has a lower limit than 'window': give both hosts 'sysctl: {{{remedy}}}'"
        return Result(error=error)
    try:
        ways = list(_ways(flow, report, outputs))
        values = {f"{name}{way.suffix}": value for way in ways for name, value in _values(flow, report, way).items()}
        portions = {
            f"goodput{way.suffix}": [Portion.of_interval(i, way.begin_ns) for i in _steady(flow, way.intervals)]
            for way in ways
        }
        protocol = report["start"]["test_start"]["protocol"]
        ports = tuple(int(c["local_port"]) for c in report["start"]["connected"]) if protocol == "TCP" else ()
        return Result(
            values,
            ports,
            tables={"goodput": tool.tabulate_goodput((w.is_back, i, w.begin_ns) for w in ways for i in w.intervals)},
            warnings=tuple(_warn_of_rest(flow, protocol, values["bytes"])),
            accounts=_accounts(flow, outputs, report),
            portions=portions,
            lost_packets=sum(_lost(report, way) for way in ways if protocol == "UDP"),
            # the server tells the client to begin, when its own clock has begun
            waits_round_trip=protocol == "UDP" and not ways[0].is_back,
        )
    except (KeyError, TypeError, ValueError, ZeroDivisionError) as problem:
        return Result(error=f"its report is not as expected: {type(problem).__name__} {problem}")


def _warn_of_rest(flow: Flow, protocol: str, arrived: float) -> Iterator[str]:
    """Warn of a size of which a clear part did not arrive before the client ended the test."""
    size = flow.options.get("size_bytes")
    if size and protocol != "UDP" and arrived < (1 - CLEAR_SHARE) * size:
        yield (
            f"{format_measured(arrived, 'byte')} of {format_measured(size, 'byte')} arrived: iperf3 ends when all is "
            "written, and what waits in buffers is lost; 'tool: http' or 'reqres' ends when all has arrived"
        )


def _accounts(flow: Flow, outputs: Outputs, report: Mapping[str, Any]) -> dict[str, str]:
    """Return the reports of both ends as text.

    If the server was stopped early, the client's copy of its report is used.
    """
    reports = {flow.name: report, f"{flow.name}.server": report["server_output_json"]}
    with suppress(ValueError):
        reports[f"{flow.name}.server"] = json.loads(outputs.log(f"{flow.name}.server"))
    is_mptcp = flow.protocol == "mptcp"
    return {name: tell_iperf3(one, f"logs/{name}.out", is_mptcp) for name, one in reports.items()}


# For each time of sampling and each socket: its bytes in one direction, and the time of the last of them.
_Moments = Iterable[Iterable[tuple[int, int]]]


class _Way(Frozen):
    """A direction of a test.

    - is_back: the data goes to the flow's source.
    - suffix: of its metrics.
    - key: the suffix of the names in the report's end.
    - intervals: the receiver's counts.
    - begin_ns: the time zero of the intervals, from time zero of the run.
    """

    is_back: bool
    suffix: str
    key: str
    intervals: Sequence[Mapping[str, Any]]
    begin_ns: int


def _ways(flow: Flow, report: Mapping[str, Any], outputs: Outputs) -> Iterator[_Way]:
    """Yield the directions of the data: from the source, to the source, or both.

    The first one has the plain metrics.
    """
    port = report["start"]["connecting_to"]["port"]
    sent = (((s.sent_bytes, s.sent_ns) for s in some) for _, some in outputs.sockets(flow.destination, port))
    received = (((s.received_bytes, s.received_ns) for s in some) for _, some in outputs.sockets(flow.source, port))
    span = outputs.span(flow.name)
    ended_ns = span[1] - outputs.zero_ns if span else None

    def way(is_back: bool, suffix: str, key: str, intervals: Sequence[Mapping[str, Any]]) -> _Way:
        begin_ns = _find_begin(received if is_back else sent, intervals, ended_ns)
        return _Way(is_back, suffix, key, intervals, begin_ns)

    if report["start"]["test_start"]["reverse"]:
        yield way(True, "", "", [i["sum"] for i in report["intervals"]])
        return
    yield way(False, "", "", [i["sum"] for i in report["server_output_json"]["intervals"]])
    if any(BACK in i for i in report["intervals"]):
        yield way(True, ".back", "_bidir_reverse", [i[BACK] for i in report["intervals"]])


def _find_begin(moments: _Moments, intervals: Sequence[Mapping[str, Any]], ended_ns: int | None) -> int:
    """Return when the clock of the test began at an end, in ns from time zero.

    iperf3 itself reports only whole seconds of the real-time clock. However, its server sends four bytes on the control
    connection: PARAM_EXCHANGE, CREATE_STREAMS and, when its clock begins, TEST_START and TEST_RUNNING. The client's
    clock begins when these arrive. The server sends no more bytes on this connection until the test is over.

    - moments: the times of these bytes at this end.
    - ended_ns: when the client's program ended.

    All intervals must have ended by `ended_ns`, which gives a second bound. It is the only bound if no sample was taken
    during the test. It is the better bound if a byte was lost and sent again later.
    """
    lasted_ns = round(max((interval["end"] for interval in intervals), default=0) * 1e9)
    known_ns = (None if ended_ns is None else ended_ns - lasted_ns, _find_last_state(moments))
    return min((one for one in known_ns if one is not None), default=0)


def _find_last_state(moments: _Moments) -> int | None:
    """Return the first time by which four bytes had passed; None if there is none."""
    for sockets in moments:
        # a data connection has passed either nothing in this direction, or much more
        states = sorted((at_ns, size_bytes) for size_bytes, at_ns in sockets if 0 < size_bytes <= STATES_BYTES)
        # with MPTCP each byte may have used another subflow, and copies may have followed on further subflows
        passed = accumulate(size_bytes for _, size_bytes in states)
        found = [at_ns for (at_ns, _), size_bytes in zip(states, passed, strict=True) if size_bytes >= STATES_BYTES]
        if found:
            return found[0]
    return None


def _values(flow: Flow, report: Mapping[str, Any], way: _Way) -> dict[str, float]:
    """Return the metrics of one direction. loss: the share of the sent packets that did not arrive."""
    counted = _steady(flow, way.intervals)
    goodput = sum(i["bytes"] for i in counted) * 8 / sum(i["end"] - i["start"] for i in counted)
    end = report["end"]
    if report["start"]["test_start"]["protocol"] == "UDP":
        size_bytes = sum(i["bytes"] for i in way.intervals)
        return {"goodput": goodput, "bytes": size_bytes, "loss": _lost(report, way) / end[f"sum{way.key}"]["packets"]}
    values = {"goodput": goodput, "bytes": end[f"sum_received{way.key}"]["bytes"]}
    sent = end[f"sum_sent{way.key}"]
    return values | ({"retransmits": sent["retransmits"]} if "retransmits" in sent else {})


def _lost(report: Mapping[str, Any], way: _Way) -> int:
    """Return the packets of UDP that did not arrive.

    iperf3 notices a loss when a later packet of the same stream arrives. If many are missing after the last arrival,
    they are added; a few may be under way. The server does not know when the client stops counting, so this is not
    known of packets to the client. iperf3 takes packets out of order off its count, which may fall below 0.
    """
    total = report["end"][f"sum{way.key}"]
    arrived = sum(i["bytes"] for i in way.intervals) // report["start"]["test_start"]["blksize"]
    sent, lost = int(total["packets"]), int(total["lost_packets"])
    lost = 0 if lost >= 1 << 63 else lost
    missing = sent - arrived
    return missing if not way.is_back and missing - lost > CLEAR_SHARE * sent else lost


def _steady(flow: Flow, intervals: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the intervals that count: those within the duration, without what the flow omits.

    Without a duration all intervals count.
    """
    if flow.duration_ns is None:
        return list(intervals)
    first_s, last_s = (at_ns / 1e9 for at_ns in tool.steady_span(flow))
    # intervals end when iperf3's timer expires, some time after the whole second
    return [
        i for i in intervals if i["start"] > first_s - MINIMUM_INTERVAL_S and i["end"] < last_s + MINIMUM_INTERVAL_S
    ]
