# SPDX-License-Identifier: Apache-2.0
"""`mprun report`: an HTML report of a run or a sweep with its figures, or of several runs in common figures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from mprun.cli import operand, options, output, prose
from mprun.cli.completion import complete_runs
from mprun.cli.operand import find_either, open_operands
from mprun.cli.progress import Bar
from mprun.machine import invoking_user
from mprun.metrics.statistics import CONFIDENCE
from mprun.storage.run_directory import RunDirectory
from mprun.storage.sweep_directory import ResultDirectory
from mprun.storage.table import readable


@click.command("report")
@click.argument("names", metavar="[RUN|SWEEP]...", nargs=-1, shell_complete=complete_runs)
@options.parent
@click.option("--open", "is_shown", is_flag=True, help="Open the report in a browser.")
@options.confidence
def command(names: tuple[str, ...], parent: Path, is_shown: bool, confidence: float | None) -> None:
    """Write an HTML report of a run or a sweep with its figures. Default: the newest.

    The file report.html in the directory of the run or sweep needs no other file. Each figure is also in figures/
    as SVG, as PNG, as PDF of the width of a paper's column (85 mm), and its data as CSV.

    If two or more runs are named, the report shows them together: a curve for each run in each figure over time,
    and the differences of their metrics. It has a directory of its own in the directory of -o. LAB/STEP, such as
    01/xp_tcp, is the newest run of a lab's step.
    """
    if len(names) > 1:
        path = _report_several(parent, names, confidence)
    else:
        path = _report_one(parent, names[0] if names else "latest", confidence)
    click.echo(prose.spell_path(path))
    if is_shown:
        output.launch(path)


def _report_one(parent: Path, name: str, confidence: float | None) -> Path:
    found = find_either(parent, name)
    if isinstance(found, RunDirectory):
        options.refuse_confidence(confidence)
        operand.restore_tables(found)
    else:
        from mprun.reports.sweep_figures import tell_figures_of_runs

        operand.tell_incomplete(found)
        for text in tell_figures_of_runs(found.record.plots):
            click.echo(f"note: {text}", err=True)
    return write_report(found, confidence or CONFIDENCE)


def write_report(found: ResultDirectory, confidence: float = CONFIDENCE) -> Path:
    """Write the report of a run or a sweep, with progress. Return the path of the page."""
    from mprun.reports.run_page import make_report
    from mprun.reports.sweep_page import make_sweep_report

    with readable(found.path), Bar() as bar:
        if isinstance(found, RunDirectory):
            path = make_report(found, bar.show)
        else:
            path = make_sweep_report(found, bar.show, confidence)
    invoking_user.give(path.parent)
    return path


def _report_several(parent: Path, names: Sequence[str], confidence: float | None) -> Path:
    from mprun.cli.compare import note_same, write_comparison
    from mprun.sweeps.operands import measure_operands, read_operands

    with open_operands(parent, names) as named:
        note_same([one.source for one in named], "two of the names")
        first, *others = named
        if isinstance(first.source, RunDirectory):
            options.refuse_confidence(confidence)
        level = confidence or CONFIDENCE
        pairs = [
            measure_operands(read_operands(first.source, one.source, first.name, one.name), level) for one in others
        ]
        return write_comparison(parent, pairs, named)
