# SPDX-License-Identifier: Apache-2.0
"""The types of fields: names, quantities, and values that may differ by direction.

Each couples a parser of `units` with the JSON Schema that an editor shows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from ipaddress import IPv4Network
from typing import Annotated, Any, TypeVar

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, PlainValidator, WithJsonSchema, create_model
from pydantic_core import CoreSchema, core_schema

from mprun.inputs.keys import impairment
from mprun.inputs.keys.file_model import FileModel, read_fields
from mprun.inputs.keys.impairment import SchemaOnDemand, either_schema, text_schema
from mprun.model import units
from mprun.model.problem import ValuePath
from mprun.model.scalar import PRIVATE, name_value
from mprun.model.spec import Chance, Jitter, Loss, Queue, Reorder

FieldT = TypeVar("FieldT")
Both = tuple[FieldT | None, FieldT | None]

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
            " begin with a letter, continue with letters, digits, '-' and '_'"
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


def _by_direction(parse: Callable[[object], FieldT]) -> Callable[[object], Both[FieldT]]:
    """Return a parser of one value for both directions, or of a mapping with `forward`, `reverse` or both."""

    @cache
    def entry() -> type[FileModel]:
        """Return the model of the mapping, which few files need."""
        one: Any = Annotated[Any, PlainValidator(parse)]
        return create_model("DirectionsEntry", __base__=FileModel, forward=(one, None), reverse=(one, None))

    def read(value: object) -> Both[FieldT]:
        if not isinstance(value, dict) or (value and not value.keys() & {"forward", "reverse"}):
            both = parse(value)
            return both, both
        parsed = read_fields(entry(), value)
        if not parsed:
            raise ValueError("is empty: write 'forward', 'reverse' or both")
        return parsed.get("forward"), parsed.get("reverse")

    return read


def spread_directions(position: ValuePath, value: object) -> Iterator[tuple[ValuePath, object]]:
    """Yield a written value with its place, or the value of each direction with the place of the direction."""
    if isinstance(value, Mapping):
        for key, one in value.items():
            yield (*position, key), one
    elif value is not None:
        yield position, value


def _parse_rtt(value: object) -> int:
    rtt_ns = units.RTT.parse(value)
    if rtt_ns % 2:
        raise ValueError("cannot be split evenly: write an even number of ns")
    return rtt_ns


def _both_schema(one: dict[str, Any]) -> dict[str, Any]:
    directions = {
        "forward": {**one, "description": "The direction from the first end to the second."},
        "reverse": {**one, "description": "The direction from the second end to the first."},
    }
    each = {"type": "object", "properties": directions, "additionalProperties": False, "minProperties": 1}
    return {"oneOf": [one, each]}


_RATE = text_schema(units.RATE.pattern, "20mbit", "500kbit", "1gbit")
_DELAY = text_schema(units.DELAY.pattern, "20ms", "500us")
TIME_SCHEMA = text_schema(units.TIME.pattern, "10s", "500ms")
SIZE_SCHEMA = text_schema(units.SIZE.pattern, "1400bytes")
WIDTH_SCHEMA = text_schema(units.WIDTH.pattern, "85mm", "178mm")
VOLUME_SCHEMA = text_schema(units.VOLUME.pattern, "10mb", "1400bytes")

Name = Annotated[str, PlainValidator(parse_name), WithJsonSchema({"type": "string", "pattern": NAME_PATTERN})]
Rtt = Annotated[int, PlainValidator(_parse_rtt), WithJsonSchema(text_schema(units.RTT.pattern, "40ms"))]
Width = Annotated[int, PlainValidator(units.WIDTH.parse), WithJsonSchema(WIDTH_SCHEMA)]
Time = Annotated[int, PlainValidator(units.TIME.parse), WithJsonSchema(TIME_SCHEMA)]


def _both(
    parse: Callable[[object], Any], one: dict[str, Any], *models: type[FileModel]
) -> tuple[PlainValidator, SchemaOnDemand]:
    return PlainValidator(_by_direction(parse)), SchemaOnDemand(lambda: _both_schema(either_schema(one, *models)))


RateBoth = Annotated[Both[int], *_both(units.parse_link_rate, _RATE)]
DelayBoth = Annotated[Both[int], *_both(units.DELAY.parse, _DELAY)]
JitterBoth = Annotated[Both[Jitter], *_both(impairment.parse_jitter, impairment.DELAY, impairment.JitterEntry)]
LossBoth = Annotated[
    Both[Loss], *_both(impairment.parse_loss_model, impairment.PERCENT, *impairment.LOSS_ENTRIES.values())
]
ChanceBoth = Annotated[Both[Chance], *_both(impairment.parse_chance, impairment.PERCENT)]
ReorderBoth = Annotated[Both[Reorder], *_both(impairment.parse_reorder, impairment.PERCENT, impairment.ReorderEntry)]
QueueBoth = Annotated[Both[Queue], *_both(impairment.parse_queue, impairment.QUEUE, impairment.QueueEntry)]


def _parse_end(value: object) -> tuple[str, ...]:
    """The addresses of one end of a link: none, one, or a list."""
    texts = value if isinstance(value, list) else [] if value is None else [value]
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("must be an address, or a list of one for each family: write '10.0.0.1/24'")
    return tuple(texts)


EndAddresses = Annotated[
    tuple[str, ...],
    PlainValidator(_parse_end),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string"},
                {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 2},
                {"type": "null"},
            ]
        }
    ),
]
MTU = Whole(68, 65_535, "IPv4 needs at least 68 bytes (RFC 791), and has 16 bits for a packet's length")


def _parse_version(value: object) -> int:
    if value != 1 or isinstance(value, bool | float):
        raise ValueError(f"this mprun reads version 1, not {name_value(value)}: write 'version: 1'")
    return 1


FileVersion = Annotated[int, PlainValidator(_parse_version), WithJsonSchema({"const": 1})]


def _snaplen(value: object) -> int:
    """Bytes: a bare number as for tcpdump -s, or a size."""
    bytes_ = value if isinstance(value, int) and not isinstance(value, bool) else units.SIZE.parse(value)
    return Whole(0, 262_144, "tcpdump takes no more of a packet, and 0 for all of it").bound(bytes_)


Snaplen = Annotated[
    int,
    PlainValidator(_snaplen),
    WithJsonSchema(
        {"oneOf": [{"type": "integer", "minimum": 0, "maximum": 262_144}, text_schema(units.SIZE.pattern, "100bytes")]}
    ),
]


def _capture_size(value: object) -> int:
    """The largest size of a capture in bytes. A smaller file hardly has room for its headers."""
    return Whole(10_000, 1 << 50, "write '10kb' or more").bound(units.VOLUME.parse(value))


CaptureSize = Annotated[int, PlainValidator(_capture_size), WithJsonSchema(VOLUME_SCHEMA)]


def _parse_subnets(value: object) -> IPv4Network:
    """A network of 256 subnets with 24 bits each."""
    try:
        network = IPv4Network(value) if isinstance(value, str) else None
    except ValueError:
        network = None
    if network is None or network.prefixlen != 16:
        raise ValueError(f"{name_value(value)} is no IPv4 network with 16 bits: write one as in '10.0.0.0/16'")
    if network.is_loopback or network.is_multicast or network.is_reserved or network[0].is_unspecified:
        raise ValueError(f"{value} holds no addresses of hosts: take one as in '10.0.0.0/16'")
    return network


Subnets = Annotated[
    IPv4Network,
    PlainValidator(_parse_subnets),
    WithJsonSchema(text_schema(r"^[0-9]{1,3}\.[0-9]{1,3}\.0\.0/16$", "10.0.0.0/16")),
]

DEFAULT_SEED = 1
SEED = Whole(0, 2**63 - 1, "a seed has 63 bits")
