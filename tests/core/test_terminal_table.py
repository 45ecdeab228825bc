# SPDX-License-Identifier: Apache-2.0
"""Tables in a terminal: what is too wide for it."""

from __future__ import annotations

import pytest

from mprun.cli.output import cut_middle
from mprun.cli.show_sweep import _runs
from mprun.model.sweep_files import RunCounts
from tests.summaries import CELL


@pytest.mark.parametrize(
    ("text", "most", "shown"),
    [("short", 5, "short"), ("20261125-topo-xp.1", 11, "20261…-xp.1"), ("abcdef", 4, "a…ef")],
)
def test_a_long_text_loses_its_middle(text: str, most: int, shown: str) -> None:
    assert cut_middle(text, most) == shown
    assert len(cut_middle(text, most)) <= most


@pytest.mark.parametrize(
    ("counts", "shown"),
    [((5, 0, 0), "5"), ((4, 1, 0), "5 (4 passed)"), ((3, 0, 0), "3/5")],
)
def test_a_cell_counts_its_runs_and_those_that_passed(counts: tuple[int, int, int], shown: str) -> None:
    assert _runs(CELL._replace(runs=RunCounts(*counts))) == shown
