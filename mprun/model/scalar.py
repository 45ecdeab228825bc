# SPDX-License-Identifier: Apache-2.0
"""The meaning of YAML scalars. Of plain scalars, only null, true, false and decimal numbers are not text.

YAML 1.1 has many more special values (`on`, `yes`, `1:30`, `010`, `1_000`), and each has surprised users.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from decimal import Decimal, localcontext
from typing import cast

# Tags of our nodes. A refused node is a placeholder for a value with a recorded problem.
PLAIN = "plain"
QUOTED = "quoted"
REFUSED = "refused"
TEXT_TAGS = (QUOTED, "tag:yaml.org,2002:str")
# Keys with this beginning belong to the user, for example anchors, and are not read.
PRIVATE = "x-"

Scalar = str | int | float | bool | None


class Product(str):
    """A quantity times a number, such as `16mbit`. quantity: the one that a person wrote, such as `20mbit`."""

    quantity: object = None


def read_product(text: str, operand: str) -> tuple[str, str, Decimal] | None:
    """Return operand, sign and number of `2 * 20mbit` or `20mbit / 2`; None for another text. operand: its pattern."""
    found = re.fullmatch(rf"(?:{_FACTOR} *\* *)?({operand})(?: *([*/]) *{_FACTOR})?", text)
    if found is None or (found[1] is None) == (found[4] is None):
        return None
    number = Decimal(found[1] or found[4])
    return (found[2], found[3] or "*", number) if number or found[3] != "/" else None


_WORDS: dict[str, bool | None] = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
}  # fmt: skip
_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,18})")
_FLOAT = re.compile(r"[-+]?(?:[0-9]{1,18}\.[0-9]{0,18}|\.[0-9]{1,18}|[0-9]{1,18}(?=[eE]))(?:[eE][-+]?[0-9]{1,3})?")

_FACTOR = r"([0-9]+\.?[0-9]*|\.[0-9]+)"
_NUMBER = re.compile(r"(-?[0-9]{1,18}(?:\.[0-9]{1,18})?)([A-Za-z%]*)")
# The digits of a value between the ends of a range.
RANGE_DIGITS = 3


def read_scalar(text: str) -> Scalar:
    """The value of an unquoted scalar."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] in "+-.0123456789":
        if _INT.fullmatch(text):
            return int(text)
        if _FLOAT.fullmatch(text):
            number = float(text)
            # a program that is given 1e5 as a parameter gets 100000, and not 100000.0
            return int(number) if "e" in text.lower() and number.is_integer() and abs(number) < 1 << 63 else number
    return text


def spell_scalar(value: Scalar) -> str:
    """Return a value as files and -p spell it: `true`, not `True`."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def name_value(value: object) -> str:
    """Return a value for a message. A value that is no scalar is described by its kind, such as `a list`."""
    if value is None:
        return "an empty value"
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    return f"'{value}'" if isinstance(value, str) else spell_scalar(cast(Scalar, value))


def spell_values(values: Mapping[str, Scalar], between: str = " ") -> str:
    """The values of a cell: `cc=cubic path0.rate=5mbit`."""
    return between.join(f"{name}={spell_scalar(value)}" for name, value in values.items())


def split_number(value: object) -> tuple[Decimal, str] | None:
    """Return a number and its unit, as in `1mbit` or 0.5; None for anything else."""
    text = format(value, "f") if isinstance(value, float) else str(value)
    match = _NUMBER.fullmatch(text)
    return None if match is None or isinstance(value, bool) else (Decimal(match[1]), match[2])


def interpolate(first: Decimal, last: Decimal, share: Decimal, is_log: bool) -> Decimal:
    """Return the number at a share of the way from one number to another, on a logarithmic or a linear scale."""
    with localcontext(prec=30):
        if is_log:
            return (first.ln() + (last.ln() - first.ln()) * share).exp()
        return first + (last - first) * share


def round_digits(number: Decimal) -> Decimal:
    """Round a positive number to RANGE_DIGITS digits, as a value between the ends of a range has them."""
    digits = RANGE_DIGITS - 1 - math.floor(number.log10())
    return number.quantize(Decimal(1).scaleb(-digits))


def spell_number(number: Decimal, unit: str) -> Scalar:
    """Return a number with its unit as a value of a file, without zeros at its end."""
    text = format(number, "f")
    text = text.rstrip("0").rstrip(".") if "." in text else text
    if unit:
        return text + unit
    return float(text) if "." in text else int(text)
