# SPDX-License-Identifier: Apache-2.0
"""Find the smallest files with the failure of a run. Each candidate is decided by one run."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from dataclasses import field
from pathlib import Path

from mprun.compile import allocate, compile_plan
from mprun.engines.agent_process import RunProgress
from mprun.errors import MachineError, MprunError, RunError, SpecError
from mprun.inputs.keys.field import DEFAULT_SEED
from mprun.inputs.loading import load, read_plain
from mprun.inputs.rendering import spell_file
from mprun.machine.scratch import scratch
from mprun.model.frozen import Frozen
from mprun.model.permission import Consent
from mprun.model.run_files import LABEL
from mprun.model.run_summary import ExpectationVerdict, Summary
from mprun.model.units import format_measured
from mprun.questions.bisect import judge_run
from mprun.questions.faulted_run import without_numbers
from mprun.questions.reduction import ValueTree, reduce
from mprun.runs import runner
from mprun.runs.place import Place, refuse_commands
from mprun.safety.folder import Folder
from mprun.statements.expression import Expression
from mprun.storage.run_directory import RESOLVED_EXPERIMENT, RESOLVED_TOPOLOGY, RunDirectory

# A smaller case must miss its bound by a share of the run's own miss between these. Otherwise, it could fail for
# another reason, such as a run that has become too short.
LEAST_MISS, MOST_MISS = 0.5, 2.0


class RunFailure(Frozen):
    """The failure to keep.

    - text: for people.
    - metric, bounds: of an expectation; the bounds as in `summary.json`.
    - miss: the distance of the value from the nearest bound.
    - message: a reported failure or error, without its numbers.
    """

    text: str
    metric: str = ""
    bounds: tuple[float | None, ...] = ()
    miss: float = 0.0
    message: str = ""


def find_failure(summary: Summary) -> RunFailure:
    """Return the first unmet expectation with a value, or else the first failure or error. Raises SpecError."""
    for one in summary.expectations:
        miss = _miss(one)
        if miss is not None:
            told = format_measured(*summary.metrics[one.metric])
            return RunFailure(f"{one.metric} is {told}", one.metric, _bounds(one), miss)
    for text in (*summary.failures, *summary.errors):
        return RunFailure(text, message=without_numbers(text))
    raise SpecError("this run did not fail: name a run that did, or state what to keep with --fail-if")


def _bounds(verdict: ExpectationVerdict) -> tuple[float | None, ...]:
    return verdict.minimum, verdict.maximum, verdict.equals


def _miss(verdict: ExpectationVerdict) -> float | None:
    """Return how far the value of an unmet expectation is from its bound; None if it is met or has no value."""
    if verdict.held or verdict.value is None:
        return None
    value: float = verdict.value
    return min(abs(value - bound) for bound in _bounds(verdict) if bound is not None)


def shows(failure: RunFailure, summary: Summary) -> bool:
    """Return whether a run has the same failure."""
    if failure.message:
        return failure.message in {without_numbers(text) for text in (*summary.failures, *summary.errors)}
    if summary.errors:
        return False
    for one in summary.expectations:
        if (one.metric, _bounds(one)) == (failure.metric, failure.bounds):
            miss = _miss(one)
            return miss is not None and LEAST_MISS * failure.miss <= miss <= MOST_MISS * failure.miss
    return False


def has_failed(failure: RunFailure, summary: Summary) -> bool:
    """Return whether a run has the failure, by however much."""
    if failure.message:
        return shows(failure, summary)
    verdicts = [one for one in summary.expectations if (one.metric, _bounds(one)) == (failure.metric, failure.bounds)]
    return not summary.errors and any(not one.held for one in verdicts)


def read_files(run: RunDirectory, work: Path) -> ValueTree:
    """Return the files of a run as one tree, from a copy of its inputs in `work`.

    The user's own files are taken if they are two files that mean the run, or else the resolved ones.
    """
    folder = Folder(work)
    for name in run.folder.find("inputs/**/*"):
        inside = name.removeprefix("inputs/")
        if "/" in inside:
            folder.make(inside.rpartition("/")[0])
        folder.write_bytes(inside, run.folder.read_bytes(name))
    environment = run.environment()
    seed = run.plan().seed
    parameters = {name: str(value) for name, value in environment.parameters.items() if name != LABEL}
    own = [name for name in run.inputs() if name not in (RESOLVED_TOPOLOGY, RESOLVED_EXPERIMENT)]
    tree = None
    for pair in itertools.permutations(own, 2) if len(own) == 2 else ():
        try:
            found = read_plain(work / pair[0], work / pair[1], parameters, seed)
            if digest_of(found, work) == run.digest:
                tree = found
        except MprunError:
            continue
    if tree is None:
        run.resolved_inputs  # noqa: B018 (it names a file that is missing)
        tree = read_plain(work / RESOLVED_TOPOLOGY, work / RESOLVED_EXPERIMENT, {}, seed)
    return tree


def read_with_seed(run: RunDirectory, work: Path) -> ValueTree:
    """Return the files of a run as `read_files` does, with the run's seed if it is not the default."""
    tree = read_files(run, work)
    seed = run.plan().seed
    if seed != DEFAULT_SEED:
        drawn = tree["experiment"].get("repeat") or {}
        tree["experiment"]["repeat"] = {"seed": seed} | {key: drawn[key] for key in ("vary", "reseed") if key in drawn}
    return tree


def write_files(tree: ValueTree, target: Path, head: str = "") -> tuple[Path, Path]:
    folder = Folder(target)
    names = ("topo.yaml", "xp.yaml")
    for name, kind in zip(names, ("topology", "experiment"), strict=True):
        folder.write_text(name, head + spell_file(tree[kind]))
    return target / names[0], target / names[1]


def digest_of(tree: ValueTree, folder: Path) -> str:
    """Return the digest of the plan of a tree's files. Raises SpecError if they are no valid files."""
    spec = load(*write_files(tree, folder)).spec
    return compile_plan(spec, allocate(spec)).digest


@dataclasses.dataclass
class Oracle:
    """Decides by one run whether files still fail.

    - work: the folder for their files, with the inputs of the run.
    - control: the place where the same files must not fail; None for no such run.
    - fail_if: instead of the failure: a statement that must be true.
    - budget: the largest number of runs.
    - runs, tested: the number of runs, and of files, so far.
    """

    place: Place
    control: Place | None
    work: Path
    failure: RunFailure | None
    fail_if: Expression | None
    consent: Consent
    budget: int
    progress: RunProgress
    runs: int = 0
    tested: int = 0
    _known: dict[str, bool] = field(default_factory=dict)

    @property
    def is_spent(self) -> bool:
        return self.runs >= self.budget

    def fails(self, tree: ValueTree) -> bool:
        """Return whether the files of a tree have the failure. Files that are not valid do not, without a run."""
        self.tested += 1
        try:
            digest = digest_of(tree, self.work)
        except (SpecError, MachineError):
            return False
        # expectations are no part of a digest
        key = f"{digest} {tree['experiment'].get('expect')}"
        if key not in self._known:
            if self.is_spent:
                return False
            self._known[key] = self._is_failure(self.place, shows) and (
                self.control is None or not self._is_failure(self.control, has_failed, is_error=True)
            )
        return self._known[key]

    def _is_failure(
        self, place: Place, is_shown: Callable[[RunFailure, Summary], bool], is_error: bool = False
    ) -> bool:
        """Return whether a run of the files fails. is_error: the value for a run that proves nothing."""
        self.runs += 1
        self.progress("testing", 0, f"run {self.runs} of {self.budget} at most")
        loaded = load(self.work / "topo.yaml", self.work / "xp.yaml")
        request = runner.RunRequest(loaded.spec, place, consent=self.consent)
        with scratch("mprun-minimise-") as folder:
            try:
                run, summary = runner.run_request(request, folder, lambda *_: None)
            except (SpecError, MachineError):
                return is_error
            except RunError as error:
                message = self.failure.message if self.failure is not None else ""
                return message == without_numbers(str(error)) if message else is_error
            if self.failure is not None:
                return is_shown(self.failure, summary) or (is_error and bool(summary.errors))
            try:
                term = judge_run(run, summary, self.fail_if).term
            except SpecError:
                # what the statement names was removed
                return is_error
            return is_error if term == "skip" else term == "bad"


class Minimal(Frozen):
    """The smallest files. lines: of the files before and after. is_whole: the search was not cut short."""

    tree: ValueTree
    lines: tuple[int, int]
    runs: int
    tested: int
    is_whole: bool


def minimise(
    run: RunDirectory,
    place: Place,
    fail_if: Expression | None,
    consent: Consent,
    budget: int,
    progress: RunProgress,
    tell: Callable[[RunFailure | None], None],
    control: Place | None,
) -> Minimal:
    """Return the smallest files with the failure of a run.

    tell: gets this failure before the first run. control: a place where the files must not fail. Raises SpecError if
    the run did not fail or does not fail again, or if the user does not consent to its commands.
    """
    summary = run.summary()
    failure = None if fail_if is not None else find_failure(summary)
    tell(failure)
    with scratch("mprun-minimise-") as work:
        tree = read_with_seed(run, work)
        refuse_commands([load(*write_files(tree, work)).spec], consent, place.name)
        oracle = Oracle(place, control, work, failure, fail_if, consent, budget, progress)
        if not oracle.fails(tree):
            # the control runs only after a failure
            again, too = "do not show this failure when they are run again", "fail on the control kernel too"
            raise SpecError(f"{run.name}: its files {too if oracle.runs > 1 else again}")
        smallest = reduce(tree, oracle.fails)
        return Minimal(smallest, (_lines(tree), _lines(smallest)), oracle.runs, oracle.tested, not oracle.is_spent)


def _lines(tree: ValueTree) -> int:
    return sum(len(spell_file(tree[name]).splitlines()) for name in ("topology", "experiment"))
