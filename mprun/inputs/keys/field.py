# SPDX-License-Identifier: Apache-2.0
"""The types of fields, such as names and quantities.

Each type has the parser of a value, and the JSON Schema that an editor shows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from ipaddress import IPv4Network
from itertools import count
from typing import Annotated, Any, TypeVar

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, PlainValidator, WithJsonSchema
from pydantic_core import CoreSchema, core_schema

from mprun.model import units
from mprun.model.frozen import Frozen
from mprun.model.problem import find_nearest
from mprun.model.scalar import PRIVATE, name_value

NAME_PATTERN = "^[a-zA-Z][a-zA-Z0-9_-]{0,31}$"
MOST_NAME = 32
_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9_-]*")
ADDRESS = re.compile(r"[0-9]+(\.[0-9]+){3}")

JsonSchema = dict[str, Any]
ParsedT = TypeVar("ParsedT")


def text_schema(pattern: str, *examples: str) -> JsonSchema:
    """The JSON Schema of a quantity."""
    return {"type": "string", "pattern": pattern, "examples": list(examples)}


def parsed(parse: Callable[[object], object], schema: JsonSchema) -> tuple[PlainValidator, WithJsonSchema]:
    """The metadata of a value that a parser reads."""
    return PlainValidator(parse), WithJsonSchema(schema)


def quantity(kind: units.Quantity, *examples: str) -> tuple[PlainValidator, WithJsonSchema]:
    """The metadata of an int that is written with a unit, in base units."""
    return parsed(kind.parse, text_schema(kind.pattern, *examples))


def checked(
    parse: Callable[[object], ParsedT],
    schema: JsonSchema,
    is_right: Callable[[ParsedT], object],
    problem: str,
    render: Callable[[ParsedT], str] = str,
) -> tuple[PlainValidator, WithJsonSchema]:
    """The metadata of a value that a parser reads and that passes a test.

    problem: the message about another value. `{}` stands for the value as `render` spells it, and `{given}` for the
    value in the file.
    """

    def check(value: object) -> ParsedT:
        parsed = parse(value)
        if not is_right(parsed):
            raise ValueError(problem.format(render(parsed), given=value))
        return parsed

    return parsed(check, schema)


def text_that(
    is_right: Callable[[str], object], problem: str, known: Sequence[str] = (), **schema: object
) -> tuple[PlainValidator, WithJsonSchema]:
    """The metadata of a text that passes a test. problem: the end of the message about any other value.

    known: names that people misspell.
    """

    def parse(value: object) -> str:
        if not isinstance(value, str) or not is_right(value):
            if isinstance(value, str) and is_right(value.lower()):
                meant = find_nearest(value.lower(), known) or value.lower()
                raise ValueError(f"'{value}' has capitals: did you mean '{meant}'?")
            raise ValueError(f"{name_value(value)} {problem}")
        return value

    return parsed(parse, {"type": "string", **schema})


def parse_name(value: object, noun: str = "host or link") -> str:
    """Return a name. noun: the kinds of what may have the name."""
    if isinstance(value, list):
        raise ValueError("is a list: write one name, and an entry for each other")
    if isinstance(value, str) and ADDRESS.fullmatch(value):
        raise ValueError(f"'{value}' is an address: write the name of its {noun}")
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise ValueError(
            f"{name_value(value)} cannot be a name, as names stand in commands and file names:"
            " begin with a letter, continue with letters, digits, '-' and '_'"
        )
    if len(value) > MOST_NAME:
        raise ValueError(f"'{value}' is {len(value)} characters long: {MOST_NAME} fit into reports and file names")
    if value.startswith(PRIVATE):
        raise ValueError(f"'{value}' cannot be a name: keys that begin with '{PRIVATE}' are not read")
    return value


def _number_names(name: str) -> Iterator[str]:
    """Yield a name, and then the name with -2, -3 and so on."""
    yield name
    yield from (f"{name}-{number}" for number in count(2))


def name_all(entries: Iterable[tuple[str | None, str]]) -> list[str]:
    """Return a name for each entry: its own, or else its default, with -2, -3 and so on where the default is taken.

    entries: the own name and the default of each. An own name is taken from the beginning.
    """
    listed = list(entries)
    taken = {own for own, _ in listed}
    numbered: dict[str, Iterator[str]] = {}
    names = []
    for own, default in listed:
        free = numbered.setdefault(default, _number_names(default))
        names.append(own or next(name for name in free if name not in taken))
        taken.add(names[-1])
    return names


class Whole(Frozen):
    """Metadata of an int: its bounds, and the reason for them."""

    minimum: int
    maximum: int
    reason: str

    def bound(self, value: int) -> int:
        if value < self.minimum <= 1:
            # a reason for the largest number would mislead
            raise ValueError(f"{value} is below {self.minimum}, the least: write {self.minimum} or more")
        if not self.minimum <= value <= self.maximum:
            raise ValueError(f"{value} is not between {self.minimum} and {self.maximum}: {self.reason}")
        return value

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.bound, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"type": "integer", "minimum": self.minimum, "maximum": self.maximum}


TIME_SCHEMA = text_schema(units.TIME.pattern, "10s", "500ms")
SIZE_SCHEMA = text_schema(units.SIZE.pattern, "1400bytes")
VOLUME_SCHEMA = text_schema(units.VOLUME.pattern, "10mb", "1400bytes")

Name = Annotated[str, *parsed(parse_name, {"type": "string", "pattern": NAME_PATTERN})]
_RTT = text_schema(units.RTT.pattern, "40ms")
_ODD = "cannot be split evenly: write an even number of ns"
Rtt = Annotated[int, *checked(units.RTT.parse, _RTT, lambda ns: ns % 2 == 0, _ODD)]
Width = Annotated[int, *quantity(units.WIDTH, "85mm", "178mm")]
Time = Annotated[int, *parsed(units.TIME.parse, TIME_SCHEMA)]


def _parse_end(value: object) -> tuple[str, ...]:
    """The addresses of one end of a link: none, one, or a list."""
    texts = value if isinstance(value, list) else [] if value is None else [value]
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("must be an address, or a list of one for each family: write '10.0.0.1/24'")
    return tuple(texts)


_OF_EACH_FAMILY = {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 2}
_END = {"anyOf": [{"type": "string"}, _OF_EACH_FAMILY, {"type": "null"}]}
EndAddresses = Annotated[tuple[str, ...], *parsed(_parse_end, _END)]
MTU = Whole(68, 65_535, "IPv4 needs at least 68 bytes (RFC 791), and has 16 bits for a packet's length")


def _parse_version(value: object) -> int:
    if value != 1 or isinstance(value, bool | float):
        raise ValueError(f"this mprun reads version 1, not {name_value(value)}: write 'version: 1'")
    return 1


FileVersion = Annotated[int, *parsed(_parse_version, {"const": 1})]


def _snaplen(value: object) -> int:
    """Return bytes from a bare number, as for tcpdump -s, or from a size."""
    bytes_ = value if isinstance(value, int) and not isinstance(value, bool) else units.SIZE.parse(value)
    return Whole(0, 262_144, "tcpdump takes no more of a packet, and 0 for all of it").bound(bytes_)


_BYTES = {"type": "integer", "minimum": 0, "maximum": 262_144}
Snaplen = Annotated[int, *parsed(_snaplen, {"oneOf": [_BYTES, text_schema(units.SIZE.pattern, "100bytes")]})]

# A number of bytes.
Volume = Annotated[int, *parsed(units.VOLUME.parse, VOLUME_SCHEMA)]

# The largest size of a capture in bytes. A smaller file hardly has room for its headers.
CaptureSize = Annotated[
    int,
    PlainValidator(units.VOLUME.parse),
    Whole(10_000, 1 << 50, "write '10kb' or more"),
    WithJsonSchema(VOLUME_SCHEMA),
]


def _parse_subnets(value: object) -> IPv4Network:
    """Parse a network of 256 subnets with 24 bits each."""
    try:
        network = IPv4Network(value) if isinstance(value, str) else None
    except ValueError:
        network = None
    if network is None or network.prefixlen != 16:
        raise ValueError(f"{name_value(value)} is no IPv4 network with 16 bits: write one as in '10.0.0.0/16'")
    if network.is_loopback or network.is_multicast or network.is_reserved or network[0].is_unspecified:
        raise ValueError(f"{value} holds no addresses of hosts: take one as in '10.0.0.0/16'")
    return network


_SUBNETS = text_schema(r"^[0-9]{1,3}\.[0-9]{1,3}\.0\.0/16$", "10.0.0.0/16")
Subnets = Annotated[IPv4Network, *parsed(_parse_subnets, _SUBNETS)]

DEFAULT_SEED = 1
SEED = Whole(0, 2**63 - 1, "a seed has 63 bits")
