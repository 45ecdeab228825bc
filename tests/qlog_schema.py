# SPDX-License-Identifier: Apache-2.0
"""The schema of qlog 0.3, for files of `mprun export --qlog`.

Sources: draft-ietf-quic-qlog-main-schema-03 and draft-ietf-quic-qlog-quic-events-02, whose definitions are in CDDL. The
maps of CDDL are closed, so a key that the draft does not define is a fault. Frames of extensions are left out of the
check, because qlog 0.3 does not name them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jsonschema import Draft202012Validator

UINT = {"type": "integer", "minimum": 0, "maximum": 2**64 - 1}
UINT8, UINT16, UINT32 = ({"type": "integer", "minimum": 0, "maximum": 2**bits - 1} for bits in (8, 16, 32))
FLOAT, TEXT, TRUTH = {"type": "number"}, {"type": "string"}, {"type": "boolean"}
HEXSTRING = {"type": "string", "pattern": "^([0-9a-f]{2})*$"}
RESET_TOKEN = {"type": "string", "pattern": "^[0-9a-f]{32}$"}
CODE = {"anyOf": [TEXT, UINT32]}
OWNER = {"enum": ["local", "remote"]}


def closed(keys: dict[str, Any], *required: str) -> dict[str, Any]:
    return {"type": "object", "properties": keys, "required": list(required), "additionalProperties": False}


RAW = closed({"length": UINT, "payload_length": UINT, "data": HEXSTRING})
TOKEN = closed({"type": {"enum": ["retry", "resumption"]}, "length": UINT32, "data": HEXSTRING, "details": {}})
HEADER = closed(
    {
        "packet_type": {
            "enum": [
                *("initial", "handshake", "0RTT", "1RTT"),
                *("retry", "version_negotiation", "stateless_reset", "unknown"),
            ]
        },
        "packet_number": UINT,
        "flags": UINT8,
        "token": TOKEN,
        "length": UINT16,
        "version": HEXSTRING,
        "scil": UINT8,
        "dcil": UINT8,
        "scid": HEXSTRING,
        "dcid": HEXSTRING,
    },
    "packet_type",
    "packet_number",
)
SIZES = {"length": UINT32, "payload_length": UINT32}
RANGE = {"type": "array", "items": UINT, "minItems": 1, "maxItems": 2}
STREAM_TYPE = {"enum": ["bidirectional", "unidirectional"]}
# The keys of each frame, and which of these are required.
FRAMES: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "padding": (SIZES, ("payload_length",)),
    "ping": (SIZES, ()),
    "ack": (
        {
            **SIZES,
            "ack_delay": FLOAT,
            "acked_ranges": {"type": "array", "items": RANGE, "minItems": 1},
            **dict.fromkeys(("ect1", "ect0", "ce"), UINT),
        },
        (),
    ),
    "reset_stream": (
        {**SIZES, "stream_id": UINT, "error_code": UINT32, "final_size": UINT},
        ("stream_id", "error_code", "final_size"),
    ),
    "stop_sending": ({**SIZES, "stream_id": UINT, "error_code": UINT32}, ("stream_id", "error_code")),
    "crypto": ({"offset": UINT, "length": UINT, "payload_length": UINT32}, ("offset", "length")),
    "new_token": ({"token": TOKEN}, ("token",)),
    "stream": (
        {"stream_id": UINT, "offset": UINT, "length": UINT, "fin": TRUTH, "raw": HEXSTRING},
        ("stream_id", "offset", "length"),
    ),
    "max_data": ({"maximum": UINT}, ("maximum",)),
    "max_stream_data": ({"stream_id": UINT, "maximum": UINT}, ("stream_id", "maximum")),
    "max_streams": ({"stream_type": STREAM_TYPE, "maximum": UINT}, ("stream_type", "maximum")),
    "data_blocked": ({"limit": UINT}, ("limit",)),
    "stream_data_blocked": ({"stream_id": UINT, "limit": UINT}, ("stream_id", "limit")),
    "streams_blocked": ({"stream_type": STREAM_TYPE, "limit": UINT}, ("stream_type", "limit")),
    "new_connection_id": (
        {
            "sequence_number": UINT32,
            "retire_prior_to": UINT32,
            "connection_id_length": UINT8,
            "connection_id": HEXSTRING,
            "stateless_reset_token": RESET_TOKEN,
        },
        ("sequence_number", "retire_prior_to", "connection_id"),
    ),
    "retire_connection_id": ({"sequence_number": UINT32}, ("sequence_number",)),
    "path_challenge": ({"data": HEXSTRING}, ()),
    "path_response": ({"data": HEXSTRING}, ()),
    "connection_close": (
        {
            "error_space": {"enum": ["transport", "application"]},
            "error_code": CODE,
            "raw_error_code": UINT32,
            "reason": TEXT,
            "trigger_frame_type": {"anyOf": [UINT, TEXT]},
        },
        (),
    ),
    "handshake_done": ({}, ()),
    "unknown": ({"raw_frame_type": UINT, "raw_length": UINT32, "raw": HEXSTRING}, ("raw_frame_type",)),
}
FRAME = {
    "type": "object",
    "required": ["frame_type"],
    "properties": {"frame_type": TEXT},
    "allOf": [
        {
            "if": {"properties": {"frame_type": {"const": kind}}},
            "then": closed({"frame_type": TEXT, **keys}, "frame_type", *required),
        }
        for kind, (keys, required) in FRAMES.items()
    ],
}
PACKET = {
    "header": HEADER,
    "frames": {"type": "array", "items": FRAME},
    "is_coalesced": TRUTH,
    "retry_token": TOKEN,
    "stateless_reset_token": RESET_TOKEN,
    "supported_versions": {"type": "array", "items": HEXSTRING, "minItems": 1},
    "raw": RAW,
    "datagram_id": UINT32,
    "trigger": TEXT,
}
LOSS_TRIGGER = {"enum": ["reordering_threshold", "time_threshold", "pto_expired"]}
DATA: dict[str, dict[str, Any]] = {
    "transport:packet_sent": closed({**PACKET, "is_mtu_probe_packet": TRUTH}, "header"),
    "transport:packet_received": closed(PACKET, "header"),
    "transport:packet_dropped": closed({"header": HEADER, "raw": RAW, "datagram_id": UINT32, "trigger": TEXT}),
    "recovery:packet_lost": closed(
        {
            "header": HEADER,
            "frames": {"type": "array", "items": FRAME},
            "is_mtu_probe_packet": TRUTH,
            "trigger": LOSS_TRIGGER,
        }
    ),
    "recovery:metrics_updated": closed(
        {
            **dict.fromkeys(("min_rtt", "smoothed_rtt", "latest_rtt", "rtt_variance"), FLOAT),
            "pto_count": UINT16,
            **dict.fromkeys(("congestion_window", "bytes_in_flight", "packets_in_flight", "pacing_rate"), UINT),
            # a number of QUIC has 62 bits (RFC 9000 16): a larger one stands for no threshold
            "ssthresh": {"type": "integer", "minimum": 0, "maximum": 2**62 - 1},
        }
    ),
    "transport:parameters_set": closed(
        {
            "owner": OWNER,
            **dict.fromkeys(("resumption_allowed", "early_data_enabled", "disable_active_migration"), TRUTH),
            "tls_cipher": TEXT,
            "aead_tag_length": UINT8,
            "original_destination_connection_id": HEXSTRING,
            "initial_source_connection_id": HEXSTRING,
            "retry_source_connection_id": HEXSTRING,
            "stateless_reset_token": RESET_TOKEN,
            **dict.fromkeys(("ack_delay_exponent", "max_ack_delay"), UINT16),
            **dict.fromkeys(("max_udp_payload_size", "active_connection_id_limit"), UINT32),
            **dict.fromkeys(("max_idle_timeout", "initial_max_data", "initial_max_stream_data_bidi_local"), UINT),
            **dict.fromkeys(("initial_max_stream_data_bidi_remote", "initial_max_stream_data_uni"), UINT),
            **dict.fromkeys(("initial_max_streams_bidi", "initial_max_streams_uni"), UINT),
            "preferred_address": {"type": "object"},
        }
    ),
    "connectivity:connection_started": closed(
        {
            "ip_version": {"enum": ["v4", "v6"]},
            **dict.fromkeys(("src_ip", "dst_ip", "protocol"), TEXT),
            **dict.fromkeys(("src_port", "dst_port"), UINT16),
            **dict.fromkeys(("src_cid", "dst_cid"), HEXSTRING),
        },
        "src_ip",
        "dst_ip",
    ),
    "connectivity:connection_closed": closed(
        {
            "owner": OWNER,
            "connection_code": CODE,
            "application_code": CODE,
            "internal_code": UINT32,
            "reason": TEXT,
            "trigger": TEXT,
        }
    ),
}
END = {"enum": ["client", "server", "network", "unknown"]}
EVENT = {
    "type": "object",
    "required": ["time", "name", "data"],
    "properties": {"time": FLOAT, "name": {"enum": list(DATA)}, "data": {"type": "object"}},
    "allOf": [
        {"if": {"properties": {"name": {"const": name}}}, "then": {"properties": {"data": data}}}
        for name, data in DATA.items()
    ],
}
TRACE = closed(
    {
        "title": TEXT,
        "description": TEXT,
        "configuration": {"type": "object"},
        "common_fields": {
            "type": "object",
            "properties": {
                "time_format": {"enum": ["absolute", "delta", "relative"]},
                "reference_time": FLOAT,
                "protocol_type": {"type": "array", "items": TEXT},
                "group_id": TEXT,
            },
        },
        "vantage_point": closed({"name": TEXT, "type": END, "flow": END}, "type"),
        "events": {"type": "array", "items": EVENT},
    },
    "events",
)
SCHEMA = closed(
    {
        "qlog_version": {"const": "0.3"},
        "qlog_format": {"const": "JSON"},
        "title": TEXT,
        "description": TEXT,
        "summary": {"type": "object"},
        "traces": {"type": "array", "items": TRACE, "minItems": 1},
    },
    "qlog_version",
)


def find_faults(content: object) -> Iterator[str]:
    """Yield where a file differs from the schema, and how."""
    for error in Draft202012Validator(SCHEMA).iter_errors(content):
        yield f"{error.json_path}: {error.message[:200]}"
