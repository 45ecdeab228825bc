# SPDX-License-Identifier: Apache-2.0
"""The node tree of one YAML document, within limits. The errors explain what YAML does not allow, and the remedy."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping
from itertools import takewhile
from pathlib import Path

from yaml._yaml import CParser
from yaml.error import MarkedYAMLError
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from yaml.reader import ReaderError

from mprun.inputs.named_file import read_text, refusal
from mprun.inputs.older.lines import is_older
from mprun.model.problem import InputProblem, ValuePath
from mprun.model.scalar import PLAIN, QUOTED, REFUSED
from mprun.safety.text import name_some

MOST_NODES = 200_000
MOST_LEVELS = 64
_COLLECTION = "collection"
_EMPTY = "is empty: 'mprun new' writes a pair of files to start from"
_NO_SPACE = re.compile(r"([A-Za-z0-9_]+):([^ \r\n/]\S*)\s*$")
# A template that begins a value and is not in quotes.
_UNQUOTED_MESSAGE = "is not in quotes: write '\"{}\"'"
_UNQUOTED = re.compile(r"[:,\[]\s*\{\{|^\s*-\s*\{\{")
# A key and its value without a colon and a space between them.
_NO_COLON = re.compile(r"\s*(?:- )?(\w+)(?::| *= *| +)([^:\s].*)")
# Quotes of printed text.
_QUOTE = re.compile("[\u2018-\u201f]")
# A key with a value of one word, and another key on the same line.
_TWO_KEYS = re.compile(r"\s*(?:- )?(\w+): +[^\s:'\"{\[]+ +(\w+): .*")
# An entry of a list without a space after its dash.
_NO_DASH = re.compile(r"^\s*(-[{\w][^\s:,]*)")
# Characters of web pages, PDF files and editors in place of a space of an indentation, and of the dash of a list.
_ODD = {
    r"^ *([^\S\n\r\t ])": "the indentation holds U+{:04X}, which is no plain space: replace it by one",
    "^ *([\u2010-\u2015\u2212]) ": "U+{:04X} is a dash of printed text: write '- '",
}
# The keys of which an entry of a list needs one, by the key of the list. An entry without them is a part of another.
_HEADS: Mapping[str, set[str]] = {
    **{"links": {"between"}, "traffic": {"tool"}, "events": {"at", "schedule", "trace"}, "expect": {"metric", "holds"}},
    **{"capture": {"host", "node"}, "faults": {"node"}},
}
# The number of keys that a message about parts of an entry names.
MOST_NAMED = 6
# Parts of libyaml's messages, and the remedies.
_REMEDIES = {
    "expected '-' indicator": "begin an entry with '- ', and indent its further keys as the first one",
    "cannot start any token": "indent with spaces, and quote a value that begins with @, ` or %",
    "block sequence entries are not allowed": "begin the list on a new line, with each '- ' on a line of its own",
    "mapping values are not allowed": "check the indentation, and quote a value that holds ': '",
    "unknown escape character": "write the text in single quotes, which keep a backslash",
    "undefined alias": "mark what it stands for with '&', above",
}
# Control characters, which change a terminal's display, and characters that change the direction of text (UAX #9).
_OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def read_yaml_text(path: Path) -> str:
    """The text of a topology or experiment file. Raises InputError."""
    text, name = read_text(path), str(path)
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith(("#", "---", "%")):
            continue
        if (match := _NO_SPACE.match(line)) and not is_older(text):
            message = (
                f"'{match[0].strip()}' has no space after its colon: write '{match[1]}: {match[2]}'"
                " (and no key of the older key:value format is here)"
            )
            raise refusal(name, message, number)
        return text
    raise refusal(name, _EMPTY)


class _Parser(CParser):
    """libyaml's parser with limits. It leaves scalars as text and notes if they were quoted.

    The limits are needed because libyaml's composer recurses on the C stack: a megabyte of `[` ends in a segmentation
    problem.
    """

    def __init__(self, text: str, name: str) -> None:
        stream = io.StringIO(text)
        stream.name = self._name = name
        CParser.__init__(self, stream)
        self._levels = 0
        self._nodes = 0

    def resolve(self, kind: type[Node], value: str, implicit: tuple[bool, bool]) -> str:
        if kind is ScalarNode:
            return PLAIN if implicit[0] else QUOTED
        return _COLLECTION

    def descend_resolver(self, parent: Node | None, index: Node | int | None) -> None:
        self._levels += 1
        self._nodes += 1
        line = None if parent is None else parent.start_mark.line + 1
        if self._levels > MOST_LEVELS:
            message = f"is nested more than {MOST_LEVELS} levels deep: nothing here needs more than 8"
            raise refusal(self._name, message, line)
        if self._nodes > MOST_NODES:
            message = f"holds more than {MOST_NODES} values: use a generator for a large topology"
            raise refusal(self._name, message, line)

    def ascend_resolver(self) -> None:
        self._levels -= 1


def parse(text: str, name: str) -> Node:
    """Return the node tree of one document. Raises InputError."""
    try:
        root = _Parser(text, name).get_single_node()
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise refusal(name, f"is not YAML: {error.reason}: remove the character", line) from None
    except MarkedYAMLError as error:
        line, message = _explain(error, text)
        raise refusal(name, message, line) from None
    if root is None:
        raise refusal(name, _EMPTY)
    return root


def _explain(error: MarkedYAMLError, text: str) -> tuple[int, str]:
    """Return the line of a problem, and the message with what the line has in place of YAML, if that is known."""
    for pattern, odd_message in _ODD.items():
        if odd := re.search(pattern, text, re.MULTILINE):
            return text.count("\n", 0, odd.start(1)) + 1, odd_message.format(ord(odd[1]))
    lines = dict(enumerate(text.splitlines(), 1))
    problem, number = _say(error), min(_line_of(error), len(text.rstrip().splitlines()))
    # the line that has no colon is often the one above
    is_above = "mapping values are not allowed" in problem
    before = number - 1 if is_above else error.context_mark.line + 1 if error.context_mark and "':'" in problem else 0
    above, here = lines.get(before, ""), lines.get(number, "")
    if pair := _NO_COLON.fullmatch(above):
        return before, f"'{pair[0].strip()}' has no colon with a space: write '{pair[1]}: {pair[2].strip()}'"
    for at, line in ((before, above), (number, here)):
        if found := _NO_DASH.search(line):
            return at, f"is not YAML: '{found[1]}' has no space after its dash: write '- {found[1][1:]}'"
    if above.lstrip().startswith(("{", "[")):
        return before, "has no '- ', with which each entry of a list begins: write it"
    if quote := _find_quote(here.partition(" #")[0]):
        problem = f"'{quote}' is no quote"
    elif _UNQUOTED.search(here):
        problem = 'a value with {{ }} is not in quotes: write it as in "{{ rate }}mbit"'
    elif "{%" in here:
        problem = "'{%' begins no loop and no condition here: write each entry, and '{{ name }}' for a parameter"
    elif "mapping values" in problem and (keys := _TWO_KEYS.fullmatch(here)):
        each = f"'{keys[1]}' and '{keys[2]}' are on one line: write each key on a line of its own"
        problem = f"{each}, or quote a value that holds ': '"
    elif "did not find expected" in problem and (dashes := _find_uneven(text, number)):
        problem = f"the entries of the list begin at columns {dashes}: indent each '-' alike"
    elif "expected ','" in problem and ";" in here:
        problem = "a ';' separates nothing: write ',' in its place"
    return number, f"is not YAML: {problem}"


def _find_quote(line: str) -> str:
    """Return the first quote of printed text with which a value begins; empty without one."""
    for odd in _QUOTE.finditer(line):
        before = line[: odd.start()].rstrip()
        in_brackets = "[" in before or "{" in before
        is_value = before.endswith((":", ",")) if in_brackets else before.endswith(":") and before.count(":") == 1
        if is_value or before.endswith(("[", "{")) or before.lstrip() in ("", "-"):
            return odd.group()
    return ""


def _find_uneven(text: str, number: int) -> str:
    """Return the columns of a line's dash and of the dash above it in the same list, if they differ; else nothing."""
    lines = [line for line in text.splitlines()[:number] if line.lstrip() and line.lstrip()[0] != "#"]
    *above, (column, is_entry) = [(len(line) - len(line.lstrip()) + 1, line.lstrip()[:2] == "- ") for line in lines]
    # a key that is indented less ends the list, and an inner list has a larger indentation
    own = takewhile(lambda line: line[1] or line[0] >= column, reversed(above))
    near = [other for other, is_dash in own if is_dash and abs(other - column) <= 2]
    return f"{near[0]} and {column}" if is_entry and near and column not in near else ""


def _say(error: MarkedYAMLError) -> str:
    problem, context, begin = error.problem or "", error.context, error.context_mark
    if "another document" in problem:
        return "a second document begins here: keep one document a file"
    if remedy := next((remedy for part, remedy in _REMEDIES.items() if part in problem), None):
        return f"{problem}: {remedy}"
    if begin is not None and "flow" in str(context) and begin.line + 1 != _line_of(error):
        context = f"{context} that begins on line {begin.line + 1}"
    return f"{problem}, {context}: check brackets, quotes and indentation" if context else problem


def _line_of(error: MarkedYAMLError) -> int:
    # a text in quotes without its end is wrong where it begins
    is_open = error.context_mark is not None and "quoted scalar" in (error.context or "")
    mark = error.context_mark if is_open else error.problem_mark
    assert mark is not None, "libyaml gives each problem a place"
    return mark.line + 1


def _walk(root: Node) -> Iterator[tuple[Node, ValuePath]]:
    """Yield each node below a root once, with its path. The keys of a mapping are read after it was yielded."""
    waiting: list[tuple[Node, ValuePath]] = [(root, ())]
    seen = set()
    while waiting:
        node, path = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        yield node, path
        if isinstance(node, SequenceNode):
            waiting += [(item, (*path, n)) for n, item in enumerate(node.value)]
        elif isinstance(node, MappingNode):
            for key, value in node.value:
                waiting += [(key, path), (value, (*path, key.value))]


def clean_keys(root: Node) -> Iterator[InputProblem]:
    """Remove keys that are repeated or are no text from one file's mappings. Yield a problem for each.

    Yield one too for each key and value with a character that would change what a terminal shows.
    """
    for node, path in _walk(root):
        if isinstance(node, SequenceNode):
            for n, item in enumerate(node.value):
                if template := _find_unquoted(item):
                    yield problem_at(item, (*path, n), _UNQUOTED_MESSAGE.format(template))
                    node.value[n] = ScalarNode(REFUSED, "", item.start_mark, item.end_mark)
        if not isinstance(node, MappingNode):
            continue
        kept: dict[str, tuple[ScalarNode, Node]] = {}
        for key, value in node.value:
            if not isinstance(key, ScalarNode):
                yield problem_at(key, path, "a list or mapping cannot be a key: write 'key: value'")
            elif key.value == "<<":
                yield problem_at(key, path, "YAML's merge key '<<' is not supported: write the keys here")
            elif key.value in kept:
                first = kept[key.value][0].start_mark.line + 1
                message = f"repeated key, first on line {first}: remove one of the two"
                if not node.flow_style and path and isinstance(path[-1], int):
                    message += ", or begin a new entry with '- '"
                elif not isinstance(value, ScalarNode) and type(value) is type(kept[key.value][1]):
                    message += ", or join them"
                yield problem_at(key, (*path, key.value), message)
            else:
                if template := _find_unquoted(value):
                    yield problem_at(key, (*path, key.value), _UNQUOTED_MESSAGE.format(template))
                    value = ScalarNode(REFUSED, "", value.start_mark, value.end_mark)
                kept[key.value] = (key, value)
        node.value = list(kept.values())
    for node, _ in _walk(root):
        if isinstance(node, ScalarNode) and (found := _OBEYED.search(node.value)):
            yield problem_at(node, (), f"holds U+{ord(found[0]):04X}, a control character for terminals: remove it")


def join_entries(root: MappingNode) -> Iterator[InputProblem]:
    """Join the entries of one file's lists that are parts of one entry. Yield a problem for each such entry."""
    for key, listed in root.value:
        if not isinstance(listed, SequenceNode) or key.value not in {*_HEADS, "paths"}:
            continue
        keys = [_only_key(node) for node in listed.value]
        whole: list[list[Node]] = []
        seen = set[str | None]()
        for node, own in zip(listed.value, keys, strict=True):
            heads = _HEADS.get(key.value, set())
            begins = own in seen or (own in heads and not heads.isdisjoint(seen))
            if key.value == "paths":
                # each property alone makes a path, but hardly a name
                begins = own in seen or "name" not in seen
            if whole and own and None not in seen and not begins:
                whole[-1].append(node)
                seen.add(own)
            else:
                whole.append([node])
                seen = {own}
        listed.value = []
        for n, parts in enumerate(whole):
            first = parts[0]
            if len(parts) > 1:
                later = name_some([f"'{_only_key(one)}'" for one in parts[1:]], MOST_NAMED)
                message = f"is the first of {len(parts)} parts of one entry: remove the '- ' before {later}"
                message += ", or write '- {name: ...}' for a path of its own" if key.value == "paths" else ""
                yield problem_at(first, (key.value, n), message)
                pairs = [pair for part in parts for pair in part.value]
                first = MappingNode(first.tag, pairs, first.start_mark, parts[-1].end_mark)
            listed.value.append(first)


def _only_key(node: Node) -> str | None:
    """Return the key of an entry on lines of its own with one key; None for any other entry."""
    is_one = isinstance(node, MappingNode) and not node.flow_style and len(node.value) == 1
    return str(node.value[0][0].value) if is_one else None


def _find_unquoted(node: Node) -> str:
    """Return the template without quotes that YAML reads as a mapping in a mapping; empty for any other node."""
    inner = node.value[0][0] if isinstance(node, MappingNode) and len(node.value) == 1 else None
    names = [key.value for key, _ in inner.value] if isinstance(inner, MappingNode) else []
    return f"{{{{ {names[0]} }}}}" if len(names) == 1 and isinstance(names[0], str) else ""


def problem_at(node: Node, path: ValuePath, message: str) -> InputProblem:
    return InputProblem(node.start_mark.name, node.start_mark.line + 1, path, message)
