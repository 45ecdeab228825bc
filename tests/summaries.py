# SPDX-License-Identifier: Apache-2.0
"""Summaries of runs and cells for the tests, which change their members with `_replace`."""

from __future__ import annotations

from mprun.model.run_summary import Summary
from mprun.model.scalar import Scalar
from mprun.model.sweep_files import CellRepeat, CellSummary, Messages, RunCounts, SweepCell

PASSED = Summary("passed", True, 1, {}, (), (), (), (), "virtual")
CELL = CellSummary({}, RunCounts(5, 0, 0), 5, {}, Messages({}))


def make_cell(folder: str = "", **values: Scalar) -> SweepCell:
    """Return a cell that runs once. values: of its axes."""
    return SweepCell(values, folder, "virtual", "default", CellRepeat(1, 1, 1, (), None))
