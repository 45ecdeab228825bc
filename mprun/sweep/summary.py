# SPDX-License-Identifier: Apache-2.0
"""Summary and table of a sweep: written when it has come to its end, and made of what is there until then.

One that was interrupted, killed or is still running has no summary to read. What its runs tell is summed up all the
same, and its status says that it is incomplete.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mprun.analysis.across import judge_across
from mprun.analysis.cells import INCOMPLETE, Row, doubt, sum_up, tabulate
from mprun.rundir import make_frame
from mprun.sweep.directory import Kept, SweepDirectory, in_order
from mprun.sweep.standing import Standing, say_progress, spell_progress
from mprun.sweep.study import read_repeat

if TYPE_CHECKING:
    import polars


def read_summary(sweep: SweepDirectory) -> dict[str, Any]:
    """What `summary.json` says, else of the runs that have ended. Raises MprunError."""
    if sweep.has_summary:
        value, axes = sweep.read("summary.json"), sweep.record.get("axes", [])
        return {**value, "cells": [in_order(cell, axes) for cell in value["cells"]]}
    return _sum_up(sweep.record, list(_read_rows(sweep)))


def read_table(sweep: SweepDirectory) -> polars.DataFrame:
    """A row for each run: `tables/cells.parquet`, else of the runs that have ended. Raises MprunError."""
    if sweep.has_summary:
        return sweep.table()
    return make_frame(tabulate(sweep.record["cells"], list(_read_rows(sweep))))


def write_summary(sweep: SweepDirectory) -> dict[str, Any]:
    """Table and summary of all runs that it has, written; the summary."""
    record, rows = sweep.record, list(_read_rows(sweep))
    summary = _sum_up(record, rows)
    sweep.write_table(tabulate(record["cells"], rows))
    sweep.write("summary.json", summary)
    return summary


def find_missing(record: Mapping[str, Any], runs: Iterable[Kept]) -> str | None:
    """How far a sweep is that has not all its runs; None of one that has. record: what `sweep.json` says."""
    standings = _stand(record, runs)
    return None if all(standing.is_whole for standing in standings) else say_progress(standings)


def _stand(record: Mapping[str, Any], runs: Iterable[Row | Kept]) -> list[Standing]:
    """How far each cell is with these runs."""
    standings = [Standing(read_repeat(cell["repeat"])) for cell in record["cells"]]
    for run in runs:
        standings[run.cell].note(run.number, run.summary)
    return standings


def tell_progress(summary: Mapping[str, Any]) -> str:
    """How far a sweep is, by a summary of one that is incomplete."""
    counts = [(sum(cell["runs"].values()), cell["needed"]) for cell in summary["cells"]]
    return spell_progress(counts)


def _read_rows(sweep: SweepDirectory) -> Iterator[Row]:
    for kept in sweep.runs():
        yield Row(kept.cell, kept.number, str(kept.run.path.relative_to(sweep.path)), kept.summary)


def _sum_up(record: Mapping[str, Any], rows: Sequence[Row]) -> dict[str, Any]:
    cells = record["cells"]
    standings = _stand(record, rows)
    found = [{**one, "needed": standing.needed} for one, standing in zip(sum_up(cells, rows), standings, strict=True)]
    counts = {status: sum(cell["runs"][status] for cell in found) for status in ("passed", "failed", "error")}
    statements = judge_across(record["across"], cells, rows)
    is_good = not counts["failed"] and all(statement["held"] for statement in statements)
    status = "error" if counts["error"] else "passed" if is_good else "failed"
    is_made = all(standing.is_whole for standing in standings)
    return {
        "status": status if is_made else INCOMPLETE,
        "complete": is_made and not counts["error"],
        "runs": counts,
        "cells": found,
        "statements": statements,
        "warnings": doubt(found, [cell["repeat"] for cell in cells]),
    }
