# SPDX-License-Identifier: Apache-2.0
"""The published figures of a lab: their published values, where the measured values come from, and the verdicts. Pure.

A verdict is always computed from the runs. Only the reasons come from the file of the lab, and their numbers from the
runs. A verdict on runs with several seeds is "undecided" if it changes within their intervals of 95 %. A verdict on one
seed is "undecided" if it changes within the spread that the check states.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, Literal

from mprun.inputs.keys.lab_definition import CheckEntry, FigureEntry
from mprun.labs.published_values import PublishedValue, find_rows
from mprun.metrics.claim_check import find_value
from mprun.metrics.statistics import t_interval
from mprun.model.frozen import Frozen
from mprun.model.metric import SYMBOLS
from mprun.model.problem import ValuePath, name_nearest
from mprun.model.units import format_measured
from mprun.statements.claim import split_table
from mprun.statements.evaluation import Comparison, Evaluation, Resolve, compute, evaluate
from mprun.statements.expression import (
    Expression,
    ExpressionError,
    Reference,
    UnknownName,
    Value,
    parse_value,
)

Agreement = Literal["agrees", "differs", "undecided", "not comparable", "not measured here"]
# The first part of the name of a value in a check.
PUBLISHED, HERE = "published", "here"
_WORDS = {"<=": "at most", ">=": "at least", "<": "less than", ">": "more than", "==": "equal to"}
# The confidence of the intervals of means over seeds.
CONFIDENCE = 0.95
# The most sweeps' values of a check whose intervals are combined.
MOST_INTERVALS = 12
# The most values of a result that is not comparable that are shown in its row.
MOST_SHOWN = 6
# The number of points of each of one or two intervals that are tried. A statement such as abs(a - b) <= c may be true
# inside an interval and false at both ends.
_POINTS = 41
# A measured value in a reason, as in "With 8 MB they carry {large.bulk.goodput}."
QUOTED = re.compile(r"\{([^{}]+)\}")


class FigureValue(Frozen):
    """A value of a figure. row: the row of `published.csv` with the published value."""

    name: str
    label: str
    row: PublishedValue | None
    here: Expression | None


class StudyFigure(Frozen):
    """A published figure or table: its entry in the file of the lab, and its values.

    - picture: a run or sweep, and the name of a figure in its report.
    - says: what was published, without what the checks test.
    - sections: the sections of the publication with the result.
    - has_numbers: True if the publication has numbers of the figure.
    """

    entry: FigureEntry
    values: tuple[FigureValue, ...]
    picture: tuple[str, str] | None
    says: str
    sections: tuple[str, ...] = ()
    has_numbers: bool = False

    @property
    def name(self) -> str:
        return self.entry.name

    @property
    def source(self) -> str:
        """The name in the publication, such as `Figure 5`; the title for a result of its text."""
        return self.entry.title if self.entry.published == "text" else self.entry.published

    @property
    def verdict(self) -> Agreement | None:
        """The verdict on numbers that are not comparable or not measured; None if all published results have checks."""
        return (
            "not comparable" if self.entry.not_comparable else "not measured here" if self.entry.not_measured else None
        )

    @property
    def references(self) -> tuple[Reference, ...]:
        """The names of measured values in its values, checks and reasons."""
        expressions = [one.here for one in self.values if one.here] + [one.holds for one in self.entry.checks]
        expressions += [found for text in self.reasons for found in _find_quoted(text)]
        found = [reference for one in expressions for reference in one.references()]
        return tuple(one for one in found if not _is_of_figure(one))

    @property
    def steps(self) -> tuple[str, ...]:
        """The names of the runs and sweeps that the figure needs."""
        names = [reference.segments[0].name for reference in self.references]
        shown = [self.picture[0]] if self.picture else []
        shown += [step for _, step in self.drawn_runs]
        return tuple(dict.fromkeys((*names, *shown)))

    @property
    def reasons(self) -> tuple[str, ...]:
        """The texts in which `{...}` stands for a measured value."""
        entry = self.entry
        own = [text for check in entry.checks for text in (check.why, check.differs)]
        return (*own, entry.not_comparable, entry.not_measured)

    @property
    def drawn_runs(self) -> tuple[tuple[str, str], ...]:
        """The name in the picture and the step of each run of `together`, `binned` and `sequence`."""
        entry = self.entry
        runs = [one.runs.items() for one in (entry.together, entry.binned) if one]
        own = [(entry.sequence.flow, entry.sequence.run)] if entry.sequence else []
        return (*(pair for pairs in runs for pair in pairs), *own)


class Finding(Frozen):
    """A verdict on a published result.

    - said: the published result in words.
    - measured: the text of the measured values.
    - reason: for the verdict.
    - is_explained: False for a difference whose reason is not known, and for a check that cannot be decided.
    - seeds: the least number of seeds of any measured value of the check; 0 if nothing was measured.
    """

    said: str
    measured: str
    verdict: Agreement
    reason: str
    is_explained: bool = True
    seeds: int = 0


class Drawn(Frozen):
    """A value of a figure as numbers in base units; None if unknown.

    low, high: the ends of the interval of 95 % over the seeds of the measured value; None for a single seed.
    """

    label: str
    published: Value | None
    here: Value | None
    low: float | None = None
    high: float | None = None


class JudgedFigure(Frozen):
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
    own = [value.row for value in values if value.row]
    shown = own if entry.published == "text" else [row for row in named if row.kind != "setting"] or named
    sections = (entry.section,) if entry.section else tuple(dict.fromkeys(row.section for row in shown))
    has_numbers = any(row.kind == "value" for row in shown)
    return StudyFigure(entry, tuple(values), (step, picture) if dot else None, says, sections, has_numbers)


def judge_figure(
    figure: StudyFigure,
    runs: Mapping[str, Any],
    missing: Mapping[str, str],
    find: Callable[[Reference, Mapping[str, Any]], Value] = find_value,
) -> JudgedFigure:
    """Return the figure with its values and verdicts.

    - runs: the measurements by the names of the runs and sweeps.
    - missing: the reason why a run of a name does not exist.
    - find: returns the values of a name. May raise UnknownName.
    """
    judging = _Judging(figure, lambda reference: find(reference, runs))
    values = tuple(judging.draw(value, runs) for value in figure.values)
    absent = {name: f"{name}: {missing.get(name, 'was not run')}" for name in figure.steps if name not in runs}
    findings = [judging.judge(check, absent) for check in figure.entry.checks]
    if figure.verdict is not None:
        shown = [f"{one.label}: {spell_drawn(one)}" for one in values if one.here]
        text = "; ".join(shown) if len(shown) <= MOST_SHOWN else f"{len(shown)} values, in the figure's own table"
        reason = judging.quote(figure.entry.not_comparable or figure.entry.not_measured)
        findings.append(Finding(figure.says, text, figure.verdict, reason))
    return JudgedFigure(figure, values, tuple(findings))


class _Judging:
    """The values of one figure, and the verdicts on its checks. ask: returns the measured values of a name."""

    def __init__(self, figure: StudyFigure, ask: Resolve) -> None:
        self._ask = ask
        self._values = {value.name: value for value in figure.values}

    def resolve(self, reference: Reference) -> Value:
        """Return the value of a name of the figure. A value over several seeds is the mean of its amounts."""
        if not _is_of_figure(reference):
            return self._ask(reference)
        if here := self._find_here(reference):
            found = self._compute_by_seed(here)
            return Value((found.amount,), found.unit)
        value = self._values.get(reference.name.removeprefix(f"{PUBLISHED}."))
        if value is None or value.row is None or value.row.value is None:
            raise UnknownName("has no value")
        return value.row.value

    def _find_here(self, reference: Reference) -> Expression | None:
        """Return what gives the measured value of a name such as `here.VALUE`; None for another name."""
        value = self._values.get(reference.name.removeprefix(f"{HERE}."))
        return value.here if value is not None and reference.segments[0].name == HERE else None

    def _compute_by_seed(self, expression: Expression) -> Value:
        """Return a value with an amount for each seed, in the order of the seeds; with one amount for a single seed.

        The largest time of four clients is that of the last client of each run, and not that of their means. Raises
        UnknownName and ExpressionError.
        """
        amounts = self._amounts_of(expression.references())
        of_seeds = {text: value for text, value in amounts.items() if len(value.amounts) > 1}
        counts = {len(value.amounts) for value in of_seeds.values()}
        if len(counts) > 1:
            raise UnknownName(f"has {' and '.join(map(str, sorted(counts)))} seeds: write values of one sweep")
        found = []
        for n in range(counts.pop() if counts else 1):
            known = {text: Value((value.amounts[n],), value.unit) for text, value in of_seeds.items()}
            found.append(compute(expression, _with(known, self._ask)))
        return Value(tuple(value.amount for value in found), found[0].unit)

    def _amounts_of(self, references: Sequence[Reference]) -> dict[str, Value]:
        """Return the measured values with an amount for each seed, by the text of their names.

        A column of a table is left out: its amounts are the rows of one run.
        """
        found = {}
        for reference in references:
            if here := self._find_here(reference):
                found[reference.text] = self._compute_by_seed(here)
            elif not _is_of_figure(reference) and split_table(reference) is None:
                found[reference.text] = self._ask(reference)
        return found

    def draw(self, value: FigureValue, names: Collection[str]) -> Drawn:
        """Return a value with its interval. The measured value is None if a run is missing or measured no such name."""
        published = value.row.value if value.row else None
        needed = value.here.references() if value.here else ()
        if value.here is None or any(reference.segments[0].name not in names for reference in needed):
            return Drawn(value.label, published, None)
        try:
            here = self._compute_by_seed(value.here)
        except (ExpressionError, UnknownName):
            return Drawn(value.label, published, None)
        if len(here.amounts) == 1:
            return Drawn(value.label, published, here)
        interval = t_interval(here.amounts, CONFIDENCE)
        # a quantity that is negative with no seed is not negative, also if the values of few seeds are far apart
        low = max(0.0, interval.low) if min(here.amounts) >= 0 else interval.low
        return Drawn(value.label, published, here, low, interval.high)

    def _measured_by(self, expression: Expression) -> list[Reference]:
        """Return the names of runs and sweeps of an expression, also those of the figure's values in it."""
        found: list[Reference] = []
        for reference in expression.references():
            if here := self._find_here(reference):
                found += here.references()
            elif not _is_of_figure(reference):
                found.append(reference)
        return list({reference.text: reference for reference in found}.values())

    def _ends(self, check: CheckEntry) -> Iterator[Resolve]:
        """Yield a function for values for each combination of points of the intervals of a check's values.

        The points are the ends, and for one or two intervals also points between them. A value of a single seed has the
        interval of the check's spread, if any.
        """
        intervals = {}
        for text, value in self._amounts_of(check.holds.references()).items():
            if len(value.amounts) > 1:
                interval = t_interval(value.amounts, CONFIDENCE)
                intervals[text] = (interval.low, interval.high, value.unit)
            elif check.spread is not None:
                half = check.spread * abs(value.amount)
                intervals[text] = (value.amount - half, value.amount + half, value.unit)
        if len(intervals) > MOST_INTERVALS:
            raise UnknownName(f"has {len(intervals)} values with intervals: write a check of at most {MOST_INTERVALS}")
        count = _POINTS if len(intervals) <= 2 else 2
        points = {
            text: [Value((low + n * (high - low) / (count - 1),), unit) for n in range(count)]
            for text, (low, high, unit) in intervals.items()
        }
        for chosen in product(*points.values()) if points else ():
            yield _with(dict(zip(points, chosen, strict=True)), self.resolve)

    def judge(self, check: CheckEntry, absent: Mapping[str, str]) -> Finding:
        """Return the verdict on a check. absent: the reasons of missing runs by name."""
        needed = self._measured_by(check.holds)
        names = dict.fromkeys(reference.segments[0].name for reference in needed)
        if reasons := [absent[name] for name in names if name in absent]:
            return Finding(check.says, "", "not measured here", "; ".join(reasons), False)
        try:
            outcome = evaluate(check.holds, self.resolve)
            truths = {evaluate(check.holds, ask).is_true for ask in self._ends(check)}
            of_seeds = [self._ask(reference) for reference in needed if split_table(reference) is None]
        except (ExpressionError, UnknownName) as error:
            return Finding(check.says, "", "not measured here", str(error), False)
        counts = [len(value.amounts) for value in of_seeds] or [1 if needed else 0]
        seeds, measured = min(counts), self._say(outcome, names)
        reason = self.quote(check.why)
        if truths - {outcome.is_true}:
            found = f"Within the intervals of {CONFIDENCE:.0%} over {max(counts)} seeds"
            text = f"{found}, the statement may be true or false."
            if seeds == 1 and check.spread is not None:
                text = f"One seed was run, and a change of its values by {check.spread:.0%} makes it true or false."
            text = f"{text} {self.quote(check.differs)}".strip()
            return Finding(check.says, measured, "undecided", text, seeds=seeds)
        if outcome.is_true:
            return Finding(check.says, measured, "agrees", reason, seeds=seeds)
        failed = "; ".join(" ".join(format_sides(one)) for one in outcome.comparisons if not one.is_true)
        known = self.quote(check.differs)
        text = known or f"no reason is known: {failed} does not hold"
        return Finding(check.says, measured, "differs", text, bool(known), seeds)

    def _say(self, outcome: Evaluation, names: Collection[str]) -> str:
        """Return the measured values of a check. For many runs without labels, return the sides of its comparisons."""
        own = {f"{HERE}.{value.name}": value for value in self._values.values()}
        found = [(name, value) for name, value in outcome.measured if not name.startswith(f"{PUBLISHED}.")]
        if labelled := [self.draw(own[name], names) for name, _ in found if name in own]:
            return "; ".join(f"{one.label}: {spell_drawn(one)}" for one in labelled)
        if len(found) == 1:
            return spell(found[0][1])
        return "; ".join(map(say_sides, outcome.comparisons))

    def quote(self, text: str) -> str:
        """Return a reason with the measured values that it quotes."""

        def value_of(match: re.Match[str]) -> str:
            expression = next(_find_quoted(match[0]), None)
            if expression is None:
                return match[0]
            try:
                return spell(compute(expression, self.resolve))
            except (ExpressionError, KeyError):
                return "(not measured)"

        return QUOTED.sub(value_of, text.strip())


def _is_of_figure(reference: Reference) -> bool:
    """Return whether a name is that of a value of the figure, not of a run."""
    return reference.segments[0].name in (PUBLISHED, HERE)


def _with(known: Mapping[str, Value], ask: Resolve) -> Resolve:
    """Return a function for values that has `known` values by the text of their names, before it asks."""
    return lambda reference: known.get(reference.text) or ask(reference)


def say_sides(comparison: Comparison) -> str:
    """Return the sides of a comparison with words between them: `2 Mbit/s, more than 1 Mbit/s`."""
    left, operator, right = format_sides(comparison)
    return f"{left}, {'' if comparison.is_true else 'not '}{_WORDS.get(operator, operator)} {right}"


def _say_published(values: Sequence[FigureValue], rows: Sequence[PublishedValue]) -> list[str]:
    """Return the published numbers of a figure's values, or else what was published in words."""
    numbers = [f"{value.label}: {value.row.text}" for value in values if value.row]
    return numbers or list(dict.fromkeys(row.y for row in rows if row.kind == "statement"))


def _find_quoted(text: str) -> Iterator[Expression]:
    """Yield the values that a reason quotes, each over names such as `RUN.METRIC`. Other braces stay as they are."""
    for quoted in QUOTED.findall(text):
        with contextlib.suppress(ExpressionError):
            expression = parse_value(quoted)
            references = expression.references()
            if references and all(len(reference.segments) > 1 for reference in references):
                yield expression


def format_sides(comparison: Comparison) -> tuple[str, str, str]:
    """Return the measured left side, the operator and the measured right side."""
    symbol = SYMBOLS[comparison.unit] if comparison.unit else "1"
    left, right = (format_measured(value, symbol) for value in (comparison.left_amount, comparison.right_amount))
    return left, comparison.operator, right


def spell(value: Value) -> str:
    """Return a measured value for people."""
    return format_measured(value.amount, SYMBOLS[value.unit])


def spell_drawn(drawn: Drawn) -> str:
    """Return a measured value for people, with its interval over seeds: `30.1 Mbit/s (29.9 Mbit/s to 30.2 Mbit/s)`.

    An interval whose ends look like the value is left out.
    """
    if drawn.here is None:
        return ""
    symbol = SYMBOLS[drawn.here.unit]
    if drawn.low is None or drawn.high is None:
        return spell(drawn.here)
    value, *ends = (format_measured(amount, symbol) for amount in (drawn.here.amount, drawn.low, drawn.high))
    return value if {*ends} == {value} else f"{value} ({' to '.join(ends)})"
