# SPDX-License-Identifier: Apache-2.0
"""An older file while it is read: its values as text with a unit, its nodes, its problems and warnings.

Only rules of the older format are checked here, such as the form of numbers. The models check the values.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from yaml.error import Mark
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from mprun.inputs.older.lines import OlderEntry, split
from mprun.model.problem import InputProblem
from mprun.model.scalar import PLAIN, QUOTED, REFUSED

_NUMBER = re.compile(r"[0-9]{1,18}(?:\.[0-9]{0,18})?|\.[0-9]{1,18}")
_WHOLE = re.compile(r"[0-9]{1,18}")

# A node, or a value that `OlderFile.node` makes a node of.
NodeValue = Node | Mapping[str, Any] | list[Any] | str | int | bool | None


class OlderFile:
    """The entries of a file, the entries that were used, their problems, and the tree that they make.

    `root`: None before the conversion, and if problems prevent a tree. `comments`: as `split` returns them.
    """

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.root: MappingNode | None = None
        self._entries, self.problems, self.comments = split(text, name)
        self.warnings: list[InputProblem] = []
        self._refused = {problem.path[0] for problem in self.problems if problem.path}
        self._taken: set[str] = set()

    # entries

    @property
    def keys(self) -> dict[int, str]:
        """The key on each line, for messages."""
        return {entry.line: entry.key for entry in self._entries.values()}

    def has(self, key: str) -> bool:
        """Return True if the key exists, whatever its value."""
        return key in self._entries or key in self._refused

    def take(self, key: str) -> OlderEntry | None:
        self._taken.add(key)
        return self._entries.get(key)

    def take_or(self, key: str, default: str, line: int) -> OlderEntry:
        """Return the entry of a key and mark it as read. If it is missing, return one with a default on `line`."""
        return self.take(key) or OlderEntry(key, default, line)

    def take_all(self, pattern: re.Pattern[str]) -> list[tuple[OlderEntry, re.Match[str]]]:
        """Return all entries whose key has this form, in the order of the lines."""
        found = [(entry, match) for entry in self._entries.values() if (match := pattern.fullmatch(entry.key))]
        self._taken |= {entry.key for entry, _ in found}
        return found

    def drop(self, keys: Iterable[str], reason: str) -> None:
        for key in keys:
            entry = self.take(key)
            if entry is not None:
                self.warn(entry, f"has no effect: {reason}")

    def warn_unread(self, known: Sequence[str]) -> None:
        for entry in self._entries.values():
            if entry.key not in self._taken:
                near = difflib.get_close_matches(entry.key, known, n=1, cutoff=0.75)
                hint = f"did you mean '{near[0]}'?" if near else "remove it"
                self.warn(entry, f"unknown key, which the older tool ignored: {hint}")

    def refuse(self, entry: OlderEntry, message: str) -> None:
        problem = InputProblem(self.name, entry.line, (entry.key,), message)
        if problem not in self.problems:
            self.problems.append(problem)

    def refuse_file(self, message: str) -> None:
        self.problems.append(InputProblem(self.name, None, (), message))

    def warn(self, entry: OlderEntry, message: str) -> None:
        self.warnings.append(InputProblem(self.name, entry.line, (entry.key,), message))

    def warn_of_absent(self, key: str, message: str) -> None:
        self.warnings.append(InputProblem(self.name, None, (key,), message))

    # values

    def number(self, entry: OlderEntry, text: str, what: str) -> str | None:
        """Return a number from 0 on in plain decimal form. what: the quantity, with an example."""
        if _NUMBER.fullmatch(text):
            whole, _, decimals = text.partition(".")
            decimals = decimals.rstrip("0")
            return f"{int(whole or 0)}.{decimals}" if decimals else str(int(whole or 0))
        comment = "; a comment stands on a line of its own" if "#" in text else ""
        self.refuse(entry, f"'{text}' is no number: write {what}{comment}")
        return None

    def whole(self, entry: OlderEntry, what: str) -> int | None:
        """Return the whole number of an entry. what: the quantity, with an example."""
        if _WHOLE.fullmatch(entry.value):
            return int(entry.value)
        self.refuse(entry, f"'{entry.value}' is no whole number: write {what}")
        return None

    def choice(self, entry: OlderEntry, choices: Mapping[str, bool]) -> bool | None:
        """The value that one of two words means."""
        if entry.value in choices:
            return choices[entry.value]
        first, second = choices
        self.refuse(entry, f"'{entry.value}' is neither '{first}' nor '{second}': write one of the two")
        return None

    # nodes

    def node(self, value: NodeValue, line: int | None = None) -> Node:
        """Return the node of a value on a line; without a line, on that of the first node in it.

        A text is quoted. None stands for a value with a recorded problem. Entries of a mapping or a list are nodes, or
        get the line of the whole.
        """
        if isinstance(value, Node):
            return value
        if isinstance(value, Mapping):
            return self.mapping(value, line)
        if isinstance(value, list):
            line = line_of(value[0]) if line is None else line
            return SequenceNode("", [self.node(one, line) for one in value], *self._marks(line))
        assert line is not None
        if value is None:
            return ScalarNode(REFUSED, "", *self._marks(line))
        tag, text = (QUOTED, value) if isinstance(value, str) else (PLAIN, str(value).lower())
        return ScalarNode(tag, text, *self._marks(line))

    def mapping(self, items: Mapping[str, NodeValue], line: int | None = None) -> MappingNode:
        """Return a mapping in which each key has the place of its value. line: as for `node`."""
        line = line_of(next(iter(items.values()))) if line is None else line
        pairs: list[tuple[Node, Node]] = []
        for key, value in items.items():
            node = self.node(value, line)
            pairs.append((ScalarNode(PLAIN, key, node.start_mark, node.end_mark), node))
        return MappingNode("", pairs, *self._marks(line))

    def whole_or(self, key: str, default: int, what: str, line: int, unit: str = "") -> Node:
        """Return the node of the whole number of a key, or of a default on `line`. what: as for `whole`."""
        entry = self.take_or(key, str(default), line)
        number = self.whole(entry, what)
        return self.node(with_unit(number, unit) if unit else number, entry.line)

    def _marks(self, line: int) -> tuple[Mark, Mark]:
        mark = Mark(self.name, 0, line - 1, 0, None, 0)
        return mark, mark


def line_of(node: object) -> int:
    assert isinstance(node, Node)
    return int(node.start_mark.line) + 1


def with_unit(number: str | int | None, unit: str) -> str | None:
    """The text of a quantity. None if its number has a recorded problem."""
    return None if number is None else f"{number}{unit}"
