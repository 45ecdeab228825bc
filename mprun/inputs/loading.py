# SPDX-License-Identifier: Apache-2.0
"""The input stage: read and check two files, and return one Spec, or raise an error with all problems of both.

The passes are on this page: `_Reading` makes trees of the files and cells of their matrix. For each cell `_load` then
gathers the parameters, reads the topology and the experiment, and checks the two against each other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from itertools import chain
from pathlib import Path, PurePath
from typing import Generic, TypeVar, cast

from mprun.inputs import cross_check, event_check, files, host_check, link_check
from mprun.inputs.datagram import check_lengths, fill_lengths
from mprun.inputs.document import Document, sort
from mprun.inputs.event_changes import begin_with_changes
from mprun.inputs.experiment import check_links, read_experiment
from mprun.inputs.files import FileTrees
from mprun.inputs.keys.event import PROPERTIES
from mprun.inputs.keys.field import DEFAULT_SEED
from mprun.inputs.keys.shape import write_statement
from mprun.inputs.matrix_cells import PLACES, CellValues, check_axes, lay_over, list_axes
from mprun.inputs.offered_rate import check_bounds, check_rates
from mprun.inputs.parameter import FileParameters
from mprun.inputs.reader import FileTree, read
from mprun.inputs.search_point import check_names, check_repeat, control_values, list_ends
from mprun.inputs.topology import LayOver, Topology, read_topology
from mprun.inputs.traffic import expand
from mprun.inputs.ways import FlowPaths, Ways
from mprun.model.frozen import Frozen
from mprun.model.grouping import gather
from mprun.model.permission import NONE, Permissions
from mprun.model.problem import InputError, InputProblem, ValuePath
from mprun.model.scalar import Scalar, spell_scalar, spell_values
from mprun.model.search_space import Search
from mprun.model.spec import ExperimentSpec, Spec, TopologySpec
from mprun.statements.expression import parse as parse_statement

# The experiment for a topology without an experiment: no traffic.
EMPTY = ExperimentSpec("", "", {}, (), (), (), probe_pings=0, seed=DEFAULT_SEED)
# The largest number of other cells that are checked for a metric which a cell does not have.
MOST_BESIDE = 20
ResultT = TypeVar("ResultT")
_NUMBER = re.compile(r"[0-9.]+")


class Loaded(Frozen):
    """The checked files of a run.

    `sources`: all files that were read, files of the topology first.
    `values`: the values of the matrix's axes in this run.
    `parameters`: the value of each parameter of the files and of each axis.
    `ends`: the runs of its search at points that have each value of each list and both ends of each range, and those of
    the controls there.
    `words`: the options of a command that reads these files with all their cells.
    `locate`: return the file and the line of a value of the experiment, by its path. `topology` and a link name the
    link's file.
    `tell_givers`: return the end of a message on a value that -p or an axis gave, such as ` (given by -p rate=5)`.
    `reseed`: make the Spec for another seed. Some workloads draw the pairs of hosts from the seed.
    """

    spec: Spec
    warnings: tuple[str, ...]
    sources: tuple[Path, ...]
    values: CellValues
    parameters: Mapping[str, Scalar]
    words: tuple[str, ...]
    locate: Callable[[ValuePath], tuple[str, int | None]] = field(repr=False, compare=False)
    tell_givers: Callable[[ValuePath], str] = field(repr=False, compare=False)
    reseed: Callable[[int], Spec] = field(repr=False, compare=False)
    ends: tuple[Loaded, ...] = field(repr=False, compare=False)

    def problem(self, path: ValuePath, message: str) -> InputProblem:
        return InputProblem(*self.locate(path), path, f"{message}{self.tell_givers(path)}")


class _Reading(Generic[ResultT]):
    """Read two files, and give their trees to a function that checks them."""

    def __init__(self, check: Callable[[FileTrees], ResultT]) -> None:
        self.check = check

    def __call__(
        self,
        topology: Path | str,
        experiment: Path | str | None,
        parameters: Mapping[str, str] = {},
        seed: int | None = None,
        strict: bool = False,
        allowed: Permissions = NONE,
    ) -> ResultT:
        """Return the function's result. Raises InputError (a SpecError) with every problem, in the order of the lines.

        parameters: values in place of those of the files, as written on the command line. They also fix axes.
        seed: in place of the experiment's.
        strict: warnings are problems.
        allowed: rights that only the command line can give to files.
        """
        trees = [read(topology, "topology", allowed)]
        trees += [] if experiment is None else [read(experiment, "experiment", allowed)]
        return self.check(files.gather(trees[0], trees[1] if trees[1:] else None, parameters, seed, strict))


@_Reading
def load(found: FileTrees) -> Loaded:
    """Check a topology and an experiment. Without an experiment, the topology has no traffic.

    A matrix whose axes are not all among the parameters is a problem, because it stands for several runs.
    """
    return _load_only(found)[0]


@_Reading
def load_cells(found: FileTrees) -> tuple[Loaded, ...]:
    """Check each cell of the experiment's matrix as `load` does. A file without a matrix has one cell.

    The problems are those of the first cell that has any. The first cell has the sources of all.
    """
    first, *others = found.cells()
    loaded, problems = _load_first(found, first)
    cells = (loaded, *(_load_advised(found, values) for values in others))
    problems += _find_idle_axes(cells)
    if problems and found.strict:
        raise InputError(problems)
    sources = dict.fromkeys(chain.from_iterable(cell.sources for cell in cells))
    told = tuple(map(str, problems))
    cells = tuple(replace(cell, warnings=(*cell.warnings, *told)) for cell in cells)
    return (replace(cells[0], sources=tuple(sources)), *cells[1:])


def _load_advised(found: FileTrees, values: CellValues) -> Loaded:
    """Check a cell. A metric that another cell has gets the advice to expect it of that cell alone."""
    try:
        return _load(found, values)
    except InputError as error:
        raise InputError(_advise_statements(found, values, error.found), error.loaded) from None


def _advise_statements(
    found: FileTrees, values: CellValues, problems: Iterable[InputProblem]
) -> Iterator[InputProblem]:
    beside: list[tuple[str, set[ValuePath]]] | None = None
    for problem in problems:
        if problem.path[:1] == ("expect",) and problem.path[2:] == ("metric",):
            beside = list(_find_beside(found, values)) if beside is None else beside
            if cells := next((chosen for chosen, paths in beside if problem.path not in paths), None):
                entries = cast(Sequence[Mapping[str, object]], found.documents()[-1].part("expect"))
                entry = write_statement(entries[cast(int, problem.path[1])], cells)
                message = problem.message.removesuffix(where := tell_cell(values)).partition(": write ")[0]
                problem = replace(problem, message=f"{message}: write '{entry}'{where}")
        yield problem


def _find_beside(found: FileTrees, values: CellValues) -> Iterator[tuple[str, set[ValuePath]]]:
    """Yield the value of each cell that differs in one axis, as in `cc=reno`, and the paths of the cell's problems.

    Leave out cells with problems elsewhere than in `expect`, which may hide that a metric does not exist.
    """
    different = [(row, {*row} - {*values}) for row in found.matrix.cells({})]
    for row, [(axis, value)] in [one for one in different if len(one[1]) == 1][:MOST_BESIDE]:
        paths: set[ValuePath] = set()
        try:
            _load(replace(found, strict=False), row)
        except InputError as error:
            paths = {one.path for one in error.found}
        if all(path[:1] == ("expect",) for path in paths):
            yield f"{axis}={spell_scalar(value)}", paths


def join_warnings(cells: Sequence[Loaded]) -> Iterator[str]:
    """Yield the warnings of all cells, each with the first of its cells unless all have it.

    Warnings of one place that differ in numbers alone, such as the bound that a cell allows, are one.
    """

    def kind_of(text: str) -> tuple[str, ...]:
        *place, message = text.split(": ", 2)
        return *place, _NUMBER.sub("", message)

    for own in gather((kind_of(text), (text, cell)) for cell in cells for text in cell.warnings).values():
        text, cell = own[0]
        yield text if sum(text == other for other, _ in own) >= len(cells) else text + tell_cell(cell.values)


def _find_idle_axes(cells: Sequence[Loaded]) -> Iterator[InputProblem]:
    """Yield a warning for each axis whose values all give equal runs, as if another axis sets what it sets.

    Yield one too for an axis that only gives values to a link before events replace them at time zero.
    """

    def settle(spec: Spec) -> Spec:
        return spec if spec.experiment.calibrate else replace(spec, topology=begin_with_changes(spec.topology))

    for name in dict(cells[0].values):
        alike = gather((tuple(pair for pair in cell.values if pair[0] != name), cell.spec) for cell in cells)
        if name in PLACES or any(len(specs) < 2 for specs in alike.values()):
            continue
        message = "changes nothing: all its values give equal runs. Remove it, or the value that holds in its place"
        if any(spec != specs[0] for specs in alike.values() for spec in specs):
            message = "changes nothing from 0 s on: events, such as a trace, set these values then. Remove it, or them"
            if any(settle(spec) != settle(specs[0]) for specs in alike.values() for spec in specs):
                continue
        yield cells[0].problem(("matrix", name), message)
    yield from _find_axes_aside(cells)


def _find_axes_aside(cells: Sequence[Loaded]) -> Iterator[InputProblem]:
    """Yield a warning for each axis of a link that no flow crosses in any cell.

    A metric of a path is measured without a flow, and a program of the user may use any path.
    """
    experiment = cells[0].spec.experiment
    until = experiment.repeat.until
    asked = [*(one.metric for one in experiment.expectations), *experiment.show]
    asked += [*(plot.metric or "" for plot in experiment.plots), until.metric if until else ""]
    owners = {name.partition(".")[0] for name in asked}
    # the conditions of `cells[...]` name an axis and no metric
    references = chain.from_iterable(parse_statement(text).references() for text in experiment.across)
    owners |= {segment.name for reference in references for segment in reference.segments}
    links = {link.name for link in cells[0].spec.topology.links}
    axes = {name: name.partition(".")[0] for name in dict(cells[0].values) if "." in name}
    aside = {name: link for name, link in axes.items() if link in links}
    for cell in cells:
        flows = cell.spec.experiment.traffic
        if not aside or not flows or any(flow.tool == "exec" for flow in flows):
            return
        paths = FlowPaths(Ways(cell.spec.topology), cell.spec.experiment)
        crossed = paths.find_joining_links(owners).union(*(links for _, links in paths.used_links))
        aside = {name: link for name, link in aside.items() if link not in crossed}
    for name, link in aside.items():
        message = f"changes '{link}', which no flow crosses: remove it, or write 'protocol: mptcp' for a flow"
        yield cells[0].problem(("matrix", name), message)


@_Reading
def load_search(found: FileTrees) -> tuple[Loaded, Callable[[Mapping[str, Scalar]], Loaded]]:
    """Check the files of a search as `load` does.

    Return them with the values of the files, and the function that gives them at a point: parameters and properties of
    links by name. Axes of a matrix keep the values that they were given. The function raises InputError for values that
    the files cannot have.
    """
    loaded, problems = _load_only(found)
    if problems and found.strict:
        raise InputError(problems)
    loaded = replace(loaded, warnings=(*loaded.warnings, *map(str, problems)))
    if loaded.spec.experiment.search is None:
        message = "is missing: write what to vary and which statement to violate (docs/reference/questions/search.md)"
        raise InputError([InputProblem(found.trees[1].name, None, ("search",), message)])
    return loaded, lambda point: _load_point(found, loaded.values, point, ("search", "vary"))


def load_trees(topology: FileTree, experiment: FileTree | None, strict: bool = False) -> Loaded:
    """Check the trees of files that have been read, as `load` does."""
    return load.check(files.gather(topology, experiment, {}, None, strict))


@_Reading
def read_plain(found: FileTrees) -> dict[str, dict[str, object]]:
    """Return the keys and values of a topology and an experiment, with their parameters filled in.

    The keys of the result are `topology` and `experiment`. The matrix is left out.
    """
    documents = found.documents()
    filled = files.fill_in(found, documents, next(iter(found.cells()), ()))
    plain = [document.plain(filled) for document in documents]
    problems = [problem for document in documents for problem in document.problems]
    if problems or None in plain:
        raise InputError(problems)
    return {
        name: {key: value for key, value in (one or {}).items() if key != "matrix"}
        for name, one in zip(("topology", "experiment"), plain, strict=True)
    }


def load_topology(
    topology: Path | str, parameters: Mapping[str, str] = {}, allowed: Permissions = NONE
) -> TopologySpec:
    """Read and check a topology alone. Raises InputError (a SpecError)."""
    return load(topology, None, parameters, allowed=allowed).spec.topology


def _load_only(found: FileTrees) -> tuple[Loaded, list[InputProblem]]:
    """Check the files of one run as `_load_first` does. Raises InputError for several cells too."""
    cells = found.cells()
    files.refuse_several(found, cells)
    return _load_first(found, next(iter(cells), ()))


def _load_first(found: FileTrees, values: CellValues) -> tuple[Loaded, list[InputProblem]]:
    """Check a cell, and what is the same in all cells. Return the warnings of a sweep too. Raises InputError."""
    loaded = _load_advised(found, values)
    warnings = list(files.check_conditions(found, loaded.spec.experiment.across))
    search = loaded.spec.experiment.search
    if search is not None and not found.trees[-1].is_resolved:
        points = [_load_point(found, loaded.values, point, ("search", "vary")) for point in list_ends(search)]
        controls = {name: list(_load_controls(found, loaded, search, name)) for name in search.controls}
        warnings += _find_idle_controls(loaded, search, points, controls)
        loaded = replace(loaded, ends=(*points, *chain.from_iterable(controls.values())))
    return loaded, warnings


def _load_controls(found: FileTrees, loaded: Loaded, search: Search, name: str) -> Iterator[Loaded]:
    """Yield the run of a control at each of the ends of a search."""
    for point in list_ends(search):
        yield _load_point(found, loaded.values, control_values(search, name, point), ("search", "control", name))


def _find_idle_controls(
    loaded: Loaded, search: Search, points: Sequence[Loaded], controls: Mapping[str, Sequence[Loaded]]
) -> Iterator[InputProblem]:
    """Yield a warning for each control that changes nothing at any of the points."""
    for name, runs in controls.items():
        is_equal = all(one.spec == point.spec for one, point in zip(runs, points, strict=True))
        if is_equal and "kernel" not in search.controls[name]:
            message = "changes nothing: its runs are equal to those that it controls. Give it another value"
            yield loaded.problem(("search", "control", name), message)


def _load_point(found: FileTrees, values: CellValues, point: Mapping[str, Scalar], position: ValuePath) -> Loaded:
    """Check a point of a search, in which the axes of a matrix have these values."""
    return _load(found, tuple({**dict(values), **point}.items()), position)


def _load(found: FileTrees, values: CellValues, position: ValuePath = ("matrix",)) -> Loaded:
    """Do all passes after reading for one cell. position: the path of the axes in the experiment."""

    def reseed(seed: int) -> Spec:
        return _load(replace(found, seed=seed), values, position).spec

    documents = found.documents()
    first, last = documents[0], documents[-1]
    files.check_seed(found.seed, first)
    parameters = files.fill_in(found, documents, values)
    own = {name: value for name, value in values if "." in name or name in {*PROPERTIES} - {*parameters.values}}
    network = _read_network(first, parameters, partial(lay_over, own, last, position))
    if last is first:
        action: ExperimentSpec | None = replace(EMPTY, seed=EMPTY.seed if found.seed is None else found.seed)
    else:
        action = _read_action(last, parameters, network, first, found.seed)
    if action is not None:
        event_check.check_times(network.events, action.traffic, network.spec.changes if network.spec else (), first)
        cross_check.check_end(action, last)
        axes = found.matrix.values(found.fixed)
        check_axes(action.plots, axes, last)
        if network.spec is not None:
            paths = FlowPaths(network.ways, action)
            cross_check.check_shown_names(paths, axes, last)
            cross_check.check_link_rates(paths, last)
            cross_check.check_proxies(paths, first, last)
            event_check.check_traces(paths, network.events, first)
            event_check.check_pauses(paths, network.events, first)
            event_check.check_queues(paths, network.events, first)
        if action.search is not None:
            links = None if network.spec is None else [link.name for link in network.spec.links]
            check_names(action.search, parameters.values, links, last)
            check_repeat(action.repeat, last)
    for document in documents:
        document.refuse_empty()
    problems = sort(documents, chain.from_iterable(files.name_parameters(found, one) for one in documents))
    if values and problems:
        # these parts are equal in all cells unless they hold a template
        alike = [(key,) for key in ("repeat", "plots", "show") if "{{" not in str(last.part(key))]
        where = tell_cell(values, position)
        problems = [one if one.path[:1] in alike else replace(one, message=one.message + where) for one in problems]
    if last is not first and not problems:
        files.warn_unused(parameters, documents)
    warnings = sort(documents, chain.from_iterable(document.warnings for document in documents))
    shown = sort(documents, problems + warnings) if found.strict else problems
    if network.spec is None or action is None:
        raise InputError(shown)
    told = {**parameters.values, **dict(values)}
    sources = dict.fromkeys(Path(file) for document in documents for file in document.files)
    spec = Spec(network.spec, action)
    locate = partial(_locate, documents, spec)
    find = (locate, lambda path: files.tell_givers(found, last, path) if _is_of_entry(last, spec, path) else "", reseed)
    loaded = Loaded(spec, tuple(map(str, warnings)), tuple(sources), values, told, found.words, *find, ())
    if shown:
        raise InputError(shown, loaded)
    return loaded


def tell_cell(values: CellValues, position: ValuePath = ("matrix",)) -> str:
    """Return the end of a message about a cell, empty without axes. position: the path of the axes."""
    return f" ({'in cell' if position == ('matrix',) else 'at'} {spell_values(dict(values), ', ')})" if values else ""


def _locate(documents: Sequence[Document], spec: Spec, path: ValuePath) -> tuple[str, int | None]:
    """Return the file and the line of a value. A flow has none of its own if an entry makes several flows.

    A path that begins with `topology` names a link, which a generator may have made: its file has no line for it.
    """
    if path[:1] == ("topology",):
        return documents[0].name, None
    return documents[-1].position(path if _is_of_entry(documents[-1], spec, path) else path[:1])


def _is_of_entry(document: Document, spec: Spec, path: ValuePath) -> bool:
    """Return False for a value of a flow if an entry of `traffic` makes several flows."""
    entries = document.part("traffic")
    return path[:1] != ("traffic",) or (isinstance(entries, list) and len(entries) == len(spec.experiment.traffic))


def _read_network(document: Document, parameters: FileParameters, on_links: LayOver) -> Topology:
    values = document.plain(parameters)
    if values is None:
        return Topology(None, None)
    topology = read_topology(values, document, on_links)
    if topology.spec is not None:
        link_check.check_network(topology.ways, topology.places, document)
        event_check.check_events(topology.events, document)
    return topology


def _list_names(network: Topology, hosts: Sequence[str], matrix: object) -> dict[ValuePath, Sequence[str]]:
    """Return the names of hosts, links and axes for examples, see `Document.names`. `holds`: comparisons of cells."""
    axes = {name: matrix.get(name) for name in list_axes(matrix)} if isinstance(matrix, dict) else {}
    several = [(name, own[:2]) for name, own in axes.items() if isinstance(own, list) and len(own) > 1]
    compared = [" > ".join(f"cells[{name}={spell_scalar(one)}].{{}}" for one in own) for name, own in several]
    links = network.spec.links if network.spec else ()
    names: dict[ValuePath, Sequence[str]] = {(key,): hosts for key in ("host", "from", "to")}
    names |= {("hosts", host, "link"): [link.name for link in links if host in link.ends] for host in hosts}
    return {**names, ("link",): [link.name for link in links], ("over",): [*axes], ("holds",): compared}


def _read_action(
    document: Document, parameters: FileParameters, network: Topology, topology: Document, seed: int | None
) -> ExperimentSpec | None:
    topology_name = PurePath(topology.name).stem
    values = document.plain(parameters)
    if values is None:
        return None
    hosts = None if network.nodes is None else [name for name, kind in network.nodes.items() if kind == "host"]
    document.names = _list_names(network, hosts or (), document.part("matrix"))
    found = read_experiment(values, document, hosts, seed)
    if network.nodes is not None:
        cross_check.check_references(values, network.nodes, topology_name, document)
    if found is None:
        return None
    action, written, notes = found
    check_links(action.links, topology_name, action.name, document)
    if network.spec is not None:
        cross_check.check_routes(network.spec, action.traffic, notes)
        paths = FlowPaths(network.ways, action)
        cross_check.check_metrics(paths, notes)
        host_check.check_mptcp(paths, notes)
        told = host_check.check_path_managers(written, paths, notes)
        host_check.check_schedulers(written, told, paths, document, notes)
        host_check.check_idle_settings(written, action, document, notes)
        host_check.check_hosts(network.spec, action, document, notes)
        host_check.check_link_settings(paths, document, notes)
        cross_check.check_captures(network.spec, action, document)
        cross_check.check_faults(paths, document)
        link_check.check_dead_ends(paths, network.places, topology)
        link_check.check_mtus(paths, network.places, topology)
        link_check.check_directions(paths, network.places, network.events, document, topology)
        event_check.check_places(paths, network.events, document, topology)
        link_check.check_marks(paths, network.places, document, topology, notes)
        cross_check.check_tools(paths, notes)
        check_rates(paths, notes)
        check_bounds(paths, notes)
        check_lengths(paths, notes)
        if not document.problems:
            action = replace(action, traffic=fill_lengths(paths, expand(action.traffic)))
    return action
