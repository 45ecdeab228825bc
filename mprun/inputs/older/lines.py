# SPDX-License-Identifier: Apache-2.0
"""The lines of an older file: entries, comments, and lines that are neither."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from mprun.model.frozen import Frozen
from mprun.model.problem import InputProblem

# The role of a file. The older format has keys for each role.
FileRole = Literal["topology", "experiment"]

_LINE_END = re.compile(r"\r\n|\n|\r")
_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# YAML does not accept these characters either, or reads them as the end of a line.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufffe\uffff]")

# Keys that no YAML file of mprun has at the beginning of a line. The first key of either format decides.
_DECISIVE = re.compile(
    r"^(?:(?P<older>topoType|xpType|leftSubnet|rightSubnet|changeNetem|path_[a-z0-9]+_\w+|netemAt_\w+|mptcpEnabled"
    r"|congctrl|kpm[cs]?|pingCount|clientPcap|serverPcap|iperf[A-Z]\w*|snaplen_?[pP]cap)[ \t]*:|version[ \t]*: )",
    re.MULTILINE,
)


class OlderEntry(Frozen):
    """A line `key:value` without the blanks around key and value. line: from 1."""

    key: str
    value: str
    line: int


def is_older(text: str) -> bool:
    """Return True if a text is of the older format, by its keys."""
    found = _DECISIVE.search(text)
    return found is not None and found["older"] is not None


def split(text: str, name: str) -> tuple[Mapping[str, OlderEntry], list[InputProblem], Mapping[int, tuple[str, ...]]]:
    """Return the entries by key in their order, the problems of other lines, and the comments.

    Comments are listed by the line of the entry that they precede. In the older tool comments begin in the first
    column. Blanks before them are allowed here.
    """
    entries: dict[str, OlderEntry] = {}
    problems: list[InputProblem] = []
    comments: dict[int, tuple[str, ...]] = {}
    waiting: tuple[str, ...] = ()
    lines = _LINE_END.split(text)
    for number, raw in enumerate(lines, 1):
        line = raw.strip(" \t")
        if not line:
            continue
        if line.startswith("#") and not _CONTROL.search(line):
            waiting = (*waiting, line)
            continue
        if waiting:
            comments[number] = waiting
            waiting = ()
        key, colon, value = line.partition(":")
        entry = OlderEntry(key.rstrip(" \t"), value.lstrip(" \t"), number)
        message = _find_problem(entry, colon, entries)
        if message is None:
            entries[entry.key] = entry
        else:
            path = (entry.key,) if colon and _KEY.fullmatch(entry.key) else ()
            problems.append(InputProblem(name, number, path, message))
    if waiting:
        comments[len(lines) + 1] = waiting
    return entries, problems, comments


def _find_problem(entry: OlderEntry, colon: str, before: Mapping[str, OlderEntry]) -> str | None:
    if _CONTROL.search(entry.key + entry.value):
        return "holds a control character: remove it"
    if not colon:
        return f"'{entry.key}' is no 'key:value': write one, or '#' before it"
    if not _KEY.fullmatch(entry.key):
        return f"'{entry.key}' is no key: write letters, digits and '_' before the colon"
    if ":" in entry.value:
        return "holds a second colon, and the older tool left such lines out: write one 'key:value' a line"
    if not entry.value:
        return "has no value: write one, or remove the line"
    if entry.key in before:
        return f"repeated key, first on line {before[entry.key].line}: remove one of the two"
    return None
