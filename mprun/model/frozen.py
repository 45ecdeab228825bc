# SPDX-License-Identifier: Apache-2.0
"""Frozen dataclasses that take a quarter of the usual time to create: see DECISIONS.md.

`dataclasses` finds the fields, in their order and with those of the base class. It would then write a text for each
method and compile it. Here, only `__init__` is such a text, compiled when the first value of a class is made: most
classes of a command have none.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from dataclasses import MISSING, Field, FrozenInstanceError, field
from operator import attrgetter
from typing import Any, dataclass_transform


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Frozen:
    """The base of the frozen dataclasses: each class below it is one, without a decorator."""

    def __init_subclass__(cls, *, kw_only: bool = False) -> None:
        """Add the methods that the class does not define itself. kw_only: its own fields are given by name."""
        dataclasses.dataclass(init=False, repr=False, eq=False, kw_only=kw_only)(cls)
        fields: Sequence[Field[Any]] = dataclasses.fields(cls)  # type: ignore[arg-type]
        compared = _getter(one.name for one in fields if one.compare)
        hashed = _getter(one.name for one in fields if (one.compare if one.hash is None else one.hash))
        shown = tuple(one.name for one in fields if one.repr)

        def __eq__(self: object, other: object) -> bool:
            if other.__class__ is not self.__class__:
                return NotImplemented
            return bool(compared(self) == compared(other))

        def __hash__(self: object) -> int:
            return hash(hashed(self))

        def __repr__(self: object) -> str:
            return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"

        def __init__(self: object, *arguments: object, **named: object) -> None:
            init = _write_init(cls, fields)
            type.__setattr__(cls, "__init__", init)
            init(self, *arguments, **named)

        for method in (__init__, __eq__, __hash__, __repr__):
            if method.__name__ not in cls.__dict__:
                setattr(cls, method.__name__, method)

    def __setattr__(self, name: str, value: object) -> None:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        raise FrozenInstanceError(f"cannot delete field {name!r}")


def _getter(names: Iterable[str]) -> Callable[[object], object]:
    """Return a function that takes these fields of a value, as one value to compare."""
    found = list(names)
    return attrgetter(*found) if found else lambda _: None


def _write_init(kind: type, fields: Sequence[Field[Any]]) -> Callable[..., None]:
    """Return `__init__`. It writes the fields into the dictionary of the value, as assignments are refused."""
    names: dict[str, Any] = {"MISSING": MISSING}
    arguments: list[str] = []
    by_name: list[str] = []
    lines = ["__values__ = self.__dict__"]
    for n, one in enumerate(fields):
        default = ""
        value = one.name
        if one.default_factory is not MISSING:
            names[f"_{n}"] = one.default_factory
            default = "=MISSING"
            value = f"_{n}() if {one.name} is MISSING else {one.name}" if one.init else f"_{n}()"
        elif one.default is not MISSING:
            names[f"_{n}"] = one.default
            default = f"=_{n}"
        if one.init:
            (by_name if one.kw_only else arguments).append(one.name + default)
        if one.init or one.default_factory is not MISSING:
            lines.append(f"__values__[{one.name!r}] = {value}")
    if hasattr(kind, "__post_init__"):
        lines.append("self.__post_init__()")
    words = ", ".join(["self", *arguments, *(["*", *by_name] if by_name else [])])
    exec(f"def __init__({words}):\n " + "\n ".join(lines), names)
    init: Callable[..., None] = names["__init__"]
    init.__qualname__ = f"{kind.__qualname__}.__init__"
    return init
