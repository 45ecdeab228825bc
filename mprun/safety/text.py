# SPDX-License-Identifier: Apache-2.0
"""Text from strangers, made safe for terminals and files, and safe names from such text.

A terminal executes some control characters, and XML cannot contain them. The agent imports few modules, so it has its
own `printable`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from itertools import chain, count
from typing import Any

# The characters that `printable` replaces, as a regular expression for polars tables: control characters and characters
# that change the direction of text.
UNPRINTABLE = r"[\p{Cc}\p{Cf}\p{Co}\p{Cn}\p{Zl}\p{Zp}--[\n\t]]"

# The most characters of a slug: a name of a file may have 255, with its suffix.
MOST_SLUG = 100


def printable(text: str) -> str:
    """Return a text with U+FFFD in place of characters that a terminal cannot print or would execute."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one in "\n\t" else "\ufffd" for one in text)


def plain(value: object) -> str:
    """Return a value as printable text on one line."""
    return printable(str(value)).replace("\n", " ").replace("\t", " ")


def slug(text: str, most: int = MOST_SLUG, others: str = "") -> str:
    """Return a text as a file name, or as the id of an element: ASCII letters, digits, `.`, `_`, `-` and `others`.

    Every other character becomes `_`. The slug has 1 to `most` characters and never begins with a dot. Several texts
    may have the same slug.
    """
    return re.sub(rf"[^A-Za-z0-9._{re.escape(others)}-]|^\.", "_", text)[:most] or "_"


def name_some(names: Sequence[str], most: int) -> str:
    """Return the first names as text, with the number of the others, such as `a, b and 3 more`."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def attach(text: str, more: str) -> str:
    """Return a text and what follows it, such as `; write '{port}'`. After several lines, it has a line of its own."""
    return f"{text}\n{more.removeprefix('; ')}" if more and "\n" in text else f"{text}{more}"


def untaken(name: str, taken: Collection[str]) -> str:
    """Return a slug, or the slug with the first number from 2 on that is not taken, such as `rate.2`."""
    numbered = (f"{name[: MOST_SLUG - 5]}.{number}" for number in count(2))
    return next(one for one in chain((name,), numbered) if one not in taken)


def make_printable(value: Any) -> Any:
    """Return a copy of a JSON value, or of named tuples of such values, with all texts and keys printable."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, tuple):
        parts = [make_printable(one) for one in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if isinstance(value, list):
        return [make_printable(one) for one in value]
    if isinstance(value, dict):
        return {printable(key): make_printable(one) for key, one in value.items()}
    return value
