# SPDX-License-Identifier: Apache-2.0
"""Write a qlog in the form of qlog 0.3, which viewers such as qvis read (draft-ietf-quic-qlog-quic-events-02). Pure.

Libraries write other drafts. Keys and events that qlog 0.3 does not have are left out, and so are values of another
form. Only frames of extensions, such as those of multipath, keep the names that the library gave them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from mprun.workloads.qlog import QlogEvent, QlogTrace, QuicFrame, length_of, offset_of

_Form = Callable[[object], bool]
_Keys = Mapping[str, _Form]
# The category of each event. Other events are left out.
_CATEGORIES = {
    **dict.fromkeys(("packet_sent", "packet_received", "packet_dropped", "parameters_set"), "transport"),
    **dict.fromkeys(("packet_lost", "metrics_updated"), "recovery"),
    **dict.fromkeys(("connection_started", "connection_closed"), "connectivity"),
}


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 64


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_truth(value: object) -> bool:
    return isinstance(value, bool)


def _is_hexadecimal(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch("([0-9a-f]{2})*", value) is not None


def _is_one_of(*words: str) -> _Form:
    return lambda value: value in words


def _each(form: _Form, *keys: str) -> _Keys:
    return dict.fromkeys(keys, form)


_HEADER: _Keys = {
    "packet_type": _is_one_of(
        "initial", "handshake", "0RTT", "1RTT", "retry", "version_negotiation", "stateless_reset", "unknown"
    ),
    **_each(_is_whole, "packet_number", "flags", "scil", "dcil"),
    **_each(_is_hexadecimal, "version", "scid", "dcid"),
}
_DATA: Mapping[str, _Keys] = {
    "packet_lost": {"trigger": _is_one_of("reordering_threshold", "time_threshold", "pto_expired")},
    "metrics_updated": {
        **_each(_is_number, "min_rtt", "smoothed_rtt", "latest_rtt", "rtt_variance"),
        **_each(_is_whole, "pto_count", "congestion_window", "bytes_in_flight", "ssthresh"),
        **_each(_is_whole, "packets_in_flight", "pacing_rate"),
    },
    "parameters_set": {
        "owner": _is_one_of("local", "remote"),
        **_each(_is_truth, "resumption_allowed", "early_data_enabled", "disable_active_migration"),
        **_each(_is_hexadecimal, "original_destination_connection_id", "initial_source_connection_id"),
        **_each(_is_hexadecimal, "retry_source_connection_id", "stateless_reset_token"),
        **_each(_is_whole, "max_idle_timeout", "max_udp_payload_size", "ack_delay_exponent", "max_ack_delay"),
        **_each(_is_whole, "active_connection_id_limit", "initial_max_data", "initial_max_streams_bidi"),
        **_each(_is_whole, "initial_max_stream_data_bidi_local", "initial_max_stream_data_bidi_remote"),
        **_each(_is_whole, "initial_max_stream_data_uni", "initial_max_streams_uni"),
    },
    "connection_started": {
        **_each(_is_text, "src_ip", "dst_ip"),
        **_each(_is_whole, "src_port", "dst_port"),
        **_each(_is_hexadecimal, "src_cid", "dst_cid"),
    },
    "connection_closed": {"owner": _is_one_of("local", "remote"), "reason": _is_text},
}
_STREAM_TYPE = {"stream_type": _is_one_of("bidirectional", "unidirectional")}
_FRAMES: Mapping[str, _Keys] = {
    "padding": _each(_is_whole, "payload_length"),
    "ping": {},
    "ack": {
        "ack_delay": _is_number,
        "acked_ranges": lambda value: isinstance(value, list) and bool(value),
        **_each(_is_whole, "ect1", "ect0", "ce"),
    },
    "reset_stream": _each(_is_whole, "stream_id", "error_code", "final_size"),
    "stop_sending": _each(_is_whole, "stream_id", "error_code"),
    "crypto": _each(_is_whole, "offset", "length"),
    "new_token": {"token": lambda value: isinstance(value, Mapping)},
    "stream": {**_each(_is_whole, "stream_id", "offset", "length"), "fin": _is_truth},
    "max_data": _each(_is_whole, "maximum"),
    "max_stream_data": _each(_is_whole, "stream_id", "maximum"),
    "max_streams": {**_STREAM_TYPE, **_each(_is_whole, "maximum")},
    "data_blocked": _each(_is_whole, "limit"),
    "stream_data_blocked": _each(_is_whole, "stream_id", "limit"),
    "streams_blocked": {**_STREAM_TYPE, **_each(_is_whole, "limit")},
    "new_connection_id": {
        **_each(_is_whole, "sequence_number", "retire_prior_to", "connection_id_length"),
        **_each(_is_hexadecimal, "connection_id", "stateless_reset_token"),
    },
    "retire_connection_id": _each(_is_whole, "sequence_number"),
    "path_challenge": _each(_is_hexadecimal, "data"),
    "path_response": _each(_is_hexadecimal, "data"),
    "connection_close": {
        "error_space": _is_one_of("transport", "application"),
        **_each(_is_whole, "error_code", "raw_error_code"),
        "reason": _is_text,
    },
    "handshake_done": {},
}


def render(trace: QlogTrace, end: str, title: str) -> str:
    """Return the trace of one end as a JSON object of qlog 0.3.

    Viewers do not tell paths apart. So the object has one trace with all events, and one for each path if the trace has
    the paths.
    """
    paths = sorted({event.path for event in trace.events if event.path is not None})
    parts = [(f"{end}, all paths", trace.events)]
    if len(paths) > 1:
        parts += [(f"{end}, path {n}", [event for event in trace.events if event.path == n]) for n in paths]
    traces = [
        {
            "title": name,
            "vantage_point": {"name": name, "type": end},
            "common_fields": {"time_format": "absolute"},
            "events": [made for event in events if (made := _render(event)) is not None],
        }
        for name, events in parts
    ]
    return json.dumps({"qlog_format": "JSON", "qlog_version": "0.3", "title": title, "traces": traces})


def _render(event: QlogEvent) -> dict[str, Any] | None:
    """Return an event; None if qlog 0.3 has no such event, or demands values that are not known."""
    if event.name not in _CATEGORIES:
        return None
    data = _keep(_rename(event), _DATA.get(event.name, {}))
    if event.name == "connection_started" and not {"src_ip", "dst_ip"} <= data.keys():
        return None
    if event.name.startswith("packet_"):
        version = event.packet.get("version")
        # tquic writes the number of the version without the zeros before it
        spelled = {"version": version.zfill(8)} if isinstance(version, str) else {}
        data["header"] = _keep({**event.packet, **spelled}, _HEADER)
        if not {"packet_type", "packet_number"} <= data["header"].keys():
            return None
        if event.size_bytes is not None and event.name != "packet_lost":
            data["raw"] = {"length": event.size_bytes}
        if event.name != "packet_dropped":
            data["frames"] = [_render_frame(frame) for frame in event.frames]
    path = {} if event.path is None else {"path_id": event.path}
    return {"time": event.at_ms, "name": f"{_CATEGORIES[event.name]}:{event.name}", "data": data, **path}


def _rename(event: QlogEvent) -> Mapping[str, Any]:
    """Return the data of an event with the keys of qlog 0.3 for those that later drafts have renamed."""
    found = dict(event.data)
    if event.name == "parameters_set":
        found.setdefault("owner", found.get("initiator"))
    if event.name == "connection_started":
        for name, end in (("src", found.get("local")), ("dst", found.get("remote"))):
            if isinstance(end, Mapping):
                found.setdefault(f"{name}_ip", end.get("ip_v4", end.get("ip_v6")))
                found.setdefault(f"{name}_port", end.get("port_v4", end.get("port_v6")))
    return found


def _render_frame(frame: QuicFrame) -> QuicFrame:
    kind = str(frame.get("frame_type"))
    if kind not in _FRAMES:
        return frame
    length, space = length_of(frame), str(frame.get("error_space")).removesuffix("_error")
    known = {**frame, "offset": offset_of(frame), "length": length, "payload_length": length, "error_space": space}
    return {"frame_type": kind, **_keep(known, _FRAMES[kind])}


def _keep(values: Mapping[str, Any], keys: _Keys) -> dict[str, Any]:
    """Return the values of these keys that have the form of their key."""
    return {key: values[key] for key, has_form in keys.items() if key in values and has_form(values[key])}
