# SPDX-License-Identifier: Apache-2.0
"""The forms of JSON files in runs and sweeps that have no dataclass. Every reader of these files relies on them.

A file is checked against its form once, when it is read, since it may be damaged or made by a stranger. A form lists
what is needed; a file may contain more. The check imports no library, because each command that reads a run would wait
for the import.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from mprun.model.engine_name import ENGINE_NAMES

# A form is a type, a predicate, a tuple of alternative forms, a list with the form of its items, or a mapping of keys
# to forms. A key that ends in `?` may be missing.
Form = Any


@dataclass(frozen=True)
class Map:
    """The form of a mapping with any keys, whose values have this form."""

    form: Form


def number(value: object) -> bool:
    """Return whether a value is a finite number, small enough for further calculations."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    return abs(value) < 1e300 and math.isfinite(value)


def whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 63


def one_of(*words: str) -> Callable[[object], bool]:
    return lambda value: value in words


def anything(_: object) -> bool:
    return True


def find_fault(value: Any, form: Form, place: str = "") -> str | None:
    """Return the place where a value does not match a form; None if it matches."""
    match form:
        case type():
            return None if isinstance(value, form) and not (form is int and isinstance(value, bool)) else place or "."
        case tuple():
            return None if any(find_fault(value, one, place) is None for one in form) else place or "."
        case [one]:
            if not isinstance(value, list):
                return place or "."
            return _first(find_fault(item, one, f"{place}[{n}]") for n, item in enumerate(value))
        case dict():
            if not isinstance(value, dict):
                return place or "."
            for key, one in form.items():
                name = key.removesuffix("?")
                if name not in value:
                    if key == name:
                        return f"{place}.{name}"
                elif fault := find_fault(value[name], one, f"{place}.{name}"):
                    return fault
            return None
        case Map(form=one):
            if not isinstance(value, dict):
                return place or "."
            return _first(find_fault(item, one, f"{place}.{key}") for key, item in value.items())
        case None:
            return None if value is None else place or "."
    return None if form(value) else place or "."


def _first(faults: Iterable[str | None]) -> str | None:
    return next(filter(None, faults), None)


_TEXTS = [str]
_AMOUNT = (number, None)
_WHOLE = (whole, None)
_STATUS = one_of("passed", "failed", "error")
METRIC = {"value": number, "unit": one_of("bit/s", "s", "share", "byte", "1")}
_EXPECTATION = {
    **{"metric": str, "value": _AMOUNT, "held": bool},
    **{"minimum": _AMOUNT, "maximum": _AMOUNT, "equals": _AMOUNT},
}
_VALUE = (str, bool, number, None)
_KERNEL = {"version": str, "digest?": str, "name?": str}
_ENGINE = one_of(*ENGINE_NAMES)
ENVIRONMENT = {
    **{"engine": _ENGINE, "kernel": _KERNEL, "versions": Map(str), "warnings": _TEXTS, "python": str},
    **{"real_time?": bool, "engine_reason?": str, "mprun?": (str, {"version": str})},
    "parameters?": Map(_VALUE),
}
WALL = [{"wall_s": number}]
STOPS = [{"program": str, "call": str, "count": whole}]
_REPEAT = {
    **{"seed": whole, "least": whole, "most": whole, "vary": _TEXTS},
    "until": (None, {"metric": str, "confidence": number, "within": number}),
}
_CELL = {"values": Map(_VALUE), "folder": str, "engine": _ENGINE, "kernel": str, "repeat": _REPEAT}
SWEEP = {
    **{"format": whole, "title": str, "digest": str, "cells": [_CELL], "across": _TEXTS},
    **{"axes?": _TEXTS, "kernels": Map(_KERNEL), "plots?": [dict], "show?": _TEXTS},
}
_COUNTS = {"passed": whole, "failed": whole, "error": whole}
_STATISTIC = {
    "unit": METRIC["unit"], "count": whole, "mean": _AMOUNT, "median": _AMOUNT,
}  # fmt: skip
SWEEP_SUMMARY = {
    **{"status": one_of("passed", "failed", "error", "incomplete"), "complete": bool, "runs": _COUNTS},
    "cells": [
        {
            **{"values": Map(_VALUE), "runs": _COUNTS, "needed": whole, "metrics": Map(_STATISTIC)},
            "told": {"errors?": dict, "failures?": dict, "warnings": anything},
        }
    ],
    "statements": [{"holds": str, "held": (bool, None)}],
    "warnings": _TEXTS,
}
STEP = {
    **{"step": str, "actual_ns?": _WHOLE, "name?": (str, None)},
    "values?": (None, Map(anything), {"forward": Map(anything), "reverse": Map(anything)}),
}

OF_RUN: Mapping[str, Form] = {
    **{"environment.json": ENVIRONMENT},
    **{"wall.json": WALL, "stops.json": STOPS},
}
OF_SWEEP: Mapping[str, Form] = {"sweep.json": SWEEP, "summary.json": SWEEP_SUMMARY}

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


def find_column_fault(table: str, kinds: Mapping[str, str]) -> str | None:
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
