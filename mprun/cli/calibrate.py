# SPDX-License-Identifier: Apache-2.0
"""`mprun calibrate`: measurements of each link, compared with the topology."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from mprun.cli import options
from mprun.cli.output import emit, mark
from mprun.cli.progress import Bar

if TYPE_CHECKING:
    from mprun.metrics.calibration import CalibratedQuantity


@click.command("calibrate")
@options.files("topology params seed python outside")
@options.runs("engine kernel")
@click.option("--json", "as_json", is_flag=True, help="Print the table as JSON, in base units.")
def command(files: options.FileOptions, runs: options.RunOptions, as_json: bool) -> None:
    """Build the network and measure each link in each direction: delay, jitter, loss, rate, queue.

    The exit status is 0 if every value agrees with the topology within its tolerance, and 1 otherwise.
    `calibrate: true` in an experiment makes the same measurement before the run.
    """
    from mprun.compile import allocate
    from mprun.runs import runner
    from mprun.runs.place import choose_place

    loaded = files.load()
    place = choose_place(runs.engine, runs.kernel)
    if not as_json:
        click.echo(f"engine: {place.name} ({place.reason})", err=True)
    with Bar() as bar:
        calibration = runner.calibrate(loaded.spec, allocate(loaded.spec), place, bar.show)
    if as_json:
        emit(calibration.to_json())
    else:
        show_calibration(calibration.rows)
    sys.exit(0 if calibration.passed else 1)


def show_calibration(rows: Sequence[CalibratedQuantity]) -> None:
    """Print the table with a line for each quantity. Values outside their tolerance are red."""
    if not rows:
        click.echo("no link has a rate, a delay or a loss to measure")
        return
    width = max(4, *(len(row.link) for row in rows))
    click.echo(f"  {'link':{width}}           quantity           asked             got    deviation")
    for row in rows:
        asked, got = (_spell(value, row.unit) for value in (row.asked, row.got))
        line = f"  {row.link:{width}}  {row.direction:8} {row.quantity:8} {asked:>15} {got:>15}"
        line += f" {_deviation(row):>12} {mark(row.held)}"
        click.echo("  ".join([line, *(text for text in (row.basis, row.note) if text)]))
    wrong, unknown = (sum(row.held is held for row in rows) for held in (False, None))
    if wrong:
        click.echo(click.style(f"{wrong} of {len(rows)} values are outside their tolerance", fg="red"))
    elif unknown:
        click.echo(
            click.style(f"{len(rows) - unknown} values within their tolerance, {unknown} not measured", fg="yellow")
        )
    else:
        click.echo(click.style(f"all {len(rows)} values within their tolerance", fg="green"))


def _spell(value: float | None, unit: str) -> str:
    """Return a value with its unit. A share has more digits than elsewhere, as that of a loss model may be small."""
    from mprun.model.units import format_measured

    if value is None:
        return "not measured"
    return f"{value * 100:.4g} %" if unit == "share" else format_measured(value, unit)


def _deviation(row: CalibratedQuantity) -> str:
    if row.got is None:
        return ""
    difference = row.got - row.asked
    if row.unit == "packets":
        return f"{difference:+.0f}"
    if row.asked == 0:
        return f"{difference * 1e6:+.1f} us" if row.unit == "s" else f"{difference:+.3g}"
    return f"{difference / row.asked * 100:+.3f} %"
