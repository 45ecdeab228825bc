# SPDX-License-Identifier: Apache-2.0
"""The first time at which a statement is true of the tables of a run. Pure."""

from __future__ import annotations

from bisect import bisect_right
from functools import partial

from mprun.metrics.claim_check import MeasuredRun, TableColumns, select_rows
from mprun.model.frozen import Frozen
from mprun.model.metric import Unit
from mprun.statements.claim import column_unit, refuse_stray, split_table
from mprun.statements.evaluation import evaluate
from mprun.statements.expression import Expression, ExpressionError, Reference, UnknownName, Value

# The statement is evaluated at each time, with all rows until then, so the work grows with the square of this number.
MOST_TIMES = 10_000
_NS_PER_S = 1_000_000_000


class _Series(Frozen):
    """The values of a column. times_ns: the time from which on each value is known, in rising order."""

    times_ns: tuple[int, ...]
    amounts: tuple[float, ...]
    unit: Unit

    def until(self, at_ns: int) -> Value:
        return Value(self.amounts[: bisect_right(self.times_ns, at_ns)], self.unit)


def find_onset_ns(statement: Expression, run: MeasuredRun) -> int | None:
    """Return the first time, in ns from time zero, at which a statement is true of all rows until then.

    A name of the statement is `TABLE[conditions].COLUMN`. A row counts from its `time_ns` on, or from its end on, and
    the row of a request from its answer on. None if the statement is never true. Raises ExpressionError for a name that
    is no column of a table with times, for a comparison of different units, and for more than MOST_TIMES times.
    """
    series: dict[str, _Series] = {}

    def read(reference: Reference) -> Value:
        found = series[reference.text] = _read(reference, run)
        return Value(found.amounts, found.unit)

    def look(at_ns: int, reference: Reference) -> Value:
        return series[reference.text].until(at_ns)

    # a mistake in the statement is an error at any time
    evaluate(statement, read)
    times = sorted({at_ns for one in series.values() for at_ns in one.times_ns})
    if len(times) > MOST_TIMES:
        many = f"has rows at {len(times):,} times, at most {MOST_TIMES:,} can be tested: add conditions"
        raise ExpressionError(statement.text, 0, len(statement.text), many)
    # before it, a name has no value yet
    begin_ns = max((one.times_ns[0] for one in series.values()), default=0)
    return next(
        (at_ns for at_ns in times if at_ns >= begin_ns and evaluate(statement, partial(look, at_ns)).is_true), None
    )


def _read(reference: Reference, run: MeasuredRun) -> _Series:
    """Return the values of a name. Raises UnknownName."""
    table = split_table(reference.within("run"))
    if table is None:
        raise UnknownName("is known only at the end of a run: name a column of a table, as TABLE[flow=bulk].COLUMN")
    (segment, column) = table
    refuse_stray(reference, table)
    columns, rows = select_rows(run, segment.name, column, segment.conditions)
    known_ns = _times_ns(segment.name, columns)
    unit, scale = column_unit(column)
    found = sorted((at_ns, float(columns[column][row]) / scale) for row in rows if (at_ns := known_ns[row]) is not None)
    return _Series(tuple(at_ns for at_ns, _ in found), tuple(amount for _, amount in found), unit)


def _times_ns(name: str, columns: TableColumns) -> list[int | None]:
    """Return the time from which on each row is known. Raises UnknownName for a table without times."""
    for column, factor in (("time_ns", 1), ("end_ns", 1), ("end_s", _NS_PER_S)):
        if column in columns:
            return [None if value is None else round(value * factor) for value in columns[column]]
    if "start_ns" in columns and "delay_ns" in columns:
        pairs = zip(columns["start_ns"], columns["delay_ns"], strict=True)
        return [None if start is None or delay is None else start + delay for start, delay in pairs]
    raise UnknownName(f"table '{name}' has no times")
