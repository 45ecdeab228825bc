# SPDX-License-Identifier: Apache-2.0
"""A finished run of a cell of a sweep."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mprun.model.frozen import Frozen

if TYPE_CHECKING:
    from mprun.model.run_summary import Summary


class CellRun(Frozen):
    """A run: the number of its cell and of the repetition, and its summary. directory: its path below the sweep."""

    cell: int
    number: int
    directory: str
    summary: Summary
