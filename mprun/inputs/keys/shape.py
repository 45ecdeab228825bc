# SPDX-License-Identifier: Apache-2.0
"""The advice for a value of another shape: a mapping for a list, a list for a mapping, one value for an entry."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping

# The key of an entry for which people write its value as the name of the entry, by the key of the list. Default: name.
_NAMES: Mapping[str, str] = {"capture": "host", "endpoints": "link", "expect": "metric", "events": "at"}
# The mapping that people write as one value, by its key or by the key of the list with it. count: a whole number.
_SHORT: Mapping[str, str] = {
    **{"capture": "host: {value}", "mptcp": "path_manager: {value}", "plots": "series: {value}"},
    **{"omit": "start: {value}", "sample": "sockets: {value}", "nodes": "kind: {value}"},
    **{"limits": "subflows: {count}", "probe": "pings: {count}", "repeat": "runs: {count}"},
    "endpoints": "link: {value}, flags: [subflow]",
    "traffic": "tool: {value}, from: client, to: server",
    "paths": "name: {value}, rate: 20mbit, rtt: 20ms",
}
# A bound on a metric, as a statement.
_STATEMENT = re.compile(r"([\w-]+(?:\.[\w-]+)+)\s*(<=?|>=?|==?|≤|≥)\s*([0-9][\w.]*) ?([a-zA-Z]*|%)")
_METRIC = re.compile(r"(?<![\w.])[A-Za-z][\w-]*(?:\.[A-Za-z][\w-]*)+")
_BOUNDS = {"<": "max", "≤": "max", ">": "min", "≥": "min", "=": "equals"}
# Words that YAML reads as one text each.
_WORDS = re.compile(r"[\w./-][\w.:/%=-]*(?:[ ,]+[\w./-][\w.:/%=-]*)*")
# Two names of nodes, neither of which has a '-'.
_ENDS = re.compile(r"([A-Za-z]\w*)(?: *<?-+>? *|, *| +| to )([A-Za-z]\w*)")
_PAIRS = re.compile(r"\w+=[^\s,=]+(?:[ ,]+\w+=[^\s,=]+)*")
_MOST_EXAMPLE = 60


def write_out(key: str, value: object, is_of_flow: bool = False) -> str | None:
    """Return the mapping for which people write this value alone; None if they do not.

    key: of the mapping, or of the list with it. is_of_flow: `repeat` is of a flow, not of the experiment.
    """
    if isinstance(value, str) and _PAIRS.fullmatch(value):
        return write_flow(dict(pair.split("=") for pair in re.split("[ ,]+", value)))
    short = "interval: 10s, times: {count}" if is_of_flow and key == "repeat" else _SHORT.get(key)
    if key == "probe" and value is False:
        value = 0
    if key == "paths" and isinstance(value, str) and not re.fullmatch(r"[A-Za-z][\w-]*", value):
        return "{rate: 20mbit, rtt: 20ms}"
    if short is None or isinstance(value, list | dict | bool) or value is None:
        return None
    # such a text is no value of the key that people leave out
    if (key == "plots" and "." in str(value)) or (key == "endpoints" and re.search(r"[.:]", str(value))):
        return None
    return f"{{{short.format(value=value, count=value if isinstance(value, int) else 5)}}}"


def write_expected(text: str, comparison: object) -> str | None:
    """Return the entry of `expect` that a text means, or None. comparison: of cells, with {} for a metric, or None."""
    if "cells[" in text:
        return f"{{holds: {json.dumps(text, ensure_ascii=False)}}}"
    bound, found = write_bound(text), _METRIC.search(text)
    if bound or not found:
        return bound
    return f'{{holds: "{str(comparison).replace("{}", found[0])}"}}' if comparison else write_bound(found[0])


def write_bound(text: str) -> str | None:
    """Return the entry of `expect` that a statement such as `bulk.goodput > 36mbit` means; None for other texts."""
    if found := _STATEMENT.fullmatch(text.strip()):
        return f"{{metric: {found[1]}, {_BOUNDS[found[2][0]]}: {found[3]}{found[4]}}}"
    return f"{{metric: {text}, min: ...}}" if re.fullmatch(r"[\w-]+(\.[\w-]+)+", text) else None


def write_statement(expected: Mapping[str, object], cells: str) -> str:
    """Return the entry of `expect` that bounds a metric in some cells only. expected: the entry for all cells."""
    name = f"cells[{cells}].{expected['metric']}"
    text = f"{name} == {expected['equals']}" if "equals" in expected else name
    text = f"{expected['min']} <= {text}" if "min" in expected else text
    text = f"{text} <= {expected['max']}" if "max" in expected else text
    return f'{{holds: "{text}"}}'


def write_entry(key: str, name: object, value: object, keys: Collection[str]) -> str | None:
    """Return an entry of a list, where people write its name as a key; None if the entries have no name.

    key: of the list. value: what stands below the name. keys: of an entry.
    """
    own = _NAMES.get(key, "name")
    if own not in keys or name in keys:
        return None
    rest = value if isinstance(value, dict) else {"...": None}
    return write_flow({own: name, **{one: below for one, below in rest.items() if one != own}})


def advise_list(key: str, value: object, keys: Collection[str]) -> str | None:
    """Return the advice for a value in place of a list; None without any.

    key: of the list. keys: of an entry of the list; none if its entries are single values.
    """
    match value:
        case dict() if value:
            name, below = next(iter(value.items()))
            if name in keys:
                return f"put '- ' before '{name}' and indent the other keys, or put [ ] around {{ }}"
            entry = write_entry(key, name, below, keys)
            return entry and f"write '- {entry}'"
        case False | "none" | "nothing":
            return f"write '{key}: []' for none"
        case str() if keys:
            entry = write_out(key, value)
            return entry and f"write '[{entry}]'"
        case str() if key == "between" and (ends := _ENDS.fullmatch(value)):
            return f"write 'between: [{ends[1]}, {ends[2]}]'"
        case str() if _WORDS.fullmatch(value):
            return f"write '[{', '.join(re.split('[ ,]+', value))}]'"
    return None


def advise_mapping(value: object, example: object, is_entry: bool) -> str | None:
    """Return the advice for a list in place of a mapping; None without any.

    example: a value below the names. is_entry: the mapping is an entry of a list, and so hardly has a '- ' of its own.
    """
    first = value[0] if isinstance(value, list) and value else None
    if is_entry and isinstance(value, list) and value and all(isinstance(one, dict) and len(one) == 1 for one in value):
        return f"write '{write_flow({name: below for one in value for name, below in one.items()})}'"
    if isinstance(first, dict) and isinstance(first.get("name"), str):
        rest = {key: below for key, below in first.items() if key != "name"}
        return f"write '{first['name']}: {write_flow(rest)}'"
    if isinstance(value, list) and isinstance(first, dict) and len(first) == 1:
        names = [f"'{next(iter(one))}'" for one in value if isinstance(one, dict) and one]
        return f"remove the '- ' before {' and '.join(names)}"
    if isinstance(first, str) and len(parts := first.split("=")) == 2:
        return f"write '{parts[0].strip()}: {parts[1].strip()}'"
    if isinstance(first, str) and example is not None:
        return f"write '{first}: {write_flow(example)}'"
    return None


def write_flow(value: object) -> str:
    """Return a value as YAML on one line. Keys of a long mapping are left out at its end."""
    if isinstance(value, dict):
        parts = [key if key == "..." else f"{key}: {write_flow(inner)}" for key, inner in value.items()]
        if len(parts) > 2 and len(", ".join(parts)) > _MOST_EXAMPLE:
            parts = [*parts[:2], "..."]
        return "{" + ", ".join(parts) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(write_flow, value)) + "]"
    return str(value).lower() if isinstance(value, bool) else "" if value is None else str(value)
