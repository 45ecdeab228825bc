# SPDX-License-Identifier: Apache-2.0
"""`mprun trace list|import`: the traces of links that come with mprun, and traces of other tools."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from mprun.cli import options, output
from mprun.cli.output import emit
from mprun.errors import SpecError, refusing
from mprun.model.units import INTERVAL, LEAST_LINK_RATE, RATE, TIME

if TYPE_CHECKING:
    from mprun.inputs.trace_import import ImportedTrace

FORMATS = ("mahimahi", "rates", "csv")


@click.group("trace", context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """List the traces that come with mprun, or import a trace of another tool.

    An event with `trace:` gives a link the values of a trace over time.
    """


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print the traces as JSON, with the paths of their files.")
def list_(as_json: bool) -> None:
    """List the traces that come with mprun. None was measured."""
    from mprun.inputs.traces import TRACES

    if as_json:
        emit([{"name": one.name, "meaning": one.meaning, "file": str(one.file)} for one in TRACES.values()])
        return
    width = max(map(len, TRACES))
    for one in TRACES.values():
        click.echo(f"{one.name:{width}}  {one.meaning}")


@command.command("import")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--format", "form", type=click.Choice(FORMATS), required=True, help="Read FILE in this format.")
@click.option(
    "--column",
    "columns",
    multiple=True,
    metavar="KEY=COLUMN:UNIT",
    help="Name a column of a CSV file and its unit, such as 'time=t:s', 'rate=dl:kbit' or 'loss=lost:%'. "
    "Keys: time, rate, delay, rtt and loss. A rate or delay of one direction is 'rate.forward' or 'rate.reverse'.",
)
@options.text("--interval", "TEXT", "Use a rate for each interval of this length (mahimahi, rates).", default="100ms")
@click.option(
    "--frame", default=1514, show_default=True, type=click.IntRange(64, 65535),
    help="Use this number of bytes for each line of mahimahi.",
)  # fmt: skip
@options.to("Write to FILE, a new file.", type=options.Target(is_new=True))
def import_(file: Path, form: str, columns: tuple[str, ...], interval: str, frame: int, target: Path | None) -> None:
    """Convert a trace of another tool to a schedule for 'trace: FILE' with 'format: schedule'.

    `mahimahi` has a time in ms for each packet. `rates` has a rate with its unit on each line. `csv` has a header and
    the columns that --column names. A rate below 8bit becomes 8bit, and the command reports the number of such
    rates.
    """
    from mprun.inputs.keys.trace_file import TraceError
    from mprun.inputs.named_file import read_text

    source = click.get_current_context().get_parameter_source
    for option, forms in (("interval", ("mahimahi", "rates")), ("frame", ("mahimahi",))):
        if form not in forms and source(option) is ParameterSource.COMMANDLINE:
            raise click.UsageError(
                f"--{option} is for {' and '.join(forms)}, and has no effect on {form}: leave it out"
            )
    if (form == "csv") != bool(columns):
        raise click.UsageError("--column is for --format csv, which needs a column 'time' and at least one other")
    try:
        imported = _import(read_text(file), form, columns, interval, frame)
    except TraceError as error:
        raise SpecError(f"{file}:{error.line}: {error}") from None
    if target is None:
        click.echo(imported.text, nl=False)
    else:
        output.write_files({target: imported.text}, "name a new file")
        what = ", ".join((TIME.render(imported.lasts_ns), *imported.ranges))
        click.echo(f"wrote {target}: {imported.rows} rows, {what}")
    if form == "rates" and source("interval") is not ParameterSource.COMMANDLINE:
        click.echo(f"note: each line holds for {interval}: --interval sets another time", err=True)
    if imported.raised:
        least = RATE.render(LEAST_LINK_RATE)
        click.echo(f"rates below {least}, the smallest of a link, that became {least}: {imported.raised}", err=True)


def _import(text: str, form: str, columns: tuple[str, ...], interval: str, frame: int) -> ImportedTrace:
    """Return the schedule of a text. Raises TraceError for the text and SpecError for options."""
    from mprun.inputs.keys.trace_file import read_mahimahi, read_rates
    from mprun.inputs.trace_import import import_csv, import_rates, parse_column

    with refusing("option", ValueError):
        interval_ns = INTERVAL.parse(interval)
        named = [parse_column(column) for column in columns]
    if form == "csv":
        return import_csv(text, named)
    return import_rates(read_rates(text, interval_ns) if form == "rates" else read_mahimahi(text, interval_ns, frame))
