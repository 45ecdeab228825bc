# SPDX-License-Identifier: Apache-2.0
"""The columns of the tables of a run that mprun itself reads. Every reader of these tables relies on them.

A table is checked once, when it is opened, since it may be damaged or made by a stranger.
"""

from __future__ import annotations

from collections.abc import Mapping

# For each table that mprun itself reads: the needed columns with numbers, and the needed columns with text. A column
# whose name ends in `?` may contain null. Other tables and columns are only shown and exported.
_OFFSETS = ("data_offset_bytes?", "subflow_offset_bytes?")
_CARRIED = ("forward_payload_bytes", "reverse_payload_bytes")
_TUPLE = ("source_port?", "destination_port?"), ("source", "destination")
TABLES: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "goodput": (("start_s", "end_s", "goodput_bit_per_s"), ("flow", "direction?")),
    "requests": (("start_ns?", "delay_ns?"), ("flow",)),
    "datagrams": (("sent_ns?", "delay_ns?"), ("flow",)),
    "pings": (("start_ns?", "rtt_ms?"), ("flow",)),
    "flows": (("start_ns", "completion_ns?"), ("flow",)),
    "chunks": (("start_ns", "delay_ns", "size_bytes", "quality_bit_per_s", "buffer_ns"), ("flow",)),
    "interfaces": (("time_ns", "tx_bytes"), ("node", "interface", "link?")),
    "queues": (("time_ns", "backlog_packets?"), ("link", "direction")),
    "sockets": (
        ("time_ns", "local_port", "remote_port", "bytes_acked?"),
        ("host", "flow?", "path?", "local", "remote"),
    ),
    "packets": (
        ("time_ns", "connection?", "subflow?", "payload_bytes?", "new_bytes?", *_OFFSETS),
        ("capture", "way?", "repeat?"),
    ),
    "qlog_packets": (
        ("time_ns", "packet?", "size_bytes?", "payload_bytes"),
        ("flow", "end", "event", "path?", "type?", "frames?"),
    ),
    "qlog_frames": (
        ("time_ns", "packet?", "stream?", "offset_bytes?", "length_bytes?"),
        ("flow", "end", "event", "path?", "frame?", "about?"),
    ),
    "qlog_recovery": (
        ("time_ns", "cwnd_bytes?", "in_flight_bytes?", "srtt_ns?", "rtt_ns?", "min_rtt_ns?"),
        ("flow", "end", "path?"),
    ),
    "subflows": (("connection", "subflow", *_CARRIED, *_TUPLE[0]), ("capture", "path?", *_TUPLE[1])),
    "counters": (("value",), ("host", "name")),
    "kernel_log": (("time_ns?", "sequence?"), ("level?", "origin?", "text")),
    "coverage": (("line", "executed"), ("file", "function")),
    "connections": (("connection",), ("capture", "protocol")),
    "one_way_delays": (("sent_ns", "delay_ns?"), ("from", "to", "state", "flow?", "path?", "link?")),
}
# Units at the end of column names. Such columns contain numbers.
UNITS = ("_ns", "_us", "_ms", "_s", "_bytes", "_packets", "_per_s", "_port")


def find_column_problem(table: str, kinds: Mapping[str, str]) -> str | None:
    """Return what is wrong with the columns of a table; None if nothing is wrong.

    kinds: for each column `number`, `text`, `flag`, `null` (the column contains only nulls) or another word.
    """
    numbers, texts = TABLES.get(table, ((), ()))
    wanted = {name.removesuffix("?"): "number" for name in numbers} | {name.removesuffix("?"): "text" for name in texts}
    for name in wanted:
        if name not in kinds:
            return f"has no column {name}"
    for name, kind in kinds.items():
        if kind not in ("number", "text", "flag", "null"):
            return f"column {name} holds no single values"
        expected = wanted.get(name) or ("number" if name.endswith(UNITS) else kind)
        if kind not in (expected, "null"):
            return f"column {name} holds no {expected}"
    return None


def never_null(table: str) -> list[str]:
    """Return the columns of a table that must not contain null."""
    return [name for part in TABLES.get(table, ()) for name in part if not name.endswith("?")]
