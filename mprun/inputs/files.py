# SPDX-License-Identifier: Apache-2.0
"""The files of an input: their trees, the cells of their matrix, and the parameters of both."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from mprun.inputs.document import Document
from mprun.inputs.keys.event import PROPERTIES
from mprun.inputs.keys.field import SEED
from mprun.inputs.matrix_cells import CellValues, Matrix, check_place, read_matrix
from mprun.inputs.parameter import FileParameters, tell_no_parameter
from mprun.inputs.reader import FileTree
from mprun.inputs.template import advise_product
from mprun.model.frozen import Frozen
from mprun.model.problem import InputError, InputProblem, ValuePath, name_nearest
from mprun.model.scalar import Scalar, read_scalar, spell_scalar
from mprun.statements.expression import ExpressionError, UnknownName, parse

# The beginning of a message about a text in place of a number with a unit. It says nothing of values out of bounds.
_NO_NUMBER = re.compile(r"(?:cannot be rendered: )?'[^']+' is no(?!t computed: write one)")
# A parameter with a unit behind it.
_FOLLOWED = re.compile(r"\{\{ *(\w+) *\}\}([a-z%]+)")


class FileTrees(Frozen):
    """The trees of a topology and an experiment, before the check against a model.

    `parameters`: from the command line; they also fix axes of the matrix.
    `seed`: replaces the experiment's seed.
    `strict`: warnings are problems.
    """

    trees: tuple[FileTree, ...]
    matrix: Matrix
    parameters: Mapping[str, str]
    seed: int | None
    strict: bool

    def documents(self) -> list[Document]:
        """Return a document of each tree, without any problem that was found later."""
        return [Document(tree) for tree in self.trees]

    @property
    def fixed(self) -> dict[str, Scalar]:
        return {name: read_scalar(text) for name, text in self.parameters.items() if name in self.matrix.names}

    @property
    def words(self) -> tuple[str, ...]:
        """The options of a command that reads these files with all their cells."""
        options = list(zip(("-t", "-x"), (tree.name for tree in self.trees), strict=False))
        options += [("-p", f"{name}={text}") for name, text in self.parameters.items() if name not in self.fixed]
        options += [] if self.seed is None else [("--seed", str(self.seed))]
        return tuple(word for option in options for word in option)

    def cells(self) -> tuple[CellValues, ...]:
        return self.matrix.cells(self.fixed)


def gather(
    topology: FileTree, experiment: FileTree | None, parameters: Mapping[str, str], seed: int | None, strict: bool
) -> FileTrees:
    """Return the files with their matrix. Raises InputError for problems of the matrix."""
    if experiment is None:
        return FileTrees((topology,), Matrix(), parameters, seed, strict)
    documents = [Document(topology), Document(experiment)]
    _refuse_swapped(documents)
    names = [name for document in documents for name in document.parameters()]
    matrix = read_matrix(documents[1].part("matrix"), names, documents[1])
    files = FileTrees((topology, experiment), matrix, parameters, seed, strict)
    problems = [problem for document in documents for problem in document.problems if problem.path[:1] == ("matrix",)]
    if not problems:
        wrong = [(name, text) for name, value in files.fixed.items() if (text := check_place(name, value))]
        wrong += matrix.find_lost(files.fixed)
        wrong += matrix.find_lists(parameters)
        problems = [InputProblem(f"-p {name}", None, (), text) for name, text in wrong]
    if not problems and not files.cells():
        problems = [documents[1].problem(("matrix",), "has no cell left: 'exclude' takes all of them")]
    if problems:
        raise InputError(problems)
    return files


def _refuse_swapped(documents: Sequence[Document]) -> None:
    """Raise InputError if the experiment is given as the topology, and the topology as the experiment."""
    first, last = ([key for key in ("topology", "nodes", "traffic", "expect") if one.has(key)] for one in documents)
    if {*first} & {"traffic", "expect"} and {*last} & {"topology", "nodes"} and not {*first} & {*last}:
        wanted = ("an experiment: name it after -x", "a topology: name it after -t")
        each = zip(documents, (first, last), wanted, strict=True)
        raise InputError([document.problem((keys[0],), f"this is {text}") for document, keys, text in each])


def refuse_several(files: FileTrees, cells: Sequence[CellValues]) -> None:
    """Raise InputError for a matrix of several runs, or with axes that have no value."""
    opened = [name for name in files.matrix.names if name not in files.parameters]
    if files.matrix.find_open(files.parameters) or len(cells) > 1:
        values = cells[0] if cells else ()
        fixed = " ".join(f"-p {name}={spell_scalar(value)}" for name, value in values if name in opened)
        message = f"is {len(cells)} cell{'' if len(cells) == 1 else 's'}: `mprun sweep` runs all, {fixed} gives one"
        raise InputError([files.documents()[1].problem(("matrix",), message)])


def check_conditions(files: FileTrees, across: Sequence[str]) -> Iterator[InputProblem]:
    """Yield a warning for each statement about cells that -p leaves out. across: the statements.

    Raises InputError for statements about cells that the matrix does not have.
    """
    if not across:
        return
    document = files.documents()[-1]
    entries = document.part("expect")
    positions = [n for n, entry in enumerate(entries) if "holds" in entry] if isinstance(entries, list) else []
    cells = files.cells()
    among = (*files.matrix.cells({}), *cells)
    fixed = " ".join(f"-p {name}={spell_scalar(value)}" for name, value in files.fixed.items())
    for n, text in zip(positions, across, strict=True):
        named = [reference.segments[0].conditions for reference in parse(text).references()]
        for conditions in named:
            try:
                reason = files.matrix.find_cells(conditions, among)
            except (ExpressionError, UnknownName) as error:
                reason = str(error)
            if reason is not None:
                document.refuse(("expect", n, "holds"), f"'{text}': {reason}")
        if not document.problems and any(files.matrix.find_cells(conditions, cells) for conditions in named):
            message = f"is not judged: {fixed} leaves out cells that '{text}' names"
            yield document.problem(("expect", n, "holds"), message)
    if document.problems:
        raise InputError(document.problems)


def check_seed(seed: int | None, document: Document) -> None:
    if seed is not None and not SEED.minimum <= seed <= SEED.maximum:
        text = f"{seed} is negative or has more than 63 bits: write '--seed 1'"
        document.add_problem(InputProblem("--seed", None, (), text))


def fill_in(files: FileTrees, documents: Sequence[Document], values: CellValues) -> FileParameters:
    """Return the parameters of all files in one cell. The experiment's parameters override the topology's.

    Values on the command line override both. `values`: of the cell; they override all.
    """
    axes = files.matrix.names
    found: dict[str, Scalar] = {}
    for document in documents:
        for name, value in document.parameters().items():
            if name in found and found[name] != value:
                message = f"parameter '{name}' is in {documents[0].name} too, and this one holds: remove one of the two"
                document.warn(("params", name), message)
            found[name] = value
    whole = all(document.tree.root is not None for document in documents)
    for name, text in files.parameters.items():
        if name in axes:
            continue
        if name in found or not whole:
            found[name] = read_scalar(text)
        else:
            names = " or ".join(document.name for document in documents)
            message = f"no parameter '{name}' in {names}{name_nearest(name, found, 'parameters')}"
            if name == "seed":
                message = f"no parameter 'seed' in {names}: write '--seed {text}'"
            elif name.isidentifier():
                message = tell_no_parameter(name, found, f" in {names}", text)
            elif name.rpartition(".")[2] in PROPERTIES and "." in name:
                message += "; a property of a link is an axis: write 'matrix: {" + name + ": [...]}' to give it here"
            documents[0].add_problem(InputProblem(f"-p {name}", None, (), message))
    return FileParameters({**found, **{name: value for name, value in values if name in found}}, whole)


def name_parameters(files: FileTrees, document: Document) -> Iterator[InputProblem]:
    """Yield the problems of a document, each with the parameters of the command line that gave its value.

    A problem that may follow from flows that were replaced says so.
    """
    for problem in document.problems:
        if document.tree.replaced and problem.message.startswith(("no flow ", "names no tool")):
            problem = replace(problem, message=f"{problem.message}; {document.tree.replaced}")
        template = None
        if _NO_NUMBER.match(problem.message):
            written, params = document.written(problem.path), document.part("params")
            # a value that is its own key, as in `rate: rate`
            is_name = problem.path[-1:] == (written,) and isinstance(params, dict) and written in params
            template = f"{{{{ {written} }}}}" if is_name else advise_product(written)
        if template:
            problem = replace(problem, message=f"{problem.message.rpartition(': ')[0]}: write '\"{template}\"'")
        followed = _FOLLOWED.fullmatch(str(document.written(problem.path)))
        if followed and (given := files.parameters.get(followed[1], "")).endswith(followed[2]):
            number = given.removesuffix(followed[2])
            message = f"'{given}{followed[2]}' has its unit twice: write '-p {followed[1]}={number}'"
            problem = replace(problem, message=message)
        yield replace(problem, message=f"{problem.message}{tell_givers(files, document, problem.path)}")


def tell_givers(files: FileTrees, document: Document, path: ValuePath) -> str:
    """Return the end of a message about a value that parameters or axes gave; empty for any other value."""
    parameters = {name: text for name, text in files.parameters.items() if name not in files.matrix.names}
    given = name_givers(path, document, parameters) or _name_axes(path, document, files)
    return f" (given by {given})" if given else ""


def _name_axes(path: ValuePath, document: Document, files: FileTrees) -> str:
    """Return the places of the axes that gave the value at a path, such as `matrix.cc, xp.yaml:8`."""
    last = files.documents()[-1]
    names = sorted(document.names_at(path) & {*files.matrix.names} - files.parameters.keys())
    positions = [(name, *last.position(("matrix", name))) for name in names]
    return " and ".join(f"matrix.{name}, {file}:{line}" for name, file, line in positions)


def name_givers(path: ValuePath, document: Document, parameters: Mapping[str, str]) -> str:
    """Return the words of the command line that gave the value at a path, such as `-p rate=5mbit`."""
    names = sorted(document.names_at(path) & parameters.keys())
    return " ".join(f"-p {name}={parameters[name]}" for name in names)


def warn_unused(parameters: FileParameters, documents: Sequence[Document]) -> None:
    for document in documents:
        for name in document.parameters():
            if name not in parameters.used:
                message = f"no value uses parameter '{name}': write {{{{ {name} }}}} or remove it"
                document.warn(("params", name), message)
