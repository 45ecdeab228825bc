# SPDX-License-Identifier: Apache-2.0
"""Reduce two files that fail to the smallest ones that still fail. Pure: a function decides what fails.

Entries are removed level by level: hierarchical delta debugging (Misherghi and Su, ICSE 2006) with the algorithm ddmin
on each level (Zeller and Hildebrandt, IEEE TSE 2002). Then durations are cut and numbers are rounded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

T = TypeVar("T")
# Both files as one tree, with the keys `topology` and `experiment`.
ValueTree = dict[str, Any]
TreePath = tuple[str | int, ...]
Fails = Callable[[ValueTree], bool]

_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)([a-z%]*)")
# A time under one of these keys is a part of the run's length, and is cut before it is rounded.
_LENGTHS = ("duration", "at", "start", "timeout")
# Numbers that are names.
_FIXED = ("version", "seed", "port", "ports")
# The levels of the tree: 1 is a file, 2 its keys.
_FIRST_LEVEL = 2


def reduce(tree: ValueTree, fails: Fails) -> ValueTree:
    """Return a tree that fails, and of which no entry can be removed and no number simplified alone."""
    before = None
    while tree != before:
        before = tree
        tree = _remove_named(tree, fails)
        tree = _remove_entries(tree, fails)
        tree = _simplify_numbers(tree, fails)
    return tree


def ddmin(items: Sequence[T], fails: Callable[[Sequence[T]], bool]) -> list[T]:
    """Return a part of the items that fails, and of which no single item can be left out. All items together fail."""
    items = list(items)
    if items and fails([]):
        return []
    parts = 2
    while len(items) >= 2:
        size = -(-len(items) // parts)
        chunks = [items[at : at + size] for at in range(0, len(items), size)]
        for n in range(len(chunks)):
            rest = [one for m, chunk in enumerate(chunks) if m != n for one in chunk]
            if fails(rest):
                items, parts = rest, max(parts - 1, 2)
                break
        else:
            if parts >= len(items):
                break
            parts = min(len(items), parts * 2)
    return items


def _remove_entries(tree: ValueTree, fails: Fails) -> ValueTree:
    level = _FIRST_LEVEL
    while units := [path for path, _ in _walk(tree) if len(path) == level and is_removable(path)]:
        whole = tree

        def fails_with(kept: Sequence[TreePath], whole: ValueTree = whole, units: Sequence[TreePath] = units) -> bool:
            return fails(without(whole, set(units) - set(kept)))

        kept = ddmin(units, fails_with)
        tree = without(whole, set(units) - set(kept))
        level += 1
    return tree


def _remove_named(tree: ValueTree, fails: Fails) -> ValueTree:
    """Remove nodes, links and flows one at a time, each with all entries that name it."""
    for kind in ("nodes", "links", "traffic"):
        for name in _names(tree, kind):
            smaller = without(tree, _entries_about(tree, kind, name))
            if smaller != tree and fails(smaller):
                tree = smaller
    return tree


def _names(tree: ValueTree, kind: str) -> list[str]:
    found = tree["topology"].get(kind) or tree["experiment"].get(kind) or ()
    if isinstance(found, Mapping):
        return list(found)
    return [one["name"] for one in found if isinstance(one, Mapping) and isinstance(one.get("name"), str)]


def _entries_about(tree: ValueTree, kind: str, name: str) -> set[TreePath]:
    """Return the entries that name an object. A link without one of its ends goes too, with what names this link."""
    values = dict(_walk(tree))
    gone: set[TreePath] = set()
    waiting = [name]
    seen: set[str] = set()
    while waiting:
        wanted = waiting.pop()
        seen.add(wanted)
        for path, value in values.items():
            # a metric begins with the name of its flow
            is_metric = path[-1] == "metric" and isinstance(value, str) and value.split(".")[0] == wanted
            if value == wanted or is_metric:
                entry = _entry_of(path)
                gone.add(entry)
                lost = values[entry]
                if isinstance(lost, Mapping) and isinstance(lost.get("name"), str) and lost["name"] not in seen:
                    waiting.append(lost["name"])
        gone |= {path for path in values if path[-1] == wanted and len(path) == _FIRST_LEVEL + 1}
    return gone


def _entry_of(path: TreePath) -> TreePath:
    """Return the path of the nearest list item at the top of a file that holds a leaf, or of the leaf's mapping."""
    numbers = [n for n, part in enumerate(path) if isinstance(part, int)]
    return path[: numbers[0] + 1] if numbers else path[: max(_FIRST_LEVEL + 1, len(path) - 1)]


def is_removable(path: TreePath) -> bool:
    """Return whether an entry may be removed. An expectation is removed as a whole or not at all."""
    return path[-1] != "version" and not (path[:2] == ("experiment", "expect") and len(path) > _FIRST_LEVEL + 1)


def without(tree: ValueTree, gone: set[TreePath]) -> ValueTree:
    """Return the tree without the entries at these paths."""

    def copy(value: Any, path: TreePath) -> Any:
        if isinstance(value, Mapping):
            return {key: copy(one, (*path, key)) for key, one in value.items() if (*path, key) not in gone}
        if isinstance(value, list):
            return [copy(one, (*path, n)) for n, one in enumerate(value) if (*path, n) not in gone]
        return value

    result: ValueTree = copy(tree, ())
    return result


def _with(tree: Any, path: TreePath, new: object) -> Any:
    """Return the tree with another value at a path."""
    if not path:
        return new
    if isinstance(tree, Mapping):
        return {key: _with(value, path[1:], new) if key == path[0] else value for key, value in tree.items()}
    return [_with(value, path[1:], new) if n == path[0] else value for n, value in enumerate(tree)]


def _walk(tree: Any, path: TreePath = ()) -> Iterator[tuple[TreePath, Any]]:
    """Yield each entry and its value."""
    children: Any = ()
    if isinstance(tree, Mapping):
        children = tree.items()
    elif isinstance(tree, list):
        children = enumerate(tree)
    for key, value in children:
        yield (*path, key), value
        yield from _walk(value, (*path, key))


def _simplify_numbers(tree: ValueTree, fails: Fails) -> ValueTree:
    """Cut the times of the run, and then round every number, to one digit if possible. Bounds stay as they are."""
    for only_lengths in (True, False):
        for path, value in list(_walk(tree)):
            if path[:2] == ("experiment", "expect") or any(part in _FIXED for part in path):
                continue
            is_length = path[-1] in _LENGTHS
            if only_lengths and not is_length:
                continue
            for simpler in cut(value) if only_lengths else round_off(value):
                smaller = _with(tree, path, simpler)
                if fails(smaller):
                    tree = smaller
                    break
    return tree


def cut(value: object) -> Iterator[object]:
    """Yield shorter times for a time as text: 1/20, 1/10, 1/5 and 1/2 of it, with one digit."""
    if not isinstance(value, str) or not (match := _QUANTITY.fullmatch(value)):
        return
    for share in (0.05, 0.1, 0.2, 0.5):
        shorter = _spell(float(f"{float(match[1]) * share:.1g}"), match[2])
        if shorter is not None and shorter != value:
            yield shorter


def round_off(value: Any) -> Iterator[object]:
    """Yield a number, or a quantity as text, with one and with two digits, if this is simpler."""
    if isinstance(value, bool):
        return
    match = _QUANTITY.fullmatch(str(value))
    if match is None:
        return
    for rounded in dict.fromkeys(_spell(float(f"{float(match[1]):.{digits}g}"), match[2]) for digits in (1, 2)):
        if rounded is not None and rounded != str(value):
            yield rounded if isinstance(value, str) else type(value)(rounded)


def _spell(number: float, unit: str) -> str | None:
    """Return a quantity as a file spells it; None for zero, which means something else than a small number."""
    return f"{number:.10g}{unit}" if number else None
