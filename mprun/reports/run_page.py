# SPDX-License-Identifier: Apache-2.0
"""The report of a run: reads its tables and records, writes `report.html` and `figures/`.

A report is made only from the files of the run, so it can be made again. Equal runs give equal bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

from mprun.inputs.loading import load
from mprun.model.metric import SYMBOLS, Metrics, find_metric, metrics_of
from mprun.model.plan import Plan
from mprun.model.run_summary import KINDS, Kind, MetricValue, Summary
from mprun.model.spec import Spec
from mprun.model.units import format_measured
from mprun.reports.gallery import Gallery, PageProgress, draw_topology
from mprun.reports.metrics import ExpectationRow, format_bound, format_judged, list_known
from mprun.reports.page import Grid, LeftFile, Page, PageRow, Tile, render
from mprun.reports.run_charts import read_data
from mprun.reports.run_figures import draw_run, lacking
from mprun.safety.cell import MISSING
from mprun.safety.text import printable
from mprun.storage.output_directory import write_page
from mprun.storage.run_directory import RESOLVED_EXPERIMENT, RESOLVED_TOPOLOGY, RunDirectory
from mprun.storage.sweep_directory import title_of
from mprun.workloads.tool import OwnedMetrics

# The main metrics of a report, in this order, each with a second metric and its words for the note below it.
MAIN = (
    ("goodput", "efficiency.sum", "of all paths' rates"),
    ("delay.median", "delay.p95", "95th percentile"),
    ("completion.median", "completion.p95", "95th percentile"),
    ("completion", "", ""),
    ("rtt", "rtt.max", "longest"),
    ("loss", "", ""),
    ("subflows", "retransmits", "sent again"),
)
MOST_TILES = 8
# The files of the run that are listed.
MOST_FILES = 30
# The messages in a summary, and the word before each of them.
WORDS: Mapping[Kind, str] = {"errors": "error", "failures": "failed", "warnings": "warning"}


def make_report(run: RunDirectory, progress: PageProgress) -> Path:
    """Write the report into the run directory. Return the path of the page.

    Raises MprunError if the run is incomplete, SpecError if this mprun cannot read its inputs.
    """
    progress("reading the run", 0.0)
    spec = load(*run.resolved_inputs).spec
    evidence = read_data(run)
    summary, plan = run.summary(), run.plan()
    gallery = Gallery()
    charts = list(draw_run(evidence, spec.experiment.plots))
    progress("drawing the network", 0.05)
    notes = [
        *draw_topology(spec, gallery, "The links and their properties in the topology."),
        *lacking(evidence, spec.experiment.plots),
    ]
    gallery.add_all(charts, progress)
    left = run.left_files()
    known = {name: summary.metrics[name] for name in list_known(summary, run)}
    page = Page(
        title=title_of(run),
        description=describe(spec),
        status=summary.status,
        verdict=_verdict(summary),
        verdicts=list(_verdicts(summary)),
        tiles=list(_tiles(spec, known)),
        problems=list(_problems(summary)),
        pictures=gallery.pictures,
        notes=notes,
        grids=list(_grids(spec, known)),
        facts=list(_facts(run, plan, summary)),
        repeat=_commands(run),
        inputs=run.inputs(),
        files=[_left_file(run, name) for name in left[:MOST_FILES]],
        unlisted=max(0, len(left) - MOST_FILES),
    )
    return write_page(run.folder, render(page), gallery.files)


def describe(spec: Spec) -> str:
    """Return the descriptions of the experiment and of the topology, as far as the files have them."""
    return " · ".join(filter(None, (spec.experiment.description, spec.topology.description)))


def _verdict(summary: Summary) -> str:
    verdicts = summary.expectations
    held = sum(verdict.held for verdict in verdicts)
    said = f"{held} of {len(verdicts)} expectations hold" if verdicts else "no expectation was judged"
    counts = [(len(summary.messages(kind)), kind) for kind in KINDS]
    words = [f"{count} {kind if count > 1 else kind[:-1]}" for count, kind in counts if count]
    if not summary.complete:
        words.append("the run is not complete")
    return ", ".join([said, *words])


def _verdicts(summary: Summary) -> Iterator[ExpectationRow]:
    for verdict in summary.expectations:
        metric = summary.metrics.get(verdict.metric)
        unit = metric.unit if metric else "1"
        measured = format_judged(metric, [verdict]) if metric else "not measured"
        yield ExpectationRow(verdict.metric, format_bound(verdict.bounds, unit), measured, verdict.held)


def _problems(summary: Summary) -> Iterator[tuple[str, str]]:
    for kind, word in WORDS.items():
        yield from ((word, text) for text in summary.messages(kind))
    yield from (("note", text) for text in summary.notes)
    yield from (("middlebox", text) for text in summary.middleboxes)


def _tiles(spec: Spec, metrics: Mapping[str, MetricValue]) -> Iterator[Tile]:
    shown = list(dict.fromkeys(flow.group or flow.name for flow in spec.experiment.traffic if not flow.background))
    found = []
    for main, second, words in MAIN:
        for owner in ("total", *shown):
            metric = metrics.get(f"{owner}.{main}")
            if metric is None:
                continue
            more = metrics.get(f"{owner}.{second}")
            note = f"{format_measured(more.value, more.unit)} {words}" if more else ""
            found.append(Tile(f"{owner}.{main}", format_measured(metric.value, metric.unit), note))
    yield from found[:MOST_TILES]


def _grids(spec: Spec, metrics: Mapping[str, MetricValue]) -> Iterator[Grid]:
    """Yield the tables: of each flow or group, of its paths, and the round-trip times of all paths.

    Flows of a group are left out, because there may be hundreds. They are in the summary.
    """
    owned = OwnedMetrics(spec.experiment.traffic)
    groups = {flow.group for flow in spec.experiment.traffic}
    members = {flow.name for flow in spec.experiment.traffic if flow.group is not None}
    owners = dict.fromkeys(name.partition(".")[0] for name in metrics)
    others: list[PageRow] = []
    for owner in owners:
        if owner in members and owner not in groups:
            continue
        known = metrics_of(owner, owned)
        own = {name.partition(".")[2]: metric for name, metric in metrics.items() if name.partition(".")[0] == owner}
        if owner in owned or owner == "total":
            yield from _grids_of(owner, own, known)
        else:
            others += [_row(f"{owner}.{what}", own[what], known, what) for what in own]
    if others:
        yield Grid("Paths, before the traffic", ("metric", "value"), tuple(others))


def _grids_of(owner: str, own: Mapping[str, MetricValue], known: Metrics) -> Iterator[Grid]:
    plain = [_row(what, metric, known, what) for what, metric in own.items() if _path_of(known, what) is None]
    yield Grid(owner if owner != "total" else "All flows together", ("metric", "value"), tuple(plain))
    by_path = {what: path for what in own if (path := _path_of(known, what)) is not None}
    paths = list(dict.fromkeys(by_path.values()))
    if not paths:
        return
    stems = dict.fromkeys(what.removesuffix(f".{path}") for what, path in by_path.items())
    rows = []
    for stem in stems:
        cells = [own.get(f"{stem}.{path}") for path in paths]
        texts = [MISSING if cell is None else format_measured(cell.value, cell.unit) for cell in cells]
        rows.append(PageRow((stem, *texts), known[stem].meaning if stem in known else ""))
    if len(paths) > len(rows) + 3:
        columns = list(zip(*(row.cells for row in rows), strict=True))
        turned = tuple(PageRow((path, *cells)) for path, cells in zip(paths, columns[1:], strict=True))
        yield Grid(f"{owner} by path", ("path", *columns[0]), turned)
    else:
        yield Grid(f"{owner} by path", ("metric", *paths), tuple(rows))


def _row(name: str, metric: MetricValue, known: Metrics, what: str) -> PageRow:
    """Return the row of a metric, with its meaning. what: its name in `known`."""
    found = find_metric(known, what)
    return PageRow((name, format_measured(metric.value, metric.unit)), found[0].meaning if found else "")


def _path_of(known: Metrics, what: str) -> str | None:
    found = find_metric(known, what)
    return found[1] if found else None


def _facts(run: RunDirectory, plan: Plan, summary: Summary) -> Iterator[tuple[str, str]]:
    environment = run.environment()
    kernel = environment.kernel
    yield "run", run.name
    simulated = "real time" if environment.real_time else "simulated time"
    yield "engine", f"{environment.engine} ({simulated}): {environment.engine_reason}"
    yield "kernel", kernel.version
    if kernel.digest:
        yield "kernel digest", kernel.digest
    yield "seed", str(summary.seed)
    yield "plan digest", plan.digest
    yield "mprun", environment.code
    yield "tools", "; ".join(next(iter(text.splitlines()), "").strip() for text in environment.versions.values())
    yield "Python", environment.python


def _left_file(run: RunDirectory, name: str) -> LeftFile:
    size = format_measured(run.folder.size(name), SYMBOLS["size"])
    return LeftFile(printable(name), quote(name, errors="surrogateescape"), size)


def _commands(run: RunDirectory) -> Sequence[tuple[str, str]]:
    topology, experiment = (f"inputs/{name}" for name in (RESOLVED_TOPOLOGY, RESOLVED_EXPERIMENT))
    return [
        ("To prove that it repeats, byte by byte:", f"mprun verify {run.name}"),
        ("To run it again, from its directory:", f"mprun -t {topology} -x {experiment}"),
    ]
