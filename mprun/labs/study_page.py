# SPDX-License-Identifier: Apache-2.0
"""The page of a study: each published figure with its picture, its verdict and the command that makes it.

The page is a folder with `README.md`, and a picture and a CSV file of each figure. It is written again after each run
of the lab.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from textwrap import fill

from mprun.errors import MprunError
from mprun.labs.definition import Lab
from mprun.labs.published_figure import draw_binned, draw_classes, draw_pairs
from mprun.labs.steps import make_packet_tables
from mprun.labs.study_figure import CONFIDENCE, Finding, JudgedFigure, StudyFigure, spell_drawn
from mprun.machine import invoking_user
from mprun.model.units import NS_PER_S
from mprun.reports.chart import write_svg
from mprun.reports.comparison_page import read_subjects
from mprun.reports.figure import Chart, to_csv
from mprun.reports.overlay import average_steps, overlay
from mprun.reports.run_charts import charts_of
from mprun.reports.sweep_page import charts_of as charts_of_sweep
from mprun.safety.cell import write_cell
from mprun.safety.folder import Folder
from mprun.safety.text import plain
from mprun.storage.run_directory import PAGE_PREFIX, RunDirectory
from mprun.storage.sweep_directory import ResultDirectory, SweepDirectory

HEAD = ("figure", "published", "here", "seeds", "verdict", "command")
COLUMNS = 110


def name_folder(lab: Lab) -> str:
    """Return the name of the folder of a lab's page, below the folder of the runs."""
    return f"{PAGE_PREFIX}{lab.name}"


def write_page(
    parent: Path,
    lab: Lab,
    judged: Sequence[JudgedFigure],
    results: Mapping[str, ResultDirectory],
    walls_s: Mapping[str, float],
) -> Path:
    """Write the page of a lab's figures below `parent` and return its path.

    - results: the runs and sweeps by their names in the lab.
    - walls_s: the real time of each of them, in seconds.
    """
    pictures = draw_pages(parent, lab, judged, results)
    folder = Folder(parent).make(name_folder(lab))
    folder.write_text("README.md", write_text(lab, judged, pictures, walls_s))
    return folder.path / "README.md"


def draw_pages(
    parent: Path, lab: Lab, judged: Sequence[JudgedFigure], results: Mapping[str, ResultDirectory]
) -> dict[str, list[str]]:
    """Draw the pictures of a lab's figures below `parent`, and write their CSV files. Return their names by figure."""
    invoking_user.make_folder(parent)
    folder = Folder(parent).make(name_folder(lab))
    pictures = {}
    for one in judged:
        charts = draw(one, results)
        pictures[one.figure.name] = [chart.name for chart in charts]
        for chart in charts:
            write_svg(folder, chart)
            folder.write_text(f"{chart.name}.csv", to_csv(chart))
    return pictures


def write_text(
    lab: Lab, judged: Sequence[JudgedFigure], pictures: Mapping[str, Sequence[str]], walls_s: Mapping[str, float]
) -> str:
    """Return the text of a lab's page. pictures: the names of the pictures of each figure."""
    publication = lab.file.publication.strip()
    text = "\n".join(
        [
            f"# {_escape(lab.file.title)}: published and measured here",
            "",
            *([_wrap(_escape(f"Publication: {publication}")), ""] if publication else []),
            *table(lab, judged, walls_s),
            "",
            *(line for one in judged for line in _section(one, pictures[one.figure.name])),
        ]
    )
    return text.rstrip() + "\n"


def draw(judged: JudgedFigure, results: Mapping[str, ResultDirectory]) -> list[Chart]:
    """Return the pictures of a figure: its values, the figure of a run's report, and the curves of several runs."""
    figure = judged.figure
    # bars of measured values alone would repeat the table
    is_compared = any(one.published is not None for one in judged.values)
    pairs = draw_pairs(figure.name, _title(judged), figure.entry.quantity, judged.values) if is_compared else None
    charts = [pairs] if pairs else []
    if figure.picture and figure.picture[0] in results:
        step, picture = figure.picture
        charts += [replace(chart, name=f"{figure.name}-run") for chart in _charts(results[step], picture)]
    charts += [replace(chart, name=f"{figure.name}-runs") for chart in _draw_together(figure, results)]
    return charts + [chart for chart in (_draw_binned(judged, results), _draw_classes(judged, results)) if chart]


def _draw_classes(judged: JudgedFigure, results: Mapping[str, ResultDirectory]) -> Chart | None:
    """Return the figure of the packets of one flow of each class; None if its run was not made."""
    wanted = judged.figure.entry.sequence
    run = results.get(wanted.run) if wanted else None
    if wanted is None or not isinstance(run, RunDirectory):
        return None
    make_packet_tables(run)
    return draw_classes(
        f"{judged.figure.name}-sequence", _title(judged), dict(run.tables()), wanted.flow, wanted.classes
    )


def _draw_binned(judged: JudgedFigure, results: Mapping[str, ResultDirectory]) -> Chart | None:
    """Return the figure of means in bins; None if none of its runs was made."""
    binned = judged.figure.entry.binned
    if binned is None:
        return None
    runs = {}
    for name, step in binned.runs.items():
        run = results.get(step)
        if not isinstance(run, RunDirectory):
            continue
        table = run.find_table(binned.table)
        columns = (binned.over, binned.of)
        if table is None or not set(columns) <= set(table.collect_schema()):
            known = ", ".join(columns)
            raise MprunError(f"{run.path}: has no table '{binned.table}' with the columns {known}")
        runs[name] = table.select(columns).collect().to_dict(as_series=False)
    return draw_binned(f"{judged.figure.name}-bins", _title(judged), binned, runs)


def _draw_together(figure: StudyFigure, results: Mapping[str, ResultDirectory]) -> list[Chart]:
    """Return the figure with the curves of several runs; none if fewer than two of them were made."""
    together = figure.entry.together
    if together is None:
        return []
    found = [(name, results[step]) for name, step in together.runs.items() if step in results]
    runs = [(name, run) for name, run in found if isinstance(run, RunDirectory)]
    if len(runs) < 2:
        return []
    charts = list(overlay(read_subjects(runs)))
    wanted = [chart for chart in charts if chart.name == together.figure]
    if not wanted:
        known = ", ".join(chart.name for chart in charts)
        raise MprunError(f"figure {figure.name}: its runs have no figure '{together.figure}'; figures: {known}")
    interval_ns = together.interval
    return [_average(chart, interval_ns / NS_PER_S) for chart in wanted] if interval_ns else wanted


def _average(chart: Chart, interval_s: float) -> Chart:
    """Return a figure with the means of its curves over intervals. A figure without steps stays as it is."""
    if chart.form != "step":
        return chart
    panels = [
        replace(panel, series=tuple(average_steps(one, interval_s) for one in panel.series)) for panel in chart.panels
    ]
    return replace(chart, panels=tuple(panels))


def _charts(result: ResultDirectory, name: str) -> list[Chart]:
    """Return the figure of a report with this name. Raises MprunError if it does not exist."""
    charts = charts_of_sweep(result) if isinstance(result, SweepDirectory) else charts_of(result)
    found = [chart for chart in charts if chart.name == name]
    if not found:
        known = ", ".join(chart.name for chart in charts)
        raise MprunError(f"{result.path}: its report has no figure '{name}'; figures: {known}")
    return found


def table(lab: Lab, judged: Sequence[JudgedFigure], walls_s: Mapping[str, float]) -> Iterator[str]:
    """Yield the lines of a table with a row for each published result."""
    yield f"| {' | '.join(HEAD)} |"
    yield f"|{' --- |' * len(HEAD)}"
    for one in judged:
        for n, finding in enumerate(one.findings):
            name = _place(one) if n == 0 else ""
            command = _command(lab, one, walls_s) if n == 0 else ""
            texts = (_escape(name), _escape(finding.said), _escape(finding.measured))
            cells = (*texts, str(finding.seeds or ""), finding.verdict, command)
            yield f"| {' | '.join(cells)} |"


def _title(judged: JudgedFigure) -> str:
    """Return `Figure 5: Throughput of one client`; a result of the text has no number."""
    entry = judged.figure.entry
    return entry.title if entry.published == "text" else f"{entry.published}: {entry.title}"


def _place(judged: JudgedFigure) -> str:
    """Return the title of a figure with its sections in the publication."""
    sections = judged.figure.sections
    return f"{_title(judged)} ({', '.join(sections)})" if sections else _title(judged)


def _command(lab: Lab, judged: JudgedFigure, walls_s: Mapping[str, float]) -> str:
    """Return the command that makes a figure, with the sum of the real times of its runs and sweeps."""
    if judged.figure.entry.command:
        return _code(judged.figure.entry.command)
    steps = judged.figure.steps
    if not steps:
        return ""
    known = [walls_s[name] for name in steps if name in walls_s]
    time = f" ({sum(known):.0f} s)" if len(known) == len(steps) else ""
    return f"`mprun lab run {lab.number} --profile published --figure {judged.figure.name}`{time}"


def _code(text: str) -> str:
    """Return a text as code in a cell of a table. Its fence is longer than any row of backticks in the text."""
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    space = " " if len(fence) > 1 else ""
    content = plain(text).replace("|", r"\|")
    return f"{fence}{space}{content}{space}{fence}"


def _section(judged: JudgedFigure, pictures: Sequence[str]) -> Iterator[str]:
    """Yield the lines of a figure's section: its pictures, values and reasons."""
    figure = judged.figure
    title = _title(judged)
    yield f"## {_escape(title)}"
    yield ""
    if figure.sections:
        yield f"In the publication: {_escape(', '.join(figure.sections))}."
        yield ""
    for picture in pictures:
        yield f"![{_escape(title)}]({picture}.svg)"
        yield ""
    if judged.values:
        yield "| value | published | here | source |"
        yield "| --- | --- | --- | --- |"
        for value, drawn in zip(figure.values, judged.values, strict=True):
            row = value.row
            cells = (value.label, row.text if row else "", spell_drawn(drawn), row.source if row else "")
            yield f"| {' | '.join(map(_escape, cells))} |"
        yield ""
        if any(drawn.low is not None for drawn in judged.values):
            yield f"Values of several seeds are means with their intervals of {CONFIDENCE:.0%} (Student's t)."
            yield ""
    if judged.values and not figure.has_numbers:
        yield "The publication has no numbers for these values."
        yield ""
    for finding in judged.findings:
        yield _wrap(f"- {_say(finding)}", "  ")
    yield ""


def list_reasons(judged: Sequence[JudgedFigure]) -> Iterator[str]:
    """Yield a line for each reason of published results that do not agree, with their figure and verdict."""
    for one in judged:
        said: dict[tuple[str, str], list[str]] = {}
        for finding in one.findings:
            said.setdefault((finding.verdict, finding.reason), []).append(f"“{_escape(finding.said)}”")
        for (verdict, reason), results in said.items():
            if verdict != "agrees":
                yield _wrap(f"- {_escape(_title(one))}. {', '.join(results)}: **{verdict}**. {_escape(reason)}", "  ")


def _wrap(text: str, indent: str = "") -> str:
    """Return a text in lines. indent: of all lines but the first."""
    return fill(text, COLUMNS, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _say(finding: Finding) -> str:
    said = f"“{_escape(finding.said)}” " if finding.said else ""
    return f"{said}**{finding.verdict}**: {_escape(finding.reason)}"


def _escape(text: str) -> str:
    return write_cell(text, "markdown")
