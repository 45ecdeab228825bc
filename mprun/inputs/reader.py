# SPDX-License-Identifier: Apache-2.0
"""Read a file, and join it with the files that it builds on, into one YAML node tree.

Nodes keep their marks, so that each later message names the file and line. `document` gives the tree a meaning.
Nothing is rendered or checked against a model here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path

from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from mprun.inputs.named_file import find, name_near, refusal, tell_outside, unreadable, warn_of_others
from mprun.inputs.older.lines import FileRole, is_older
from mprun.inputs.yaml_tree import MOST_LEVELS, MOST_NODES, clean_keys, join_entries, parse, problem_at, read_yaml_text
from mprun.model.frozen import Frozen
from mprun.model.permission import NONE, Permissions
from mprun.model.problem import InputError, InputProblem
from mprun.model.spec import Attachment

MOST_FILES = 100
# The properties of a link that limit it. A link without them is as fast as the machine.
_LIMITS = ("rate", "delay")
# The keys that say what an entry is of, by the key of lists that files build up together.
_SUBJECTS = {
    **{"events": ("link", "host", "address", "trace", "schedule"), "expect": ("metric", "holds")},
    **{"capture": ("host", "node", "link")},
}
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
        reading.warnings += warn_of_others(given, name)
        joined = reading.read(Path(name), ())
        root = joined if reading.is_whole else None
    except InputError as error:
        reading.problems += error.found
    files = tuple(reading.files) or (name,)
    warnings, is_resolved = tuple(reading.warnings), reading.is_resolved
    problems, older = tuple(reading.problems), reading.older_keys
    return FileTree(name, root, files, problems, warnings, allowed, is_resolved, older, reading.replaced)


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
            raise unreadable(str(path), error) from None
        if actual in outer:
            chain = " -> ".join(p.name for p in (*outer[outer.index(actual) :], actual))
            raise refusal(str(path), f"builds on itself ({chain}): remove one of these lines")
        if actual in self._done:
            return self._done[actual]
        if len(self.files) >= MOST_FILES:
            raise refusal(str(path), f"is one file too many: at most {MOST_FILES} files can be joined")
        if outer and (message := tell_outside(path, self.name, self._allowed)):
            raise refusal(str(path), message)
        self.files.append(str(path))
        text = self._converted(path, bool(outer)) if path.suffix == ".py" and path.is_file() else read_yaml_text(path)
        self.is_resolved |= not outer and text.startswith(RESOLVED)
        root = self._imported(text, str(path)) if is_older(text) else parse(text, str(path))
        if not isinstance(root, MappingNode):
            line = root.start_mark.line + 1
            found = "a list" if isinstance(root, SequenceNode) else "a single value"
            raise refusal(str(path), f"holds {found}, not keys with values: write 'version: 1' and so on", line)
        self.problems += [*clean_keys(root), *join_entries(root)]
        own = [(k, v) for k, v in root.value if k.value not in ("extends", "include")]
        result = MappingNode(root.tag, own, root.start_mark, root.end_mark)
        below: MappingNode | None = None
        for named in self._bases(root):
            base = self._base(path, named, (*outer, actual))
            if base is not None:
                below = base if below is None else self._merge(below, base)
        if below is not None:
            result = self._merge(below, result)
        self._done[actual] = result
        return result

    def _converted(self, path: Path, is_named_by_file: bool) -> str:
        """The text of a topology file for a Mininet Topo class, if the user named the file and allowed to run it.

        Raises InputError.
        """
        from mprun.inputs.mininet_topo import TopoError, convert

        if is_named_by_file or self._role != "topology":
            raise refusal(str(path), "is a Python program: only -t may name one, as it is run")
        if not self._allowed.python:
            message = "is a Python program, which runs on this machine with all your rights: read it, add --allow-exec"
            raise refusal(str(path), message)
        try:
            return convert(path)
        except TopoError as error:
            raise refusal(str(path), str(error), error.line) from error

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
                    near = name_near(path, named.value)
                    problem = problem_at(named, (str(named.tag),), f"{problem.file}: {problem.message}{near}")
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
                        self.problems.append(problem_at(node, (wanted,), f"must name a file: write {example}"))

    def _merge(self, below: MappingNode, above: MappingNode, levels: int = 0) -> MappingNode:
        """Return a mapping with the keys of both. Two mappings of a key are merged, else the upper value is taken."""
        self._merges += 1
        if self._merges > MOST_NODES or levels > MOST_LEVELS:
            name = str(above.start_mark.name)
            raise refusal(name, "cannot be merged, as its aliases nest too deep: remove them")
        entries = {key.value: (key, value) for key, value in below.value}
        for key, value in above.value:
            old = entries.get(key.value)
            if old is not None and isinstance(old[1], MappingNode) and isinstance(value, MappingNode):
                value = self._merge(old[1], value, levels + 1)
            elif old is not None and isinstance(old[1], SequenceNode) and isinstance(value, SequenceNode):
                # the expectations of other flows are others
                if key.value != "expect" or "traffic" not in {one.value for one, _ in above.value}:
                    self.warnings += _warn_of_replaced(key, old[1], value, self._role == "topology")
                if key.value == "traffic" and not levels:
                    self.replaced = f"'traffic' of {key.start_mark.name} replaces that of {old[1].start_mark.name}"
            entries[key.value] = (key, value)
        return MappingNode(above.tag, list(entries.values()), above.start_mark, above.end_mark)


def _warn_of_replaced(
    key: ScalarNode, below: SequenceNode, above: SequenceNode, is_of_links: bool
) -> Iterator[InputProblem]:
    """Yield a warning if a list replaces another and has only some of its names, as if both were merged.

    Of lists of links, yield one if an entry lacks the rate or the delay of all others. Of events, expectations and
    captures, yield one if they are fewer, and none is of what one of the other list is of.
    """
    listed = ([entry for entry in node.value if isinstance(entry, MappingNode)] for node in (below, above))
    former, new = ([{one.value: value.value for one, value in entry.value} for entry in entries] for entries in listed)
    base = below.start_mark.name
    shared = set.intersection(*map(set, former)) if former and is_of_links else set()
    for n, entry in enumerate(new):
        keys = {*entry}
        given = keys | ({"delay"} if "rtt" in keys else set()) | ({*_LIMITS} if "profile" in keys else set())
        if lacking := [f"'{name}'" for name in _LIMITS if name in shared - given]:
            links, lacks = key.value, " and no ".join(lacking)
            message = (
                f"replaces all {len(former)} {links} of {base}, and {links}[{n}] has no {lacks}: write all {links} in "
                f"full here, or make the one value a parameter of {base}"
            )
            yield problem_at(key, (key.value,), message)
            break
    names = [[str(entry["name"]) for entry in entries if "name" in entry] for entries in (former, new)]
    lost = [f"'{name}'" for name in names[0] if name not in names[1]]
    # entries that are all as they were are a shorter list, and not one for a merge
    is_part = {*names[1]} < {*names[0]} and not {*map(_spell, above.value)} <= {*map(_spell, below.value)}
    if key.value in _SUBJECTS and former and new:
        subjects = [{_find_subject(entry, _SUBJECTS[key.value]) for entry in node.value} for node in (below, above)]
        lost, is_part = [], subjects[0].isdisjoint(subjects[1]) and len(new) < len(former)
    elif not (lost and names[1]):
        return
    if is_part:
        had, has = len(below.value), len(above.value)
        without = f", without {', '.join(lost)}" if lost else ""
        message = (
            f"replaces the {had} {'entry' if had == 1 else 'entries'} of {base} by {has}{without}: write all entries "
            f"here; if that is meant, write a file that does not build on {base}"
        )
        yield problem_at(key, (key.value,), message)


def _find_subject(entry: Node, keys: Sequence[str]) -> frozenset[str]:
    """Return the values of some keys of an entry, and the keys of its `set`."""
    pairs = {key.value: value for key, value in entry.value} if isinstance(entry, MappingNode) else {}
    changed = pairs.get("set")
    names = [key.value for key, _ in changed.value] if isinstance(changed, MappingNode) else []
    return frozenset([*names, *(f"{key}={_spell(pairs[key])}" for key in keys if key in pairs)])


def _spell(node: Node) -> str:
    """Return the values of a node as a text, without their places and the order of keys."""
    if isinstance(node, MappingNode):
        return f"{{{', '.join(sorted(f'{key.value}: {_spell(value)}' for key, value in node.value))}}}"
    return f"[{', '.join(map(_spell, node.value))}]" if isinstance(node, SequenceNode) else repr(node.value)
