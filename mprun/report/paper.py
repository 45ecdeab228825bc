# SPDX-License-Identifier: Apache-2.0
"""The results of a run or a sweep as one table for a paper, in LaTeX or Markdown. Pure.

Each metric has one unit, which is in the head of its column (a sweep) or in a column of its own (a run).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal

from mprun.model.scalar import spell_scalar
from mprun.model.units import factor_of, format_measured
from mprun.report.metrics import align, interval_of

Format = Literal["latex", "markdown"]
MISSING = "--"
_LATEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"} | {
    sign: f"\\{sign}" for sign in "&%$#_{}"
}


@dataclass(frozen=True)
class PaperTable:
    """A table of texts. names: the number of columns with text; the others have numbers."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    names: int


def of_sweep(summary: Mapping[str, Any], metrics: Sequence[str], confidence: float) -> PaperTable:
    """Return a row for each cell: its values, its runs, and the mean of each metric with half its t interval."""
    cells: Sequence[Mapping[str, Any]] = summary["cells"]
    axes = list(dict.fromkeys(name for cell in cells for name in cell["values"]))
    columns = [_column(name, [cell["metrics"].get(name) for cell in cells], confidence) for name in metrics]
    first = [
        (*(spell_scalar(cell["values"].get(name, "")) for name in axes), str(sum(cell["runs"].values())))
        for cell in cells
    ]
    rows = tuple((*row, *(column[1][n] for column in columns)) for n, row in enumerate(first))
    return PaperTable((*axes, "runs", *(column[0] for column in columns)), rows, len(axes))


def of_run(summary: Mapping[str, Any], metrics: Sequence[str]) -> PaperTable:
    """Return a row for each metric: its name, its value and its unit."""
    rows = []
    for name in metrics:
        metric = summary["metrics"][name]
        value, _, unit = format_measured(metric["value"], metric["unit"]).partition(" ")
        rows.append((name, unit, value))
    return PaperTable(("metric", "unit", "value"), tuple(rows), 2)


def _column(name: str, values: Sequence[Mapping[str, Any] | None], confidence: float) -> tuple[str, list[str]]:
    """Return the head and the texts of a metric's column. The unit is that of the largest mean."""
    means = [value for value in values if value is not None]
    if not means:
        return name, [MISSING] * len(values)
    largest = max(means, key=lambda value: abs(value["mean"]))
    _, _, unit = format_measured(largest["mean"], largest["unit"]).partition(" ")
    texts = [MISSING if value is None else _mean(value, unit, confidence) for value in values]
    return f"{name} ({unit})" if unit else name, texts


def _mean(value: Mapping[str, Any], unit: str, confidence: float) -> str:
    factor = factor_of(unit) if unit else 1.0
    mean = value["mean"] / factor
    interval = interval_of(value, confidence)
    # four digits are what a table of a paper has room for
    alone = Decimal(f"{mean:.4g}")
    return f"{alone:f}" if interval is None else align(mean, (interval[1] - interval[0]) / 2 / factor, alone)


def write(table: PaperTable, form: Format) -> str:
    """Return a table as text that ends in a line break."""
    return _to_latex(table) if form == "latex" else _to_markdown(table)


def _to_markdown(table: PaperTable) -> str:
    rows = [[text.replace("|", r"\|") for text in row] for row in (table.head, *table.rows)]
    widths = [max(3, *(len(row[n]) for row in rows)) for n in range(len(table.head))]
    rule = ["-" * width if n < table.names else "-" * (width - 1) + ":" for n, width in enumerate(widths)]
    lines = []
    for row in (rows[0], rule, *rows[1:]):
        sized = zip(row, widths, strict=True)
        cells = [text.ljust(width) if n < table.names else text.rjust(width) for n, (text, width) in enumerate(sized)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _to_latex(table: PaperTable) -> str:
    """Return a tabular with the rules of the package booktabs."""
    columns = "l" * table.names + "r" * (len(table.head) - table.names)
    rows = [" & ".join(map(_escape, row)) + r" \\" for row in (table.head, *table.rows)]
    lines = [f"\\begin{{tabular}}{{{columns}}}", r"\toprule", rows[0], r"\midrule", *rows[1:], r"\bottomrule"]
    return "\n".join([*lines, r"\end{tabular}"]) + "\n"


def _escape(text: str) -> str:
    """Return a text in LaTeX. A mean with an interval is set in math mode."""
    mean, sign, half = text.partition(" ± ")
    if sign:
        return f"${mean} \\pm {half}$"
    return "".join(_LATEX.get(one, one) for one in text).replace("µ", r"\textmu{}")
