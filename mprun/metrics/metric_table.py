# SPDX-License-Identifier: Apache-2.0
"""The results of a run or a sweep as one table: its metrics, their order, their units and their digits. Pure.

The terminal, the page and the tables for papers show this table, and write its cells in their own form. Each metric of
a sweep has one unit, in the head of its column, to compare its cells. Units of different kinds are in the cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from mprun.errors import SpecError
from mprun.model.frozen import Frozen
from mprun.model.problem import name_nearest
from mprun.model.run_summary import Summary
from mprun.model.scalar import spell_scalar
from mprun.model.sweep_files import CellSummary, Statistic
from mprun.model.units import factor_of, format_measured
from mprun.safety.cell import MISSING, Number

# The most metrics that a table of a sweep has if its experiment names none.
MOST_COLUMNS = 6
# The least significant digits of a value that fewer digits do not give exactly.
LEAST_DIGITS = 4
# The rounding of a mean and an interval of equal values, as a part of the mean.
ROUNDING = 1e-12


class MetricTable(Frozen):
    """A table. The type of a cell decides how it is written.

    names: the number of columns with texts, which come first; the others have numbers.
    """

    head: tuple[str, ...]
    rows: tuple[tuple[str | Number, ...], ...]
    names: int

    @property
    def has_intervals(self) -> bool:
        """True if some cell has an interval."""
        return any(isinstance(cell, Number) and cell.half for row in self.rows for cell in row)


def table_of_run(summary: Summary, metrics: Sequence[str]) -> MetricTable:
    """Return a row for each metric: its name, its unit and its value."""
    found = ((name, *_spell(*summary.metrics[name])) for name in metrics)
    rows = ((name, unit, Number(f"{digits:f}")) for name, digits, unit in found)
    return MetricTable(("metric", "unit", "value"), tuple(rows), 2)


def table_of_sweep(cells: Sequence[CellSummary], metrics: Sequence[str], confidence: float) -> MetricTable:
    """Return a row for each cell: its values, its runs, and each metric's mean with half its t interval."""
    axes = list(dict.fromkeys(name for cell in cells for name in cell.values))
    units = [_choose_unit([cell.metrics[name] for cell in cells if name in cell.metrics]) for name in metrics]
    columns = list(zip(metrics, units, strict=True))
    rows = (
        (
            *(spell_scalar(cell.values.get(name, "")) for name in axes),
            _count(cell),
            *(_mean(cell, name, unit, confidence) for name, unit in columns),
        )
        for cell in cells
    )
    heads = (f"{name} ({unit})" if unit else name for name, unit in columns)
    return MetricTable((*axes, "runs", *heads), tuple(rows), len(axes))


def _choose_unit(means: Sequence[Statistic]) -> str | None:
    """Return the unit of a metric's column: that of the largest mean; None if the means are of different kinds."""
    if len({one.unit for one in means}) > 1:
        return None
    largest = max(means, key=lambda one: abs(one.mean), default=None)
    return "" if largest is None else _spell(largest.mean, largest.unit)[1]


def _count(cell: CellSummary) -> Number:
    """Return the number of the runs that the means are of: `5`, `3 of 5` if runs are missing or ended with an error."""
    ended, needed = _ended(cell), max(cell.needed, cell.runs.total)
    text = str(ended) if ended == needed else f"{ended} of {needed}"
    return Number(text, note=f"{cell.runs.passed} passed" if cell.runs.passed < ended else "")


def _ended(cell: CellSummary) -> int:
    return cell.runs.total - cell.runs.error


def _mean(cell: CellSummary, name: str, unit: str | None, confidence: float) -> str | Number:
    """Return the mean of a metric in a unit, half its t interval, and the number of runs if some lack the metric."""
    metric = cell.metrics.get(name)
    if metric is None:
        return MISSING
    alone, said = _spell(metric.mean, metric.unit, unit)
    factor, own = factor_of(said), said if unit is None else ""
    note = f"{metric.count} of {_ended(cell)} runs" if metric.count < _ended(cell) else ""
    interval = interval_of(metric, confidence)
    if interval is None:
        return Number(f"{alone:f}", note=note, unit=own)
    return Number(*align(metric.mean / factor, (interval[1] - interval[0]) / 2 / factor, alone), note, own)


def _spell(value: float, symbol: str, unit: str | None = None) -> tuple[Decimal, str]:
    """Return a value in a unit, and the unit. Without a unit, it is that of `format_measured`, whose digits stay.

    If these digits are not exact, they are at least `LEAST_DIGITS`: 123.4 ns are 0.000 ms there, and 0.0001234 ms here.
    """
    number, _, own = format_measured(value, symbol).partition(" ")
    unit = own if unit is None else unit
    # all units are powers of ten, and the digits stay
    digits = Decimal(number) * (Decimal(repr(factor_of(own))) / Decimal(repr(factor_of(unit)))).normalize()
    exact = value / factor_of(unit)
    if abs(float(digits) - exact) > ROUNDING * abs(exact) and len(digits.as_tuple().digits) < LEAST_DIGITS:
        digits = Decimal(f"{exact:.{max(0, LEAST_DIGITS - 1 - Decimal(exact).adjusted())}f}")
    return digits, unit


def interval_of(metric: Statistic, confidence: float) -> tuple[float, float] | None:
    """Return the t interval of a metric's mean; None if only one run has it. confidence: 0.95 or 0.99."""
    return {95: metric.t95, 99: metric.t99}.get(round(confidence * 100))


def align(mean: float, half: float, alone: Decimal) -> tuple[str, str]:
    """Return a mean and half its interval, such as 36.90 and 0.12: two digits of the half, the mean to the same place.

    alone: the mean without an interval. Below a hundredth of its last digit, the half is that bound with `<`, or 0 if
    it is no more than the rounding of equal values.
    """
    rounded = Decimal(f"{half:.1e}")
    digits = 1 - rounded.adjusted()
    exponent = int(alone.as_tuple().exponent)
    if not half or digits > 3 - exponent:
        return f"{alone:f}", "0" if half <= ROUNDING * abs(mean) else f"<{Decimal(1).scaleb(exponent - 2):f}"
    return f"{mean:.{max(0, digits)}f}", f"{rounded:f}"


def list_metrics(cells: Sequence[CellSummary]) -> list[str]:
    """Return the names of all metrics of a sweep's cells."""
    return list(dict.fromkeys(name for cell in cells for name in cell.metrics))


def check_metrics(asked: Sequence[str], known: Sequence[str]) -> list[str]:
    """Return the metrics that a command line names. Raises SpecError if one of them was not measured."""
    for name in asked:
        if name not in known:
            raise SpecError(f"no metric '{name}'{name_nearest(name, known, 'metrics')}")
    return list(asked)


def choose_metrics(cells: Sequence[CellSummary], shown: Sequence[str] = (), own: Sequence[str] = ()) -> list[str]:
    """Return the metrics of a sweep's table: those of `show`, else those with expectations, own ones and goodputs.

    The first goodputs, or without any such metric the first of all, fill up `MOST_COLUMNS`.

    own: metrics that the experiment takes from its own programs.
    """
    known = list_metrics(cells)
    if asked := [name for name in shown if name in known]:
        return asked
    expected = (one.metric for cell in cells for one in cell.expectations)
    named = [name for name in dict.fromkeys((*expected, *own)) if name in known]
    goodputs = [name for name in known if name.endswith("goodput") and name not in named]
    return [*named, *goodputs[: max(0, MOST_COLUMNS - len(named))]] or known[:MOST_COLUMNS]
