# SPDX-License-Identifier: Apache-2.0
"""The published figures of a lab: their published values, where the measured values come from, and the verdicts. Pure.

A verdict is always computed from the runs. Only the reasons come from the file of the lab.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from mprun.inputs.keys.lab_definition import CheckEntry, FigureEntry
from mprun.labs.published_values import PublishedValue, find_rows
from mprun.metrics.claim_check import MeasuredRun, Swept, find_value
from mprun.model.frozen import dataclass
from mprun.model.metric import SYMBOLS
from mprun.model.problem import ValuePath, name_nearest
from mprun.model.units import format_measured
from mprun.statements.evaluation import Comparison, Evaluation, compute, evaluate
from mprun.statements.expression import Expression, ExpressionError, Reference, UnknownName, Value

Agreement = Literal["agrees", "differs", "not comparable", "not measured here"]
# The first part of the name of a value in a check.
PUBLISHED, HERE = "published", "here"
_WORDS = {"<=": "at most", ">=": "at least", "<": "less than", ">": "more than", "==": "equal to"}


@dataclass(frozen=True)
class FigureValue:
    """A value of a figure. row: the row of `published.csv` with the published value."""

    name: str
    label: str
    row: PublishedValue | None
    here: Expression | None


@dataclass(frozen=True)
class StudyFigure:
    """A published figure or table: its entry in the file of the lab, and its values.

    - picture: a run or sweep, and the name of a figure in its report.
    - says: what was published, without what the checks test.
    """

    entry: FigureEntry
    values: tuple[FigureValue, ...]
    picture: tuple[str, str] | None
    says: str

    @property
    def name(self) -> str:
        return self.entry.name

    @property
    def published(self) -> str:
        return self.entry.published

    @property
    def title(self) -> str:
        return self.entry.title

    @property
    def command(self) -> str:
        """The command that measures a figure that is not measured here."""
        return self.entry.command

    @property
    def source(self) -> str:
        """The name in the publication, such as `Figure 5`; the title for a result of its text."""
        return self.title if self.published == "text" else self.published

    @property
    def verdict(self) -> Agreement | None:
        """The verdict on numbers that are not comparable or not measured; None if all published results have checks."""
        return (
            "not comparable" if self.entry.not_comparable else "not measured here" if self.entry.not_measured else None
        )

    @property
    def steps(self) -> tuple[str, ...]:
        """The names of the runs and sweeps that the figure needs."""
        expressions = [one.here for one in self.values if one.here] + [one.holds for one in self.entry.checks]
        names = [reference.segments[0].name for one in expressions for reference in one.references()]
        shown = [self.picture[0]] if self.picture else []
        shown += [step for _, step in self.drawn_runs]
        return tuple(dict.fromkeys(name for name in (*names, *shown) if name not in (PUBLISHED, HERE)))

    @property
    def drawn_runs(self) -> tuple[tuple[str, str], ...]:
        """The name in the picture and the step of each run of `together`, `binned` and `sequence`."""
        entry = self.entry
        runs = [one.runs.items() for one in (entry.together, entry.binned) if one]
        own = [(entry.sequence.flow, entry.sequence.run)] if entry.sequence else []
        return (*(pair for pairs in runs for pair in pairs), *own)


@dataclass(frozen=True)
class Finding:
    """A verdict on a published result.

    - said: the published result in words.
    - measured: the text of the measured values.
    - reason: for the verdict.
    - is_explained: False for a difference whose reason is not known, and for a check that cannot be decided.
    """

    said: str
    measured: str
    verdict: Agreement
    reason: str
    is_explained: bool = True


@dataclass(frozen=True)
class Drawn:
    """A value of a figure as numbers in base units; None if unknown."""

    label: str
    published: Value | None
    here: Value | None


@dataclass(frozen=True)
class JudgedFigure:
    """A figure with its values and findings."""

    figure: StudyFigure
    values: tuple[Drawn, ...]
    findings: tuple[Finding, ...]


def make_figure(
    entry: FigureEntry, rows: Sequence[PublishedValue], problem: Callable[[ValuePath, str], None]
) -> StudyFigure:
    """Return a figure of the lab's file. problem: gets each key without a row in `published.csv`."""
    named = [row for row in rows if row.figure == entry.published]
    if not named:
        known = dict.fromkeys(row.figure for row in rows)
        message = f"no '{entry.published}' in published.csv{name_nearest(entry.published, known, 'it has')}"
        problem(("published",), message)
    values = []
    for n, value in enumerate(entry.values):
        found = find_rows(rows, entry.published, value.series, value.x) if value.series is not None else []
        if value.series is not None and len(found) != 1 and named:
            what = f"{len(found)} rows" if found else "no row"
            message = f"{what} of {entry.published} in published.csv: write 'series' and 'x' of one"
            problem(("values", n, "series"), message)
        values.append(FigureValue(value.name, value.label or value.name, found[0] if found else None, value.here))
    step, dot, picture = (entry.picture or "").partition(".")
    if entry.picture and not dot:
        problem(("picture",), "names no figure of a run: write STEP.FIGURE")
    says = entry.says or "; ".join(_say_published(values, named))
    return StudyFigure(entry, tuple(values), (step, picture) if dot else None, says)


def judge_figure(
    figure: StudyFigure, runs: Mapping[str, MeasuredRun | Swept], missing: Mapping[str, str]
) -> JudgedFigure:
    """Return the figure with its values and verdicts. missing: the reason why a run of a name does not exist."""
    known: dict[str, Value] = {}
    values = []
    for value in figure.values:
        published = value.row.value if value.row else None
        here = _measure(value.here, runs)
        values.append(Drawn(value.label, published, here))
        known |= {f"{PUBLISHED}.{value.name}": published} if published else {}
        known |= {f"{HERE}.{value.name}": here} if here else {}
    absent = [f"{name}: {missing.get(name, 'was not run')}" for name in figure.steps if name not in runs]

    def resolve(reference: Reference) -> Value:
        if reference.segments[0].name in (PUBLISHED, HERE):
            if reference.name not in known:
                raise UnknownName("has no value")
            return known[reference.name]
        return find_value(reference, runs)

    findings = [_judge(check, absent, resolve, _label_of(figure)) for check in figure.entry.checks]
    if figure.verdict is not None:
        text = "; ".join(f"{one.label}: {spell(one.here)}" for one in values if one.here)
        reason = (figure.entry.not_comparable or figure.entry.not_measured).strip()
        findings.append(Finding(figure.says, text, figure.verdict, reason))
    return JudgedFigure(figure, tuple(values), tuple(findings))


def _measure(expression: Expression | None, runs: Mapping[str, MeasuredRun | Swept]) -> Value | None:
    """Return the value of an expression; None if a run is missing or did not measure a name."""
    if expression is None or any(reference.segments[0].name not in runs for reference in expression.references()):
        return None
    try:
        return compute(expression, lambda reference: find_value(reference, runs))
    except ExpressionError:
        return None


def _judge(
    check: CheckEntry, absent: Sequence[str], resolve: Callable[[Reference], Value], label_of: Callable[[str], str]
) -> Finding:
    if absent:
        return Finding(check.says, "", "not measured here", "; ".join(absent), False)
    try:
        outcome = evaluate(check.holds, resolve)
    except ExpressionError as error:
        return Finding(check.says, "", "not measured here", str(error), False)
    measured = _say_measured(outcome, label_of)
    if outcome.is_true:
        return Finding(check.says, measured, "agrees", check.why.strip())
    failed = "; ".join(_spell(one) for one in outcome.comparisons if not one.is_true)
    known = check.differs.strip()
    reason = known or f"no reason is known: {failed} does not hold"
    return Finding(check.says, measured, "differs", reason, bool(known))


def _say_measured(outcome: Evaluation, label_of: Callable[[str], str]) -> str:
    """Return the measured values of a check. For many runs without labels, return the sides of its comparisons."""
    names = [(name, value) for name, value in outcome.measured if not name.startswith(f"{PUBLISHED}.")]
    labelled = [(name, value) for name, value in names if name.startswith(f"{HERE}.")]
    if labelled or len(names) == 1:
        return "; ".join(f"{label_of(name)}: {spell(value)}" for name, value in labelled or names)
    return "; ".join(map(say_sides, outcome.comparisons))


def say_sides(comparison: Comparison) -> str:
    """Return the sides of a comparison with words between them: `2 Mbit/s, more than 1 Mbit/s`."""
    left, operator, right = format_sides(comparison)
    return f"{left}, {'' if comparison.is_true else 'not '}{_WORDS.get(operator, operator)} {right}"


def _label_of(figure: StudyFigure) -> Callable[[str], str]:
    labels = {f"{HERE}.{value.name}": value.label for value in figure.values}
    return lambda name: labels.get(name, name)


def _say_published(values: Sequence[FigureValue], rows: Sequence[PublishedValue]) -> list[str]:
    """Return the published numbers of a figure's values, or else what was published in words."""
    numbers = [f"{value.label}: {value.row.text}" for value in values if value.row]
    return numbers or list(dict.fromkeys(row.y for row in rows if row.kind == "statement"))


def _spell(comparison: Comparison) -> str:
    return " ".join(format_sides(comparison))


def format_sides(comparison: Comparison) -> tuple[str, str, str]:
    """Return the measured left side, the operator and the measured right side."""
    symbol = SYMBOLS[comparison.unit] if comparison.unit else "1"
    left, right = (format_measured(value, symbol) for value in (comparison.left_amount, comparison.right_amount))
    return left, comparison.operator, right


def spell(value: Value) -> str:
    """Return a measured value for people."""
    return format_measured(value.amount, SYMBOLS[value.unit])
