# SPDX-License-Identifier: Apache-2.0
"""The inside of a QUIC connection, from the qlog of both ends: tables of packets, frames and recovery. Pure.

Each row has the name of its path if the qlog has the number of the path. The clocks of two ends that count from the
start of their own connection are compared by their first exchange of packets, whose two ways count as equally long.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from mprun.metrics.evidence import FlowOutputs
from mprun.metrics.path_use import Uses, tell_paths
from mprun.metrics.readings import Readings, join, measured
from mprun.model.frozen import Frozen
from mprun.model.intent import AddressedFlow, Intent
from mprun.workloads import quic, quic_connection, quic_report, quic_stack
from mprun.workloads.qlog import ONE_RTT, QlogError, QlogEvent, QlogTrace, length_of, offset_of, read, to_ns, to_number
from mprun.workloads.tool import PathUse, tabulate

_PACKETS = {"packet_sent": "sent", "packet_received": "received", "packet_lost": "lost"}
_OF_PACKET = ("time_ns", "end", "event", "path", "type", "packet")
PACKETS = (*_OF_PACKET, "size_bytes", "payload_bytes", "frames")
FRAMES = (*_OF_PACKET, "frame", "about", "stream", "offset_bytes", "length_bytes")
# The states of recovery: key of qlog -> column, and its base units in one unit of qlog.
STATES = {
    "congestion_window": ("cwnd_bytes", 1),
    "bytes_in_flight": ("in_flight_bytes", 1),
    "ssthresh": ("ssthresh_bytes", 1),
    "smoothed_rtt": ("srtt_ns", 1_000_000),
    "latest_rtt": ("rtt_ns", 1_000_000),
    "min_rtt": ("min_rtt_ns", 1_000_000),
}
RECOVERY = ("time_ns", "end", "path", *(column for column, _ in STATES.values()))
# The round-trip time before any is measured (RFC 9002 6.2.2), in ms.
INITIAL_RTT_MS = 333
_OF_RTT = ("smoothed_rtt", "latest_rtt", "min_rtt")


class QlogEnd(Frozen):
    """An end of a connection.

    - zero_ns: the origin of its trace, from time zero.
    - paths: the name of each path by its number in the multipath extension; None for the key None if it has several.
    """

    name: str
    trace: QlogTrace
    zero_ns: int
    paths: Mapping[int | None, str | None]

    def at_ns(self, event: QlogEvent) -> int:
        return to_ns(event.at_ms) + self.zero_ns

    def path_of(self, event: QlogEvent) -> str | None:
        return self.paths.get(event.path)


def read_qlogs(flow: AddressedFlow, outputs: FlowOutputs, intent: Intent) -> Readings:
    """Return the tables of a QUIC flow that kept its qlog, and for a stack of the user what each path carried."""
    traces: dict[str, QlogTrace] = {}
    warnings = []
    for end, name in quic_connection.QLOGS.items():
        content = outputs.file(name)
        try:
            if content is None:
                raise QlogError("is missing")
            traces[end] = read(content)
        except QlogError as problem:
            warnings.append(f"{flow.name}: the qlog of its {end} {problem}")
    ends = list(_find_ends(flow, traces, outputs))
    tables = {
        "qlog_packets": tabulate(PACKETS, (row for end in ends for row in _packets(end))),
        "qlog_frames": tabulate(FRAMES, (row for end in ends for row in _frames(end))),
        "qlog_recovery": tabulate(RECOVERY, (row for end in ends for row in _recovery(end))),
    }
    kept = tuple((title, flow.name, table) for title, table in tables.items() if table["time_ns"])
    is_mixed = any(end.paths == {None: None} for end in ends)
    notes = [f"{flow.name}: its qlog does not have the path of a packet: no figures by path"] if is_mixed else []
    found = Readings(warnings=tuple(warnings), notes=tuple(notes), tables=kept)
    return join([found, _tell_paths(flow, ends, intent)]) if quic_stack.own_stack(flow) else found


def _find_ends(flow: AddressedFlow, traces: Mapping[str, QlogTrace], outputs: FlowOutputs) -> Iterator[QlogEnd]:
    """Yield the ends with the origins of their traces and the names of their paths."""
    client, server = traces.get("client"), traces.get("server")
    zero_ns = _find_zero(flow, client, outputs) if client else 0
    paths = _name_paths(flow, client or server)
    if client:
        yield QlogEnd("client", client, zero_ns, paths)
    if server:
        if server.is_unix:
            zero_ns = -outputs.epoch_ns
        elif client:
            zero_ns += to_ns(_find_lag_ms(client, server))
        yield QlogEnd("server", server, zero_ns, paths if server.has_paths == (None not in paths) else {None: None})


def _find_zero(flow: AddressedFlow, client: QlogTrace, outputs: FlowOutputs) -> int:
    """Return the origin of a client's trace: what our client prints, or else as for a stack of the user."""
    if not quic_stack.own_stack(flow) and flow.tool == "quic":
        # the output of a client that was stopped may be incomplete
        with suppress(quic_report.ReportError):
            return quic_report.read_report(outputs.log(flow.name).splitlines(), outputs.zero_ns).offset_ns
    return quic_stack.find_zero(flow, client, outputs)


def _find_lag_ms(client: QlogTrace, server: QlogTrace) -> float:
    """Return how much later the server's trace begins than the client's, from the first packet that arrived each way.

    The first packet of an end may have been lost, and a server that sends a Retry begins its trace after it.
    """

    def first(sender: QlogTrace, receiver: QlogTrace) -> tuple[float, float] | None:
        sent = {_identify(event): event.at_ms for event in reversed(sender.events) if event.name == "packet_sent"}
        arrived = (event for event in receiver.events if event.name == "packet_received")
        return next(((sent[key], one.at_ms) for one in arrived if (key := _identify(one)) in sent), None)

    there, back = first(client, server), first(server, client)
    if there is None or back is None:
        return 0.0
    return (there[0] - there[1] + back[1] - back[0]) / 2


def _name_paths(flow: AddressedFlow, trace: QlogTrace | None) -> Mapping[int | None, str | None]:
    """Return the name of each path by its number, from the addresses that the trace gives to it.

    If a trace has no addresses, the paths are numbered in their order.
    """
    if trace is None:
        return {}
    if not trace.has_paths:
        return {None: None if flow.options.get("multipath") else flow.paths[0].name}
    ends: dict[str, tuple[str | None, str | None]] = {}
    named: dict[int | None, str | None] = {}
    for event in trace.events:
        if event.name == "tuple_assigned":
            sides = (event.data.get(f"tuple_{side}") for side in ("local", "remote"))
            local, remote = (_address(side) for side in sides)
            ends[str(event.data.get("tuple_id"))] = (local, remote)
        elif event.path is not None and event.path not in named:
            named[event.path] = _find_path(flow, ends.get(event.tuple or "", (None, None)), event.path)
    return named


def _address(end: object) -> str | None:
    found = (end.get("ip_v4") or end.get("ip_v6")) if isinstance(end, Mapping) else None
    return found if isinstance(found, str) else None


def _find_path(flow: AddressedFlow, ends: tuple[str | None, str | None], number: int) -> str | None:
    """Return the name of the path with these addresses, of which an end may not know its own."""
    known = [path for path in flow.paths if {path.source, path.seen_from} & {*ends} and path.destination in ends]
    known = known or [path for path in flow.paths if {path.source, path.seen_from} & {*ends}]
    known = known or ([path for path in flow.paths if path.destination in ends] if len(flow.paths) > number else [])
    # the connection begins on the first path
    if len(known) == 1 or (known and number == 0):
        return known[0].name
    return flow.paths[number].name if number < len(flow.paths) else None


def _head(end: QlogEnd, event: QlogEvent, path: str | None) -> tuple[Any, ...]:
    kind, number = _text(event.packet.get("packet_type")), to_number(event.packet.get("packet_number"))
    return (end.at_ns(event), end.name, _PACKETS[event.name], path, kind, number)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _packets(end: QlogEnd) -> Iterator[tuple[Any, ...]]:
    """Yield a row for each packet that was sent, received, or considered lost."""
    # the sizes of each packet that was sent, by path: in the multipath extension, each path has its own packet numbers
    sent: dict[str, dict[str | None, int | None]] = {}
    for event in end.trace.events:
        if event.name not in _PACKETS:
            continue
        path = end.path_of(event)
        if event.name == "packet_sent":
            sent.setdefault(_identify(event), {})[path] = event.size_bytes
        elif event.name == "packet_lost" and event.path is None:
            path = _find_lost(event, sent.get(_identify(event), {}))
        kinds = Counter(str(frame.get("frame_type")) for frame in event.frames)
        payload = _payload(event)
        yield *_head(end, event, path), event.size_bytes, to_number(payload), " ".join(kinds) or None


def _identify(event: QlogEvent) -> str:
    # a file of a stranger may have anything there
    return f"{event.packet.get('packet_type')!r} {event.packet.get('packet_number')!r}"


def _payload(event: QlogEvent) -> int:
    """Return the size of the data in the STREAM frames of a packet."""
    return sum(length_of(frame) for frame in event.frames if frame.get("frame_type") == "stream")


def _find_lost(event: QlogEvent, sizes: Mapping[str | None, int | None]) -> str | None:
    """Return the path of a lost packet; None if packets of its number and size were sent on several."""
    fitting = [path for path, size in sizes.items() if event.size_bytes in (size, None)] or list(sizes)
    return fitting[0] if len(fitting) == 1 else None


def _frames(end: QlogEnd) -> Iterator[tuple[Any, ...]]:
    """Yield a row for each frame but padding. `about`: the path that a frame of the multipath extension names."""
    for event in end.trace.events:
        for frame in event.frames if event.name in _PACKETS else ():
            kind = frame.get("frame_type")
            if kind == "padding":
                continue
            about = end.paths.get(frame["path_id"]) if isinstance(frame.get("path_id"), int) else None
            has_data = kind in ("stream", "crypto", "datagram")
            data = (offset_of(frame), length_of(frame)) if has_data else (None, None)
            yield *_head(end, event, end.path_of(event)), _text(kind), about, to_number(frame.get("stream_id")), *data


def _recovery(end: QlogEnd) -> Iterator[tuple[Any, ...]]:
    """Yield the state of each path after each of its changes. An event has only the values that have changed."""
    is_known = end.paths != {None: None}
    states: dict[str | None, dict[str, float]] = {}
    for event in end.trace.events:
        if event.name != "metrics_updated":
            continue
        path = end.path_of(event)
        # without paths, the values of several are mixed
        state = states.setdefault(path, {}) if is_known else {}
        told = {key: value for key in STATES if isinstance(value := event.data.get(key), int | float)}
        state |= {key: value for key, value in told.items() if abs(value) < 1 << 62}
        yield end.at_ns(event), end.name, path, *_values(state)


def _values(state: Mapping[str, float]) -> Iterator[int | None]:
    is_initial = state.get("smoothed_rtt") == state.get("min_rtt") == INITIAL_RTT_MS
    for key, (_, factor) in STATES.items():
        value = None if is_initial and key in _OF_RTT else state.get(key)
        yield None if value is None else to_number(round(value * factor))


def _tell_paths(flow: AddressedFlow, ends: Sequence[QlogEnd], intent: Intent) -> Readings:
    """Return what each path carried, from the packets of the client; nothing without the paths of these."""
    client = next((end for end in ends if end.name == "client"), None)
    if client is None or client.paths == {None: None}:
        return Readings()
    carried: Counter[tuple[str, str | None]] = Counter()
    joined: dict[str | None, int] = {}
    for event in client.trace.events:
        if event.name in ("packet_sent", "packet_received") and event.packet.get("packet_type") == ONE_RTT:
            name = client.path_of(event)
            if event.name == "packet_received":
                joined.setdefault(name, client.at_ns(event))
            carried[event.name, name] += _payload(event)
    began_ns = min(map(client.at_ns, client.trace.events))
    uses: dict[tuple[str, str], PathUse] = {}
    for path in flow.paths if flow.options["multipath"] else flow.paths[:1]:
        joined_s = (joined[path.name] - began_ns) / 1e9 if path.name in joined else None
        forward, reverse = (carried[name, path.name] for name in ("packet_sent", "packet_received"))
        uses[path.ends] = PathUse(path.source, path.destination, forward, reverse, joined_s=joined_s)
    unused = [path.name for path in flow.paths if path.ends in uses and path.name not in joined]
    failures = tuple(f"{flow.name}: path {name}: no packet arrived over it" for name in unused)
    told: Uses = uses
    found = tell_paths(flow, intent, told, quic.METRICS, None)
    number = measured(len(uses) - len(unused), "count")
    return Readings({f"{flow.name}.paths": number, **found.metrics}, failures=failures)
