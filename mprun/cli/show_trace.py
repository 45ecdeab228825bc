# SPDX-License-Identifier: Apache-2.0
"""`mprun show --trace`: the trace events of a run's experiment kernel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from heapq import merge
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import click

from mprun.cli import options
from mprun.cli.output import emit
from mprun.cli.terminal_table import show_table
from mprun.errors import SpecError
from mprun.model.problem import name_nearest
from mprun.model.trace_event_name import event_of
from mprun.runs.run_directory import RunDirectory

if TYPE_CHECKING:
    import polars

    from mprun.sweeps.sweep_directory import SweepDirectory


def show_trace(found: RunDirectory | SweepDirectory, pattern: str, as_json: bool) -> None:
    """Print the number of events of each kind, or the events whose names match a pattern.

    Raises SpecError if the run has no events, or if nothing matches.
    """
    run = options.need_run(found, "--trace")
    if run.has("agent.json"):
        options.restore_tables(run)
    tables = {event: table for name, table in run.tables() if (event := event_of(name))}
    if not tables:
        raise SpecError(
            f"{run.path} has no trace events: write 'tracepoints: [tcp:tcp_probe]' in the experiment, and run it again"
        )
    if not pattern:
        _show_counts(run, tables, as_json)
        return
    chosen = {event: table for event, table in tables.items() if fnmatchcase(event, pattern)}
    if not chosen:
        raise SpecError(f"the run recorded no event '{pattern}'{name_nearest(pattern, tables, 'events')}")
    rows = merge(*(_rows_of(event, table) for event, table in chosen.items()), key=itemgetter("time_ns"))
    if as_json:
        emit({"directory": str(run.path), "events": list(rows)})
        return
    for row in rows:
        click.echo(_spell(row))


def _show_counts(run: RunDirectory, tables: Mapping[str, polars.LazyFrame], as_json: bool) -> None:
    import polars

    time = polars.col("time_ns")
    counts = [
        {
            "event": event,
            **table.select(count=polars.len(), first_ns=time.min(), last_ns=time.max()).collect().row(0, named=True),
        }
        for event, table in sorted(tables.items())
    ]
    if as_json:
        emit({"directory": str(run.path), "kinds": counts})
        return
    columns = [["events", *(f"{one['count']:,}" for one in counts)]]
    for title in ("first", "last"):
        times = (one[f"{title}_ns"] for one in counts)
        columns.append([f"{title} [s]", *("" if at_ns is None else f"{at_ns / 1e9:.6f}" for at_ns in times)])
    show_table([["event"], *([one["event"]] for one in counts)], columns, 1)


def _rows_of(event: str, table: polars.LazyFrame) -> Iterator[dict[str, Any]]:
    """Yield the events of a table in their order, each with its name."""
    for row in table.collect().iter_rows(named=True):
        yield {"time_ns": row.pop("time_ns"), "event": event, **row}


def _spell(row: Mapping[str, Any]) -> str:
    """Return an event on one line: time, host, name, fields."""
    fields = {name: value for name, value in row.items() if name not in ("time_ns", "event", "host")}
    words = [f"{name}={value}" for name, value in fields.items() if value is not None]
    return "  ".join(
        [f"{row['time_ns'] / 1e9:13.9f}", *([row["host"]] if row.get("host") else []), row["event"], *words]
    )
