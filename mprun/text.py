# SPDX-License-Identifier: Apache-2.0
"""Text that others wrote, made fit for terminals and files: a terminal obeys some characters, and XML has no place for
them. (The agent, which imports nothing, has the same of its own.)"""

from __future__ import annotations

from typing import Any

# What `printable` replaces, as a regular expression of tables: control characters and those that turn text around.
UNPRINTABLE = r"[\p{Cc}\p{Cf}\p{Co}\p{Cn}\p{Zl}\p{Zp}--[\n\t]]"


def printable(text: str) -> str:
    """With U+FFFD in place of what a terminal would not print, or would obey."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one in "\n\t" else "\ufffd" for one in text)


def plain(value: object) -> str:
    """The same as one line, which cannot pass for several."""
    return printable(str(value)).replace("\n", " ").replace("\t", " ")


def make_printable(value: Any) -> Any:
    """A value as JSON has it, with all its text printable."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, list):
        return [make_printable(one) for one in value]
    if isinstance(value, dict):
        return {printable(key): make_printable(one) for key, one in value.items()}
    return value
