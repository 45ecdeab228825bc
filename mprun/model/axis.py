# SPDX-License-Identifier: Apache-2.0
"""Values of an axis of a matrix as numbers of one base unit, if they have one. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress

from mprun.model.metric import QUANTITIES, SYMBOLS
from mprun.model.scalar import Scalar, spell_scalar
from mprun.model.units import QuantityError

_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")


def read_axis(values: Sequence[Scalar]) -> tuple[dict[str, float], str] | None:
    """Return each value as text with its number, and their unit. None if the values have different kinds."""
    read = [read_number(value) for value in values]
    kinds = {one[1] if one else None for one in read}
    if len(kinds) != 1 or None in kinds:
        return None
    return {spell_scalar(value): one[0] for value, one in zip(values, read, strict=True) if one}, str(kinds.pop())


def read_number(value: Scalar) -> tuple[float, str] | None:
    """Return a value of a file as a number of a base unit. None for a name."""
    if isinstance(value, bool):
        return None
    text = str(value)
    if _NUMBER.fullmatch(text):
        return float(text), "1"
    for kind, (quantity, factor) in QUANTITIES.items():
        with suppress(QuantityError):
            return quantity.parse(text) / factor, SYMBOLS[kind]
    if text.endswith("%") and _NUMBER.fullmatch(text[:-1]):
        return float(text[:-1]) / 100, "share"
    for unit in ("packets", "bdp"):
        if text.endswith(unit) and _NUMBER.fullmatch(text.removesuffix(unit)):
            return float(text.removesuffix(unit)), unit
    return None
