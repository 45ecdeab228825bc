# SPDX-License-Identifier: Apache-2.0
"""Summary and table of a sweep: written at its end, and computed from its finished runs before that.

A sweep that was interrupted, was killed or is still running has no summary file. Its finished runs are summarised all
the same, with the status `incomplete`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from mprun.errors import MprunError
from mprun.metrics.cells import INCOMPLETE, find_equal, find_lacking, judge_across, sum_up, tabulate
from mprun.metrics.statistics import t_interval
from mprun.model.cell_run import CellRun
from mprun.model.grouping import gather
from mprun.model.scalar import spell_values
from mprun.model.sweep_files import RunCounts, SweepCell, SweepRecord, SweepStatus, SweepSummary
from mprun.runs.provenance import list_programs
from mprun.safety.text import name_some
from mprun.storage.sweep_directory import Kept, SweepDirectory
from mprun.storage.table import make_frame
from mprun.sweeps.cell_progress import CellProgress, say_progress, spell_progress

if TYPE_CHECKING:
    import polars

# The largest number of cells that a warning names.
MOST_WIDE = 5


def read_summary(sweep: SweepDirectory) -> SweepSummary:
    """Return the content of `summary.json`, or else a summary of the finished runs. Raises MprunError."""
    if sweep.has("summary.json"):
        return sweep.summary().in_order(sweep.record.axes)
    return _sum_up(sweep.record, list(sweep.runs()))


def read_table(sweep: SweepDirectory) -> polars.DataFrame:
    """Return the table of cells, a row for each run; without it, one of the finished runs. Raises MprunError."""
    if sweep.has("summary.json"):
        return sweep.table()
    return make_frame(tabulate(sweep.record.cells, list(sweep.runs())))


def write_summary(sweep: SweepDirectory) -> SweepSummary:
    """Write table and summary of all runs of the sweep. Return the summary."""
    record, rows = sweep.record, list(sweep.runs())
    summary = _sum_up(record, rows)
    sweep.write_tables({"cells": tabulate(record.cells, rows)})
    sweep.write_summary(summary)
    return summary


def list_versions(runs: Iterable[Kept]) -> dict[str, list[str]]:
    """Return the versions by program. A program that changed during the sweep has all its versions."""
    told: dict[str, dict[str, None]] = {}
    for kept in runs:
        # a run that ended with an error may have no environment
        with contextlib.suppress(MprunError, OSError):
            for name, version in list_programs(kept.run.environment()).items():
                told.setdefault(name, {})[version] = None
    return {name: list(versions) for name, versions in told.items()}


def _find_mixed(runs: Iterable[Kept]) -> Iterator[str]:
    """Yield a warning for each program of which several versions made the runs, as after a change during a sweep."""
    for name, versions in list_versions(runs).items():
        if len(versions) > 1:
            told = f"several versions of {name} made these runs ({', '.join(versions)})"
            yield f"{told}, which may differ for this reason: --new makes all of them again"


def _doubt(cells: Sequence[SweepCell], progress: Sequence[CellProgress]) -> Iterator[str]:
    """Yield warnings about cells that were repeated until an interval was narrow, or up to `max` without that."""
    if any(one.has_sufficed for one in progress):
        text = "repeated until the interval was narrow: such intervals cover less than stated"
        yield f"{text} (of 95 %: 92 % at worst from 5 runs on, 90 % from 3)"
    wide = (
        ((one.repeat.until, one.repeat.most), (cell, one))
        for cell, one in zip(cells, progress, strict=True)
        if one.repeat.until and one.is_whole and not one.has_sufficed
    )
    for (until, most), found in gather(wide).items():
        asked = f"{until.metric} is not within {until.within * 100:.3g} % of its mean after {most} runs, the 'max'"
        widths = [_tell_width(cell, one, until.confidence) for cell, one in found]
        yield f"{asked}: half of the interval is {name_some(widths, MOST_WIDE)}"


def _tell_width(cell: SweepCell, progress: CellProgress, confidence: float) -> str:
    """Return half the width of a cell's interval as a share of its mean, such as `0.03 % (cc=cubic)`."""
    values = list(progress.values.values())
    mean = fmean(values) if len(values) > 1 else 0.0
    width = f"{t_interval(values, confidence).half_width / abs(mean) * 100:.3g} %" if mean else "unknown"
    return f"{width} ({spell_values(cell.values, ', ')})" if cell.values else width


def find_missing(record: SweepRecord, runs: Iterable[CellRun]) -> str | None:
    """Return the progress of an incomplete sweep; None for a complete one."""
    progress = _follow(record, runs)
    return None if all(one.is_whole for one in progress) else say_progress(progress)


def _follow(record: SweepRecord, runs: Iterable[CellRun]) -> list[CellProgress]:
    progress = [CellProgress(cell.repeat) for cell in record.cells]
    for run in runs:
        progress[run.cell].note(run.number, run.summary)
    return progress


def tell_progress(summary: SweepSummary) -> str:
    """Return the progress of a sweep from the summary of an incomplete one."""
    counts = [(cell.runs.total, cell.needed) for cell in summary.cells]
    return spell_progress(counts)


def tell_outcome(summary: SweepSummary) -> str:
    """Return the numbers of runs by their status, and of statements that do not hold, or the progress."""
    words = {"passed": "passed", "failed": "failed", "error": "in error"}
    counts = ", ".join(f"{count} {words[status]}" for status, count in summary.runs._asdict().items() if count)
    if unheld := sum(one.held is False for one in summary.statements):
        counts += f", {unheld} statement{'s' * (unheld > 1)} about cells not held"
    if summary.status == INCOMPLETE:
        counts = f"{tell_progress(summary)}{f' ({counts})' if counts else ''}"
    return counts


def _sum_up(record: SweepRecord, rows: Sequence[Kept]) -> SweepSummary:
    cells, progress = record.cells, _follow(record, rows)
    found = sum_up(cells, rows, [one.needed for one in progress])
    counts = RunCounts(*(sum(getattr(cell.runs, status) for cell in found) for status in RunCounts._fields))
    statements = judge_across(record.across, cells, rows)
    is_good = not counts.failed and all(one.is_true(may_come=False) is not False for one in statements)
    status: SweepStatus = "error" if counts.error else "passed" if is_good else "failed"
    is_made = all(one.is_whole for one in progress)
    return SweepSummary(
        status=status if is_made else INCOMPLETE,
        complete=is_made and not counts.error,
        runs=counts,
        cells=tuple(found),
        statements=tuple(statements),
        warnings=(
            *_doubt(cells, progress),
            *find_equal(cells, rows),
            *find_lacking(record.across, cells, rows),
            *_find_mixed(rows),
        ),
    )
