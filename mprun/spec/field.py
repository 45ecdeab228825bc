# SPDX-License-Identifier: Apache-2.0
"""The types of fields: names, quantities, and values that may differ by direction.

Each couples a parser of `units` with the JSON Schema that an editor shows.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, PlainValidator, WithJsonSchema
from pydantic_core import CoreSchema, core_schema

from mprun.spec import units
from mprun.spec.document import PRIVATE
from mprun.spec.fault import name_nearest
from mprun.spec.model import refuse
from mprun.spec.spec import Queue

Value = TypeVar("Value")
Both = tuple[Value | None, Value | None]

NAME_PATTERN = "^[a-zA-Z][a-zA-Z0-9_-]{0,31}$"
MOST_NAME = 32
_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9_-]*")


def parse_name(value: object) -> str:
    """The name of a node, link or flow."""
    if not isinstance(value, str):
        raise ValueError("must be a name: write letters, digits, '-' and '_'")
    if not _NAME.fullmatch(value):
        raise ValueError(
            f"'{value}' cannot be a name, as names stand in commands and file names:"
            " begin with a letter, go on with letters, digits, '-' and '_'"
        )
    if len(value) > MOST_NAME:
        raise ValueError(f"'{value}' is {len(value)} characters long: {MOST_NAME} fit into reports and file names")
    if value.startswith(PRIVATE):
        raise ValueError(f"'{value}' cannot be a name: keys that begin with '{PRIVATE}' are not read")
    return value


@dataclass(frozen=True)
class Whole:
    """Metadata of an int: its bounds, and the reason for them."""

    minimum: int
    maximum: int
    reason: str

    def bound(self, value: int) -> int:
        if not self.minimum <= value <= self.maximum:
            raise ValueError(f"{value} is not between {self.minimum} and {self.maximum}: {self.reason}")
        return value

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.bound, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"type": "integer", "minimum": self.minimum, "maximum": self.maximum}


def _by_direction(parse: Callable[[object], Value]) -> Callable[[object], Both[Value]]:
    """One value for both directions, or a mapping with `forward`, `reverse` or both."""

    def read(value: object) -> Both[Value]:
        if not isinstance(value, dict):
            both = parse(value)
            return both, both
        faults: dict[tuple[str | int, ...], str] = {}
        parsed: dict[str, Value] = {}
        for key, one in value.items():
            if key not in ("forward", "reverse"):
                faults[(key,)] = f"unknown key '{key}'{name_nearest(key, ('forward', 'reverse'), 'keys here')}"
                continue
            try:
                parsed[key] = parse(one)
            except ValueError as error:
                faults[(key,)] = str(error)
        if faults:
            raise refuse(faults, value)
        if not parsed:
            raise ValueError("is empty: write 'forward', 'reverse' or both")
        return parsed.get("forward"), parsed.get("reverse")

    return read


def _parse_rtt(value: object) -> int:
    rtt_ns = units.RTT.parse(value)
    if rtt_ns % 2:
        raise ValueError("cannot be split evenly: write an even number of ns")
    return rtt_ns


def _schema(pattern: str, *examples: str) -> dict[str, Any]:
    return {"type": "string", "pattern": pattern, "examples": list(examples)}


def _both_schema(one: dict[str, Any]) -> dict[str, Any]:
    directions = {
        "forward": {**one, "description": "From the first end to the second."},
        "reverse": {**one, "description": "From the second end to the first."},
    }
    each = {"type": "object", "properties": directions, "additionalProperties": False, "minProperties": 1}
    return {"oneOf": [one, each]}


_RATE = _schema(units.RATE.pattern, "20mbit", "500kbit", "1gbit")
_DELAY = _schema(units.DELAY.pattern, "20ms", "500us")
_QUEUE = _schema(units.QUEUE_PATTERN, "80packets", "1bdp", "64kb", "50ms")
TIME_SCHEMA = _schema(units.TIME.pattern, "10s", "500ms")
SIZE_SCHEMA = _schema(units.SIZE.pattern, "1400bytes")
_PERCENT = _schema(units.PERCENT_PATTERN, "1%", "0.5%")

Name = Annotated[str, PlainValidator(parse_name), WithJsonSchema({"type": "string", "pattern": NAME_PATTERN})]
Rtt = Annotated[int, PlainValidator(_parse_rtt), WithJsonSchema(_schema(units.RTT.pattern, "40ms"))]
Time = Annotated[int, PlainValidator(units.TIME.parse), WithJsonSchema(TIME_SCHEMA)]
RateBoth = Annotated[Both[int], PlainValidator(_by_direction(units.RATE.parse)), WithJsonSchema(_both_schema(_RATE))]
DelayBoth = Annotated[Both[int], PlainValidator(_by_direction(units.DELAY.parse)), WithJsonSchema(_both_schema(_DELAY))]
QueueBoth = Annotated[
    Both[Queue], PlainValidator(_by_direction(units.parse_queue)), WithJsonSchema(_both_schema(_QUEUE))
]
LossBoth = Annotated[
    Both[float], PlainValidator(_by_direction(units.parse_loss)), WithJsonSchema(_both_schema(_PERCENT))
]


def _parse_version(value: object) -> int:
    if value != 1 or isinstance(value, bool | float):
        raise ValueError(f"this mprun reads version 1, not {value}: write 'version: 1'")
    return 1


Version = Annotated[int, PlainValidator(_parse_version), WithJsonSchema({"const": 1})]


def _snaplen(value: object) -> int:
    """Bytes: a bare number as tcpdump -s takes it, or a size."""
    bytes_ = value if isinstance(value, int) and not isinstance(value, bool) else units.SIZE.parse(value)
    return Whole(0, 262_144, "tcpdump takes no more of a packet, and 0 for all of it").bound(bytes_)


Snaplen = Annotated[
    int,
    PlainValidator(_snaplen),
    WithJsonSchema(
        {"oneOf": [{"type": "integer", "minimum": 0, "maximum": 262_144}, _schema(units.SIZE.pattern, "100bytes")]}
    ),
]

DEFAULT_SEED = 1
SEED = Whole(0, 2**63 - 1, "a seed has 63 bits")
