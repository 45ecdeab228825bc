# SPDX-License-Identifier: Apache-2.0
"""Statements across the cells of a sweep: `cells[cc=cubic].bulk.goodput >= 1.1 * cells[cc=reno].bulk.goodput`. Pure.

A name stands for the values of all runs of all cells that its conditions choose, but for runs that ended with an error.
"""

from __future__ import annotations

from collections.abc import Sequence

from mprun.metrics.cells import CellRun
from mprun.model.metric import SYMBOLS, UNITS
from mprun.model.scalar import spell_scalar
from mprun.model.sweep_files import Sides, StatementResult, SweepCell
from mprun.statements.evaluation import evaluate
from mprun.statements.expression import ExpressionError, Reference, UnknownName, Value, parse


def judge_across(texts: Sequence[str], cells: Sequence[SweepCell], rows: Sequence[CellRun]) -> list[StatementResult]:
    """Each statement, whether it held (None: that cannot be told), and what was found. cells: as in `sweep.json`."""
    return [_judge(text, cells, rows) for text in texts]


def _judge(text: str, cells: Sequence[SweepCell], rows: Sequence[CellRun]) -> StatementResult:
    try:
        outcome = evaluate(parse(text), lambda reference: find_in_cells(reference, cells, rows))
    except ExpressionError as error:
        return StatementResult(text, None, error.reason)
    comparisons = tuple(
        Sides(one.left_amount, one.operator, one.right_amount, SYMBOLS[one.unit] if one.unit else "1")
        for one in outcome.comparisons
    )
    found = ", ".join(f"{one.left:.6g} {one.operator} {one.right:.6g}" for one in comparisons)
    return StatementResult(text, outcome.is_true, found, comparisons)


def find_in_cells(reference: Reference, cells: Sequence[SweepCell], rows: Sequence[CellRun]) -> Value:
    """Return the values of a metric in all runs of the chosen cells. Raises UnknownName."""
    first, *rest = reference.segments
    name = ".".join(segment.name for segment in rest)
    conditions = {condition.key: condition.value for condition in first.conditions}
    chosen = [
        n
        for n, cell in enumerate(cells)
        if all(spell_scalar(cell.values.get(key)) == value for key, value in conditions.items())
    ]
    if not chosen:
        raise UnknownName("no cell has these values")
    whole = [row.summary for row in rows if row.cell in chosen and row.summary.status != "error"]
    found = [summary.metrics[name] for summary in whole if name in summary.metrics]
    if not found:
        raise UnknownName("no run of these cells measured it")
    return Value(tuple(float(one.value) for one in found), UNITS[found[0].unit])
