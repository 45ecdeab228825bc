# SPDX-License-Identifier: Apache-2.0
"""The words of a netem command, tc-netem(8), as properties of a link."""

from __future__ import annotations

import re

_NUMBER = r"[0-9]{1,18}(?:\.[0-9]{1,18})?"
_PERCENT = re.compile(rf"({_NUMBER})%?")
_WITH_UNIT = re.compile(rf"({_NUMBER})([A-Za-z]*)")
_WHOLE = re.compile(r"([0-9]+)")
# tc reads a bare number as microseconds.
_TIME_UNITS = {"": "us", "us": "us", "usec": "us", "usecs": "us", "ms": "ms", "msec": "ms", "msecs": "ms"}
_TIME_UNITS |= {"s": "s", "sec": "s", "secs": "s"}
_SYNONYMS = {"latency": "delay", "drop": "loss"}
_RATE_UNITS = {"": "bit", "bit": "bit", "kbit": "kbit", "mbit": "mbit", "gbit": "gbit"}


class NetemError(Exception):
    """A command that cannot be converted. The message says what is allowed."""


def parse(command: str) -> tuple[dict[str, str], list[str]]:
    """Return the properties of a command in the form of a link's, and its words without effect. Raises NetemError."""
    words = command.split()
    properties: dict[str, str] = {}
    ignored: list[str] = []
    while words:
        word = words.pop(0)
        name = _SYNONYMS.get(word, word)
        if name == "limit":
            ignored.append(f"limit {_operand(words, name, _WHOLE, '1000')[0]}")
            continue
        if name == "delay":
            properties["delay"] = _with_unit(words, "delay", "20ms", _TIME_UNITS)
            if _follows(words):
                properties["jitter"] = _with_unit(words, "jitter", "20ms", _TIME_UNITS)
        elif name in ("loss", "duplicate", "corrupt", "reorder"):
            if name == "loss" and words[:1] == ["random"]:
                words.pop(0)
            properties[name] = f"{_operand(words, name, _PERCENT, '1%')[1]}%"
        elif name == "rate":
            properties["rate"] = _with_unit(words, "rate", "20mbit", _RATE_UNITS)
        else:
            raise NetemError(f"'{word}' is not supported: write delay, loss, duplicate, corrupt, reorder or rate")
        _end(words, name)
    if not properties:
        raise NetemError("changes nothing: write a netem command, as in 'loss 100%'")
    return properties, ignored


def _operand(words: list[str], what: str, form: re.Pattern[str], example: str) -> re.Match[str]:
    match = form.fullmatch(words[0]) if words else None
    if match is None:
        found = f"'{words[0]}'" if words else "nothing"
        raise NetemError(f"{found} stands after '{what}': write a value, as in '{what} {example}'")
    words.pop(0)
    return match


def _with_unit(words: list[str], what: str, example: str, units: dict[str, str]) -> str:
    number, unit = _operand(words, what, _WITH_UNIT, example).groups()
    known = units.get(unit.lower())
    if known is None:
        raise NetemError(f"'{number}{unit}' after '{what}' has a unit that is not read here: write '{what} {example}'")
    return f"{number}{known}"


def _follows(words: list[str]) -> bool:
    """Return True if a value comes next and not the next setting."""
    return bool(words) and words[0][0].isdigit()


def _end(words: list[str], what: str) -> None:
    """The words that netem also takes at this position: correlations, distributions, gaps, cell sizes."""
    if _follows(words):
        raise NetemError(f"'{words[0]}' after '{what}', a correlation or similar value, is not supported: remove it")
    if words[:1] == ["distribution"]:
        raise NetemError(f"'distribution' after '{what}' is not supported: remove it")
