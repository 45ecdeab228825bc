# SPDX-License-Identifier: Apache-2.0
"""`mprun show --cost`: where the real time of a run went."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import click

from mprun.cli import options
from mprun.cli.output import emit
from mprun.errors import SpecError
from mprun.runs.run_directory import RunDirectory

if TYPE_CHECKING:
    from mprun.sweeps.sweep_directory import SweepDirectory

MOST_ROWS = 15


def show_cost(found: RunDirectory | SweepDirectory, as_json: bool) -> None:
    """Print the real time of a run and the stops of its programs. Raises SpecError if nothing was counted."""
    run = options.need_run(found, "--cost")
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
    for stop in stops[:MOST_ROWS]:
        click.echo(f"{stop.count:12,}  {stop.count / total:6.1%}  {stop.call:20} {stop.program}")
    if len(stops) > MOST_ROWS:
        rest = sum(stop.count for stop in stops[MOST_ROWS:])
        click.echo(f"{rest:12,}  {rest / total:6.1%}  {len(stops) - MOST_ROWS} others")
