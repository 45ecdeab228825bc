# SPDX-License-Identifier: Apache-2.0
"""A file between its node tree and its model: plain values with parameters filled in, and the line of each value."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path as FilePath
from pathlib import PurePath
from typing import Any, TypeVar, cast

from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from mprun.errors import SpecError
from mprun.inputs.attachment import examine, is_hidden
from mprun.inputs.keys.trace_file import TraceError
from mprun.inputs.named_file import name_near, read_text, tell_outside
from mprun.inputs.parameter import NAME, FileParameters
from mprun.inputs.reader import FileTree
from mprun.inputs.template import TemplateProblem, parse
from mprun.inputs.yaml_tree import MOST_LEVELS, MOST_NODES
from mprun.model.problem import InputError, InputProblem, ValuePath, find_nearest, list_names
from mprun.model.scalar import PLAIN, PRIVATE, REFUSED, TEXT_TAGS, Scalar, read_scalar
from mprun.model.spec import Attachment

# A placeholder for a value with a recorded problem. No model accepts it, and no model needs to report it again.
UNREADABLE = object()

# The largest number of problems of a file that are listed.
MOST_PROBLEMS = 500
# The name of a parameter in single braces, or after a '$'.
_BRACED = re.compile(r"\$?\{\s*([A-Za-z_][A-Za-z0-9_]*)\s*\}|\$([A-Za-z_][A-Za-z0-9_]*)")
ReadT = TypeVar("ReadT")


class _TooLarge(Exception):
    """The path of a value with too large an expansion, and the message."""


class Document:
    """A file as plain values. It collects the problems and warnings that are found in it."""

    def __init__(self, tree: FileTree) -> None:
        self.tree = tree
        self.name = tree.name
        self.files = tree.files
        self.attachments: tuple[Attachment, ...] = ()
        # True if values with problems were left out, so that a further warning may be false
        self.is_partial = False
        # in their order, each once
        self.problems = dict.fromkeys(tree.problems)
        self.warnings = dict.fromkeys(tree.warnings)
        # names that an example can have: by the key, as in `link`, and of a host as in `hosts`, `client`, `link`
        self.names: Mapping[ValuePath, Sequence[str]] = {}
        self._root = tree.root
        self._indices: dict[int, dict[str, tuple[Node, Node]]] = {}
        self._faulty: set[ValuePath] = set()
        self._filled: dict[ValuePath, frozenset[str]] = {}
        self._empty: list[ValuePath] = []
        self._nodes = 0

    def parameters(self) -> dict[str, Scalar]:
        """The values under `params`. Anything but names with single values is a problem."""
        if self._root is None:
            return {}
        entry = self._index(self._root).get("params")
        if entry is None or (isinstance(entry[1], ScalarNode) and not entry[1].value):
            return {}
        if not isinstance(entry[1], MappingNode):
            self.refuse(("params",), "must be names with values: write 'params: {name: value}'")
            return {}
        found: dict[str, Scalar] = {}
        for key, node in entry[1].value:
            path = ("params", key.value)
            if key.value.startswith(PRIVATE):
                continue
            if not NAME.fullmatch(key.value):
                self.refuse(path, f"'{key.value}' is no parameter name: use letters, digits and '_'")
            elif not isinstance(node, ScalarNode):
                self.refuse(path, f"must be a single value: write several under 'matrix: {{{key.value}: [...]}}'")
                # what uses it is checked with the first value
                if isinstance(node, SequenceNode) and node.value and isinstance(node.value[0], ScalarNode):
                    found[key.value] = read_scalar(node.value[0].value)
            elif "{{" in node.value:
                self.refuse(path, "a parameter cannot be made of others: write its value")
            elif not node.value and node.tag == PLAIN:
                self.refuse(path, "is empty: write a value, or remove the key")
            else:
                value = self._scalar(node, path, None)
                found[key.value] = cast(Scalar, None if value is UNREADABLE else value)
        return found

    def is_filled(self, path: ValuePath) -> bool:
        """Return True if a template gave the value at a path."""
        return path in self._filled

    def suggest(self, path: ValuePath, example: object) -> object:
        """Return a name for an example at a path: the example if it exists, else a name that exists."""
        key = path[-1:]
        of_host = self.names.get((*path[:2], *key), ())
        known = of_host or self.names.get(key, ())
        # the initial subflow is on the first link
        return example if not known or example in known else known[-1 if of_host or key == ("to",) else 0]

    @property
    def is_template(self) -> bool:
        return bool(self._filled)

    def names_at(self, path: ValuePath) -> set[str]:
        """Return the names of the parameters that templates at a path or below it have."""
        return {name for one, names in self._filled.items() if path and one[: len(path)] == path for name in names}

    def plain(self, parameters: FileParameters) -> dict[str, object] | None:
        """Return the file as mappings, lists and scalars, without `params` and keys that begin with `x-`.

        None if the file could not be parsed, or is too large when its aliases are expanded.
        """
        return self._expand(lambda key: key != "params" and not key.startswith(PRIVATE), parameters)

    def has(self, key: str) -> bool:
        return self._root is not None and key in self._index(self._root)

    def part(self, key: str) -> object:
        """Return the value of a key of the file, before any parameter is filled in. None if it does not exist."""
        return (self._expand(key.__eq__, None) or {}).get(key)

    def written(self, path: ValuePath) -> object:
        """Return the value at a path, before any parameter is filled in. None if it does not exist."""
        value: object = self.part(str(path[0])) if path else None
        for key in path[1:]:
            if isinstance(value, list):
                value = dict(enumerate(value))
            value = value.get(key) if isinstance(value, dict) else None
        return value

    def refuse(self, path: ValuePath, message: str) -> None:
        """Record a problem at a path, unless the path has one already, as further ones mostly follow from the first.

        A path that does not exist is recorded at the nearest level above it.
        """
        if path not in self._faulty:
            self._faulty.add(path)
            self.add_problem(self.problem(path, message))

    def add_problem(self, problem: InputProblem) -> None:
        """Record a problem, once. Raises InputError for one too many, as finding their remedies takes time."""
        self.problems[problem] = None
        if len(self.problems) > MOST_PROBLEMS:
            last = InputProblem(self.name, None, (), f"has more than {MOST_PROBLEMS} problems: correct these first")
            raise InputError([*sort([self], self.problems)[:MOST_PROBLEMS], last])

    def refuse_empty(self) -> None:
        """Record a problem for each key without a value. Models take such a key as one that is not written."""
        for path in self._empty:
            self.refuse(path, "is empty: write a value, or remove the key")

    def warn(self, path: ValuePath, message: str) -> None:
        """Record a warning at a path, once, unless it may follow from a problem of the file."""
        if not self.is_partial:
            self.warnings[self.problem(path, message)] = None

    def problem(self, path: ValuePath, message: str) -> InputProblem:
        """Return a problem at a path. In a file of the older format, the path is the older key."""
        file, line = self.position(path)
        key = None if line is None else self.tree.older_keys.get((file, line))
        return InputProblem(file, line, path if key is None else (key,), message)

    def companion(
        self, path: ValuePath, name: str, read: Callable[[str], ReadT], known: Sequence[str] = ()
    ) -> tuple[str, ReadT] | None:
        """Return the file that the value at `path` names, and the value that `read` makes of its text.

        name: relative to the file with the value. read: may raise TraceError. known: the names that are no files. None
        if the file cannot be read. The reason is recorded.
        """
        beside = str(PurePath(self.position(path)[0]).parent / name)
        if message := tell_outside(FilePath(beside), self.name, self.tree.allowed):
            self.refuse(path, f"'{name}' {message}")
            return None
        try:
            text = self.tree.texts.get(beside)
            if text is None:
                text = self.tree.texts[beside] = read_text(FilePath(beside))
        except InputError as error:
            near = find_nearest(name, known)
            hint = f": did you mean '{near}'?" if near else name_near(FilePath(self.position(path)[0]), name)
            if known and not hint and not PurePath(name).suffix and not FilePath(beside).exists():
                hint = list_names(known, "traces of mprun")
            self.refuse(path, f"'{name}' {error.found[0].message}{hint}")
            return None
        if beside not in self.files:
            self.files = (*self.files, beside)
        try:
            return beside, read(text)
        except TraceError as error:
            self.add_problem(InputProblem(beside, error.line, (), str(error)))
            return None

    def attach(self, path: ValuePath, name: str, archived: str | None) -> Attachment | None:
        """Return a file or folder as an attachment of the run. name: relative to the file with the value.

        archived: the attachment's name, if the file is its archive. Return None for a file that cannot go into a run,
        and record the reason.
        """
        beside = FilePath(self.position(path)[0]).parent / name
        if message := tell_outside(beside, self.name, self.tree.allowed):
            self.refuse(path, f"'{name}' {message}")
            return None
        try:
            found = self.tree.examined.get((beside, archived))
            if found is None:
                found = examine(beside, archived)
                self.tree.examined[beside, archived] = found
        except SpecError as error:
            self.refuse(path, f"'{name}' {error}{name_near(FilePath(self.position(path)[0]), name)}")
            return None
        self.attachments = (*self.attachments, found)
        return found

    def warn_of_hidden(self, path: ValuePath, word: str, attached: Collection[str], is_built: bool) -> None:
        """Warn if a word of a command names a file of this machine that no program of a run sees.

        Warn also of a relative path of a program that is neither attached nor built.
        """
        beside = FilePath(self.position(path)[0]).parent / word
        first, suffix = PurePath(word).parts[:1], PurePath(word).suffix
        alike = [one for one in attached if suffix and PurePath(one).suffix == suffix]
        if word.startswith("-") or "\0" in word or len(word) > 1000 or (first and first[0] in attached):
            return
        is_program = path[-1] == 0 and PurePath(word).is_absolute()
        if is_built and path[-1] == 0 and not is_program:
            # a file of this name beside the experiment is an earlier product of the compiler
            return
        if ("/" in word or "." in word) and is_hidden(beside, may_lack=is_program):
            remedy = f"write 'files: [{first[0]}]'"
            if PurePath(word).is_absolute():
                made, within = "copy it", beside.name
                if (beside.parent.parent / "pyvenv.cfg").exists():
                    made, within = "make its virtual environment", "/".join(beside.parts[-3:])
                attached = within.partition("/")[0]
                # a program without a slash is looked for in PATH
                here = f"./{within}" if is_program and within == attached else within
                remedy = f"{made} beside this file, write 'files: [{attached}]', and here '{here}'"
            self.warn(path, f"'{word}' is a file that programs of a run do not see: {remedy}")
        elif path[-2] == "build" and (near := find_nearest(word, alike)):
            self.warn(path, f"'{word}' is not among 'files': did you mean '{near}'?")
        elif path[-1] == 0 and "/" in word and not (is_built or "{" in word or PurePath(word).is_absolute()):
            self.warn(
                path, f"'{word}' is not in the folder of a run: write 'files', and 'build' if a compiler makes it"
            )

    def position(self, path: ValuePath) -> tuple[str, int | None]:
        """Return the file and line of a value: the line of its key, or of the list item."""
        if self._root is None:
            return self.name, None
        node: Node = self._root
        mark = node.start_mark
        for element in path:
            if isinstance(node, MappingNode):
                entry = self._index(node).get(str(element))
                if entry is None:
                    break
                mark, node = entry[0].start_mark, entry[1]
            elif isinstance(element, int) and not isinstance(node, ScalarNode) and element < len(node.value):
                node = node.value[element]
                mark = node.start_mark
            else:
                break
        return mark.name, mark.line + 1

    def line_of_first(self, places: dict[Any, ValuePath], name: object, path: ValuePath) -> int | None:
        """Return the line of the first value with a name; None if this is the first. places: to which this adds."""
        first = places.setdefault(name, path)
        return None if first == path else self.position(first)[1]

    def _index(self, node: MappingNode) -> dict[str, tuple[Node, Node]]:
        if id(node) not in self._indices:
            self._indices[id(node)] = {key.value: (key, value) for key, value in node.value}
        return self._indices[id(node)]

    def _expand(self, is_wanted: Callable[[str], bool], parameters: FileParameters | None) -> dict[str, object] | None:
        """Return the values of some keys of the file. None as for `plain`."""
        entries = [] if self._root is None else [entry for entry in self._root.value if is_wanted(entry[0].value)]
        # the limit is that of one reading, and checks read a part again
        self._nodes = 0
        try:
            plain = {key.value: self._plain(value, (key.value,), parameters) for key, value in entries}
            return None if self._root is None else plain
        except _TooLarge as error:
            path, message = error.args
            self.refuse(path[:1], message)
            return None

    def _plain(self, node: Node, path: ValuePath, parameters: FileParameters | None) -> object:
        self._nodes += 1
        if self._nodes > MOST_NODES:
            raise _TooLarge(path, f"aliases expand to more than {MOST_NODES} values: remove them")
        if len(path) > MOST_LEVELS:
            raise _TooLarge(path, f"aliases nest more than {MOST_LEVELS} levels deep: does one contain itself?")
        if isinstance(node, ScalarNode):
            is_empty = node.tag == PLAIN and read_scalar(node.value) is None
            if is_empty and isinstance(path[-1], str) and parameters is not None:
                self._empty.append(path)
            return self._scalar(node, path, parameters)
        if isinstance(node, MappingNode):
            values: dict[str, object] = {}
            if parameters is not None and (name := _find_braced(node)) in parameters.values:
                self.refuse(path, f"'{{ {name} }}' is a mapping, not the parameter: write '\"{{{{ {name} }}}}\"'")
                return UNREADABLE
            for key, value in node.value:
                if not key.value.startswith(PRIVATE):
                    values[key.value] = self._plain(value, (*path, key.value), parameters)
            return values
        return [self._plain(item, (*path, n), parameters) for n, item in enumerate(node.value)]

    def _scalar(self, node: ScalarNode, path: ValuePath, parameters: FileParameters | None) -> object:
        text = node.value
        if node.tag == REFUSED:
            self._faulty.add(path)
            return UNREADABLE
        if node.tag != PLAIN and node.tag not in TEXT_TAGS:
            tag = node.tag.replace("tag:yaml.org,2002:", "!!")
            self.refuse(path, f"tag '{tag}' is not read here: write the value alone")
            return UNREADABLE
        if parameters is not None and "{{" in text:
            try:
                self._filled[path] = parse(text).names
                return parameters.render(text)
            except TemplateProblem as error:
                # few files have commands of their own
                from mprun.workloads.own_program import PLACEHOLDERS

                names = {*self._filled.get(path, ())} - parameters.values.keys()
                own = next((one for one in PLACEHOLDERS if one in names and {"command", "server"} & {*path}), None)
                self.refuse(path, f"no parameter '{own}': write '{{{own}}}'" if own else str(error))
                return UNREADABLE
        # the words of a command are in a list, and have placeholders in single braces; other texts mean themselves
        may_mean = isinstance(path[-1], str) and not {"environment", "title", "description"} & {*path}
        braced = _BRACED.fullmatch(text) if parameters is not None and may_mean else None
        name = (braced[1] or braced[2]) if braced else None
        if name and parameters is not None and name in parameters.values:
            self.refuse(path, f"'{text}' is not the parameter '{name}': write '\"{{{{ {name} }}}}\"'")
            return UNREADABLE
        return read_scalar(text) if node.tag == PLAIN else str(text)


def _find_braced(node: MappingNode) -> str | None:
    """Return the name in `{ name }`, which YAML reads as a mapping with one key without a value; else None."""
    if len(node.value) == 1 and node.flow_style:
        key, value = node.value[0]
        if isinstance(value, ScalarNode) and value.tag == PLAIN and not value.value:
            return str(key.value)
    return None


def sort(documents: Sequence[Document], problems: Iterable[InputProblem]) -> list[InputProblem]:
    """Return problems in the order of the files and their lines. Problems without a file come first."""
    files = [file for document in documents for file in document.files]
    order = {file: n for n, file in reversed(list(enumerate(files)))}
    return sorted(problems, key=lambda problem: (order.get(problem.file, -1), problem.line or 0))


class Spread:
    """Notes on values that entries of lists became, such as the flows of `traffic`. Each note goes to its entry.

    origins: by the key of the list, the number of the entry of each value.
    """

    def __init__(self, document: Document, origins: Mapping[str | int, Sequence[int]]) -> None:
        self._document = document
        self._origins = origins

    def refuse(self, path: ValuePath, message: str) -> None:
        self._document.refuse(self._entry(path), message)

    def warn(self, path: ValuePath, message: str) -> None:
        self._document.warn(self._entry(path), message)

    def _entry(self, path: ValuePath) -> ValuePath:
        if len(path) > 1 and path[0] in self._origins and isinstance(path[1], int):
            return (path[0], self._origins[path[0]][path[1]], *path[2:])
        return path
