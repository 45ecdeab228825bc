# SPDX-License-Identifier: Apache-2.0
"""Run a run, a sweep or the content of an archive again, and judge the results.

Only the resolved inputs are used, and they are read and compiled like any file of a user. Stored plans are lists of
commands that strangers may have written, so they are not used. The figures of an archive are not trusted either: each
artifact must have the digest in the list of artifacts, and each digest must equal the digest of the repetition. Members
that neither check proves are listed.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import field, replace
from functools import partial
from itertools import groupby
from pathlib import Path, PurePosixPath
from typing import Literal

from mprun.bundles.archive import unpack
from mprun.bundles.pack import ARTIFACTS, Artifacts, digest_of
from mprun.bundles.written import WrittenFiles, compare_written
from mprun.engines.agent_process import RunProgress
from mprun.errors import MprunError, SpecError
from mprun.inputs.keys.experiment import RUNS
from mprun.inputs.loading import load
from mprun.metrics.comparison import ComparedMetric, compare, compare_expectations
from mprun.metrics.statistics import CONFIDENCE
from mprun.model.codec import canonical_json
from mprun.model.engine_name import DEFAULT_ENGINE, EngineName
from mprun.model.frozen import Frozen
from mprun.model.permission import Consent
from mprun.model.run_files import Build, RunEnvironment
from mprun.model.spec import Spec
from mprun.model.sweep_files import SweepRecord
from mprun.runs.difference import CAPTURES, SUMMARY, first_difference, has_captures, sort_summary
from mprun.runs.place import Place, choose_place, find_kernel, refuse_commands, refuse_machine_kernel
from mprun.runs.repetition import find_other_makers, repeat
from mprun.safety.folder import Folder
from mprun.safety.text import plain
from mprun.storage.run_directory import KERNEL_LOG, RESOLVED_EXPERIMENT, RESOLVED_TOPOLOGY, RunDirectory
from mprun.storage.sweep_directory import ALONE, Kept, ResultDirectory, SweepDirectory, runs_by_place
from mprun.sweeps.execution import slots_for
from mprun.sweeps.executor import run_all
from mprun.sweeps.local import LocalExecutor
from mprun.sweeps.operands import read_operands
from mprun.sweeps.study import name_folder
from mprun.sweeps.sweep_summary import find_missing, write_summary
from mprun.sweeps.worker import Job, settle

Closeness = Literal["identical", "within", "different"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+=,%-]{0,200}")
_RUN_MEMBER = re.compile(rf"runs/{_NAME.pattern}/[1-9][0-9]{{0,8}}")
# Files besides the artifacts that a repetition on an equal machine makes again.
_SAME = ("plan.json", "environment.json", "inputs/files/*", f"tables/{KERNEL_LOG}.parquet")


class ReproducedRun(Frozen):
    """The outcome of running a bundle again.

    - closeness: `identical` if every artifact is equal byte by byte; `within` if the metrics of repeated runs differ by
      no more than chance; else `different`.
    - identical, runs: the number of identical runs, and of all runs.
    - differences: the first different artifact of each run.
    - facts: known differences of kernel and tools.
    - compared: metrics that differ, if this can be measured.
    - main: the metrics that the experiment shows or expects, in the original and now.
    - failures: the reasons why runs could not be repeated.
    - unproven: members of the bundle that the repetition does not prove.
    - written: the files of the bundle as written, against what ran.
    """

    closeness: Closeness
    path: Path
    identical: int
    runs: int
    differences: Sequence[str] = ()
    facts: Mapping[str, tuple[object, object]] = field(default_factory=dict)
    compared: Sequence[ComparedMetric] = ()
    main: Sequence[ComparedMetric] = ()
    failures: Sequence[str] = ()
    unproven: Sequence[str] = ()
    written: WrittenFiles = WrittenFiles()


class Original(Frozen):
    """Runs to repeat.

    - artifacts: of a bundle: for each run, by its place in the archive, digests by name. None: the files of the runs
      are compared themselves.
    - missing: what an incomplete sweep lacks.
    """

    source: ResultDirectory
    artifacts: Mapping[str, Mapping[str, str]] | None = None
    missing: str | None = None

    @property
    def is_bundle(self) -> bool:
        return self.artifacts is not None

    def find_difference(self, place: str, again: RunDirectory) -> str | None:
        """Return the first artifact in which the repetition of the run at a place differs; None if all are equal."""
        if self.artifacts is None:
            return first_difference(RunDirectory(self.source.folder.below(place)), again)
        artifacts = self.artifacts.get(place)
        if not artifacts:
            return "the bundle has no digests of it"
        made = set(again.artifacts())
        if not has_captures(artifacts):
            # a sweep that kept no captures
            made = {name for name in made if not name.startswith(CAPTURES)}
        for name, digest in sorted(artifacts.items()):
            if name not in made:
                return f"{name} is not there"
            # an earlier version sorted the keys of the summary
            is_sorted = name == SUMMARY and hashlib.sha256(sort_summary(again)).hexdigest() == digest
            if digest_of(again, name) != digest and not is_sorted:
                return f"{name} differs"
        extra = min(made - artifacts.keys(), default=None)
        return None if extra is None else f"{extra} is not among the bundle's artifacts"

    def find_unproven(self, made: Mapping[str, RunDirectory]) -> tuple[str, ...]:
        """Return the members of a bundle that repetitions do not prove. made: the repetitions by place.

        Such a member is neither an artifact of a repeated run nor equal to the file of its repetition.
        """
        if self.artifacts is None:
            return ()
        bundle, proven = self.source.folder, {ARTIFACTS}
        for place, run in made.items():
            # the run follows from its resolved inputs
            resolved = (f"inputs/{name}" for name in (RESOLVED_TOPOLOGY, RESOLVED_EXPERIMENT))
            proven |= {str(PurePosixPath(place, name)) for name in (*self.artifacts.get(place, {}), *resolved)}
            for name in (one for pattern in _SAME for one in run.folder.find(pattern)):
                member = str(PurePosixPath(place, name))
                if bundle.has(member) and bundle.read_bytes(member) == run.folder.read_bytes(name):
                    proven.add(member)
        return tuple(name for name in bundle.find("**/*") if name not in proven)


def open_original(source: ResultDirectory) -> Original:
    """Return the runs of a directory. Raises SpecError for a sweep without a run to repeat."""
    if source.folder.has(ARTIFACTS):
        raise SpecError(f"{source.path} is an unpacked bundle, which lacks parts of its runs: name the zip file")
    if isinstance(source, RunDirectory):
        return Original(source)
    runs = [kept.run for kept in source.runs()]
    if not runs:
        raise SpecError(f"{source.path}: none of its runs has ended: there is nothing to repeat")
    _refuse_errors(str(source.path), runs)
    return Original(source, None, find_missing(source.record, source.runs()))


def open_bundle(archive: Path, scratch: Path) -> Original:
    """Unpack an archive below a folder. Raises SpecError for a file that is no bundle, or that is not safe."""
    room = Folder(scratch)
    folder = room.make("unpacked")
    unpack(archive, folder.path)
    try:
        kind, name, artifacts = RunDirectory(folder).read(ARTIFACTS, Artifacts)
    except (OSError, MprunError):
        raise SpecError(f"{archive}: no bundle of mprun: it has no {ARTIFACTS} that can be read") from None
    if not _NAME.fullmatch(name):
        raise SpecError(f"{archive}: its name is no name of a run: {name[:60]!r}")
    room.move("unpacked", name)
    path = scratch / name
    _prove_members(archive, RunDirectory(path), artifacts)
    if kind == "run":
        if artifacts.keys() != {ALONE}:
            raise SpecError(f"{archive}: {ARTIFACTS} is not that of one run")
        _check_run(archive, RunDirectory(path))
        # a repetition of a sweep reads no plan
        RunDirectory(path).plan()
        return Original(RunDirectory(path), artifacts)
    sweep = SweepDirectory(path)
    _check_sweep(archive, sweep)
    runs = runs_by_place(sweep)
    if not runs:
        raise SpecError(f"{archive}: it holds no run")
    if runs.keys() != artifacts.keys():
        odd = min(runs.keys() ^ artifacts.keys())
        raise SpecError(f"{archive}: {ARTIFACTS} does not name its runs: {plain(odd)[:80]!r}")
    for run in _refuse_errors(str(archive), runs.values()):
        _check_run(archive, run)
    return Original(sweep, artifacts, find_missing(sweep.record, sweep.runs()))


def _refuse_errors(name: str, runs: Iterable[RunDirectory]) -> list[RunDirectory]:
    """Return the runs that came to their end; the others may have no other files. Raises SpecError if none did."""
    ended = [run for run in runs if run.summary().status != "error"]
    if not ended:
        raise SpecError(f"{name}: all its runs ended with an error: there is nothing to compare with")
    return ended


def _prove_members(archive: Path, whole: RunDirectory, artifacts: Mapping[str, Mapping[str, str]]) -> None:
    """Compare each artifact with its digest. Raises SpecError for an artifact without a digest or with another one."""
    for place, digests in artifacts.items():
        if place != ALONE and not _RUN_MEMBER.fullmatch(place):
            raise SpecError(f"{archive}: {ARTIFACTS} names no run: {plain(place)[:80]!r}")
        run = RunDirectory(whole.folder.below(place))
        for name in run.artifacts():
            if name not in digests:
                raise SpecError(f"{archive}: {ARTIFACTS} does not name {place}/{name}: the bundle was changed")
        for name, digest in digests.items():
            if run.has(name) and digest_of(run, name) != digest:
                raise SpecError(
                    f"{archive}: {place}/{plain(name)} is not what {ARTIFACTS} says: the bundle was changed or damaged"
                )


def _check_run(archive: Path, run: RunDirectory) -> None:
    """Check that the files that are read exist and can be parsed. Their content is not trusted."""
    for name in (RESOLVED_TOPOLOGY, RESOLVED_EXPERIMENT):
        if not run.has(f"inputs/{name}"):
            raise SpecError(f"{archive}: a run has no inputs/{name}")
    run.environment()
    run.summary()


def _check_sweep(archive: Path, sweep: SweepDirectory) -> None:
    """Check that folders of cells are named after their values and do not lead elsewhere. Raises SpecError."""
    record = sweep.record
    for cell in record.cells:
        if cell.folder != name_folder(tuple(cell.values.items())):
            raise SpecError(f"{archive}: cell {cell.folder[:60]!r} is not named after its values")
        if not RUNS.minimum <= cell.repeat.least <= cell.repeat.most <= RUNS.maximum:
            raise SpecError(f"{archive}: its sweep.json is not that of a sweep")
    if not re.fullmatch("[0-9a-f]{64}", record.digest):
        raise SpecError(f"{archive}: its sweep.json is not that of a sweep")
    if not _NAME.fullmatch(record.title):
        raise SpecError(f"{archive}: its title is no title of a sweep: {record.title[:60]!r}")


def choose_engine(original: Original, asked: EngineName | None) -> tuple[EngineName, str]:
    """Return the engine for the repetition, and the reason.

    asked: the engine that the user named. None: the engine of a run; for a bundle or a sweep the virtual engine, if all
    runs used it. Raises SpecError if this would be this machine's kernel, which only the user may choose.
    """
    if asked is not None:
        return asked, "as asked"
    source, reason = original.source, "as it ran then"
    if isinstance(source, RunDirectory) and not original.is_bundle:
        engine = source.environment().engine
        refuse_machine_kernel(engine, "auto")
        return engine, reason
    runs = [source] if isinstance(source, RunDirectory) else [kept.run for kept in _ended(source)]
    if any(run.environment().engine != DEFAULT_ENGINE for run in runs):
        raise SpecError(
            "it did not run in the virtual engine alone: add --engine real to run it on this machine's kernel, or "
            "--engine virtual for simulated time"
        )
    return DEFAULT_ENGINE, reason


class Reproduction(Frozen):
    """The way in which runs are run again.

    - parent: the folder of the new runs.
    - kernel: for the virtual engine. None: the original kernel if it is built here, else `default`.
    - jobs: the number of runs at once; None for one for each CPU.
    """

    parent: Path
    engine: EngineName
    kernel: str | None
    consent: Consent
    progress: RunProgress
    jobs: int | None = None


def reproduce(original: Original, how: Reproduction) -> ReproducedRun:
    """Run the originals again, and judge the results.

    The written files of a bundle must give what ran, unless another version of mprun made the bundle. Raises SpecError
    or MachineError if nothing can be run, RunError if a single run cannot be repeated.
    """
    source = original.source
    if isinstance(source, SweepDirectory):
        done = _reproduce_sweep(original, source, how)
    else:
        done = _reproduce_run(original, source, how)
    if not original.is_bundle:
        return done
    how.progress("comparing the files", 1.0, "")
    written = compare_written(source)
    unproven = [name for name in done.unproven if not written.says_of(name)]
    is_other = bool(written.lines) and "mprun" not in done.facts
    return replace(done, written=written, unproven=unproven, closeness="different" if is_other else done.closeness)


def _reproduce_run(original: Original, source: RunDirectory, how: Reproduction) -> ReproducedRun:
    again = repeat(source, how.parent, how.engine, how.kernel, how.consent, how.progress)
    facts = find_other_makers(source.environment(), again.environment())
    difference = original.find_difference(ALONE, again)
    unproven = original.find_unproven({ALONE: again})
    # a directory may have been written by a version whose summary was another, or damaged
    everything = list(compare(*read_operands(source, again).cells)) if source.has("summary.json") else []
    main = _choose_main(everything, [load(*source.resolved_inputs).spec])
    if difference is None:
        return ReproducedRun("identical", again.path, 1, 1, facts=facts, main=main, unproven=unproven)
    compared = [one for one in everything if one.tendency != "same"]
    return ReproducedRun("different", again.path, 0, 1, [difference], facts, compared, main, unproven=unproven)


def _choose_main(compared: Sequence[ComparedMetric], specs: Iterable[Spec]) -> list[ComparedMetric]:
    """Return the metrics that experiments show or expect."""
    experiments = [spec.experiment for spec in specs]
    names = {name for one in experiments for name in (*one.show, *(bound.metric for bound in one.expectations))}
    return [one for one in compared if one.metric in names]


def _reproduce_sweep(original: Original, source: SweepDirectory, how: Reproduction) -> ReproducedRun:
    tasks = dict(_read_tasks(source, how))
    executor = LocalExecutor(slots_for({how.engine}, how.jobs))
    again = SweepDirectory.create(how.parent, _record(source, tasks), source.inputs())
    failures: list[str] = []
    differences: dict[str, str] = {}
    facts: dict[str, tuple[object, object]] = {}
    made: dict[str, RunDirectory] = {}
    done = 0

    def make_jobs() -> Iterator[tuple[str, Job]]:
        for name, task in tasks.items():
            warnings, told = tuple(task.environment.warnings), task.environment.parameters
            place = (task.place.name, task.kernel, again.begin(name))
            yield name, Job(task.spec, warnings, *place, "pcaps", how.consent, parameters=told)

    def look() -> None:
        how.progress("running again", done / len(tasks), f"{done} of {len(tasks)} runs")

    with again.held(), ExitStack() as at_end:
        at_end.callback(again.tidy)
        at_end.callback(executor.close)
        for name, job, reproduced in run_all(executor, partial(next, make_jobs(), None), look):
            settle(job, reproduced)
            run = again.finish(job.directory, name)
            done += 1
            if reproduced.status == "error":
                failures.append(f"{name}: {reproduced.error}")
                continue
            made[f"runs/{name}"] = run
            difference = original.find_difference(f"runs/{name}", run)
            if difference is not None:
                differences[name] = difference
            facts |= find_other_makers(tasks[name].environment, run.environment())
    write_summary(again)
    unproven = original.find_unproven(made)
    same = len(tasks) - len(differences) - len(failures)
    told = [f"{name}: {text}" for name, text in sorted(differences.items())]
    operands = read_operands(source, again)
    everything = list(compare(*operands.cells))
    main = _choose_main(everything, (task.spec for task in tasks.values()))
    if same == len(tasks):
        return ReproducedRun("identical", again.path, same, len(tasks), facts=facts, main=main, unproven=unproven)
    count = len(everything)
    # With this many intervals at 95 %, some would exclude zero by chance. All together must hold with 95 %.
    compared = [one for one in compare(*operands.cells, 1 - (1 - CONFIDENCE) / max(count, 1)) if one.tendency != "same"]
    worse = any(one.is_worse for one in compare_expectations(*operands.cells))
    is_clear = worse or failures or any(one.tendency != "unclear" for one in compared)
    closeness: Closeness = "different" if is_clear else "within"
    shown = [one for one in compared if one.tendency != "unclear"]
    return ReproducedRun(closeness, again.path, same, len(tasks), told, facts, shown, main, failures, unproven)


class _Task(Frozen):
    """A run: its cell, its experiment, its original environment, and its place now."""

    cell: int
    spec: Spec
    environment: RunEnvironment
    place: Place
    kernel: str


def _read_tasks(original: SweepDirectory, how: Reproduction) -> Iterator[tuple[str, _Task]]:
    """Yield the tasks by their places below the runs of the sweep. Raises SpecError or MachineError.

    The commands of the first run of each cell need consent before the other runs are read, and so do all in the end.
    """
    ended = sorted(_ended(original), key=lambda kept: kept.number)
    specs: list[Spec] = []
    for _, alike in groupby(ended, lambda kept: kept.number):
        asked = len(specs)
        for kept in alike:
            how.progress("reading", len(specs) / len(ended), f"{len(specs)} of {len(ended)} runs")
            specs.append(load(*kept.run.resolved_inputs).spec)
        refuse_commands(specs[asked:], how.consent, how.engine)
    for kept, spec in zip(ended, specs, strict=True):
        name = kept.directory.removeprefix("runs/")
        environment = kept.run.environment()
        chosen = how.kernel or find_kernel(environment, how.engine)
        yield name, _Task(kept.cell, spec, environment, choose_place(how.engine, chosen), chosen)


def _ended(sweep: SweepDirectory) -> Iterator[Kept]:
    return (kept for kept in sweep.runs() if kept.summary.status != "error")


def _record(original: SweepDirectory, tasks: Mapping[str, _Task]) -> SweepRecord:
    """Return the record of the new sweep, with the engines and kernels of its cells now.

    The record has a digest that no sweep of files has. Such a sweep must not resume this one: the runs are those of the
    bundle, some may be missing, and the kernels may differ.
    """
    before = original.record
    kernels = {
        task.kernel: Build(task.place.kernel.version, task.place.kernel.digest)
        for task in tasks.values()
        if task.place.kernel
    }
    cells = list(before.cells)
    for task in tasks.values():
        cells[task.cell] = cells[task.cell]._replace(engine=task.place.name, kernel=task.kernel)
    digests = {name: {"version": kernel.version, "digest": kernel.digest} for name, kernel in kernels.items()}
    digest = hashlib.sha256(canonical_json(["reproduced", before.digest, digests]).encode()).hexdigest()
    return before._replace(digest=digest, kernels=kernels, cells=tuple(cells))
