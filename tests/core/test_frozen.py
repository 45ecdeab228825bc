# SPDX-License-Identifier: Apache-2.0
"""mprun's base of frozen dataclasses does what the decorator of the library does."""

from __future__ import annotations

import dataclasses
import pickle
import re
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from mprun.model import frozen

PACKAGE = Path(frozen.__file__).parents[1]
# The modules that come before `mprun.model`, and the agent.
BEFORE = ("errors.py", "machine", "safety", "agent")


class Twice:
    """The methods of the classes below."""

    name: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "twice", self.name * 2)

    @cached_property
    def length(self) -> int:
        return len(self.name)


def inherit() -> tuple[Any, Any]:
    """Return a class and a class derived from it, both below mprun's base."""

    class Base(Twice, frozen.Frozen):
        name: str
        values: dict[str, int] = field(default_factory=dict, hash=False)
        told: str = field(default="", compare=False, repr=False)
        twice: str = field(init=False)

    class Derived(Base, kw_only=True):
        size: int
        self_: int = 3

    return Base, Derived


def decorate() -> tuple[Any, Any]:
    """Return the same classes, both made with the decorator of the library."""

    @dataclasses.dataclass(frozen=True)
    class Base(Twice):
        name: str
        values: dict[str, int] = field(default_factory=dict, hash=False)
        told: str = field(default="", compare=False, repr=False)
        twice: str = field(init=False)

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Derived(Base):
        size: int
        self_: int = 3

    return Base, Derived


OURS, THEIRS = inherit(), decorate()
CASES: dict[str, Callable[[Any, Any], object]] = {
    "fields": lambda base, _: [(one.name, one.init) for one in dataclasses.fields(base)],
    "values": lambda base, _: vars(base("a")),
    "by name": lambda _, derived: vars(derived("a", {"b": 1}, size=2)),
    "repr": lambda base, derived: (repr(base("a", told="x")), repr(derived("a", size=1))),
    "equal": lambda base, _: (
        base("a") == base("a", told="x"),
        base("a") == base("b"),
        base("a") != base("a", {"c": 1}),
    ),
    "equal to others": lambda base, derived: (base("a") == derived("a", size=1), base("a") == "a"),
    "in a set": lambda base, _: len({base("a"), base("a"), base("b")}),
    "replaced": lambda base, _: vars(replace(base("a", told="x"), name="b")),
    "as a dictionary": lambda _, derived: dataclasses.asdict(derived("a", {"b": 1}, size=2)),
    "own default": lambda base, _: base("a").values is not base("b").values,
    "cached": lambda base, _: (base("abc").length, base("abc") == base("abc")),
    "matched": lambda base, _: base.__match_args__,
    "no field": lambda _, derived: derived("a"),
    "unknown field": lambda base, _: base("a", other=1),
    "not hashable": lambda base, _: hash(base(["a"])),
    "assigned": lambda base, _: setattr(base("a"), "name", "b"),
    "assigned to no field": lambda base, _: setattr(base("a"), "other", "b"),
    "removed": lambda base, _: delattr(base("a"), "name"),
}


def outcome(case: Callable[[Any, Any], object], kinds: tuple[Any, Any]) -> tuple[str, str]:
    try:
        return "returns", re.sub(r"\w+\.<locals>\.", "", repr(case(*kinds)))
    except (TypeError, FrozenInstanceError) as error:
        return type(error).__name__, re.sub(r"^.*__init__", "__init__", str(error))


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_both_do_the_same(case: Callable[[Any, Any], object]) -> None:
    assert outcome(case, OURS) == outcome(case, THEIRS)


class Sent(frozen.Frozen):
    """A value that a worker of a sweep gets."""

    name: str
    values: tuple[int, ...] = ()


def test_a_value_can_be_sent_to_a_worker() -> None:
    assert pickle.loads(pickle.dumps(Sent("a", (1, 2)))) == Sent("a", (1, 2))


def test_a_class_without_a_value_has_no_compiled_constructor() -> None:
    kind = inherit()[0]
    assert kind.__init__.__code__.co_filename == frozen.__file__
    kind("a")
    assert kind.__init__.__code__.co_filename == "<string>"


def test_all_frozen_dataclasses_have_the_base() -> None:
    others = [
        name
        for path in PACKAGE.rglob("*.py")
        if (name := path.relative_to(PACKAGE).as_posix()).partition("/")[0] not in BEFORE
        and re.search(r"^ *@(dataclasses\.)?dataclass\(frozen=True", path.read_text(), re.MULTILINE)
    ]
    assert others == []
