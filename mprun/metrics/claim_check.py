# SPDX-License-Identifier: Apache-2.0
"""Judge claims by the measurements of runs. Pure: runs are given as their summaries and tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

from mprun.metrics.cells import find_in_cells
from mprun.metrics.lateness import Allowance
from mprun.model.cell_run import CellRun
from mprun.model.frozen import Frozen
from mprun.model.metric import UNITS
from mprun.model.problem import name_nearest
from mprun.model.sweep_files import SweepCell
from mprun.statements.claim import Claim, column_unit, refuse_stray, split_table
from mprun.statements.evaluation import Evaluation, check, evaluate
from mprun.statements.expression import (
    ComparisonChain,
    Condition,
    ExpressionError,
    Junction,
    Reference,
    SyntaxNode,
    UnknownName,
    Value,
    parse,
    parse_amount,
    references_of,
)

if TYPE_CHECKING:
    from mprun.metrics.readings import SummaryMetrics

Verdict = Literal["held", "failed", "open"]
TableColumns = Mapping[str, Sequence[Any]]


class MeasuredRun(Frozen):
    """The measurements of one run.

    metrics: of its summary.
    table: a table by its name; None if there is none.
    allowance: the time by which late timers may lengthen one request and its answer; None in simulated time.
    """

    metrics: SummaryMetrics
    table: Callable[[str], TableColumns | None]
    allowance: Allowance | None = None


class Swept(Frozen):
    """The measurements of a sweep. cells: as in `sweep.json`. rows: the runs that have ended."""

    cells: Sequence[SweepCell]
    rows: Sequence[CellRun]
    allowance: None = None


class JudgedClaim(Frozen):
    """A claim, its verdict, and the values of its statement.

    reason: why an open claim cannot be judged, or which late timers explain a time above its bound.
    """

    claim: Claim
    verdict: Verdict
    evaluation: Evaluation | None = None
    reason: str = ""


def judge(
    claims: Iterable[Claim], runs: Mapping[str, MeasuredRun | Swept], missing: Mapping[str, str]
) -> list[JudgedClaim]:
    """Return the verdict on each claim; open if a run is missing or lacks a value. missing: the reasons, by name."""
    return [_judge(claim, runs, missing) for claim in claims]


def _judge(claim: Claim, runs: Mapping[str, MeasuredRun | Swept], missing: Mapping[str, str]) -> JudgedClaim:
    absent = [f"{step}: {missing.get(step, 'was not run')}" for step in claim.steps if step not in runs]
    if absent:
        return JudgedClaim(claim, "open", reason="; ".join(absent))
    try:
        evaluation = evaluate(claim.holds, lambda reference: find_value(reference, runs))
    except ExpressionError as error:
        return JudgedClaim(claim, "open", reason=str(error))
    if evaluation.is_true:
        return JudgedClaim(claim, "held", evaluation)
    explained = _explain(claim, evaluation, runs)
    return JudgedClaim(claim, "held" if explained else "failed", evaluation, "; ".join(explained))


def _explain(claim: Claim, evaluation: Evaluation, runs: Mapping[str, MeasuredRun | Swept]) -> list[str]:
    """Return how late timers explain each false comparison; empty if they do not explain all of them.

    Late timers only lengthen times. So they explain a time above a fixed bound, but no ratio, no share, and no
    comparison with another measured time.
    """
    pairs = _find_pairs(claim.holds.root)
    if len(pairs) != len(evaluation.comparisons):
        return []
    explained = []
    for (left, right), comparison in zip(pairs, evaluation.comparisons, strict=True):
        if comparison.is_true:
            continue
        names = {reference.segments[0].name for reference in references_of(left)}
        allowed = [allowance for name in sorted(names) if (allowance := runs[name].allowance) is not None]
        is_bound = comparison.unit == "time" and comparison.operator in ("<", "<=") and not references_of(right)
        most = max(allowed, key=lambda one: one.most_s, default=None)
        if not is_bound or most is None or comparison.left_amount > comparison.right_amount + most.most_s:
            return []
        explained.append(most.explain(comparison.left, comparison.left_amount, comparison.right_amount))
    return explained


def _find_pairs(node: SyntaxNode) -> list[tuple[SyntaxNode, SyntaxNode]]:
    """Return the two sides of each comparison in order; empty if a comparison may be false in a true statement."""
    if isinstance(node, ComparisonChain):
        return list(pairwise(node.operands))
    if isinstance(node, Junction) and node.word == "and":
        inner = [_find_pairs(operand) for operand in node.operands]
        return [pair for pairs in inner for pair in pairs] if all(inner) else []
    return []


def find_value(reference: Reference, runs: Mapping[str, MeasuredRun | Swept]) -> Value:
    """Return the value of RUN.METRIC, RUN.TABLE[conditions].COLUMN or SWEEP[conditions].METRIC. Raises UnknownName."""
    run = runs[reference.segments[0].name]
    if isinstance(run, Swept):
        return find_in_cells(reference, run.cells, run.rows)
    name = ".".join(segment.name for segment in reference.segments[1:])
    table = split_table(reference)
    refuse_stray(reference, table)
    if table is not None:
        rows_of, column = table
        columns, rows = select_rows(run, rows_of.name, column, rows_of.conditions)
        unit, scale = column_unit(column)
        return Value(tuple(float(columns[column][row]) / scale for row in rows), unit)
    found = run.metrics.get(name)
    if found is None:
        raise UnknownName(f"the run measured no '{name}'{name_nearest(name, run.metrics, 'it measured')}")
    return Value((float(found.value),), UNITS[found.unit])


def select_rows(
    run: MeasuredRun, name: str, column: str, conditions: Sequence[Condition]
) -> tuple[TableColumns, tuple[int, ...]]:
    """Return a table, and the rows that meet all conditions and have a value in a column. Raises UnknownName."""
    columns = run.table(name)
    if columns is None:
        raise UnknownName(f"the run has no table '{name}'")
    for wanted in (column, *(condition.key for condition in conditions)):
        if wanted not in columns:
            raise UnknownName(f"table '{name}' has no column '{wanted}'{name_nearest(wanted, columns, 'columns')}")
    tests = [(columns[condition.key], _test(condition)) for condition in conditions]
    return columns, tuple(
        row
        for row, value in enumerate(columns[column])
        if value is not None and all(holds(values[row]) for values, holds in tests)
    )


def _test(condition: Condition) -> Callable[[Any], bool]:
    """Return a test of a column's values: text as written, numbers with the unit at the end of the column's name."""
    if condition.until is None:

        def is_equal(value: Any) -> bool:
            if value is None or isinstance(value, str):
                return value == condition.value
            return _scaled(condition.key, value) == _amount(condition.value)

        return is_equal
    low, high = _amount(condition.value), _amount(condition.until)
    check(parse(condition.spell()), lambda _: Value((math.nan,), column_unit(condition.key)[0]))
    return lambda value: value is not None and low <= _scaled(condition.key, value) < high


def _scaled(column: str, value: float) -> float:
    return float(value) / column_unit(column)[1]


def _amount(text: str) -> float:
    return parse_amount(text).amount
