# SPDX-License-Identifier: Apache-2.0
"""The input stage: two files in, one Spec out, or every fault of both.

read -> fill in parameters -> hold against the models -> hold against each other
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath

from mprun.input import agreement
from mprun.input.datagram import check_lengths, fill_lengths
from mprun.input.document import Document
from mprun.input.event import check_times
from mprun.input.matrix import LinkValues, Matrix, Values, check_place, read_matrix
from mprun.input.parameter import Parameters
from mprun.input.plot import check_axes
from mprun.input.reader import Tree, read
from mprun.input.repetition import expand
from mprun.input.startup import pause_collection
from mprun.input.topology import Topology, read_topology
from mprun.model.fault import Fault, InputError, name_nearest
from mprun.model.path import name_paths
from mprun.model.permission import NONE, Permissions
from mprun.model.scalar import Scalar, read_scalar, spell_scalar, spell_values
from mprun.model.spec import ExperimentSpec, Spec, TopologySpec
from mprun.schema.field import DEFAULT_SEED, SEED
from mprun.statement.expression import parse

# What happens on a network that somebody only wants to look around in.
EMPTY = ExperimentSpec("", "", {}, (), (), (), probe_pings=0, seed=DEFAULT_SEED)


@dataclass(frozen=True)
class Loaded:
    """A checked input: one run. sources: all files that were read, those of the topology first.

    values: what the axes of the experiment's matrix are in it. reseed: the same with another seed, from which some
    workloads draw who sends to whom.
    """

    spec: Spec
    warnings: tuple[str, ...]
    sources: tuple[Path, ...]
    values: Values
    reseed: Callable[[int], Spec] = field(repr=False, compare=False)


def load(
    topology: Path | str,
    experiment: Path | str | None,
    parameters: Mapping[str, str] = {},
    seed: int | None = None,
    strict: bool = False,
    legacy_queue: bool = False,
    allowed: Permissions = NONE,
) -> Loaded:
    """Read and check a topology and an experiment; without one, nothing happens on the topology.

    parameters: values that replace those of the files, as written on the command line;
    seed: replaces that of the experiment; strict: warnings are faults;
    legacy_queue: queues of a topology of the older format are as large as the older tool made them;
    allowed: what only the command line may allow the files.
    Raises InputError (a SpecError) with every fault of both files, in the order of files and lines; so it does for
    a matrix whose axes are not all among the parameters: that is several runs.
    """
    with pause_collection():
        files = _read_files(topology, experiment, parameters, seed, strict, legacy_queue, allowed)
        cells = files.cells()
        opened = [name for name in files.matrix.names if name not in parameters]
        if files.matrix.find_open(parameters) or len(cells) > 1:
            fixed = (
                " ".join(f"-p {name}={spell_scalar(value)}" for name, value in cells[0] if name in opened)
                if cells
                else ""
            )
            message = f"is {len(cells)} cell{'' if len(cells) == 1 else 's'}: `mprun sweep` runs all, {fixed} gives one"
            raise InputError([Fault(*files.documents()[1].place(("matrix",)), ("matrix",), message)])
        loaded = _load(files, next(iter(cells), ()))
        _check_conditions(files, loaded)
        return loaded


def load_cells(
    topology: Path | str,
    experiment: Path | str | None,
    parameters: Mapping[str, str] = {},
    seed: int | None = None,
    strict: bool = False,
    legacy_queue: bool = False,
    allowed: Permissions = NONE,
) -> tuple[Loaded, ...]:
    """As `load`, each cell of the experiment's matrix; the one run that it is without a matrix.

    parameters also fix axes. Raises InputError with every fault of the first cell that has any.
    """
    with pause_collection():
        files = _read_files(topology, experiment, parameters, seed, strict, legacy_queue, allowed)
        first, *others = files.cells()
        loaded = _load(files, first)
        # of all cells alike, and known before any other is looked at
        _check_conditions(files, loaded)
        return (loaded, *(_load(files, values) for values in others))


@dataclass(frozen=True)
class _Files:
    """What was read, before it is held against anything; `documents` are new for each cell."""

    trees: tuple[Tree, ...]
    matrix: Matrix
    parameters: Mapping[str, str]
    seed: int | None
    strict: bool
    legacy_queue: bool

    def documents(self) -> list[Document]:
        return [Document(tree) for tree in self.trees]

    @property
    def fixed(self) -> dict[str, Scalar]:
        """Axes that have one value."""
        return {name: read_scalar(text) for name, text in self.parameters.items() if name in self.matrix.names}

    def cells(self) -> tuple[Values, ...]:
        return self.matrix.cells(self.fixed)


def _read_files(
    topology: Path | str,
    experiment: Path | str | None,
    parameters: Mapping[str, str],
    seed: int | None,
    strict: bool,
    legacy_queue: bool,
    allowed: Permissions,
) -> _Files:
    """Raises InputError for faults of the matrix."""
    trees = [read(topology, "topology", legacy_queue, allowed)]
    if experiment is None:
        return _Files(tuple(trees), Matrix(), parameters, seed, strict, legacy_queue)
    trees.append(read(experiment, "experiment", allowed=allowed))
    documents = [Document(tree) for tree in trees]
    names = [name for document in documents for name in document.parameters()]
    matrix = read_matrix(documents[1].part("matrix"), names, documents[1])
    files = _Files(tuple(trees), matrix, parameters, seed, strict, legacy_queue)
    faults = [fault for document in documents for fault in document.faults if fault.path[:1] == ("matrix",)]
    if not faults:
        wrong = [(name, text) for name, value in files.fixed.items() if (text := check_place(name, value))]
        faults = [Fault(f"-p {name}", None, (), text) for name, text in (*wrong, *matrix.find_lost(files.fixed))]
    if not faults and not files.cells():
        faults = [Fault(*documents[1].place(("matrix",)), ("matrix",), "has no cell left: 'exclude' takes all of them")]
    if faults:
        raise InputError(faults)
    return files


def _check_conditions(files: _Files, loaded: Loaded) -> None:
    """Statements across cells are about cells that there are; -p may leave them out. Raises InputError."""
    across = loaded.spec.experiment.across
    if not across:
        return
    document = files.documents()[-1]
    entries = document.part("expect")
    places = [n for n, entry in enumerate(entries) if "holds" in entry] if isinstance(entries, list) else []
    among = (*files.matrix.cells({}), *files.cells())
    for n, text in zip(places, across, strict=True):
        for reference in parse(text).references():
            conditions = {condition.key: condition.value for condition in reference.segments[0].conditions}
            reason = files.matrix.find_cells(conditions, among)
            if reason is not None:
                document.fault(("expect", n, "holds"), f"'{text}': {reason}")
    if document.faults:
        raise InputError(document.faults)


def _load(files: _Files, values: Values) -> Loaded:
    def reseed(seed: int) -> Spec:
        with pause_collection():
            return _load(replace(files, seed=seed), values).spec

    documents = files.documents()
    first, second = documents[0], documents[1] if len(documents) > 1 else None
    seed, strict, legacy_queue = files.seed, files.strict, files.legacy_queue
    names = files.matrix.names
    given = _gather(documents, {name: text for name, text in files.parameters.items() if name not in names})
    given = replace(given, values={**given.values, **{k: v for k, v in values if k in given.values}})
    on_links = LinkValues({k: v for k, v in values if "." in k}, second or first)
    network = _read_network(first, given, on_links)
    if seed is not None and not SEED.minimum <= seed <= SEED.maximum:
        first.faults.append(Fault("--seed", None, (), f"{seed} is negative or has more than 63 bits: write '--seed 1'"))
    if second is None:
        action: ExperimentSpec | None = replace(EMPTY, seed=EMPTY.seed if seed is None else seed)
    else:
        action = _read_action(second, given, network, PurePath(first.name).stem, seed)
    if action is not None:
        check_times(network.events, action.traffic, first)
        check_axes(action.plots, files.matrix.values(files.fixed), second or first)
    if legacy_queue and first.is_readable and not first.is_older:
        message = f"{first.name} is not of the older format, its queues mean what they say: take the option out"
        first.faults.append(Fault("--legacy-queue", None, (), message))
    faults = _sort(documents, [fault for document in documents for fault in document.faults])
    if values and faults:
        where = spell_values(dict(values), ", ")
        faults = [replace(fault, message=f"{fault.message} (in cell {where})") for fault in faults]
    if second is not None and not faults:
        _warn_unused(given, documents)
    warnings = _sort(documents, [warning for document in documents for warning in document.warnings])
    if faults or (strict and warnings) or network.spec is None or action is None:
        raise InputError(_sort(documents, faults + warnings) if strict else faults)
    sources = tuple(Path(file) for document in documents for file in document.files)
    return Loaded(Spec(network.spec, action), tuple(map(str, warnings)), tuple(dict.fromkeys(sources)), values, reseed)


def load_topology(
    topology: Path | str, parameters: Mapping[str, str] = {}, allowed: Permissions = NONE
) -> TopologySpec:
    """Read and check a topology alone. Raises InputError (a SpecError)."""
    return load(topology, None, parameters, allowed=allowed).spec.topology


def _gather(documents: list[Document], overrides: Mapping[str, str]) -> Parameters:
    """The parameters of all files, those of the experiment over those of the topology, and the overrides."""
    values: dict[str, Scalar] = {}
    for document in documents:
        for name, value in document.parameters().items():
            if name in values and values[name] != value:
                message = f"parameter '{name}' is in {documents[0].name} too, and this one holds: keep one of the two"
                document.warn(("params", name), message)
            values[name] = value
    whole = all(document.is_readable for document in documents)
    for name, text in overrides.items():
        if name in values or not whole:
            values[name] = read_scalar(text)
        else:
            files = " or ".join(document.name for document in documents)
            message = f"no parameter '{name}' in {files}{name_nearest(name, values, 'parameters')}"
            documents[0].faults.append(Fault(f"-p {name}", None, (), message))
    return Parameters(values, whole)


def _read_network(document: Document, parameters: Parameters, on_links: LinkValues) -> Topology:
    values = document.plain(parameters)
    if values is None:
        return Topology(None, None)
    topology = read_topology(values, document, on_links.lay_over)
    if topology.spec is not None:
        for name in agreement.find_lonely(topology.spec):
            document.warn(("nodes", name), "has no link: join it or take it out")
    return topology


def _read_action(
    document: Document, parameters: Parameters, network: Topology, topology_name: str, seed: int | None
) -> ExperimentSpec | None:
    from mprun.input.experiment import read_experiment

    values = document.plain(parameters)
    if values is None:
        return None
    hosts = None if network.nodes is None else [name for name, kind in network.nodes.items() if kind == "host"]
    found = read_experiment(values, document, hosts, seed)
    if network.nodes is not None:
        agreement.check_references(values, network.nodes, topology_name, document)
    if found is None:
        return None
    action, notes = found
    if network.spec is not None:
        agreement.check_routes(network.spec, action.traffic, notes)
        named = name_paths(network.spec, [(flow.source, flow.destination) for flow in action.traffic])
        agreement.check_metrics(named, action, notes)
        agreement.check_mptcp(network.spec, named, action, notes)
        agreement.check_path_managers(values, named, action, notes)
        agreement.check_endpoints(network.spec, action, notes)
        agreement.check_captures(network.spec, action, document)
        agreement.check_tools(named, action, notes)
        agreement.check_rates(network.spec, named, action, notes)
        check_lengths(network.spec, named, action, notes)
        if not document.faults:
            action = fill_lengths(network.spec, replace(action, traffic=expand(action.traffic)))
    return action


def _warn_unused(parameters: Parameters, documents: list[Document]) -> None:
    for document in documents:
        for name in document.parameters():
            if name not in parameters.used:
                document.warn(
                    ("params", name), f"no value uses parameter '{name}': write {{{{ {name} }}}} or take it out"
                )


def _sort(documents: list[Document], faults: list[Fault]) -> list[Fault]:
    """In the order of the files that were read and the lines in them; what has no file comes first."""
    files = [file for document in documents for file in document.files]
    order = {file: n for n, file in reversed(list(enumerate(files)))}
    return sorted(faults, key=lambda fault: (order.get(fault.file, -1), fault.line or 0))
