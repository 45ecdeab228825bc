# SPDX-License-Identifier: Apache-2.0
"""`mprun search`: find the conditions under which a statement does not hold."""

from __future__ import annotations

import sys
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mprun.cli import options, output, prose
from mprun.cli.output import emit, show_table
from mprun.errors import SpecError
from mprun.machine import invoking_user
from mprun.safety.text import plain

if TYPE_CHECKING:
    from mprun.model.search_space import Search
    from mprun.questions.proposal import Boundary
    from mprun.questions.search import SearchedPoint, SearchResult
    from mprun.storage.sweep_directory import SweepDirectory

DEFAULT_BUDGET = 128


@click.command("search")
@options.files("topology experiment params seed outside")
@options.runs("kernel parent consent cluster jobs keep.none")
@options.number(
    "--budget", 4, 100_000, "Use at most N points. A point needs a run, and one for each control.", DEFAULT_BUDGET
)
@options.to_folder("Write topo.yaml and xp.yaml of the worst point to DIRECTORY.", default=Path("worst"))
@click.option("--json", "as_json", is_flag=True, help="Print the outcome of each point as JSON.")
def command(files: options.FileOptions, runs: options.RunOptions, budget: int, target: Path, as_json: bool) -> None:
    """Find the conditions under which a statement does not hold, and the boundary around them.

    `search` in the experiment says what varies, which statement should hold, and which control runs must pass at the
    same point. The runs are a sweep, whose table `search` has a row for each point. The same command resumes a search.
    """
    from mprun.cli.sweep_work import growing_sweep, start_executor
    from mprun.engines.trial import refuse_unknown
    from mprun.inputs.loading import load_search
    from mprun.questions.proposal import load_optimiser
    from mprun.questions.search import find_violation
    from mprun.runs import runner
    from mprun.runs.place import choose_control, choose_place_of
    from mprun.sweeps import execution, study

    output.refuse_existing(target)
    allowed = files.permissions(runs.consent)
    loaded, load_at = load_search(files.topology, files.experiment, files.parameters, files.seed, allowed=allowed)
    refuse_unknown((loaded, *loaded.ends), "virtual", runs.kernel)
    load_optimiser()
    prose.warn(loaded.warnings)
    search = loaded.spec.experiment.search
    assert search is not None
    prose.note_unconfined()
    began = time.monotonic()
    asked, inputs = f"{search} {budget}", runner.read_inputs(loaded.sources)
    # a cluster that cannot be used leaves no directory behind
    kernel = choose_place_of(loaded.values, "virtual", runs.kernel).kernel_name
    for name, changes in search.controls.items():
        if [*changes] == ["kernel"]:
            choose_control(str(changes["kernel"]), kernel, f"search.control.{name}")
    kernels = dict.fromkeys((kernel, *(str(one["kernel"]) for one in search.controls.values() if "kernel" in one)))
    cells = [cell for one in kernels for cell in study.make_cells([replace(loaded, values=())], "virtual", one)]
    first = execution.place_cells(cells, "virtual", runs.consent)
    with (
        closing(start_executor(first, runs)) as executor,
        growing_sweep(asked, inputs, kernel, runs, executor) as growing,
    ):
        seed = loaded.spec.experiment.seed
        found = find_violation(search, budget, seed, load_at, growing.run)
        sweep = growing.directory
        if sweep is None:
            raise SpecError(f"every point is below a floor, as {found.tested[0].reason}: change 'floors' or 'vary'")
        written = _write(search, found, sweep, target)
    took_s = time.monotonic() - began
    if as_json:
        _emit(search, found, sweep, written)
    else:
        names = [str(path.with_suffix("")) for path in written]
        again = f"mprun -t {names[0]} -x {names[1]}{prose.spell_kernel(kernel)}" if names else ""
        _show(search, found, sweep, again, took_s)
    sys.exit(1 if found.worst else 0)


def _write(search: Search, found: SearchResult, sweep: SweepDirectory, folder: Path) -> tuple[Path, ...]:
    """Write the table, the figure and the files of the worst point. Return the files."""
    from mprun.questions.minimise import write_files
    from mprun.questions.question_figures import draw_search
    from mprun.questions.search import TABLE, read_case, tabulate
    from mprun.reports.chart import write_svg

    runs = {kept.cell: kept for kept in sweep.runs()}
    names = {cell: kept.directory for cell, kept in runs.items()}
    sweep.write_tables({TABLE: tabulate(search, found, names)})
    for chart in draw_search(search, found):
        write_svg(sweep.folder, chart)
    worst = found.worst
    if worst is None or worst.run is None:
        return ()
    invoking_user.make_folder(folder)
    head = f"# The worst point of a search: {plain(search.violate)}\n"
    written = write_files(read_case(runs[worst.run].run), folder, head)
    invoking_user.give(folder)
    return written


def _show(search: Search, found: SearchResult, sweep: SweepDirectory, again: str, took_s: float) -> None:
    from mprun.model.scalar import spell_values
    from mprun.questions.search import spell_edges

    runs = sum(1 for _ in sweep.runs())
    violated = f"{found.count('violated')} violated"
    if broken := sum(one.kind == "violated" and bool(one.reason) for one in found.tested):
        violated += f" ({broken} by a run without values)"
    parts = [f"{found.count('holds')} hold", violated]
    if unsure := found.count("control"):
        parts.append(f"{unsure} where a control fails too")
    if low := found.count("floor"):
        parts.append(f"{low} below a floor")
    click.echo(f"{len(found.tested)} points, {runs} runs, {took_s:.0f} s: {', '.join(parts)}")
    if found.worst is None:
        nearest = min((one for one in found.tested if one.kind == "holds"), key=lambda one: one.margin, default=None)
        click.echo(prose.wrap(f"no point violates: {plain(search.violate)}", "", "  "))
        if nearest is not None:
            click.echo(f"nearest to it, {nearest.margin:.1%} away: {spell_values(nearest.values, ', ')}")
    else:
        click.echo(prose.wrap(f"worst point for: {plain(search.violate)}", "", "  "))
        click.echo(prose.wrap(f"  {_spell_figures(found.worst)}", "", "  "))
        show_table([(f"  {name}", value, told) for name, value, told in spell_edges(search, found)], 3)
        click.echo(f"again: {again}")
    click.echo(f"map and figure: {prose.spell_path(sweep.path)}/tables/search.parquet, search.svg")


def _spell_figures(one: SearchedPoint) -> str:
    from mprun.model.metric import SYMBOLS
    from mprun.model.units import format_measured

    if one.reason:
        return f"its run ended without values: {plain(one.reason)}"
    figures = (f"{name} {format_measured(value.amount, SYMBOLS[value.unit])}" for name, value in one.figures.items())
    return ", ".join(figures)


def _emit(search: Search, found: SearchResult, sweep: SweepDirectory, files: tuple[Path, ...]) -> None:
    def tell(one: SearchedPoint) -> dict[str, Any]:
        figures = {name: value.amount for name, value in one.figures.items()}
        margin = None if one.kind == "floor" else one.margin
        told = {"values": dict(one.values), "stage": one.stage, "verdict": one.kind, "margin": margin}
        return told | {"figures": figures, "reason": one.reason}

    def tell_edge(edge: Boundary) -> dict[str, Any]:
        axis = search.axes[edge.axis]
        beyond = None if edge.holds is None else axis.value_at(edge.holds)
        doubt = "" if beyond is None else found.find_uncounted(axis.name, beyond)
        holds, uncounted = (None, beyond) if doubt else (beyond, None)
        told = {"axis": axis.name, "violated": axis.value_at(edge.violated), "holds": holds}
        return told | {"uncounted": uncounted, "reason": doubt}

    worst = None if found.worst is None else tell(found.worst)
    told = {"directory": str(sweep.path), "statement": search.violate, "worst": worst}
    points = [tell(one) for one in found.tested]
    emit(told | {"edges": list(map(tell_edge, found.edges)), "files": list(map(str, files)), "points": points})
