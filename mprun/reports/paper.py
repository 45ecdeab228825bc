# SPDX-License-Identifier: Apache-2.0
"""The results of a run or a sweep as one table for a paper, in LaTeX or Markdown. Pure.

Each metric has one unit, which is in the head of its column (a sweep) or in a column of its own (a run).
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Literal

from mprun.model.frozen import Frozen
from mprun.model.run_summary import Summary
from mprun.model.scalar import spell_scalar
from mprun.model.sweep_files import CellSummary, Statistic, SweepSummary
from mprun.model.units import factor_of, format_measured
from mprun.reports.metrics import align, interval_of
from mprun.safety.cell import Number, write_cell

PaperFormat = Literal["latex", "markdown"]
# A cell is a text or a number; its type decides how it is written.
TableCell = str | Number
MISSING = "--"


class PaperTable(Frozen):
    """A table. names: the number of columns with text; the others have numbers."""

    head: tuple[str, ...]
    rows: tuple[tuple[TableCell, ...], ...]
    names: int


def of_sweep(summary: SweepSummary, metrics: Sequence[str], confidence: float) -> PaperTable:
    """Return a row for each cell: its values, its measured runs, and each metric's mean with half its t interval."""
    cells = summary.cells
    axes = list(dict.fromkeys(name for cell in cells for name in cell.values))
    columns = [_column(name, [cell.metrics.get(name) for cell in cells], confidence) for name in metrics]
    rows = tuple(
        (
            *(spell_scalar(cell.values.get(name, "")) for name in axes),
            _count(cell, metrics),
            *(column[1][n] for column in columns),
        )
        for n, cell in enumerate(cells)
    )
    return PaperTable((*axes, "runs", *(column[0] for column in columns)), rows, len(axes))


def _count(cell: CellSummary, metrics: Sequence[str]) -> Number:
    """Return the number of the runs that the means of a cell are of, or its range."""
    counts = sorted({cell.metrics[name].count for name in metrics if name in cell.metrics}) or [
        cell.runs.total - cell.runs.error
    ]
    return Number(" to ".join(str(count) for count in dict.fromkeys((counts[0], counts[-1]))))


def of_run(summary: Summary, metrics: Sequence[str]) -> PaperTable:
    """Return a row for each metric: its name, its value and its unit."""
    rows = []
    for name in metrics:
        value, _, unit = format_measured(*summary.metrics[name]).partition(" ")
        rows.append((name, unit, Number(value)))
    return PaperTable(("metric", "unit", "value"), tuple(rows), 2)


def _column(name: str, values: Sequence[Statistic | None], confidence: float) -> tuple[str, list[TableCell]]:
    """Return the head and the cells of a metric's column. The unit is that of the largest mean."""
    means = [value for value in values if value is not None]
    if not means:
        return name, [MISSING] * len(values)
    largest = max(means, key=lambda value: abs(value.mean))
    _, _, unit = format_measured(largest.mean, largest.unit).partition(" ")
    shown = [MISSING if value is None else _mean(value, unit, confidence) for value in values]
    return f"{name} ({unit})" if unit else name, shown


def _mean(value: Statistic, unit: str, confidence: float) -> Number:
    factor = factor_of(unit) if unit else 1.0
    mean = value.mean / factor
    interval = interval_of(value, confidence)
    # four digits are what a table of a paper has room for
    alone = Decimal(f"{mean:.4g}")
    if interval is None:
        return Number(f"{alone:f}")
    return Number(*align(mean, (interval[1] - interval[0]) / 2 / factor, alone))


def write(table: PaperTable, form: PaperFormat) -> str:
    """Return a table as text that ends in a line break."""
    rows = [[write_cell(cell, form) for cell in row] for row in (table.head, *table.rows)]
    return _to_latex(table, rows) if form == "latex" else _to_markdown(table, rows)


def _to_markdown(table: PaperTable, rows: Sequence[Sequence[str]]) -> str:
    widths = [max(3, *(len(row[n]) for row in rows)) for n in range(len(table.head))]
    rule = ["-" * width if n < table.names else "-" * (width - 1) + ":" for n, width in enumerate(widths)]
    lines = []
    for row in (rows[0], rule, *rows[1:]):
        sized = zip(row, widths, strict=True)
        cells = [text.ljust(width) if n < table.names else text.rjust(width) for n, (text, width) in enumerate(sized)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _to_latex(table: PaperTable, rows: Sequence[Sequence[str]]) -> str:
    """Return a tabular with the rules of the package booktabs."""
    columns = "l" * table.names + "r" * (len(table.head) - table.names)
    head, *others = [" & ".join(row) + r" \\" for row in rows]
    lines = [f"\\begin{{tabular}}{{{columns}}}", r"\toprule", head, r"\midrule", *others, r"\bottomrule"]
    return "\n".join([*lines, r"\end{tabular}"]) + "\n"
