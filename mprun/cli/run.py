# SPDX-License-Identifier: Apache-2.0
"""`mprun run`, also `mprun -t T -x X`."""

from __future__ import annotations

import contextlib
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mprun.cli import options, output, prose
from mprun.cli.output import emit
from mprun.cli.progress import Bar
from mprun.errors import Interrupted, MprunError, RunError

if TYPE_CHECKING:
    from mprun.engines.agent_process import Shell
    from mprun.storage.run_directory import RunDirectory

# The columns of a terminal from which on a run ends with a figure.
WIDE = 100


@click.command("run")
@options.files("topology experiment params seed strict outside")
@options.runs("engine kernel parent consent")
@click.option("--label", metavar="TEXT", help="Name the run TEXT in lists. label=TEXT then stands for the run.")
@click.option("--shell", type=click.Choice(["before", "after"]), help="Open Mininet's prompt before or after the run.")
@options.verdicts
@click.option("--all", "show_all", is_flag=True, help="Show all metrics, with their meanings.")
@click.option("--open", "is_shown", is_flag=True, help="Write the report of the run, and open it in a browser.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON, with the directory of the run.")
def command(
    files: options.FileOptions,
    runs: options.RunOptions,
    label: str | None,
    shell: Shell | None,
    verdicts: options.VerdictOptions,
    show_all: bool,
    is_shown: bool,
    as_json: bool,
) -> None:
    """Run an experiment on a topology and write all results to runs/latest."""
    problems = {
        "is empty: give a text, or leave it out": label is not None and not label.strip(),
        "has a comma, which separates values in `mprun show label=...`: leave it out": "," in (label or ""),
        "is the name of a link to the newest result: give another text": label in ("latest", "latest-sweep"),
    }
    if problem := next((text for text, is_met in problems.items() if is_met), None):
        raise click.UsageError(f"--label {problem}")
    loaded = files.load(runs.consent)
    # after the line that says that the files are read
    from mprun.cli.show_run import show_summary
    from mprun.engines.trial import refuse_unknown
    from mprun.model.run_files import LABEL
    from mprun.runs import runner
    from mprun.runs.place import choose_place_of
    from mprun.storage.run_directory import RunDirectory

    place = choose_place_of(loaded.values, runs.engine, runs.kernel)
    refuse_unknown([loaded], place.name, runs.kernel)
    if not as_json:
        click.echo(f"engine: {place.name} ({place.reason})", err=True)
        if loaded.spec.experiment.repeat.most > 1:
            click.echo("note: this is one run; `mprun sweep` repeats it as the file asks", err=True)
    if label and LABEL in loaded.parameters:
        raise click.UsageError("--label conflicts with the parameter 'label' of the files: rename the parameter")
    values = {**loaded.parameters, **({LABEL: label} if label else {})}
    request = runner.make_request(replace(loaded, parameters=values), place, runs.consent, shell)
    links = runner.find_links(loaded.spec, Path(files.experiment).parent)
    try:
        with Bar(quiet=shell is not None) as bar:
            run, summary = runner.run_request(request, runs.parent, bar.show)
    except (RunError, Interrupted):
        RunDirectory.clear_links(Path(), links)
        raise
    linked, refused = run.link_into(Path(), links)
    # of a run that ended early most files are missing, and its error says why
    for name, reason in refused if summary.status != "error" else ():
        file, line = loaded.locate(("links", name))
        click.echo(f"warning: {file}:{line}: link {name}: {reason}", err=True)
    if verdicts.is_wanted:
        from mprun.reports.test_results import checks_of_run

        verdicts.write(run.title, checks_of_run(run.title, summary))
    if as_json:
        emit({"directory": str(run.path), **summary.to_json()})
    else:
        is_terminal = sys.stdout.isatty()
        if is_terminal and (width := prose.terminal_width()) >= WIDE:
            _plot(run, width)
        if (plots := loaded.spec.experiment.plots) and run.is_complete:
            from mprun.reports.run_charts import read_data
            from mprun.reports.run_figures import lacking

            prose.warn(lacking(read_data(run), plots))
        show_summary(summary, run, show_all, told=loaded.warnings)
        if linked:
            click.echo(prose.wrap(", ".join(linked), "here: ", "      "))
        if is_terminal and not is_shown:
            click.echo("to look at it: mprun show, or mprun report --open")
    if is_shown:
        from mprun.cli.report import write_report

        output.launch(write_report(run))
    if files.strict and summary.warnings:
        click.echo("failed because of its warnings (--strict)", err=True)
        sys.exit(1)
    sys.exit(0 if summary.status == "passed" else 1)


def _plot(run: RunDirectory, width: int) -> None:
    """Print the first figure of the run over time: by default, the rate of the first flow."""
    from mprun.reports.run_charts import charts_of
    from mprun.reports.text_chart import list_marks, to_text

    # a figure that cannot be drawn does not hide the summary
    with contextlib.suppress(MprunError):
        chart = next((one for one in charts_of(run) if one.is_over_time), None)
        if chart is not None:
            click.echo("\n".join([*to_text(chart, width), *list_marks([chart])]) + "\n")
