# SPDX-License-Identifier: Apache-2.0
"""Turn records into JSON values and back. This is the one way to read JSON files of runs, sweeps and plans.

A record is a frozen dataclass or a named tuple. Its annotations say what a file must hold, so that one reader both
reads a file and checks a stranger's. A file may hold more than its record: unknown keys are ignored. A missing key
takes the default of its field.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Interface, IPv6Network
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")
ReadValue = Callable[[Any], Any]

ADDRESSES = (IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Interface, IPv6Network)


class JsonProblem(ValueError):
    """A JSON value does not fit its record. path: the place in the value, such as `.links[0].ends`."""

    def __init__(self, path: str = "") -> None:
        super().__init__(path or ".")
        self.path = path

    def inside(self, outer: str) -> JsonProblem:
        """Return the same problem, seen from the value that holds the faulty one."""
        return JsonProblem(outer + self.path)


class Codec:
    """The spelling of records in one file.

    By default, a JSON object has a key for each field of its record. Other spellings are functions by type of record:

    - spelled: takes the record and its fields as JSON values, and returns the JSON object.
    - parsed: takes the JSON object, and returns the fields as JSON values.
    """

    def __init__(
        self,
        spelled: Mapping[type, Callable[[Any, dict[str, Any]], dict[str, Any]]] | None = None,
        parsed: Mapping[type, Callable[[dict[str, Any]], dict[str, Any]]] | None = None,
    ) -> None:
        self._spelled = spelled or {}
        self._parsed = parsed or {}
        self._reader: Callable[[Any], ReadValue] = cache(self._make_reader)

    def encode(self, value: Any) -> Any:
        """Return a value in JSON's types: records as objects, addresses as text."""
        if value is None or isinstance(value, str | int | float):
            return value
        if names := _names_of(type(value)):
            plain = {name: self.encode(getattr(value, name)) for name in names}
            spell = self._spelled.get(type(value))
            return spell(value, plain) if spell else plain
        if isinstance(value, list | tuple):
            return [self.encode(item) for item in value]
        if isinstance(value, Mapping):
            return {str(key): self.encode(item) for key, item in value.items()}
        if isinstance(value, ADDRESSES):
            return str(value)
        raise TypeError(f"{value!r} has no place in JSON")

    def write(self, value: object) -> dict[str, Any]:
        """Return a record as a JSON object."""
        plain: dict[str, Any] = self.encode(value)
        return plain

    def decode(self, kind: type[T], value: object) -> T:
        """Return the value of a type that a JSON value stands for: a record, or a list or a mapping of records.

        Raises JsonProblem.
        """
        read: Callable[[object], T] = self._reader(kind)
        return read(value)

    def _make_reader(self, kind: Any) -> ReadValue:
        origin, arguments = get_origin(kind), get_args(kind)
        if kind in (Any, object):
            return lambda value: value
        if kind in _TESTS:
            return _accept(_TESTS[kind])
        if kind in ADDRESSES:
            return _read_address(kind)
        if origin is Literal:
            return _accept(lambda value: isinstance(value, str) and value in arguments)
        if origin in (Union, UnionType):
            return self._make_choice(arguments)
        if origin is tuple and arguments[-1] is not Ellipsis:
            return _read_row([self._reader(one) for one in arguments])
        if origin in (tuple, list, Sequence):
            return _read_rows(self._reader(arguments[0]), list if origin is list else tuple)
        if origin in (dict, Mapping):
            return _read_mapping(*(self._reader(one) for one in arguments))
        if _names_of(kind):
            return self._make_object(kind)
        raise TypeError(f"{kind!r} has no reader")

    def _make_choice(self, kinds: Sequence[Any]) -> ReadValue:
        """Return the reader of a union: of the first record whose keys are there, or of the first kind that fits."""
        records = [kind for kind in kinds if _names_of(kind)]
        objects = [({*_names_of(kind)} - _optional(kind), self._reader(kind)) for kind in records]
        others = [self._reader(kind) for kind in kinds if kind not in records]

        def read(value: Any) -> Any:
            if isinstance(value, dict):
                for required, of_object in objects:
                    if required <= value.keys():
                        return of_object(value)
            for other in others:
                try:
                    return other(value)
                except JsonProblem as problem:
                    # a list or an object says where in it the problem is
                    if problem.path:
                        raise
            raise JsonProblem

        return read

    def _make_object(self, kind: Any) -> ReadValue:
        hints = get_type_hints(kind)
        parse, optional = self._parsed.get(kind), _optional(kind)
        parts = [(name, self._reader(hints[name]), name in optional) for name in _names_of(kind)]

        def read(value: Any) -> Any:
            value = _only(dict, value)
            if parse:
                try:
                    value = parse(value)
                except KeyError as error:
                    raise JsonProblem(f".{error.args[0]}") from None
            found = {}
            for name, read_part, is_optional in parts:
                if name in value:
                    found[name] = _read_inside(f".{name}", read_part, value[name])
                elif not is_optional:
                    raise JsonProblem(f".{name}")
            return kind(**found)

        return read


def _names_of(kind: Any) -> Collection[str]:
    """Return the names of the fields of a record; empty for any other type."""
    return getattr(kind, "_fields", ()) or getattr(kind, "__dataclass_fields__", ())


def _optional(kind: Any) -> set[str]:
    """Return the names of the fields of a record that have a default."""
    if not is_dataclass(kind):
        return {*kind._field_defaults}
    return {one.name for one in fields(kind) if one.default is not MISSING or one.default_factory is not MISSING}


def _is_number(value: object) -> bool:
    """Return whether a value is a finite number, small enough for further calculations."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    return abs(value) < 1e300 and math.isfinite(value)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 63


def _only(kind: type[T], value: Any) -> T:
    """Return a value of a kind. Raises JsonProblem for another value."""
    if not isinstance(value, kind):
        raise JsonProblem
    return value


def _accept(test: Callable[[Any], bool]) -> ReadValue:
    def read(value: Any) -> Any:
        if not test(value):
            raise JsonProblem
        return value

    return read


_TESTS: Mapping[Any, Callable[[Any], bool]] = {
    str: lambda value: isinstance(value, str),
    bool: lambda value: isinstance(value, bool),
    int: _is_whole,
    float: _is_number,
    NoneType: lambda value: value is None,
}


def _read_address(kind: Callable[[str], Any]) -> ReadValue:
    def read(value: Any) -> Any:
        try:
            return kind(_only(str, value))
        except ValueError:
            raise JsonProblem from None

    return read


def _read_row(readers: Sequence[ReadValue]) -> ReadValue:
    """Return the reader of a tuple whose elements have a kind each."""

    def read(value: Any) -> Any:
        if len(_only(list, value)) != len(readers):
            raise JsonProblem
        return tuple(_read_inside(f"[{n}]", readers[n], item) for n, item in enumerate(value))

    return read


def _read_rows(reader: ReadValue, make: Callable[[Any], Any]) -> ReadValue:
    """Return the reader of any number of elements of one kind."""
    return lambda value: make(_read_inside(f"[{n}]", reader, item) for n, item in enumerate(_only(list, value)))


def _read_inside(step: str, reader: ReadValue, item: Any) -> Any:
    """Read a part of a value. step: the part's place in the value, such as `.ends`."""
    try:
        return reader(item)
    except JsonProblem as problem:
        raise problem.inside(step) from None


def _read_mapping(key: ReadValue, reader: ReadValue) -> ReadValue:
    return lambda value: {
        _read_inside(f".{name}", key, name): _read_inside(f".{name}", reader, item)
        for name, item in _only(dict, value).items()
    }


PLAIN = Codec()


def canonical_json(value: object) -> str:
    """Return JSON with one spelling for equal values: sorted keys, no spaces, ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
