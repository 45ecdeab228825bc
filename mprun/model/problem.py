# SPDX-License-Identifier: Apache-2.0
"""Problems in the user's files: position, reason and remedy."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from mprun.errors import SpecError
from mprun.model.frozen import Frozen
from mprun.model.scalar import name_value

ValuePath = tuple[str | int, ...]

MOST_NAMES = 12
# The number of names that are compared with a wrong one: more take time, and so few files have more.
MOST_COMPARED = 1000
# This number of further names is listed too.
FEW_MORE = 3
MOST_TEXT = 400


# Characters of web pages and editors in place of a quote or a space. No message of mprun has them by itself.
_ODD = re.compile("[\u00a0\u2018-\u201f]")
_WORD = re.compile("[^-_. /]+")


class InputProblem(Frozen):
    """A problem. file: as the user gave it. line: from 1, or None if no line is the cause."""

    file: str
    line: int | None
    path: ValuePath
    message: str

    def __str__(self) -> str:
        position = self.file if self.line is None else f"{self.file}:{self.line}"
        text = ": ".join(part for part in (position, render_path(self.path), self.message) if part)
        text = text.replace("\n", "\\n")
        if odd := _ODD.search(self.message):
            text += f"; it has U+{ord(odd[0]):04X} of printed text: type the quote or the space on the keyboard"
        return text if len(text) <= MOST_TEXT else f"{text[: MOST_TEXT // 2]} ... {text[-MOST_TEXT // 2 :]}"


class InputError(SpecError):
    """All problems of a topology and an experiment, as text and as values.

    `loaded`: the files in spite of their problems, of `mprun.inputs.loading`; None if they have no meaning.
    """

    def __init__(self, found: Iterable[InputProblem], loaded: Any = None) -> None:
        self.found = tuple(found)
        self.loaded = loaded
        super().__init__([str(problem) for problem in self.found])


class Notes(Protocol):
    """A collection of problems and warnings, each at a path of the values of a file."""

    def refuse(self, path: ValuePath, message: str) -> None: ...

    def warn(self, path: ValuePath, message: str) -> None: ...


def render_path(path: ValuePath) -> str:
    """Return a path as messages have it: `traffic[1].to`."""
    text = ""
    for element in path:
        text += f"[{element}]" if isinstance(element, int) else f".{element}" if text else element
    return text


def name_nearest(wrong: object, known: Iterable[str], noun: str) -> str:
    """The end of a message about a wrong name: the nearest known name, or all known names."""
    names = list(dict.fromkeys(known))
    near = find_nearest(wrong, names) if isinstance(wrong, str) else None
    return list_names(names, noun) if near is None else f": did you mean '{near}'?"


def find_nearest(wrong: str, known: Sequence[str]) -> str | None:
    """Return the known name that is most like a wrong one; None if it is no typo or part of one.

    Names that only have letters in common would mislead, such as `direction` for `bidirectional`.
    """
    import difflib

    owner, _, rest = wrong.partition(".")
    # with an owner that exists, the rest has to be alike, unless it is too short for that
    own = [name for name in known if name.startswith(f"{owner}.")]
    if len(rest) > 2 and own:
        start = len(owner) + 1
        last = find_nearest(rest, [name[start:] for name in own])
        return last and f"{owner}.{last}"
    near = difflib.get_close_matches(wrong, known[:MOST_COMPARED], n=3, cutoff=0.6)
    same = [name for name in known if name.lower() == wrong.lower()]
    return next((name for name in (*same, *near) if _is_like(wrong.lower(), name.lower())), None)


def _is_like(wrong: str, name: str) -> bool:
    """Return whether a name may be meant: it or a word of it is meant with a typo or two, cut, or abbreviated."""
    words = [name, *(word for word in _WORD.findall(name) if len(word) > 2)]
    if wrong.startswith(name) or {*_WORD.findall(wrong)} & {*words}:
        return True
    # each letter of `gput` follows in `goodput`
    rest = iter(name)
    if wrong[:1] == name[:1] and all(letter in rest for letter in wrong):
        return True
    return min(count_edits(wrong, word) for word in words) <= (1 if len(wrong) < 6 else 2 if len(wrong) < 12 else 3)


def count_edits(one: str, other: str) -> int:
    """Return the letters to insert, remove, replace or swap with their neighbour (optimal string alignment)."""
    before: list[int] = []
    above: list[int] = [*range(len(other) + 1)]
    for i, letter in enumerate(one, 1):
        row: list[int] = [i]
        for j, wanted in enumerate(other, 1):
            row.append(min(above[j] + 1, row[-1] + 1, above[j - 1] + (letter != wanted)))
            if i > 1 and j > 1 and one[i - 2] == wanted and other[j - 2] == letter:
                row[j] = min(row[j], before[j - 2] + 1)
        before, above = above, row
    return above[-1]


def tell_unknown(noun: str, wrong: object, known: Iterable[str]) -> str:
    """The message that a name is not known, with the known names."""
    what = f"no {noun} '{wrong}'" if isinstance(wrong, str) else f"{name_value(wrong)} is no {noun}"
    return f"{what}{name_nearest(wrong, known, f'{noun}s')}"


def list_names(names: Sequence[str], noun: str) -> str:
    """The end of a message that lists names: `; hosts: client, server`. Long lists are cut."""
    if not names:
        return f"; there are no {noun}"
    if len(names) <= MOST_NAMES + FEW_MORE:
        return f"; {noun}: {', '.join(names)}"
    return f"; {noun}: {', '.join(names[:MOST_NAMES])} and {len(names) - MOST_NAMES} more"
