# SPDX-License-Identifier: Apache-2.0
"""`mprun show --cost`, `--kernel-log`, `--counters` and `--trace`: what the kernel of a run said, did and counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from heapq import merge
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import click

from mprun.cli import operand, prose
from mprun.cli.output import emit, show_table
from mprun.errors import SpecError
from mprun.model.problem import name_nearest
from mprun.model.trace_event_name import event_of
from mprun.storage.damage import reading
from mprun.storage.run_directory import RunDirectory

if TYPE_CHECKING:
    import polars

COLOURS = {"emerg": "red", "alert": "red", "crit": "red", "err": "red", "warn": "yellow"}
ALL_THAT_GREW = "*"
# The rows of the table of costs.
MOST_ROWS = 15


def show_cost(run: RunDirectory, as_json: bool) -> None:
    """Print the real time of a run and the stops of its programs. Raises SpecError if nothing was counted."""
    if not run.has("stops.json"):
        raise SpecError(
            f"{run.path} has no counts of stops: only the virtual engine counts them, and a kernel of this version "
            "of mprun"
        )
    stops, wall_s = run.stops(), run.wall_s()
    total = sum(stop.count for stop in stops)
    if as_json:
        emit({"directory": str(run.path), "wall_s": wall_s, "stops": total, "by_call": stops})
        return
    of_program: Counter[str] = Counter()
    for stop in stops:
        of_program[stop.program] += stop.count
    programs = ", ".join(f"{program} {count:,}" for program, count in of_program.most_common(5))
    click.echo(f"{wall_s:.1f} s of real time in the kernel; {total:,} stops of programs: {programs}\n")
    click.echo(f"{'stops':>12}  {'share':>6}  {'call':20} program")
    # the counts of a stranger may all be zero
    for stop in stops[:MOST_ROWS]:
        click.echo(f"{stop.count:12,}  {stop.count / (total or 1):6.1%}  {stop.call:20} {stop.program}")
    if len(stops) > MOST_ROWS:
        rest = sum(stop.count for stop in stops[MOST_ROWS:])
        click.echo(f"{rest:12,}  {rest / (total or 1):6.1%}  {len(stops) - MOST_ROWS} others")


def show_kernel_log(run: RunDirectory, as_json: bool) -> None:
    """Print the log of a run's experiment kernel, or the console of one that died. Raises SpecError without both."""
    rows = _read_table(run, "kernel_log")
    is_whole = bool(rows)
    if not is_whole:
        rows = _read_console(run)
    if as_json:
        start = "time zero" if is_whole else "boot"
        emit({"directory": str(run.path), "complete": is_whole, "times_from": start, "messages": rows})
        return
    if not is_whole:
        text = "only the console of this kernel is left: messages of level 'warn' and worse, with times from its boot"
        click.echo(prose.wrap(text, ""), err=True)
    for row in rows:
        time = "" if row["time_ns"] is None else f"{row['time_ns'] / 1e9:.2f}"
        level = "program" if row["origin"] == "program" else row["level"] or ""
        click.echo(click.style(f"{time:>9}  {level:7}  {row['text']}".rstrip(), fg=COLOURS.get(row["level"] or "")))


def _read_console(run: RunDirectory) -> list[dict[str, Any]]:
    """Return the console as rows of the table of the log. Raises SpecError if it is empty."""
    from mprun.kernel.log import read_console

    text = run.log("console", "log")
    if not text:
        raise SpecError(
            f"{run.path} has no log of a kernel: only the virtual engine has a kernel of its own, and a kernel with a "
            "shell prints in the terminal"
        )
    return [
        {
            "time_ns": None if line.at_us is None else line.at_us * 1000,
            **{"sequence": None, "level": None, "origin": None, "text": line.text},
        }
        for line in read_console(text)
    ]


def show_counters(run: RunDirectory, pattern: str, as_json: bool) -> None:
    """Print the kernel's counters of all hosts and routers, or those whose names match a pattern.

    Without a pattern, only counters that grew are printed. Raises SpecError if nothing matches.
    """
    rows = _read_table(run, "counters")
    if not rows:
        raise SpecError(f"{run.path} has no counters of kernels: the run ended before they were read")
    chosen = [row for row in rows if (row["value"] if pattern == ALL_THAT_GREW else fnmatchcase(row["name"], pattern))]
    if not chosen and pattern == ALL_THAT_GREW:
        raise SpecError(f"no counter grew in {run.path}: --counters '?*' shows all that are not zero")
    if not chosen:
        raise SpecError(
            f"no counter matches '{pattern}'; write 'MPTcpExt*' with quotes, or name the run before --counters"
        )
    if as_json:
        emit({"directory": str(run.path), "counters": chosen})
        return
    chosen.sort(key=lambda row: row["name"])
    columns = {"before": "before", "after": "after", "value": "growth"}
    shown = [name for name in columns if any(row.get(name) is not None for row in chosen)]
    head = ["counter", "host", *(columns[name] for name in shown)]
    show_table([head, *([row["name"], row["host"], *(_count(row[name]) for name in shown)] for row in chosen)], 2)


def _count(value: object) -> str:
    """Return a number of a counter; a dash for another value, which a stranger's table may have."""
    return f"{value:,}" if isinstance(value, int | float) else "-"


def _read_table(run: RunDirectory, name: str) -> list[dict[str, Any]]:
    """Return the rows of a table; none if the run has no such table. The kernel's log is also in the console's."""
    operand.restore_tables(run, is_needed=name != "kernel_log")
    return run.rows(name)


def show_trace(run: RunDirectory, pattern: str, as_json: bool) -> None:
    """Print the number of events of each kind, or the events of a pattern. Raises SpecError without any."""
    operand.restore_tables(run, is_needed=True)
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
    with reading(run.path / "tables"):
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
    rows = [["event", "events", "first [s]", "last [s]"]]
    for one in counts:
        times = (one["first_ns"], one["last_ns"])
        said = ("" if at_ns is None else f"{at_ns / 1e9:.6f}" for at_ns in times)
        rows.append([one["event"], f"{one['count']:,}", *said])
    show_table(rows, 1)


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
