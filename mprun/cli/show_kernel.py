# SPDX-License-Identifier: Apache-2.0
"""`mprun show --kernel-log` and `--counters`: what the kernel of a run said and counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import click

from mprun.cli import options
from mprun.cli.output import emit
from mprun.cli.terminal_table import show_table
from mprun.errors import SpecError
from mprun.runs.run_directory import RunDirectory

if TYPE_CHECKING:
    from mprun.sweeps.sweep_directory import SweepDirectory

COLOURS = {"emerg": "red", "alert": "red", "crit": "red", "err": "red", "warn": "yellow"}
ALL_THAT_GREW = "*"


def show_kernel_log(found: RunDirectory | SweepDirectory, as_json: bool) -> None:
    """Print the log of a run's experiment kernel, or the console of a kernel that died.

    Raises SpecError if the run has no log.
    """
    run = options.need_run(found, "--kernel-log")
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
        click.echo(options.wrap(text, ""), err=True)
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


def show_counters(found: RunDirectory | SweepDirectory, pattern: str, as_json: bool) -> None:
    """Print the kernel's counters of all hosts and routers, or those whose names match a pattern.

    Without a pattern, only counters that grew are printed. Raises SpecError if nothing matches.
    """
    run = options.need_run(found, "--counters")
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
    _show_counters(chosen)


def _show_counters(rows: Sequence[Mapping[str, Any]]) -> None:
    first = [["counter", "host"], *([row["name"], row["host"]] for row in rows)]
    columns = []
    for title, name in (("before", "before"), ("after", "after"), ("growth", "value")):
        if any(row.get(name) is not None for row in rows):
            columns.append([title, *(f"{row[name]:,}" for row in rows)])
    show_table(first, columns, 2)


def _read_table(run: RunDirectory, name: str) -> list[dict[str, Any]]:
    """Return the rows of a table; none if the run has no such table."""
    if run.has("agent.json"):
        options.restore_tables(run)
    tables = dict(run.tables())
    return tables[name].collect().to_dicts() if name in tables else []
