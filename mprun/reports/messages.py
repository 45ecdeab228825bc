# SPDX-License-Identifier: Apache-2.0
"""The errors, failures and warnings of a sweep's runs, joined. It reads the summaries of the runs."""

from __future__ import annotations

from collections.abc import Sequence

from mprun.model.run_summary import KINDS, Kind
from mprun.model.sweep_files import CellSummary
from mprun.reports.joined import join_texts
from mprun.sweeps.sweep_directory import SweepDirectory


def join_messages(sweep: SweepDirectory, cells: Sequence[CellSummary]) -> dict[Kind, list[str]]:
    """Return the messages of each kind, the most frequent first: `4 of 12 runs: path0 was full for 12 to 31 %`.

    cells: those of the sweep's summary. The runs are read only if one of them has a message.
    """
    if not any(cell.told.of(kind) for cell in cells for kind in KINDS):
        return {kind: [] for kind in KINDS}
    runs = [kept.summary for kept in sweep.runs()]
    found = {kind: join_texts([run.messages(kind) for run in runs]) for kind in KINDS}
    return {kind: [f"{count} of {len(runs)} runs: {text}" for count, text in texts] for kind, texts in found.items()}
