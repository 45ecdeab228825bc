# SPDX-License-Identifier: Apache-2.0
"""A range of values in the matrix of an experiment."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import Field, WithJsonSchema

from mprun.inputs.keys.field import Whole
from mprun.inputs.keys.file_model import FileModel, refuse
from mprun.model.scalar import Scalar, interpolate, round_digits, spell_number, split_number
from mprun.model.units import hold_step

ZIP, EXCLUDE = "zip", "exclude"
MOST_CELLS = 10_000


class RangeEntry(FileModel):
    """Values between two ends, with a step or with a number of values."""

    first: Annotated[Any, WithJsonSchema({"type": ["string", "number"]})] = Field(alias="from", examples=["1mbit"])
    """The first value."""
    last: Annotated[Any, WithJsonSchema({"type": ["string", "number"]})] = Field(alias="to", examples=["100mbit"])
    """The last value, in the same unit."""
    step: Annotated[Any, WithJsonSchema({"type": ["string", "number"]})] = None
    """The difference between two values, in the same unit."""
    steps: Annotated[int, Whole(2, MOST_CELLS, "a range has two ends at least")] | None = None
    """The number of values, including both ends."""
    scale: Literal["linear", "log"] = "linear"
    """The spacing of the values. `linear`: equal differences. `log`: equal ratios, with values rounded to three
    digits."""

    def values(self) -> tuple[Scalar, ...]:
        """The values of the range. Raises a ValidationError."""
        if (self.step is None) == (self.steps is None):
            what = "is missing" if self.step is None else "conflicts with 'step'"
            raise refuse({("steps",): f"{what}: write 'steps: 5' (how many values){self._write_step()}"}, self)
        if self.scale == "log" and self.step is not None:
            raise refuse({("step",): "is for a linear scale: write 'steps', how many values"}, self)
        (first, unit), (last, other) = self._read("first", "from"), self._read("last", "to")
        if unit != other:
            raise refuse({("to",): f"is not in the unit of 'from', '{unit}': give both the same"}, self)
        if last == first:
            raise refuse({("to",): "is the same as 'from': write one value in a list"}, self)
        if self.scale == "log" and min(first, last) <= 0:
            raise refuse({("from",): "has no logarithm: write a value above 0"}, self)
        numbers = list(self._step(first, last, unit) if self.step is not None else self._divide(first, last, unit))
        if len(numbers) > MOST_CELLS:
            raise refuse({("step",): f"amounts to more than {MOST_CELLS} values: write a larger one"}, self)
        if len({*numbers}) < len(numbers):
            raise refuse({("steps",): "makes equal values, as they are rounded: write fewer steps"}, self)
        return tuple(spell_number(number, unit) for number in numbers)

    def _write_step(self) -> str:
        """Return the advice to write a step that leads from one end to the other; empty if none does."""
        ends = split_number(self.first), split_number(self.last)
        if ends[0] is None or ends[1] is None or ends[0][1] != ends[1][1] or self.scale == "log":
            return ""
        gap, half = (abs(ends[1][0] - ends[0][0]) / count for count in (1, 2))
        step = half if half == int(half) else gap
        return f" or 'step: {spell_number(step, ends[0][1])}'" if step else ""

    def _step(self, first: Decimal, last: Decimal, unit: str) -> Iterator[Decimal]:
        step, other = self._read("step", "step")
        if unit != other or step <= 0:
            raise refuse({("step",): f"must be above 0 and in the unit of 'from', '{unit}'"}, self)
        count, rest = divmod(abs(last - first), step)
        if rest:
            raise refuse({("step",): f"does not lead from {self.first} to {self.last}: change one of the three"}, self)
        sign = 1 if last > first else -1
        return (first + sign * n * step for n in range(min(int(count), MOST_CELLS) + 1))

    def _divide(self, first: Decimal, last: Decimal, unit: str) -> Iterator[Decimal]:
        assert self.steps is not None
        is_log = self.scale == "log"
        yield first
        for n in range(1, self.steps - 1):
            number = interpolate(first, last, Decimal(n) / (self.steps - 1), is_log)
            yield hold_step(round_digits(number) if is_log else number, unit)
        yield last

    def _read(self, field: str, key: str) -> tuple[Decimal, str]:
        value = getattr(self, field)
        found = split_number(value)
        if found is None:
            raise refuse({(key,): f"'{value}' is not a number with a unit: write one as in '1mbit'"}, self)
        return found
