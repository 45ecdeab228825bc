# SPDX-License-Identifier: Apache-2.0
"""Find the commit that changed the result of an experiment.

A commit is tested by a build and one run. In simulated time a run repeats exactly, so one run decides, whatever the
size of the change. Each test halves the commits that can be told apart. git-bisect(1) counts all commits, also those
that cannot be tested, so it may need more builds if there are any.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Literal

from mprun.engines.agent_process import RunProgress
from mprun.errors import RunError, SpecError, refusing
from mprun.inputs.experiment import metric_of
from mprun.inputs.loading import Loaded
from mprun.kernel.patch import UnfitTree
from mprun.labs.steps import measured_by
from mprun.metrics.claim_check import find_value
from mprun.model.engine_name import EngineChoice
from mprun.model.frozen import Frozen
from mprun.model.metric import SYMBOLS, UNITS, Metric
from mprun.model.permission import Consent
from mprun.model.run_summary import Summary
from mprun.model.spec import ExperimentSpec
from mprun.model.units import format_measured
from mprun.questions.built_version import BuildSubject, OwnProgram
from mprun.questions.repository import History
from mprun.runs import runner
from mprun.runs.place import choose_place_of
from mprun.statements.claim import column_unit, refuse_stray, split_table
from mprun.statements.evaluation import check, evaluate
from mprun.statements.expression import Expression, ExpressionError, Reference, Value, parse
from mprun.storage.run_directory import RunDirectory

BisectTerm = Literal["good", "bad", "skip"]


class CommitSearch(Frozen):
    """The end of a search.

    - suspects: the commits of which one is the first bad commit, oldest first. The last one is bad.
    - tested: the verdicts in the order of the tests.
    """

    suspects: tuple[str, ...]
    tested: tuple[tuple[str, BisectTerm], ...]


def search(
    history: Sequence[str], parents: Mapping[str, Sequence[str]], test: Callable[[str], BisectTerm]
) -> CommitSearch:
    """Find the first bad commit of a history whose last commit is bad.

    history: the commits after the good one, each after its parents. parents: of each commit; a parent outside of the
    history is good. test: builds and judges a commit.
    """
    order = {commit: number for number, commit in enumerate(history)}
    # for each commit the set of itself and its ancestors in the history, as bits
    with_ancestors: list[int] = []
    for number, commit in enumerate(history):
        bits = 1 << number
        for parent in parents[commit]:
            bits |= with_ancestors[order[parent]] if parent in order else 0
        with_ancestors.append(bits)
    suspects, skipped = with_ancestors[-1], 0
    known_bad = len(history) - 1
    tested: list[tuple[str, BisectTerm]] = []
    while True:
        open_to_test = [n for n in _bits(suspects & ~skipped) if n != known_bad]
        if not open_to_test:
            return CommitSearch(tuple(history[n] for n in _bits(suspects)), tuple(tested))
        distinct = suspects & ~skipped
        total = distinct.bit_count()

        def least_left(number: int, distinct: int = distinct, total: int = total) -> int:
            below = (with_ancestors[number] & distinct).bit_count()
            return min(below, total - below)

        chosen = max(open_to_test, key=least_left)
        term = test(history[chosen])
        tested.append((history[chosen], term))
        if term == "bad":
            suspects &= with_ancestors[chosen]
            known_bad = chosen
        elif term == "good":
            suspects &= ~with_ancestors[chosen]
        else:
            skipped |= 1 << chosen


def _bits(bits: int) -> list[int]:
    return [number for number in range(bits.bit_length()) if bits >> number & 1]


# The name of the run in a statement about a single run, which does not write it.
_RUN = "run"


class Answer(Frozen):
    """The outcome of one commit.

    - figures: the values that the verdict depends on, by name.
    - run: the directory of the run; None if there is none.
    - reason: why a commit was skipped, or why a run without figures is bad.
    """

    term: BisectTerm
    figures: Mapping[str, Value] = field(default_factory=dict)
    run: Path | None = None
    reason: str = ""


JudgeVersion = Callable[[str], Answer]
TellAnswer = Callable[[str, Answer], None]


class Bisected(Frozen):
    """A finished search.

    - found: the suspects and the verdicts between the ends.
    - before: the newest tested commit before the suspects. Its answer is good.
    - answers: of all tested commits.
    """

    found: CommitSearch
    before: str
    answers: Mapping[str, Answer]

    @property
    def after(self) -> str:
        """The first commit that is known to be bad."""
        return self.found.suspects[-1]

    @property
    def builds(self) -> int:
        """The number of commits between the ends that were built and run."""
        return sum(term != "skip" for _, term in self.found.tested)

    @property
    def skipped(self) -> int:
        return len(self.found.tested) - self.builds


def bisect(history: History, test: JudgeVersion, tell: TellAnswer) -> Bisected:
    """Test both ends of a history, and then commits between them until the first bad commit is found.

    tell: gets each tested commit and its answer. Raises SpecError if an end is not what it should be.
    """
    answers: dict[str, Answer] = {}

    def answer(commit: str) -> Answer:
        answers[commit] = test(commit)
        tell(commit, answers[commit])
        return answers[commit]

    for commit, wanted in ((history.good, "good"), (history.bad, "bad")):
        given = answer(commit)
        if given.term != wanted:
            what = f"is {given.term}" if given.term != "skip" else "cannot be tested"
            reason = f": {given.reason}" if given.reason else _tell_figures(given)
            raise SpecError(f"the {wanted} commit {history.describe(commit)} {what}{reason}")
    found = search(history.commits, history.parents, lambda commit: answer(commit).term)
    return Bisected(found, _before(history, found), answers)


def _tell_figures(answer: Answer) -> str:
    figures = answer.figures.items()
    told = ", ".join(f"{name} = {format_measured(value.amount, SYMBOLS[value.unit])}" for name, value in figures)
    return f": {told}" if told else ""


def _before(history: History, found: CommitSearch) -> str:
    """Return the newest commit that is known to be good: the nearest tested ancestor of the suspects, or the end."""
    good = {commit for commit, term in found.tested if term == "good"}
    waiting = list(history.parents[found.suspects[0]])
    seen: set[str] = set()
    while waiting:
        commit = waiting.pop(0)
        if commit in good:
            return commit
        if commit in history.parents and commit not in seen:
            seen.add(commit)
            waiting += history.parents[commit]
    return history.good


def read_statement(text: str | None) -> Expression | None:
    """Parse `--fail-if`. Raises SpecError."""
    if text is None:
        return None
    with refusing("--fail-if", ExpressionError):
        return parse(text)


def check_names(fail_if: Expression, experiment: ExperimentSpec) -> None:
    """Check the names and units of a statement before any run of an experiment. Raises SpecError."""

    def find(reference: Reference) -> Metric | Value:
        table = split_table(reference.within(_RUN))
        refuse_stray(reference, table)
        return metric_of(reference.name, experiment) if table is None else Value((), column_unit(table[1])[0])

    with refusing("--fail-if", ExpressionError):
        check(fail_if, find)


def read_true_statement(text: str | None, run: RunDirectory, summary: Summary) -> Expression | None:
    """Parse `--fail-if` about a run that exists. Raises SpecError, also if the statement is not true in it."""
    statement = read_statement(text)
    if statement is None:
        return None
    answer = judge_run(run, summary, statement)
    if answer.term != "bad":
        reason = f" ({answer.reason})" if answer.reason else _tell_figures(answer)
        raise SpecError(f"--fail-if: '{text}' is not true in {run.name}{reason}: write a statement that is true in it")
    return statement


def judge_run(run: RunDirectory, summary: Summary, fail_if: Expression | None) -> Answer:
    """Judge a run: bad if the statement is true, or without a statement if the run failed.

    Raises SpecError if the statement has no value, because no commit could then be judged.
    """
    if fail_if is None:
        values = {
            one.metric: Value((one.value,), UNITS[summary.metrics[one.metric].unit])
            for one in summary.expectations
            if one.value is not None and one.metric in summary.metrics
        }
        reason = "; ".join((*summary.errors, *summary.failures))
        return Answer("good" if summary.status == "passed" else "bad", values, run.path, reason)
    if summary.errors:
        return Answer("skip", {}, run.path, f"the run failed: {summary.errors[0]}")
    measured = {_RUN: measured_by(run)}
    with refusing("--fail-if", ExpressionError):
        outcome = evaluate(fail_if, lambda reference: find_value(reference.within(_RUN), measured))
    return Answer("bad" if outcome.is_true else "good", dict(outcome.measured), run.path)


def attempt(build: Callable[[], None], run: Callable[[], Answer], fail_if: Expression | None) -> Answer:
    """Build and run a commit. A tree that does not build, or in which hooks do not fit, is skipped.

    A run that ends with an error, such as a kernel that dies, is bad without a statement, and skipped with one.
    """
    try:
        build()
    except (RunError, UnfitTree) as error:
        return Answer("skip", reason=_first_line(error))
    try:
        return run()
    except RunError as error:
        return Answer("bad" if fail_if is None else "skip", reason=_first_line(error))


def _first_line(error: Exception) -> str:
    return str(error).split("\n", 1)[0]


class Experiment(Frozen):
    """An experiment, and how each version runs it.

    - load: reads the files with more parameters.
    - parent: the folder of the runs.
    """

    load: Callable[[Mapping[str, str]], Loaded]
    engine: EngineChoice
    parent: Path
    consent: Consent


def test(
    asked: Experiment, subject: BuildSubject, tree: Path, fail_if: Expression | None, progress: RunProgress
) -> Answer:
    """Build the version in `tree` and run it. Raises SpecError or MachineError for what each version would have."""

    # the files for a program may need its build
    if fail_if is not None and not isinstance(subject, OwnProgram):
        check_names(fail_if, asked.load(subject.parameters).spec.experiment)

    def run() -> Answer:
        loaded = asked.load(subject.parameters)
        values = dict(loaded.values)
        if not isinstance(subject, OwnProgram):
            # the kernel of a matrix is not the one that was built
            values.pop("kernel", None)
        place = choose_place_of(values.items(), asked.engine, subject.kernel)
        request = runner.make_request(loaded, place, asked.consent)
        directory, summary = runner.run_request(request, asked.parent, progress)
        return judge_run(directory, summary, fail_if)

    return attempt(lambda: subject.build(tree, lambda text, done: progress(text, done, "")), run, fail_if)
