# SPDX-License-Identifier: Apache-2.0
"""Read qlog, the events of one end of a QUIC connection (draft-ietf-quic-qlog-main-schema). Pure.

Two forms are read: JSON text sequences, and one JSON object. The names of events in qlog 0.3, 0.4 and later drafts
differ in their category only. The category is left out here. A file may have several traces; the longest is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from mprun.model.frozen import Frozen
from mprun.model.sequence_space import Seen
from mprun.safety.folder import parse_json

# The record separator of JSON text sequences (RFC 7464).
SEPARATOR = b"\x1e"
MOST_BYTES = 512 << 20
MOST_EVENTS = 5_000_000
# Names of events in some drafts, and here.
_NAMES = {"recovery_metrics_updated": "metrics_updated", "loss_timer_updated": "timer_updated"}
# The largest number of QUIC (RFC 9000 16). Libraries write a threshold that is not set yet as a larger one.
_LARGEST = (1 << 62) - 1
# Times from 1970 until the year 2200 are below this.
_MOST_MS = 8e12
# The formats of times that count from the event before.
_DELTA = ("delta", "relative_to_previous_event")
# The fields that all events share, and the events.
_Records = tuple[Mapping[str, Any], Sequence[Mapping[str, Any]]]
# Packets with application data (RFC 9000 17.3.1).
ONE_RTT = "1RTT"
QuicFrame = Mapping[str, Any]


class QlogError(ValueError):
    """A qlog that cannot be read."""


class QlogEvent(Frozen):
    """An event.

    - at_ms: its time, from the origin of the trace.
    - name: without category, as in `packet_sent`.
    - path: the number of the path in the multipath extension; None if the event does not have it.
    - tuple: the trace's name for the addresses at both ends; None if the event does not have it.
    """

    at_ms: float
    name: str
    data: Mapping[str, Any]
    path: int | None = None
    tuple: str | None = None

    @property
    def packet(self) -> Mapping[str, Any]:
        """The header of the event's packet."""
        header = self.data.get("header")
        return header if isinstance(header, Mapping) else {}

    @property
    def size_bytes(self) -> int | None:
        """The size of the packet; None if the event does not have it."""
        raw = self.data.get("raw")
        return to_number(raw.get("length") if isinstance(raw, Mapping) else self.packet.get("length"))

    @property
    def frames(self) -> Sequence[QuicFrame]:
        frames = self.data.get("frames")
        return [frame for frame in frames if isinstance(frame, Mapping)] if isinstance(frames, list) else ()


class QlogTrace(Frozen):
    """The events of one end.

    is_unix: times count from 1970 and not from the start of the connection.
    """

    events: Sequence[QlogEvent]
    is_unix: bool

    @property
    def has_paths(self) -> bool:
        """Return whether the trace tells the path of its packets."""
        return any(event.path is not None for event in self.events if event.name.startswith("packet_"))


def read(content: bytes) -> QlogTrace:
    """Read the qlog of one end. Raises QlogError."""
    if len(content) > MOST_BYTES:
        raise QlogError(f"has more than {MOST_BYTES >> 20} MiB")
    common, records = _sequence(content) if SEPARATOR in content else _object(content)
    if not records:
        raise QlogError("has no events")
    if common.get("time_format") in _DELTA:
        records = list(_add_up(records))
    # a time as in time(2) is later than 2001
    is_unix = records[0]["time"] > 1e12 if isinstance(records[0].get("time"), int | float) else False
    return QlogTrace([_event(record) for record in records], is_unix)


def _add_up(records: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Yield events, whose times count from the event before, with times from the origin of the trace."""
    total_ms = 0.0
    for record in records:
        at_ms = record.get("time")
        if isinstance(at_ms, int | float) and abs(at_ms) < _MOST_MS:
            total_ms += at_ms
            record = {**record, "time": total_ms}
        yield record


def _sequence(content: bytes) -> _Records:
    """Return the events of a JSON text sequence. The last record may be incomplete, as an end may be stopped."""
    common: Mapping[str, Any] = {}
    events = []
    records = [record for record in content.split(SEPARATOR) if record.strip()]
    for number, record in enumerate(records):
        if number > MOST_EVENTS:
            raise QlogError(f"has more than {MOST_EVENTS} events")
        try:
            value = parse_json(record)
        except ValueError as error:
            if number == len(records) - 1:
                break
            raise QlogError(f"record {number + 1} is not JSON: {error}") from None
        if isinstance(value, Mapping) and "name" in value:
            events.append(value)
        elif not number and isinstance(value, Mapping):
            common = _common_of(value.get("trace"))
    return common, events


def _common_of(trace: object) -> Mapping[str, Any]:
    common = trace.get("common_fields") if isinstance(trace, Mapping) else None
    return common if isinstance(common, Mapping) else {}


def _object(content: bytes) -> _Records:
    """Return the events of the longest trace of a JSON object."""
    try:
        value = parse_json(content)
        traces = [value["trace"]] if "trace" in value else value["traces"]
        longest: Mapping[str, Any] = max(traces, key=lambda trace: len(trace["events"]), default={"events": []})
        return _common_of(longest), [event for event in longest["events"] if "name" in event]
    except (ValueError, LookupError, TypeError) as error:
        raise QlogError(f"is neither a JSON text sequence nor an object with traces: {error}") from None


def _event(record: Mapping[str, Any]) -> QlogEvent:
    name = str(record["name"]).rpartition(":")[2]
    at_ms, data = record.get("time"), record.get("data")
    # the comparison is false for NaN
    if not (isinstance(at_ms, int | float) and abs(at_ms) < _MOST_MS) or not isinstance(data, Mapping):
        raise QlogError(f"event {name} has no time or no data")
    threshold = data.get("ssthresh")
    if isinstance(threshold, int) and threshold > _LARGEST:
        data = {key: value for key, value in data.items() if key != "ssthresh"}
    header = data.get("header")
    path = data.get("path_id", header.get("path_id") if isinstance(header, Mapping) else None)
    ends = record.get("tuple", record.get("path"))
    return QlogEvent(
        at_ms,
        _NAMES.get(name, name),
        data,
        to_number(path),
        ends if isinstance(ends, str) and ends else None,
    )


def to_number(value: object) -> int | None:
    """Return a number that a packet of QUIC can have; None for anything else in its place."""
    # a truth value is an int too
    return value if type(value) is int and 0 <= value <= _LARGEST else None


def to_ns(at_ms: float) -> int:
    """Return a time in ms in ns. Of a time since 1970, no digit of its fraction is lost."""
    whole = int(at_ms)
    return whole * 1_000_000 + round((at_ms - whole) * 1e6)


def offset_of(frame: QuicFrame) -> int:
    """Return the place of the data of a frame in its stream, in bytes."""
    return to_number(frame.get("offset")) or 0


def length_of(frame: QuicFrame) -> int:
    """Return the size of the data of a frame, in bytes."""
    raw = frame.get("raw")
    return to_number(frame.get("length", raw.get("length") if isinstance(raw, Mapping) else None)) or 0


class Exchange(Frozen):
    """A request and its answer, on a stream of their own. Times in ms, from the origin of the client's trace."""

    stream: int
    begin_ms: float
    end_ms: float


def find_exchanges(client: QlogTrace) -> Sequence[Exchange]:
    """Return the requests of a client in the order of their streams, from its qlog.

    A request begins when its first STREAM frame is sent, and its answer ends when its last missing byte arrives.
    Only streams that the client opens in both directions count (RFC 9000 2.1).
    """
    begins: dict[int, float] = {}
    ends: dict[int, float] = {}
    arrived: dict[int, Seen] = {}
    for event in client.events:
        for frame in event.frames if event.name in ("packet_sent", "packet_received") else ():
            stream = frame.get("stream_id")
            if frame.get("frame_type") != "stream" or not isinstance(stream, int) or stream % 4:
                continue
            if event.name == "packet_sent":
                begins.setdefault(stream, event.at_ms)
                continue
            offset = offset_of(frame)
            if arrived.setdefault(stream, Seen()).add(offset, offset + length_of(frame)):
                ends[stream] = event.at_ms
    return [Exchange(stream, begins[stream], ends[stream]) for stream in sorted(begins) if stream in ends]


def find_handshake(client: QlogTrace) -> float | None:
    """Return the time at which a client has completed the handshake, in ms from its first packet; None if never.

    It is complete for the client when it sends its Finished message, in its first Handshake packet with a CRYPTO frame.
    """
    sent = [event for event in client.events if event.name == "packet_sent"]
    for event in sent:
        if event.packet.get("packet_type") == "handshake" and any(
            frame.get("frame_type") == "crypto" for frame in event.frames
        ):
            return event.at_ms - sent[0].at_ms
    return None
