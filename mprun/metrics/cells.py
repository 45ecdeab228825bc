# SPDX-License-Identifier: Apache-2.0
"""The cells of a sweep: a row for each run, statistics of each cell, and statements across cells. Pure.

A statement is `cells[cc=cubic].bulk.goodput >= 1.1 * cells[cc=reno].bulk.goodput`. A name in it stands for the values
of all runs of all cells that its conditions choose. Runs that ended with an error do not count.
"""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from statistics import fmean, median
from typing import Any, Literal

from mprun.metrics.statistics import CONFIDENCES, QUANTILES, bootstrap_interval, need, stdev, t_interval
from mprun.model.cell_run import CellRun
from mprun.model.grouping import gather
from mprun.model.metric import SUFFIXES, SYMBOLS, UNITS
from mprun.model.run_summary import KINDS, ExpectationVerdict, Summary, Symbol
from mprun.model.scalar import spell_scalar
from mprun.model.sweep_files import (
    CellSummary,
    CellVerdict,
    Messages,
    RunCounts,
    Sides,
    StatementResult,
    Statistic,
    SweepCell,
)
from mprun.statements.evaluation import chooses, evaluate
from mprun.statements.expression import ExpressionError, Reference, UnknownName, Value, parse, refuse_conditions
from mprun.workloads.tool import percentile

# The status of a sweep that lacks runs.
INCOMPLETE: Literal["incomplete"] = "incomplete"
# The result of a statement about values that the matrix has and -p leaves out.
NOT_JUDGED = "not judged: -p leaves out cells that it names"


def column_of(metric: str, symbol: str) -> str:
    """Return a metric's column, such as `bulk.goodput_bit_per_s`. A name that ends in its unit stays: `bulk.bytes`."""
    suffix = SUFFIXES[symbol]
    return metric if re.split(r"[._]", metric)[-1] == suffix[1:] else metric + suffix


def column_of_axis(name: str, known: Container[str]) -> str:
    """Return the column of an axis in a table that has known columns too."""
    return f"matrix.{name}" if name in known else name


def tabulate(cells: Sequence[SweepCell], rows: Sequence[CellRun]) -> dict[str, list[Any]]:
    """Return the axes, `run`, `seed`, `status`, `directory` and the metrics as columns. cells: as in `sweep.json`.

    An axis with the name of such a column has `matrix.` before it.
    """
    axes = list(dict.fromkeys(name for cell in cells for name in cell.values))
    known: dict[str, list[Any]] = {
        "run": [row.number for row in rows],
        "seed": [row.summary.seed for row in rows],
        "status": [row.summary.status for row in rows],
        "directory": [row.directory for row in rows],
    }
    columns: dict[str, list[Any]] = {
        column_of_axis(name, known): [cells[row.cell].values.get(name) for row in rows] for name in axes
    }
    columns |= known
    for metric, symbol in metrics_of(rows).items():
        found = (row.summary.metrics.get(metric) for row in rows)
        columns[column_of(metric, symbol)] = [None if one is None else one.value for one in found]
    return columns


def metrics_of(rows: Iterable[CellRun]) -> dict[str, Symbol]:
    """Return the symbol of each metric that any run has, in the order in which the metrics first occur."""
    found: dict[str, Symbol] = {}
    for row in rows:
        for name, metric in row.summary.metrics.items():
            found.setdefault(name, metric.unit)
    return found


def sum_up(cells: Sequence[SweepCell], rows: Sequence[CellRun], needed: Sequence[int]) -> list[CellSummary]:
    """Return the results of each cell. Statistics leave out errors. needed: the number of runs that each cell needs."""
    found = []
    for n, cell in enumerate(cells):
        own = [row for row in rows if row.cell == n]
        statuses = [row.summary.status for row in own]
        whole = [row for row in own if row.summary.status != "error"]
        metrics = {}
        for metric, symbol in metrics_of(whole).items():
            values = [value for row in whole if (value := row.summary.value(metric)) is not None]
            metrics[metric] = summarize(values, symbol)
        counts = RunCounts(*(statuses.count(status) for status in ("passed", "failed", "error")))
        # a run with a message counts once, however often it has the message
        texts = {kind: [text for row in own for text in dict.fromkeys(row.summary.messages(kind))] for kind in KINDS}
        held, told = tuple(_count_held(own)), Messages(**{kind: dict(Counter(texts[kind])) for kind in KINDS})
        found.append(CellSummary(cell.values, counts, needed[n], metrics, told, cell.folder, held))
    return found


def summarize(values: Sequence[float], unit: Symbol) -> Statistic:
    """Return the statistics of at least one value. Quantiles are computed as numpy does by default."""
    need(1, values)
    ordered, is_one = sorted(values), len(values) == 1
    more: dict[str, Any] = {f"p{share * 100:.0f}": percentile(ordered, share) for share in QUANTILES}
    for confidence in () if is_one else CONFIDENCES:
        for one in (t_interval(values, confidence), bootstrap_interval(values, confidence)):
            more[f"{one.method}{confidence * 100:.0f}"] = (one.low, one.high)
    middle = (fmean(values), median(values), None if is_one else stdev(tuple(values)))
    return Statistic(unit, len(values), *middle, ordered[0], ordered[-1], **more)


def _count_held(rows: Sequence[CellRun]) -> Iterator[CellVerdict]:
    """Yield each expectation of a cell with the number of the cell's runs in which it held."""
    # a run whose worker died has no verdicts
    judged: Sequence[ExpectationVerdict] = max((row.summary.expectations for row in rows), key=len, default=())
    for n, expectation in enumerate(judged):
        verdicts = [row.summary.expectations[n] for row in rows if len(row.summary.expectations) > n]
        yield CellVerdict(**expectation.bounds, held=sum(one.held for one in verdicts), of=len(rows))


def find_equal(cells: Sequence[SweepCell], rows: Sequence[CellRun]) -> Iterator[str]:
    """Yield a warning if all runs of cells without variations are equal: their intervals would say nothing."""
    found = gather((run.cell, run.summary.metrics) for run in rows if run.summary.status != "error")
    equal = [
        n for n, own in found.items() if len(own) > 1 and not cells[n].repeat.vary and own.count(own[0]) == len(own)
    ]
    if equal:
        some = f"{len(equal)} of {len(cells)} cells" if len(equal) < len(cells) else "each cell"
        reason = "as no seed changes them, so an interval of ± 0 says nothing"
        yield f"all runs of {some} are equal, {reason}: remove 'vary: []'"


def judge_across(texts: Sequence[str], cells: Sequence[SweepCell], rows: Sequence[CellRun]) -> list[StatementResult]:
    """Return the verdict on each statement: None if it cannot be judged. cells: as in `sweep.json`."""
    return [_judge(text, cells, rows) for text in texts]


def _judge(text: str, cells: Sequence[SweepCell], rows: Sequence[CellRun]) -> StatementResult:
    try:
        statement = parse(text)
        if not all(_choose_cells(reference, cells) for reference in statement.references()):
            return StatementResult(text, None, NOT_JUDGED, left_out=True)
        outcome = evaluate(statement, lambda reference: find_in_cells(reference, cells, rows))
    except ExpressionError as error:
        return StatementResult(text, None, error.reason)
    comparisons = tuple(
        Sides(one.left_amount, one.operator, one.right_amount, SYMBOLS[one.unit] if one.unit else "1")
        for one in outcome.comparisons
    )
    found = ", ".join(f"{one.left:.6g} {one.operator} {one.right:.6g}" for one in comparisons)
    return StatementResult(text, outcome.is_true, found, comparisons)


def find_lacking(texts: Sequence[str], cells: Sequence[SweepCell], rows: Sequence[CellRun]) -> Iterator[str]:
    """Yield a warning for each name in statements across cells that some runs of the chosen cells did not measure."""
    for reference in dict.fromkeys(one for text in texts for one in parse(text).references()):
        with contextlib.suppress(UnknownName, ExpressionError):
            name, whole = _choose_runs(reference, cells, rows)
            missing = sum(name not in summary.metrics for summary in whole)
            if 0 < missing < len(whole):
                yield f"{reference.text}: {missing} of {len(whole)} runs did not measure it, and are left out"


def _choose_cells(reference: Reference, cells: Sequence[SweepCell]) -> list[int]:
    """Return the numbers of the cells that a name chooses."""
    conditions = reference.segments[0].conditions
    return [
        n
        for n, one in enumerate(cells)
        if all(chooses(condition, spell_scalar(one.values.get(condition.key))) for condition in conditions)
    ]


def _choose_runs(
    reference: Reference, cells: Sequence[SweepCell], rows: Sequence[CellRun]
) -> tuple[str, list[Summary]]:
    """Return the metric of a name, and the summaries of all runs of the cells that it chooses. Raises UnknownName."""
    rest = reference.segments[1:]
    refuse_conditions(rest)
    chosen = _choose_cells(reference, cells)
    whole = [row.summary for row in rows if row.cell in chosen and row.summary.status != "error"]
    return ".".join(segment.name for segment in rest), whole


def find_in_cells(reference: Reference, cells: Sequence[SweepCell], rows: Sequence[CellRun]) -> Value:
    """Return the values of a metric in all runs of the chosen cells. Raises UnknownName."""
    name, whole = _choose_runs(reference, cells, rows)
    found = [summary.metrics[name] for summary in whole if name in summary.metrics]
    if not found:
        raise UnknownName("no run of these cells measured it")
    return Value(tuple(float(one.value) for one in found), UNITS[found[0].unit])
