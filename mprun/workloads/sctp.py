# SPDX-License-Identifier: Apache-2.0
"""`sctp`: bulk transfer over SCTP with concurrent multipath transfer (CMT), in user space.

The program is our `cmtsctp`, built on FreeBSD's SCTP (usrsctp), with encapsulation in UDP (RFC 6951). No kernel has
CMT, and this program does not need the kernel's SCTP.

SCTP identifies a path by the address of the peer (RFC 9260, section 6.4). An association therefore has as many paths as
its receiver has addresses. Each path gets a source address of its own as long as there are any.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from mprun.inputs.keys.field import TIME_SCHEMA, checked
from mprun.inputs.keys.file_model import KeyProblem
from mprun.inputs.keys.traffic_entry import OmitEntry, PositiveTime, ServedEntry, Size, message_size
from mprun.model import engine_paths
from mprun.model.capabilities import Capabilities
from mprun.model.metric import OF_HANDOVER, OF_PATHS, Metric, less
from mprun.model.path import NamedPath
from mprun.model.plan import Ready
from mprun.model.spec import Flow
from mprun.model.units import NS_PER_MS, TIME
from mprun.workloads import tool
from mprun.workloads.tool import Endpoints, Movement, Outputs, PathUse, Portion, Program, Result, Table, TimeLimit, Work

PROGRAMS = {"cmtsctp": Program("", "--version", "mprun tools install cmtsctp")}
PORTS = 1
METRICS = {
    "goodput": tool.goodput(
        "payload that the receiver's program got, divided by the flow's time, without omitted times"
    ),
    "bytes": tool.total("size", "payload that the receiver's program got"),
    "retransmits": tool.total("count", "DATA chunks that were sent again", better="lower"),
    "timeouts": tool.total("count", "retransmission timers (T3-rtx) that expired", better="lower"),
    **OF_PATHS,
    **OF_HANDOVER,
    # the library does not count payload by path
    "carried": Metric("size", "bytes of the sender's SCTP packets that a path carried", by_path=True),
    "resent": less("count", "DATA chunks that were sent again on a path", by_path=True),
    "share": Metric("ratio", "share of the bytes of the sender's SCTP packets that a path carried", by_path=True),
}

# The port of SCTP over UDP (RFC 6951), which Wireshark knows. The first flow has this port, other flows the following
# ports.
UDP_PORT = 9899
# An association may take a minute to come up, and some seconds to end.
TIME_LIMIT = TimeLimit(70)
DEFAULT_INTERVAL_NS = 100_000_000
# The largest message for a packet of 1500 bytes.
MESSAGE_BYTES = 1444
# RTO.Max (RFC 9260, section 16).
MOST_RTO_MIN_NS = 60_000_000_000


MessageSize = Annotated[int, *message_size(f"{MESSAGE_BYTES}bytes")]
# The library counts milliseconds.
_RTO_MINS_NS = range(NS_PER_MS, MOST_RTO_MIN_NS + 1, NS_PER_MS)
_NO_RTO_MIN = "{} is no whole number of milliseconds from 1ms to 60s: write '200ms'"
RtoMin = Annotated[int, *checked(TIME.parse, TIME_SCHEMA, _RTO_MINS_NS.__contains__, _NO_RTO_MIN, TIME.render)]


class Entry(ServedEntry):
    """Bulk transfer over one SCTP association, with CMT over all its paths."""

    ELSEWHERE: ClassVar[Mapping[str, str]] = {
        **ServedEntry.ELSEWHERE,
        "congestion": "is no key here: an association has the congestion control of SCTP (RFC 9260), and 'cmt' says "
        "how several paths share it",
    }
    tool: Literal["sctp"]
    protocol: Literal["sctp"] = "sctp"
    """The transport protocol."""
    duration: PositiveTime | None = Field(None, examples=["10s"])
    """The time to send. Use either `duration` or `size`."""
    size_bytes: Size | None = Field(None, alias="size")
    """The number of bytes to send. Use it instead of `duration`."""
    omit: OmitEntry | None = None
    """The times to leave out of the goodput, to measure a steady state."""
    reverse: bool = False
    """Let the server send and the client receive."""
    cmt: Literal["off", "on", "rpv1", "rpv2", "mptcp"] = "off"
    """The mode of concurrent multipath transfer. `off`: only the primary path, or another if it fails. `on`: all paths,
    each with its own congestion window. `rpv1`, `rpv2`: windows coupled by resource pooling. `mptcp`: windows coupled
    as in RFC 6356."""
    buffer_splitting: Literal["off", "send", "receive", "both"] = "off"
    """Divide the send buffer, the peer's receive window, or both among the paths."""
    unordered: bool = False
    """Deliver messages in the order of arrival."""
    message_bytes: MessageSize | None = Field(None, alias="message")
    """The payload of a message. Default: the largest payload for a packet of 1500 bytes."""
    send_buffer_bytes: Size | None = Field(None, alias="send_buffer")
    """The send buffer of the sender. Default: 256 KiB."""
    receive_buffer_bytes: Size | None = Field(None, alias="receive_buffer")
    """The receive buffer of the receiver. Default: 128 KiB."""
    rto_min_ns: RtoMin | None = Field(None, alias="rto_min")
    """The smallest retransmission timeout of the sender (RTO.Min, RFC 9260, section 16). Default: 1s."""
    interval_ns: PositiveTime = Field(DEFAULT_INTERVAL_NS, alias="interval")
    """The interval between samples of goodput and paths. Default: 100ms."""

    def find_conflicts(self) -> Iterator[KeyProblem]:
        if (self.duration is None) == (self.size_bytes is None):
            what = "is missing" if self.duration is None else "conflicts with 'size'"
            yield "duration", f"{what}: write 'duration: 10s' or 'size: 10mb'"
        elif self.omit is not None:
            yield from self.omit.find_excess(self.duration)
        message_bytes = self.message_bytes or MESSAGE_BYTES
        # the library waits for room for a whole message, and a smaller buffer never has it
        if self.send_buffer_bytes is not None and self.send_buffer_bytes < message_bytes:
            has = f"is {self.send_buffer_bytes} bytes, and holds no message of {message_bytes} bytes"
            yield "send_buffer", f"{has}, so that nothing is sent: write '{message_bytes}bytes' or more"

    def find_doubts(self) -> Iterator[KeyProblem]:
        if self.buffer_splitting != "off" and self.cmt == "off":
            yield "buffer_splitting", "has no effect with 'cmt: off': write another 'cmt', or remove it"


def check_paths(flow: Flow, paths: Sequence[NamedPath]) -> Iterator[tuple[str, str]]:
    """Yield a problem if a flow with CMT has only one path, because its receiver has only one address."""
    is_reverse = bool(flow.options.get("reverse"))
    firsts, lasts = {path.first_link for path in paths}, {path.last_link for path in paths}
    if flow.options.get("cmt") == "off" or len(firsts if is_reverse else lasts) > 1:
        return
    receiver = flow.source if is_reverse else flow.destination
    message = f"has one path to use: '{receiver}', which receives, has one address; give it more links"
    if len(lasts if is_reverse else firsts) > 1:
        message += f", or write 'reverse: {str(not is_reverse).lower()}'"
    yield "cmt", message


def work(flow: Flow, ends: Endpoints, capabilities: Capabilities) -> Work:
    """Return a program for each end. One sends and one receives; each prints its report."""
    pairs = choose_pairs(ends.pairs, bool(flow.options.get("reverse")))
    listening = _argv(flow, ends, "--listen", [(destination, source) for source, destination in pairs])
    server = tool.make_server(flow, listening, Ready("output", "listening"))
    return Work((tool.make_client(flow, _argv(flow, ends, "--connect", pairs)),), (server,))


def choose_pairs(pairs: Sequence[tuple[str, str]], is_reverse: bool) -> list[tuple[str, str]]:
    """Return the paths of an association: one pair for each address of the receiver.

    A pair has a source that no other path has, if possible.
    """
    sender, receiver = (1, 0) if is_reverse else (0, 1)
    chosen: list[tuple[str, str]] = []
    for address in dict.fromkeys(pair[receiver] for pair in pairs):
        possible = [pair for pair in pairs if pair[receiver] == address]
        taken = {pair[sender] for pair in chosen}
        chosen.append(next((pair for pair in possible if pair[sender] not in taken), possible[0]))
    return chosen


def udp_port(asked: int | None, server_port: int) -> int:
    """Return the UDP port of a flow's packets. asked: the port that the flow requests."""
    return asked or UDP_PORT + server_port - tool.FIRST_PORT


def _argv(flow: Flow, ends: Endpoints, role: str, pairs: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """Return the command of one end. pairs: (own address, the peer's address) of each path."""
    options = flow.options
    sends = (role == "--connect") != bool(options.get("reverse"))
    argv = [f"{engine_paths.TOOLS}/cmtsctp/cmtsctp", role, "--send" if sends else "--receive"]
    for local, remote in pairs:
        argv += ["--path", f"{local},{remote}"]
    argv += ["--port", str(ends.port), "--udp-port", str(udp_port(flow.port, ends.port))]
    if flow.duration_ns is not None:
        argv += ["--duration", f"{flow.duration_ns / 1e9:.9g}"]
    else:
        argv += ["--bytes", str(options["size_bytes"])]
    cmt, splitting = options.get("cmt", "off"), options.get("buffer_splitting", "off")
    argv += ["--interval", f"{options.get('interval_ns', DEFAULT_INTERVAL_NS) / 1e9:.9g}"]
    argv += ["--cmt", "cmt" if cmt == "on" else cmt, "--buffer-splitting", splitting]
    sizes = {"message": "message_bytes", "send-buffer": "send_buffer_bytes", "receive-buffer": "receive_buffer_bytes"}
    if "rto_min_ns" in options:
        argv += ["--rto-min-ms", str(options["rto_min_ns"] // NS_PER_MS)]
    for name, option in sizes.items():
        if option in options:
            argv += [f"--{name}", str(options[option])]
    return (*argv, "--unordered") if options.get("unordered") else tuple(argv)


def parse(flow: Flow, outputs: Outputs) -> Result:
    """Return goodput from the receiver's intervals that are not omitted, and the sender's bytes on each path."""
    is_reverse = bool(flow.options.get("reverse"))
    ends = (flow.name, f"{flow.name}.server")
    try:
        reports = [json.loads(outputs.log(name)) for name in ends]
    except ValueError:
        said = [outputs.log(name, "err").strip().removeprefix("listening").strip() for name in ends]
        return Result(error="; ".join(filter(None, said)) or "one end left no whole report")
    sender, receiver = reports[::-1] if is_reverse else reports
    try:
        return _read(flow, sender, receiver, is_reverse, outputs)
    except (KeyError, TypeError, ValueError, ZeroDivisionError) as problem:
        return Result(error=f"its report is not as expected: {type(problem).__name__} {problem}")


def _read(
    flow: Flow, sender: Mapping[str, Any], receiver: Mapping[str, Any], is_reverse: bool, outputs: Outputs
) -> Result:
    counted = list(_steady(flow, receiver["intervals"]))
    seconds = sum(i["end"] - i["start"] for i in counted)
    paths = sender["intervals"][-1]["paths"]
    began_ns, _ = outputs.span(flow.name) or (sender["up_ns"], 0)
    asked_bytes, buffer_bytes = flow.options.get("send_buffer_bytes", 0), sender["send_buffer_bytes"]
    up_ns = receiver["up_ns"] - outputs.zero_ns
    return Result(
        values={
            "goodput": sum(i["bytes"] for i in counted) * 8 / seconds,
            "bytes": receiver["bytes"],
            "retransmits": sender["retransmits"],
            "timeouts": sender["timeouts"],
        },
        tables={
            "goodput": tool.tabulate_goodput((is_reverse, one, up_ns) for one in receiver["intervals"]),
            "sctp_paths": _path_table(sender["intervals"], sender["up_ns"] - outputs.zero_ns),
        },
        paths=tuple(_use(flow, path, is_reverse, sender["up_ns"], began_ns) for path in paths),
        movement=Movement(
            up_ns,
            up_ns + round(receiver["seconds"] * 1e9),
            [(since - outputs.zero_ns, until - outputs.zero_ns) for since, until in receiver["standstills_ns"]],
        ),
        portions={"goodput": [Portion.of_interval(one, up_ns) for one in counted]},
        notes=(_LESS.format(buffer_bytes, asked_bytes),) if buffer_bytes < asked_bytes else (),
    )


_LESS = "its send buffer had {} of {} bytes: no more chunks than 4032 may be in flight (docs/sctp.md)"


def _use(flow: Flow, path: Mapping[str, Any], is_reverse: bool, up_ns: int, began_ns: int) -> PathUse:
    """Return what the sender sent on a path, with a failure if CMT did not use it, or a warning if it broke.

    - up_ns: when the association was up, and with it its first path.
    - began_ns: when the flow began.
    """
    ends, carried = (path["local"], path["remote"]), (path["bytes"], 0)
    if is_reverse:
        ends, carried = ends[::-1], carried[::-1]
    # the sender reports it for paths that it has measured
    srtt_s = path["srtt_ms"] / 1e3 if path.get("srtt_ms") else None
    is_confirmed = path.get("state") != "unconfirmed"
    joined_s = (path.get("confirmed_ns", up_ns) - began_ns) / 1e9 if is_confirmed else None
    resent = (path["resent"], path["resent_bytes"])
    use = PathUse(*ends, *carried, joined_s, srtt_s, *resent)
    if path.get("state") == "unconfirmed" and flow.options.get("cmt", "off") != "off":
        return use.fail("no heartbeat was ever answered, so that nothing was sent on it (RFC 9260, section 5.4)")
    return use.warn("it did not answer at the end") if path.get("state") == "inactive" else use


def _steady(flow: Flow, intervals: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Yield the intervals that the flow does not omit. Their ends are exact to a microsecond."""
    first_ns, last_ns = tool.steady_span(flow)
    for interval in intervals:
        if round(interval["start"] * 1e9) >= first_ns and round(interval["end"] * 1e9) <= last_ns:
            yield interval


def _path_table(intervals: Sequence[Mapping[str, Any]], up_ns: int) -> Table:
    """Return a row for each path at the end of each interval, as the sender reports it.

    sent_bytes: so far. up_ns: when the sender's association came up, from time zero.
    """
    # column -> the key of the report; a state is missing before the first measurement
    keys = {"local": "local", "remote": "remote", "state": "state", "cwnd_bytes": "cwnd", "srtt_ms": "srtt_ms"}
    keys |= {"rto_ms": "rto_ms", "sent_bytes": "bytes", "sent_packets": "packets"}
    rows = (
        (round(up_ns / 1e9 + interval["end"], 9), *map(path.get, keys.values()))
        for interval in intervals
        for path in interval["paths"]
    )
    return tool.tabulate(("time_s", *keys), rows)
