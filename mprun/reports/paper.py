# SPDX-License-Identifier: Apache-2.0
"""The table of a run or a sweep for a paper, in LaTeX or Markdown. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from mprun.metrics.metric_table import MetricTable
from mprun.safety.cell import write_cell

PaperFormat = Literal["latex", "markdown"]


def write(table: MetricTable, form: PaperFormat) -> str:
    """Return a table as text that ends in a line break."""
    rows = [[write_cell(cell, form) for cell in row] for row in (table.head, *table.rows)]
    return _to_latex(table, rows) if form == "latex" else _to_markdown(table, rows)


def _to_markdown(table: MetricTable, rows: Sequence[Sequence[str]]) -> str:
    widths = [max(3, *(len(row[n]) for row in rows)) for n in range(len(table.head))]
    rule = ["-" * width if n < table.names else "-" * (width - 1) + ":" for n, width in enumerate(widths)]
    lines = []
    for row in (rows[0], rule, *rows[1:]):
        sized = zip(row, widths, strict=True)
        cells = [text.ljust(width) if n < table.names else text.rjust(width) for n, (text, width) in enumerate(sized)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _to_latex(table: MetricTable, rows: Sequence[Sequence[str]]) -> str:
    """Return a tabular with the rules of the package booktabs."""
    columns = "l" * table.names + "r" * (len(table.head) - table.names)
    head, *others = [" & ".join(row) + r" \\" for row in rows]
    lines = [f"\\begin{{tabular}}{{{columns}}}", r"\toprule", head, r"\midrule", *others, r"\bottomrule"]
    return "\n".join([*lines, r"\end{tabular}"]) + "\n"
