# SPDX-License-Identifier: Apache-2.0
"""The report of a sweep: reads its cells and their statistics, writes `report.html` and `figures/`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from mprun.inputs.loading import load
from mprun.metrics.cells import INCOMPLETE, column_of
from mprun.metrics.metric_table import table_of_sweep
from mprun.metrics.statistics import CONFIDENCE
from mprun.model.sweep_files import CellRepeat, CellSummary, SweepRecord, SweepSummary
from mprun.reports.figure import Chart
from mprun.reports.gallery import Gallery, PageProgress, draw_topology
from mprun.reports.messages import list_messages
from mprun.reports.metrics import list_verdicts, metrics_of_sweep
from mprun.reports.page import Grid, Page, PageRow, Tile, render
from mprun.reports.run_page import WORDS, describe
from mprun.reports.sweep_figures import Study, draw_sweep, lacking
from mprun.storage.output_directory import write_page
from mprun.storage.sweep_directory import SweepDirectory
from mprun.sweeps.sweep_summary import read_summary, read_table, tell_outcome, tell_progress

MOST_FIGURES = 6


def make_sweep_report(sweep: SweepDirectory, progress: PageProgress, confidence: float = CONFIDENCE) -> Path:
    """Write the report into the sweep's directory. Return the path of the page.

    Raises MprunError if a file of the sweep is missing or damaged, and SpecError if this mprun cannot read its inputs.
    """
    progress("reading the sweep", 0.0)
    record, summary = sweep.record, read_summary(sweep)
    cells = summary.cells
    plots = record.plots
    study = replace(gather(sweep, cells), confidence=confidence)
    leading = metrics_of_sweep(sweep, cells)
    charts = list(draw_sweep(study, plots, leading[:MOST_FIGURES]))
    gallery = Gallery()
    notes = list(lacking(study, plots))
    progress("drawing the network", 0.05)
    description, drawn = _describe(sweep, gallery)
    gallery.add_all(charts, progress)
    page = Page(
        title=record.title,
        description=description,
        status=summary.status,
        verdict=tell_outcome(summary),
        verdicts=list(list_verdicts(summary, sweep)),
        tiles=list(_tiles(study, summary)),
        problems=list(_problems(sweep, summary)),
        # figures before the network, which is the same in every cell
        pictures=sorted(gallery.pictures, key=lambda picture: picture.is_broad),
        notes=[*notes, *drawn],
        grids=[_grid(study, leading)],
        facts=list(_facts(sweep, record)),
        repeat=[("To compare it with another:", f"mprun compare {sweep.name} OTHER")],
        inputs=sweep.inputs(),
    )
    return write_page(sweep.folder, render(page), gallery.files)


def charts_of(sweep: SweepDirectory) -> list[Chart]:
    """Return the figures of the report, not yet painted. Raises the same errors as `make_sweep_report`."""
    record, cells = sweep.record, read_summary(sweep).cells
    leading = metrics_of_sweep(sweep, cells)
    return list(draw_sweep(gather(sweep, cells), record.plots, leading[:MOST_FIGURES]))


def gather(sweep: SweepDirectory, cells: Sequence[CellSummary]) -> Study:
    """Return the cells with the values of their runs."""
    axes: dict[str, dict[Any, None]] = {}
    for one in sweep.record.cells:
        for name, value in one.values.items():
            axes.setdefault(name, {})[value] = None
    table = read_table(sweep)
    # by the folders of cells, because a column has one type: in a column with 1.5, a value of 1 becomes 1.0
    folders = table["directory"].cast(str).str.replace("/[^/]*$", "")
    samples = []
    for cell in cells:
        # as in the statistics, runs that ended with an error do not count
        part = table.filter(folders == f"runs/{cell.folder}", table["status"].cast(str) != "error")
        found: dict[str, Sequence[float]] = {}
        for metric, statistic in cell.metrics.items():
            column = column_of(metric, statistic.unit)
            if column in part.columns:
                found[metric] = part[column].drop_nulls().to_list()
        samples.append(found)
    return Study(cells, samples, {name: list(values) for name, values in axes.items()})


def _describe(sweep: SweepDirectory, gallery: Gallery) -> tuple[str, list[str]]:
    """Return the description in the input files, and notes about the network, which is drawn as in the first cell."""
    first = next(iter(sweep.runs()), None)
    if first is None or not first.run.has_resolved_inputs:
        return "", ["The network is not drawn: no run has kept its inputs."]
    spec = load(*first.run.resolved_inputs).spec
    notes = list(draw_topology(spec, gallery, "The links and their properties in the first cell."))
    return describe(spec), notes


def _problems(sweep: SweepDirectory, summary: SweepSummary) -> Iterator[tuple[str, str]]:
    if summary.status == INCOMPLETE:
        yield INCOMPLETE, f"Only {tell_progress(summary)}: means, intervals and verdicts are of these."
    for text in summary.warnings:
        yield "warning", text
    yield from ((WORDS[kind], text) for kind, text in list_messages(sweep, summary.cells))


def _tiles(study: Study, summary: SweepSummary) -> Iterator[Tile]:
    runs = summary.runs
    # axes of a `zip`, and cells that are left out, are no product
    sign = " × " if math.prod(map(len, study.axes.values())) == len(study.cells) else ", "
    yield Tile("cells", str(len(study.cells)), sign.join(f"{len(v)} {name}" for name, v in study.axes.items()))
    yield Tile("runs", str(runs.total), f"{runs.passed} passed")


def _grid(study: Study, metrics: Sequence[str]) -> Grid:
    table = table_of_sweep(study.cells, metrics, study.confidence)
    means = f": means, with t intervals of {study.confidence * 100:.0f} %" if table.has_intervals else ""
    return Grid(f"Cells{means}", table.head, tuple(PageRow(tuple(map(str, row))) for row in table.rows), table.names)


def _facts(sweep: SweepDirectory, record: SweepRecord) -> Iterator[tuple[str, str]]:
    yield "sweep", sweep.name
    yield "engines", ", ".join(dict.fromkeys(cell.engine for cell in record.cells))
    for name, kernel in record.kernels.items():
        yield f"kernel {name}", f"{kernel.version}, digest {kernel.digest}"
    repeats = [cell.repeat for cell in record.cells]
    yield "base seed", ", ".join(dict.fromkeys(str(one.seed) for one in repeats))
    yield "repetitions", ", ".join(dict.fromkeys(_repetitions(one) for one in repeats))
    varied = ", ".join(dict.fromkeys(name for one in repeats for name in one.vary))
    yield "the seed varies", f"what the kernel draws; {varied}" if varied else "what the kernel draws"
    yield "digest", record.digest


def _repetitions(repeat: CellRepeat) -> str:
    if repeat.until is None:
        return str(repeat.most)
    until = repeat.until
    return (
        f"{repeat.least} to {repeat.most}, until the {until.confidence:.0%} interval of {until.metric} is "
        f"within {until.within:.2%}"
    )
