# SPDX-License-Identifier: Apache-2.0
"""The common parts of data-centre trees: uplinks whose rate follows from the links below."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Annotated

from pydantic import Field

from mprun.inputs.keys.field import checked
from mprun.inputs.keys.file_model import KeyProblem
from mprun.inputs.keys.link import LinkProperties
from mprun.model.problem import ValuePath
from mprun.model.spec import Direction
from mprun.model.units import hold_rate

MOST_OVERSUBSCRIPTION = 1000


def _parse_ratio(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"'{value}' is not a number: write '4' for 4:1")
    return float(value)


_SCHEMA = {"type": "number", "minimum": 1, "maximum": MOST_OVERSUBSCRIPTION}
_NO_RATIO = (
    f"{{given}} is not between 1 and {MOST_OVERSUBSCRIPTION}: 1 is a fabric that carries all that comes from below; "
    "for a faster one give the 'rate'"
)
Oversubscription = Annotated[
    float, *checked(_parse_ratio, _SCHEMA, lambda ratio: 1 <= ratio <= MOST_OVERSUBSCRIPTION, _NO_RATIO)
]


class Uplink(LinkProperties):
    """A layer of links towards the core. Forward is upwards."""

    oversubscription: Oversubscription | None = Field(None, examples=[4])
    """The largest rate from the layer below, divided by the rate of this layer. Use it instead of `rate`."""

    def find_conflicts(self) -> Iterator[KeyProblem]:
        yield from super().find_conflicts()
        if self.oversubscription is not None and self.rate is not None:
            yield "oversubscription", "conflicts with 'rate': remove one of the two"

    def find_problems(self, forward: Direction, reverse: Direction) -> dict[ValuePath, str]:
        problems = super().find_problems(forward, reverse)
        if self.oversubscription is not None:
            # the ratio gives a rate later
            problems.pop(("queue",), None)
        return problems

    def above(self, below: LinkProperties, share: Fraction) -> LinkProperties:
        """Return this layer with the rate that its ratio gives.

        share: the number of links of `below` for each link of this layer.
        """
        if self.oversubscription is None:
            return self
        factor = share / Fraction(str(self.oversubscription))
        rate = tuple(None if one is None else hold_rate(float(one * factor)) for one in rates_of(below))
        return self.model_copy(update={"rate": rate})


def rates_of(link: LinkProperties) -> tuple[int | None, int | None]:
    """Return bit/s forward and reverse, including the rate of a profile."""
    forward, reverse = link.directions()
    return forward.rate_bit_per_s, reverse.rate_bit_per_s
