# SPDX-License-Identifier: Apache-2.0
"""Find, read and parse a file, and join it with the files that it builds on, into one YAML node tree.

Nodes keep their marks, so that each later message names the file and line. `document` gives the tree a meaning.
Nothing is rendered or checked against a model here.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import field
from itertools import takewhile
from pathlib import Path

from yaml import YAMLError
from yaml._yaml import CParser
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from yaml.reader import ReaderError

from mprun.inputs.older.lines import FileRole, is_older
from mprun.model.frozen import Frozen
from mprun.model.permission import NONE, Permissions
from mprun.model.problem import InputError, InputProblem, ValuePath, find_nearest
from mprun.model.scalar import PLAIN, QUOTED, REFUSED
from mprun.model.spec import Attachment
from mprun.safety.folder import UnsafeError, open_regular

SUFFIXES = (".yaml", ".yml")
MOST_BYTES = 4 << 20
MOST_NODES = 200_000
MOST_LEVELS = 64
MOST_FILES = 100

# Files that mprun writes in the directory of a run or a sweep.
_OF_RUN = ("plan.json", "sweep.json", "summary.json", "environment.json", "agent.json", "calibration.json", "wall.json")
_COLLECTION = "collection"
_EMPTY = "is empty: 'mprun new' writes a pair of files to start from"
_NO_SPACE = re.compile(r"([A-Za-z0-9_]+):([^ \r\n/]\S*)\s*$")


# The properties of a link that limit it. A link without them is as fast as the machine.
_LIMITS = ("rate", "delay")
# The first line of the files that a run writes.
RESOLVED = "# As mprun understood it: every default and derived value filled in.\n"


class FileTree(Frozen):
    """The joined tree of a file and all files that it builds on. root is None if a part is missing.

    `is_resolved`: the file is one that a run wrote, with all defaults and derived values.
    `older_keys`: the key on each line of the files of the older format.
    `replaced`: the text that a file's flows replace those of the file that it builds on; empty if they do not.
    `allowed`: the rights that the command line gives to these files.
    `examined`, `texts`: the attachments of a run by path and name, and the texts of the files that values name. All
    cells and seeds share them, also if such a file changes during a sweep.
    """

    name: str
    root: MappingNode | None
    files: tuple[str, ...]
    problems: tuple[InputProblem, ...]
    warnings: tuple[InputProblem, ...] = ()
    allowed: Permissions = NONE
    is_resolved: bool = False
    older_keys: Mapping[tuple[str, int], str] = field(default_factory=dict)
    replaced: str = ""
    examined: dict[tuple[Path, str | None], Attachment] = field(default_factory=dict, compare=False)
    texts: dict[str, str] = field(default_factory=dict, compare=False)


def read(given: Path | str, role: FileRole, allowed: Permissions = NONE, legacy_queue: bool = False) -> FileTree:
    """Read a file that the user named and all that it builds on.

    allowed: whether a topology may be a Python file, and whether files may name others outside their folder.
    legacy_queue: queues of an older topology are as large as the older tool made them.
    """
    name = str(given)
    reading = _Reading(name, role, legacy_queue, allowed)
    root = None
    try:
        name = reading.name = find(given)
        reading.warnings += _warn_of_others(given, name)
        joined = reading.read(Path(name), ())
        root = joined if reading.is_whole else None
    except InputError as error:
        reading.problems += error.found
    files = tuple(reading.files) or (name,)
    warnings, is_resolved = tuple(reading.warnings), reading.is_resolved
    problems, older = tuple(reading.problems), reading.older_keys
    return FileTree(name, root, files, problems, warnings, allowed, is_resolved, older, reading.replaced)


def _tell_replaced(base: MappingNode, own: MappingNode) -> str:
    """Return a text if a file has flows in place of those of the file that it builds on; else an empty one."""
    found = [value for root in (own, base) for key, value in root.value if key.value == "traffic"]
    if len(found) < 2 or not all(isinstance(one, SequenceNode) for one in found):
        return ""
    return f"'traffic' of {found[0].start_mark.name} replaces that of {found[1].start_mark.name}"


def find(given: Path | str) -> str:
    """Return the file of a name on the command line: the name itself, or with .yaml or .yml. Raises InputError."""
    if not str(given):
        raise _refusal("''", "names no file: write its name")
    tried = [str(given), *(f"{given}{suffix}" for suffix in SUFFIXES)]
    try:
        for name in tried:
            if _is_of_run(Path(name)):
                inputs = Path(name).parent / "inputs"
                raise _refusal(name, f"is written by mprun in a run: {inputs} has the run's files")
            if Path(name).exists() and not Path(name).is_dir():
                return name
        if folder := next((name for name in tried if Path(name).is_dir()), None):
            inside = _list_yaml_files(Path(folder))
            hint = f"name one of its files: {', '.join(inside[:8])}" if inside else "name a YAML file"
            if (Path(folder) / "plan.json").is_file():
                hint = f"mprun verify --keep {folder} repeats this run, and {folder}/inputs has its files"
            raise _refusal(folder, f"is a directory: {hint}")
        raise _refusal(str(given), f"no such file: tried {', '.join(tried)}{_name_nearest_file(Path(given))}")
    except (OSError, ValueError) as error:
        raise _unreadable(str(given), error) from None


def _warn_of_others(given: Path | str, name: str) -> Iterator[InputProblem]:
    """Yield a warning for each other file that the name on the command line could mean, as after `mprun convert`."""
    for other in (f"{given}{suffix}" for suffix in SUFFIXES):
        if other != name and Path(other).is_file():
            message = (
                f"is read, and {Path(other).name} beside it is not: write the whole name, or remove one of the two"
            )
            yield InputProblem(name, None, (), message)


def _is_of_run(file: Path) -> bool:
    """Return True for a file that mprun wrote in the directory of a run or a sweep, such as the plan."""
    return file.name in _OF_RUN and file.is_file() and (file.parent / "inputs").is_dir()


def name_near(beside: Path, name: str) -> str:
    """Return the end of a message about a missing file: a file with a like name in its folder, or in a folder below."""
    folder = beside.parent
    if os.path.lexists(beside) or not folder.is_dir():
        return ""
    there = sorted(one.name for one in folder.iterdir())
    below = [f"{one}/{beside.name}" for one in there if os.path.isfile(folder / one / beside.name)]
    # with its suffix, each name of the same kind would be near
    stems = {Path(one).stem: one for one in there if Path(one).suffix == beside.suffix or not beside.suffix}
    near = stems.get(find_nearest(beside.stem, [*stems]) or "") or next(iter(below), None)
    return f": did you mean '{Path(name).with_name('-').parent / near}'?" if near else ""


def _name_nearest_file(given: Path) -> str:
    """The end of a message about a missing file: the nearest name of a YAML file in the same folder, or the file in a
    folder below or above; empty if none.

    The name has a suffix only if the given name has one.
    """
    folder = given.parent
    try:
        there = _list_yaml_files(folder)
    except OSError:
        return _name_nearest_folder(given)
    longer = [one.name for one in sorted(folder.iterdir()) if _is_longer(one.name, given) and one.is_file()]
    if longer:
        return f": '{given.with_name(longer[0])}' is here: rename it to '{given.with_suffix('.yaml')}'"
    stems = [name.rpartition(".")[0] for name in there]
    near = find_nearest(given.name, there if given.suffix in SUFFIXES else [*stems, *there])
    if near:
        return f": did you mean '{given.with_name(near)}'?"
    for where, others in (("below", sorted(folder.iterdir())), ("above", [folder / ".."])):
        parts = (os.path.normpath(one / f"{given.name}{suffix}") for one in others for suffix in ("", *SUFFIXES))
        if found := [one for one in parts if os.path.isfile(one)]:
            return f": one folder {where}: {', '.join(found[:4])}"
    return f"; YAML files here: {', '.join(there[:8])}" if there else ""


def _is_longer(name: str, given: Path) -> bool:
    """Return True for a file that an editor gave a further ending, such as topo.yaml.txt for `topo`."""
    stem = given.stem if given.suffix in SUFFIXES else given.name
    return name.startswith(tuple(f"{stem}{suffix}." for suffix in SUFFIXES)) or name == f"{stem}.txt"


def _name_nearest_folder(given: Path) -> str:
    """The end of a message about a file in a missing folder: the file here, or in a folder that begins so."""
    folder = Path()
    folders = sorted(one.name for one in folder.iterdir() if one.is_dir() and one.name.startswith(str(given.parent)))
    for name in ("", *folders):
        for suffix in ("", *SUFFIXES):
            if (near := folder / name / f"{given.name}{suffix}").is_file():
                return f": no folder '{given.parent}': did you mean '{near}'?"
    return f": no folder '{given.parent}'"


def _list_yaml_files(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir() if file.suffix in SUFFIXES and file.is_file())


class _Reading:
    """The files of one tree while they are read, and the tree of each."""

    def __init__(self, name: str, role: FileRole, legacy_queue: bool, allowed: Permissions) -> None:
        self.name = name
        self._role: FileRole = role
        self._legacy_queue = legacy_queue
        self._allowed = allowed
        self.problems: list[InputProblem] = []
        self.warnings: list[InputProblem] = []
        self.older_keys: dict[tuple[str, int], str] = {}
        self.replaced = ""
        self.files: list[str] = []
        self.is_whole = True
        self.is_resolved = False
        self._done: dict[Path, MappingNode] = {}
        self._merges = 0

    def read(self, path: Path, outer: tuple[Path, ...]) -> MappingNode:
        """The tree of one file, merged over the files that it includes and extends. Raises InputError."""
        try:
            actual = path.resolve()
        except (OSError, RuntimeError, ValueError) as error:
            raise _unreadable(str(path), error) from None
        if actual in outer:
            chain = " -> ".join(p.name for p in (*outer[outer.index(actual) :], actual))
            raise _refusal(str(path), f"builds on itself ({chain}): remove one of these lines")
        if actual in self._done:
            return self._done[actual]
        if len(self.files) >= MOST_FILES:
            raise _refusal(str(path), f"is one file too many: at most {MOST_FILES} files can be joined")
        if outer and (message := tell_outside(path, self.name, self._allowed)):
            raise _refusal(str(path), message)
        self.files.append(str(path))
        text = self._converted(path, bool(outer)) if path.suffix == ".py" and path.is_file() else _text(path)
        self.is_resolved |= not outer and text.startswith(RESOLVED)
        root = self._imported(text, str(path)) if is_older(text) else parse(text, str(path))
        if not isinstance(root, MappingNode):
            line = root.start_mark.line + 1
            found = "a list" if isinstance(root, SequenceNode) else "a single value"
            raise _refusal(str(path), f"holds {found}, not keys with values: write 'version: 1' and so on", line)
        self.problems += _clean_keys(root)
        self.problems += _refuse_controls(root)
        own = [(k, v) for k, v in root.value if k.value not in ("extends", "include")]
        result = MappingNode(root.tag, own, root.start_mark, root.end_mark)
        below: MappingNode | None = None
        for named in self._bases(root):
            base = self._base(path, named, (*outer, actual))
            if base is not None:
                below = base if below is None else self._merge(below, base)
        if below is not None:
            self.replaced = _tell_replaced(below, result) or self.replaced
            result = self._merge(below, result)
        self._done[actual] = result
        return result

    def _converted(self, path: Path, is_named_by_file: bool) -> str:
        """The text of a topology file for a Mininet Topo class, if the user named the file and allowed to run it.

        Raises InputError.
        """
        from mprun.inputs.mininet_topo import TopoError, convert

        if is_named_by_file or self._role != "topology":
            raise _refusal(str(path), "is a Python program: only -t may name one, as it is run")
        if not self._allowed.python:
            message = "is a Python program, which runs on this machine with all your rights: read it, add --allow-exec"
            raise _refusal(str(path), message)
        try:
            return convert(path)
        except TopoError as error:
            raise _refusal(str(path), str(error), error.line) from error

    def _imported(self, text: str, name: str) -> Node:
        """The tree of a file of the older format. Raises InputError."""
        from mprun.inputs.older.conversion import convert

        imported = convert(text, name, self._role, self._legacy_queue)
        if imported.root is None:
            raise InputError(imported.problems)
        self.problems += imported.problems
        self.warnings += imported.warnings
        self.older_keys |= {(name, line): key for line, key in imported.keys.items()}
        return imported.root

    def _base(self, path: Path, named: ScalarNode, outer: tuple[Path, ...]) -> MappingNode | None:
        """The tree of a file that another names. A problem of opening it belongs to the line that names it."""
        file = path.parent / named.value
        try:
            return self.read(file, outer)
        except InputError as error:
            self.is_whole = False
            for problem in error.found:
                if problem.line is None:
                    near = name_near(file, named.value)
                    problem = _problem_at(named, (str(named.tag),), f"{problem.file}: {problem.message}{near}")
                self.problems.append(problem)
            return None

    def _bases(self, root: MappingNode) -> Iterator[ScalarNode]:
        """The names in `extends`, then the names in `include`. Each carries its key as tag."""
        for wanted in ("extends", "include"):
            for key, value in root.value:
                if key.value != wanted:
                    continue
                many = isinstance(value, SequenceNode) and wanted == "include"
                for node in value.value if many else [value]:
                    if isinstance(node, ScalarNode) and node.value:
                        yield ScalarNode(wanted, node.value, node.start_mark, node.end_mark)
                    else:
                        example = "'extends: base.yaml'" if wanted == "extends" else "'include: [base.yaml]'"
                        self.problems.append(_problem_at(node, (wanted,), f"must name a file: write {example}"))

    def _merge(self, below: MappingNode, above: MappingNode, levels: int = 0) -> MappingNode:
        """Return a mapping with the keys of both. Two mappings of a key are merged, else the upper value is taken."""
        self._merges += 1
        if self._merges > MOST_NODES or levels > MOST_LEVELS:
            name = str(above.start_mark.name)
            raise _refusal(name, "cannot be merged, as its aliases nest too deep: remove them")
        entries = {key.value: (key, value) for key, value in below.value}
        for key, value in above.value:
            old = entries.get(key.value)
            if old is not None and isinstance(old[1], MappingNode) and isinstance(value, MappingNode):
                value = self._merge(old[1], value, levels + 1)
            elif old is not None and self._role == "topology":
                self.warnings += _warn_of_replaced(key, old[1], value)
            entries[key.value] = (key, value)
        return MappingNode(above.tag, list(entries.values()), above.start_mark, above.end_mark)


def _warn_of_replaced(key: ScalarNode, below: Node, above: Node) -> Iterator[InputProblem]:
    """Yield a warning if a list of links replaces another and an entry lacks the rate or the delay of all others."""
    former, new = (
        [{one.value for one, _ in entry.value} for entry in node.value if isinstance(entry, MappingNode)]
        if isinstance(node, SequenceNode)
        else []
        for node in (below, above)
    )
    shared = set.intersection(*former) if former else set()
    for n, keys in enumerate(new):
        given = keys | ({"delay"} if "rtt" in keys else set()) | ({*_LIMITS} if "profile" in keys else set())
        if lacking := [f"'{name}'" for name in _LIMITS if name in shared - given]:
            base, links, lacks = below.start_mark.name, key.value, " and no ".join(lacking)
            message = (
                f"replaces all {len(former)} {links} of {base}, and {links}[{n}] has no {lacks}: write all {links} in "
                f"full here, or make the one value a parameter of {base}"
            )
            yield _problem_at(key, (key.value,), message)
            return


def _text(path: Path) -> str:
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
            raise _refusal(name, message, number)
        return text
    raise _refusal(name, _EMPTY)


def read_text(path: Path) -> str:
    """The text of a file, at most MOST_BYTES of it. Raises InputError."""
    try:
        with open_regular(path, path, follow=True) as file:
            data = file.read(MOST_BYTES + 1)
    except UnsafeError:
        # a pipe might never end, and the inputs that a run keeps are read a second time
        reason = "is no regular file: write what it gives to one, and name that"
        raise _refusal(str(path), "is a directory: name a file" if path.is_dir() else reason) from None
    except (OSError, ValueError) as error:
        raise _unreadable(str(path), error) from None
    if len(data) > MOST_BYTES:
        message = f"is larger than {MOST_BYTES >> 20} MB, the most that is read: use a generator for a large topology"
        raise _refusal(str(path), message)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise _refusal(str(path), "is not UTF-8 text: save it as UTF-8", line) from None
    if "\0" in text:
        raise _refusal(str(path), "is not text: name a text file", text.count("\n", 0, text.index("\0")) + 1)
    return text


def tell_outside(path: Path, given: str, allowed: Permissions = NONE) -> str | None:
    """Return the problem of a named file outside the folder of the file that the user gave; None if it may be named.

    Links that lead out of the folder count. The result does not reveal if the file exists.
    """
    with suppress(OSError, RuntimeError, ValueError):
        if allowed.outside or path.resolve().is_relative_to(Path(given).parent.resolve()):
            return None
    return f"lies outside the folder of {given}: copy it there, or add --allow-outside"


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
            raise _refusal(self._name, message, line)
        if self._nodes > MOST_NODES:
            message = f"holds more than {MOST_NODES} values: use a generator for a large topology"
            raise _refusal(self._name, message, line)

    def ascend_resolver(self) -> None:
        self._levels -= 1


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


def _line(text: str, number: int | None) -> str:
    """Return a line of a text by its number; empty without a number."""
    return "".join(text.splitlines()[number - 1 : number]) if number else ""


# Characters of web pages, PDF files and editors in place of a space of an indentation, and of the dash of a list.
_ODD = {
    r"^ *([^\S\n\r\t ])": "the indentation holds U+{:04X}, which is no plain space: replace it by one",
    "^ *([\u2010-\u2015\u2212]) ": "U+{:04X} is a dash of printed text: write '- '",
}


def parse(text: str, name: str) -> Node:
    """Return the node tree of one document. Raises InputError."""
    try:
        root = _Parser(text, name).get_single_node()
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise _refusal(name, f"is not YAML: {error.reason}: remove the character", line) from None
    except YAMLError as error:
        for pattern, message in _ODD.items():
            if odd := re.search(pattern, text, re.MULTILINE):
                raise _refusal(name, message.format(ord(odd[1])), text.count("\n", 0, odd.start(1)) + 1) from None
        line_number = min(_problem_line(error) or 1, len(text.rstrip().splitlines()))
        problem = _problem(error)
        begin = getattr(error, "context_mark", None)
        number = begin.line + 1 if begin and "':'" in problem else 0
        if "mapping values are not allowed" in problem:
            number = line_number - 1
        if number and (pair := _NO_COLON.fullmatch(_line(text, number))):
            message = f"'{pair[0].strip()}' has no colon with a space: write '{pair[1]}: {pair[2].strip()}'"
            raise _refusal(name, message, number) from None
        if number and _line(text, number).lstrip()[:1] in ("{", "["):
            raise _refusal(name, "has no '- ', with which each entry of a list begins: write it", number) from None
        if quote := _find_quote(_line(text, line_number).partition(" #")[0]):
            problem = f"'{quote}' is no quote"
        elif _UNQUOTED.search(_line(text, line_number)):
            problem = 'a value with {{ }} is not in quotes: write it as in "{{ rate }}mbit"'
        elif "{%" in _line(text, line_number):
            problem = "'{%' begins no loop and no condition here: write each entry, and '{{ name }}' for a parameter"
        elif "mapping values" in problem and (found := _TWO_KEYS.fullmatch(_line(text, line_number))):
            problem = (
                f"'{found[1]}' and '{found[2]}' are on one line: write each key on a line of its own, or quote a value "
                "that holds ': '"
            )
        elif found := _NO_DASH.search(_line(text, line_number)):
            problem = f"'{found[1]}' has no space after its dash: write '- {found[1][1:]}'"
        elif "did not find expected" in problem and (dashes := _find_uneven(text, line_number)):
            problem = f"the entries of the list begin at columns {dashes}: indent each '-' alike"
        elif "expected ','" in problem and ";" in _line(text, line_number):
            problem = "a ';' separates nothing: write ',' in its place"
        raise _refusal(name, f"is not YAML: {problem}", line_number) from None
    if root is None:
        raise _refusal(name, _EMPTY)
    return root


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


def _problem(error: YAMLError) -> str:
    problem = str(getattr(error, "problem", None) or error)
    if "cannot start any token" in problem:
        return f"{problem}: indent with spaces, and quote a value that begins with @, ` or %"
    if "another document" in problem:
        return "a second document begins here: keep one document a file"
    if "block sequence entries are not allowed" in problem:
        return f"{problem}: begin the list on a new line, with each '- ' on a line of its own"
    if "mapping values are not allowed" in problem:
        return f"{problem}: check the indentation, and quote a value that holds ': '"
    if "unknown escape character" in problem:
        return f"{problem}: write the text in single quotes, which keep a backslash"
    if "undefined alias" in problem:
        return f"{problem}: mark what it stands for with '&', above"
    context, begin = getattr(error, "context", None), getattr(error, "context_mark", None)
    if begin is not None and "flow" in str(context) and begin.line + 1 != _problem_line(error):
        context = f"{context} that begins on line {begin.line + 1}"
    return f"{problem}, {context}: check brackets, quotes and indentation" if context else problem


def _problem_line(error: YAMLError) -> int | None:
    # a text in quotes without its end is wrong where it begins
    is_open = "quoted scalar" in str(getattr(error, "context", ""))
    names = ("context_mark", "problem_mark") if is_open else ("problem_mark", "context_mark")
    mark = getattr(error, names[0], None) or getattr(error, names[1], None)
    return None if mark is None else mark.line + 1


# Control characters, which change a terminal's display, and characters that change the direction of text (UAX #9).
_OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


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


def _clean_keys(root: Node) -> Iterator[InputProblem]:
    """Remove keys that are repeated or are no text from one file's mappings. Record a problem for each."""
    for node, path in _walk(root):
        if isinstance(node, SequenceNode):
            for n, item in enumerate(node.value):
                if template := _find_unquoted(item):
                    yield _problem_at(item, (*path, n), _UNQUOTED_MESSAGE.format(template))
                    node.value[n] = ScalarNode(REFUSED, "", item.start_mark, item.end_mark)
        if not isinstance(node, MappingNode):
            continue
        kept: dict[str, tuple[ScalarNode, Node]] = {}
        for key, value in node.value:
            if not isinstance(key, ScalarNode):
                yield _problem_at(key, path, "a list or mapping cannot be a key: write 'key: value'")
            elif key.value == "<<":
                yield _problem_at(key, path, "YAML's merge key '<<' is not supported: write the keys here")
            elif key.value in kept:
                first = kept[key.value][0].start_mark.line + 1
                message = f"repeated key, first on line {first}: remove one of the two"
                yield _problem_at(key, (*path, key.value), message)
            else:
                if template := _find_unquoted(value):
                    yield _problem_at(key, (*path, key.value), _UNQUOTED_MESSAGE.format(template))
                    value = ScalarNode(REFUSED, "", value.start_mark, value.end_mark)
                kept[key.value] = (key, value)
        node.value = list(kept.values())


def _find_unquoted(node: Node) -> str:
    """Return the template without quotes that YAML reads as a mapping in a mapping; empty for any other node."""
    inner = node.value[0][0] if isinstance(node, MappingNode) and len(node.value) == 1 else None
    names = [key.value for key, _ in inner.value] if isinstance(inner, MappingNode) else []
    return f"{{{{ {names[0]} }}}}" if len(names) == 1 and isinstance(names[0], str) else ""


def _refuse_controls(root: Node) -> Iterator[InputProblem]:
    """Yield a problem for each key and value with a character that would change what a terminal shows."""
    for node, _ in _walk(root):
        if isinstance(node, ScalarNode) and (found := _OBEYED.search(node.value)):
            yield _problem_at(node, (), f"holds U+{ord(found[0]):04X}, a control character for terminals: remove it")


def _problem_at(node: Node, path: ValuePath, message: str) -> InputProblem:
    return InputProblem(node.start_mark.name, node.start_mark.line + 1, path, message)


def _unreadable(file: str, error: Exception) -> InputError:
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return _refusal(file, f"cannot be read: {reason.lower()}")


def _refusal(file: str, message: str, line: int | None = None) -> InputError:
    return InputError([InputProblem(file, line, (), message)])
