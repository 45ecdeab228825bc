# SPDX-License-Identifier: Apache-2.0
"""Compare the files of a bundle as their author wrote them with its resolved inputs, which a repetition runs.

The written files are compiled as for the run, with its parameters and its seed. None of their programs is run: a
topology that is a Python program is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path, PurePath

from mprun.compile import allocate, resolve
from mprun.errors import MprunError, SpecError
from mprun.inputs import files
from mprun.inputs.document import Document
from mprun.inputs.loading import Loaded, load
from mprun.inputs.named_file import SUFFIXES
from mprun.inputs.reader import FileTree, read
from mprun.inputs.writer import write_experiment, write_topology
from mprun.metrics.comparison import differing_lines
from mprun.model.frozen import Frozen
from mprun.model.grouping import gather
from mprun.model.run_files import LABEL
from mprun.model.scalar import spell_scalar
from mprun.model.spec import Attachment, Spec
from mprun.storage.run_directory import RunDirectory
from mprun.storage.sweep_directory import ResultDirectory, SweepDirectory
from mprun.sweeps.study import make_cells, make_task

SEED = "--seed"
OTHER_VALUES = "unless -p or --seed gave the values of the run, inputs/ was changed after it, and gives other results"
# Of topologies and experiments.
_SUFFIXES = ("", *SUFFIXES, ".py")


class WrittenFiles(Frozen):
    """The files of a bundle as written, against its resolved inputs.

    - lines: the lines of the resolved inputs that differ, as `differing_lines` returns them. `-`: what ran.
    - notes: values that a command line may have given; or the reason why nothing was compared.
    - proven: the members that give what ran.
    """

    lines: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    proven: frozenset[str] = frozenset()

    def says_of(self, member: str) -> bool:
        """Return True if a member gives what ran, or belongs to the files that give other runs."""
        return member in self.proven or (bool(self.lines) and member.startswith("inputs/"))


class _Given(Frozen):
    """The values that runs were given by the files or the command line. parameters: with the axes. seed: the first."""

    parameters: tuple[tuple[str, str], ...]
    seed: int


class _Made(Frozen):
    """A run of a bundle, and what ran. number: of the repetition; 0 for a single run."""

    given: _Given
    ran: Spec
    number: int = 0


def compare_written(source: ResultDirectory) -> WrittenFiles:
    """Compile the written files of an unpacked bundle for each of its runs, and compare them with what ran."""
    folder = source.path / "inputs"
    try:
        made = list(_read_runs(source))
        trees = _read_files(source, folder, [one.ran for one in made])
        lines: dict[str, None] = {}
        notes: dict[str, None] = {}
        for given, alike in gather((one.given, one) for one in made).items():
            notes |= dict.fromkeys(_find_given(given, trees))
            loaded = load.check(files.gather(*trees, dict(given.parameters), given.seed, False))
            names = _name_files(loaded, trees[1])
            for one in alike:
                texts = (_write(spec, names) for spec in (one.ran, _spec_of(one, loaded)))
                lines |= dict.fromkeys(differing_lines(*texts))
    except MprunError as error:
        reason = str(error).partition("\n")[0].replace(f"{folder}/", "inputs/")
        return WrittenFiles(notes=(f"the files in inputs/ were not compared with what ran: {reason}",))
    notes |= dict.fromkeys((OTHER_VALUES,) if notes else ())
    proven = () if lines or notes else (f"inputs/{path.name}" for path in loaded.sources)
    return WrittenFiles(tuple(lines), tuple(notes), frozenset(proven))


def _read_runs(source: ResultDirectory) -> Iterator[_Made]:
    if isinstance(source, RunDirectory):
        ran = load(*source.resolved_inputs).spec
        yield _Made(_Given(_parameters(source), ran.experiment.seed), ran)
        return
    cells = source.record.cells
    for kept in source.runs():
        if kept.summary.status != "error":
            given = _Given(_parameters(kept.run), cells[kept.cell].repeat.seed)
            yield _Made(given, load(*kept.run.resolved_inputs).spec, kept.number)


def _read_files(source: ResultDirectory, folder: Path, specs: Sequence[Spec]) -> tuple[FileTree, FileTree]:
    """Return the trees of the topology and the experiment as written. Raises SpecError if this is not possible."""
    title = source.record.title if isinstance(source, SweepDirectory) else source.title
    names = [PurePath(name).name for name in source.folder.find("inputs/*")]
    by_stem = gather((PurePath(name).stem, name) for name in names if PurePath(name).suffix in _SUFFIXES)
    stems = ((title[:n], title[n + 1 :]) for n, letter in enumerate(title) if letter == "-")
    pairs = [(one, other) for first, last in stems for one in by_stem.get(first, ()) for other in by_stem.get(last, ())]
    if len(pairs) != 1:
        raise SpecError(f"{len(pairs) or 'no'} pairs of them are named after the run, {title}")
    topology, experiment = read(folder / pairs[0][0], "topology"), read(folder / pairs[0][1], "experiment")
    axes = files.gather(topology, experiment, {}, None, False).matrix.names
    if isinstance(source, SweepDirectory) and {*source.record.axes} != {*axes}:
        raise SpecError("the sweep has other axes, as that of a question such as `mprun faults`")
    # files that go into a run are kept as archives, and not as written
    kept = gather((one.name, one) for spec in specs for one in spec.experiment.attachments)
    entries = Document(experiment).part("traffic")
    named = [one.get("files") for one in entries if isinstance(one, dict)] if isinstance(entries, list) else []
    examined: dict[tuple[Path, str | None], Attachment] = {
        (folder / name, None): kept[PurePath(name).name][0]
        for list_ in named
        for name in (list_ if isinstance(list_, list) else ())
        if isinstance(name, str) and len({one.sha256 for one in kept.get(PurePath(name).name, ())}) == 1
    }
    return topology, replace(experiment, examined=examined)


def _parameters(run: RunDirectory) -> tuple[tuple[str, str], ...]:
    told = run.environment().parameters
    return tuple((name, spell_scalar(value)) for name, value in told.items() if name != LABEL)


def _find_given(found: _Given, trees: tuple[FileTree, FileTree]) -> Iterator[str]:
    """Yield a note for each parameter and seed that the files as written do not give."""
    given = dict(found.parameters)
    axes = files.gather(*trees, {}, None, False).matrix.values({})
    own = load.check(files.gather(*trees, {name: given[name] for name in given if name in axes}, None, False))
    written = {name: spell_scalar(value) for name, value in own.parameters.items()}
    for name, values in axes.items():
        if given.get(name) not in (known := [spell_scalar(value) for value in values]):
            written[name] = ", ".join(known)
    given, written = given | {SEED: str(found.seed)}, written | {SEED: str(own.spec.experiment.seed)}
    for name, value in given.items():
        if written.get(name) != value:
            yield f"{name} is {written.get(name, 'not there')} in inputs/, and was {value} in the run"


def _spec_of(made: _Made, loaded: Loaded) -> Spec:
    return make_task(make_cells([loaded], "auto", "")[0], made.number).spec if made.number else loaded.spec


def _name_files(loaded: Loaded, experiment: FileTree) -> tuple[str, str]:
    """Return the names of the files of the topology and those of the experiment, each as one text."""
    sources = gather((str(path) in experiment.files, path.name) for path in loaded.sources)
    return ", ".join(sources.get(False, ())), ", ".join(sources.get(True, ()))


def _write(spec: Spec, names: tuple[str, str]) -> dict[str, str]:
    """Return what a run keeps as its resolved inputs, by the names of the files that give them."""
    resolved = resolve(spec, allocate(spec))
    texts = (write_topology(resolved.topology), write_experiment(resolved.experiment))
    return dict(zip(names, texts, strict=True))
