# SPDX-License-Identifier: Apache-2.0
"""The tree of a file as YAML text, as a person would write it: one entry on each line.

Comments of an older file precede the entry that they preceded there. They move to the top if that entry is gone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from yaml.nodes import MappingNode, Node, ScalarNode

from mprun.inputs.yaml_tree import parse
from mprun.model.scalar import PLAIN, read_scalar

_WIDTH = 140
# Text that needs no quotes, even in brackets and braces.
_BARE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/%+-]*(?: [A-Za-z0-9._/%+-]+)*")


def render(root: MappingNode, comments: Mapping[int, tuple[str, ...]], modeline: str = "") -> str:
    """Return a tree as YAML.

    `comments`: by the line of the entry that they precede.
    `modeline`: the first line, for example a line that names the schema for editors.
    """
    waiting = dict(comments)
    body = [line for key, value in root.value for line in _entry(_flow(key), value, waiting)]
    top = [line for number in sorted(waiting) for line in waiting[number]]
    return "\n".join([*([modeline] if modeline else []), *top, *body, ""])


def spell_file(value: Mapping[str, Any]) -> str:
    """Return the text of a topology or an experiment from its plain values."""
    root = parse(json.dumps(value), "")
    assert isinstance(root, MappingNode)
    return render(root, {})


def _entry(key: str, value: Node, comments: dict[int, tuple[str, ...]]) -> Iterator[str]:
    """Yield the lines of a key of the file. Lists and mappings have one entry on each line, unless they are empty."""
    if isinstance(value, ScalarNode) or key == "probe" or not value.value:
        yield from _comments(value, comments, "")
        yield f"{key}: {_flow(value)}"
    elif isinstance(value, MappingNode):
        yield f"{key}:"
        for name, item in value.value:
            yield from _comments(item, comments, "  ")
            yield from _mapping(_flow(name), item, "  ")
    else:
        yield f"{key}:"
        for item in value.value:
            yield from _comments(item, comments, "  ")
            yield from _item(item)


def _item(item: Node) -> Iterator[str]:
    """Yield the lines of an element of a list: one line if it fits there."""
    text = f"  - {_flow(item)}"
    if len(text) <= _WIDTH or not isinstance(item, MappingNode):
        yield text
        return
    lines = [line for name, value in item.value for line in _mapping(_flow(name), value, "    ")]
    yield f"  - {lines[0].lstrip()}"
    yield from lines[1:]


def _mapping(key: str, value: Node, indent: str) -> Iterator[str]:
    """Yield the lines of a mapping: one line if it fits there."""
    text = f"{indent}{key}: {_flow(value)}"
    if len(text) <= _WIDTH or not isinstance(value, MappingNode):
        yield text
        return
    yield f"{indent}{key}:"
    for name, item in value.value:
        yield from _mapping(_flow(name), item, f"{indent}  ")


def _comments(node: Node, comments: dict[int, tuple[str, ...]], indent: str) -> Iterator[str]:
    for line in comments.pop(node.start_mark.line + 1, ()):
        yield f"{indent}{line}"


def _flow(node: Node) -> str:
    if isinstance(node, MappingNode):
        return "{" + ", ".join(f"{_flow(key)}: {_flow(value)}" for key, value in node.value) + "}"
    if not isinstance(node, ScalarNode):
        return "[" + ", ".join(map(_flow, node.value)) + "]"
    text = str(node.value)
    if node.tag == PLAIN or (_BARE.fullmatch(text) and isinstance(read_scalar(text), str)):
        return text
    return json.dumps(text, ensure_ascii=False)
