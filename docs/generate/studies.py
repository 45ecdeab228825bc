# SPDX-License-Identifier: Apache-2.0
"""The published figures of the studies in the documentation: measure them, record the values, and write the pages.

    python -m docs.generate.studies                      run all labs and write all pages: `make studies`
    python -m docs.generate.studies --labs 10,12         run these labs only
    python -m docs.generate.studies --from RUNS          record the runs that exist in RUNS/LAB, and run nothing
    python -m docs.generate.studies --pages              write the pages again from the recorded values
    python -m docs.generate.studies --confirm RUNS       keep the recorded values if the runs in RUNS/LAB change no page

Use `--confirm` after a change of the kernel that cannot change a result, such as one for another processor. Run a part
of each lab with it before: `mprun lab run 10 --profile published --figure ping-beside -o RUNS/10`.

The runs of a lab are in `build/studies/LAB`. A lab that was interrupted is resumed, because `mprun lab run` uses runs
that exist. `values/LAB.json` has the values, and each number of a page comes from such a file.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from textwrap import fill
from typing import Any, get_args

from docs.generate.study_values import (
    STUDIES,
    MeasuredPart,
    Parts,
    fill_numbers,
    find_recorded,
    kernel_of,
    names_of,
    plan_of,
    read_elsewhere,
    read_parts,
    write_parts,
)
from mprun.errors import MprunError
from mprun.labs.catalog import open_lab
from mprun.labs.definition import Lab, LabSweep
from mprun.labs.grade import digests_of, grade
from mprun.labs.steps import LabSettings, measured_by, measured_by_sweep
from mprun.labs.study_figure import Agreement, JudgedFigure, judge_figure
from mprun.labs.study_page import draw_pages, list_reasons, name_folder, table, write_text
from mprun.metrics.claim_check import find_value
from mprun.runs.place import choose_place
from mprun.statements.expression import UnknownName, Value
from mprun.storage.sweep_directory import ResultDirectory, SweepDirectory
from mprun.sweeps import execution, study

ROOT = Path(__file__).parents[2]
RUNS = ROOT / "build" / "studies"
# The page of the study by the number of its lab.
PAGES: Mapping[str, str] = {"10": "openflow_topologies", "11": "classroom", "12": "short_flows", "13": "sctp_and_mptcp"}
TUTORIAL = ("01", "02", "03", "04", "05", "06")
# Labs that follow no publication. Their pages have measured numbers.
EXERCISES = ("08",)
MEASURED = (*TUTORIAL, *EXERCISES, *PAGES)
# Lab 07 needs a kernel of its own. All its values are those of elsewhere.
SHOWN = (*MEASURED, "07")
BEGIN, END = "<!-- figures: python -m docs.generate.studies -->", "<!-- end of figures -->"
REASONS = "The reasons of the results that do not agree:"
TIMES = "Times are the sums of the real times of the runs,\non a loaded machine with two cores."
# The verdicts on figures of a lab within a page, how often each: `<!-- 10: verdicts of figure-8 -->agrees (2)<!-- -->`.
VERDICTS = re.compile(r"<!-- (?P<lab>\d\d): verdicts of (?P<figures>[^>]+?) -->(?P<shown>.*?)<!-- -->")
_TABLE = re.compile(f"{re.escape(BEGIN)}.*{re.escape(END)}", re.DOTALL)


def pages_with_numbers() -> list[Path]:
    """Return the pages that may have numbers of the studies."""
    labs = (ROOT / "labs").glob("*/*.md")
    return [*sorted(STUDIES.glob("*.md")), *sorted(page for page in labs if page.name in ("README.md", "ANSWERS.md"))]


def insert(page: str, lines: str) -> str:
    """Return a page with its table of figures replaced. Raises ValueError if the page has no place for the table."""
    if not _TABLE.search(page):
        raise ValueError(f"the page has no place for the table: write '{BEGIN}' and '{END}'")
    return _TABLE.sub(lambda _: f"{BEGIN}\n\n{lines}\n\n{END}", page, count=1)


def judge_recorded(lab: Lab, parts: Parts) -> list[JudgedFigure]:
    """Return the figures of a lab with the recorded values."""
    return [judge_figure(figure, parts, {}, find_recorded) for figure in lab.figures]


def texts_of(numbers: Sequence[str]) -> Iterator[tuple[Path, str]]:
    """Yield each page that has numbers of labs, and its text from the recorded values. numbers: those of the labs."""
    parts = {number: read_parts(number) for number in SHOWN}
    shown = {number: own | read_elsewhere(number) for number, own in parts.items()}
    labs = {number: open_lab(number) for number in (*TUTORIAL, *PAGES) if parts[number]}
    judged = {number: judge_recorded(lab, parts[number]) for number, lab in labs.items()}
    walls_s = {number: {name: part.wall_s for name, part in own.items()} for number, own in parts.items()}
    filled = {}
    for page in pages_with_numbers():
        text = fill_numbers(page.read_text(encoding="utf-8"), shown)
        filled[page] = fill_verdicts(text, judged)
    tutorial = [number for number in TUTORIAL if number in labs]
    if tutorial:
        tables = [list(table(labs[number], judged[number], walls_s[number])) for number in tutorial]
        rows = [*tables[0][:2], *(row for own in tables for row in own[2:])]
        reasons = [reason for number in tutorial for reason in list_reasons(judged[number])]
        lines = [*rows, "", REASONS, "", *reasons, "", say_times(parts)]
        index = STUDIES / "index.md"
        filled[index] = insert(filled[index], "\n".join(lines))
    for number in numbers:
        if number not in PAGES or number not in labs:
            continue
        lab = labs[number]
        page = STUDIES / f"{PAGES[number]}.md"
        link = f"[Pictures, values and reasons]({name_folder(lab)}/README.md). "
        lines = [*table(lab, judged[number], walls_s[number]), "", link + TIMES]
        filled[page] = insert(filled[page], "\n".join(lines))
        folder = STUDIES / name_folder(lab)
        pictures = {one.figure.name: _pictures_of(folder, one.figure.name) for one in judged[number]}
        yield folder / "README.md", write_text(lab, judged[number], pictures, walls_s[number])
    yield from filled.items()


def fill_verdicts(text: str, judged: Mapping[str, Sequence[JudgedFigure]]) -> str:
    """Return a page with its verdicts as the recorded values have them. judged: by the number of the lab.

    Raises KeyError for a figure that the lab does not have.
    """

    def verdicts(match: re.Match[str]) -> str:
        figures = {one.figure.name: one for one in judged.get(match["lab"], ())}
        found = [finding.verdict for name in match["figures"].split() for finding in figures[name].findings]
        counts = [(verdict, found.count(verdict)) for verdict in get_args(Agreement)]
        shown = ", ".join(f"{verdict} ({count})" for verdict, count in counts if count)
        return f"<!-- {match['lab']}: verdicts of {match['figures']} -->{shown}<!-- -->"

    return VERDICTS.sub(verdicts, text)


def say_times(parts: Mapping[str, Parts]) -> str:
    """Return the real time of all runs of each lab, and of all labs, in minutes."""
    minutes = {number: sum(part.wall_s for part in own.values()) / 60 for number, own in parts.items()}
    groups = {"labs 01 to 06": TUTORIAL, "lab 08": EXERCISES, **{f"lab {number}": (number,) for number in PAGES}}
    sums = ", ".join(f"{name}: {sum(minutes[one] for one in group):.0f}" for name, group in groups.items())
    total = sum(minutes.values())
    return fill(f"Minutes of real time of all runs, on a loaded machine with two cores: {sums}, all: {total:.0f}.", 110)


def _pictures_of(folder: Path, figure: str) -> list[str]:
    """Return the names of a figure's pictures that exist, in their order on the page."""
    return [name for name in _picture_names(figure) if (folder / f"{name}.svg").exists()]


def _picture_names(figure: str) -> list[str]:
    """Return the names that a figure's pictures can have, in their order on the page."""
    return [figure, *(f"{figure}-{kind}" for kind in ("run", "runs", "bins", "sequence"))]


def collect(lab: Lab, folder: Path) -> tuple[dict[str, MeasuredPart], dict[str, ResultDirectory]]:
    """Return the values of the runs and sweeps of a folder, and their directories, by name."""
    published = lab.in_profile("published")
    graded = grade(published, digests_of(published), folder)
    settings = LabSettings(choose_place("virtual", "default"), folder)
    kept = _kept(lab)
    found = {sweep.name: _find_sweep(sweep, settings, sweep.name in kept) for sweep in lab.sweeps}
    sweeps = {name: sweep for name, sweep in found.items() if sweep is not None}
    if settings.place.kernel is None:
        raise MprunError("the virtual engine has no kernel: mprun kernel build")
    results: dict[str, ResultDirectory] = {**graded.runs, **sweeps}
    runs: dict[str, Any] = {name: measured_by(run) for name, run in graded.runs.items()}
    runs |= {name: measured_by_sweep(sweep) for name, sweep in sweeps.items()}
    walls_s = {name: result.wall_s() for name, result in results.items()}
    plans = {step.name: plan_of(step) for step in published.steps if step.name in runs}
    plans |= {sweep.name: plan_of(sweep) for sweep in lab.sweeps if sweep.name in runs}
    values: dict[str, dict[str, Value]] = {name: {} for name in runs}
    for text, reference in names_of(lab, pages_with_numbers()).items():
        name = reference.segments[0].name
        if name in runs:
            try:
                values[name][text] = find_value(reference, runs)
            except UnknownName as error:
                print(f"{lab.number}: {text}: {error}", file=sys.stderr)
    shown = {step for figure in lab.figures for step in figure.steps}
    wanted = [name for name in runs if values[name] or name in shown]
    parts = {name: MeasuredPart(plans[name], kernel_of(), walls_s[name], values[name]) for name in wanted}
    return parts, results


def confirm(lab: Lab, folder: Path) -> bool:
    """Record the values of the runs in a folder, and that they are a sample of the lab, if no page shows a difference.

    Otherwise, print the names of the pages that would change, and record nothing. Return whether it was recorded.
    """
    recorded, (repeated, _) = read_parts(lab.number), collect(lab, folder)
    again = {name: replace(part, wall_s=recorded[name].wall_s) for name, part in repeated.items() if name in recorded}
    pages = dict(texts_of([lab.number]))
    today = kernel_of()
    others = {
        name: part if part.kernel == today else replace(part, sampled=today)
        for name, part in recorded.items()
        if name not in again
    }
    write_parts(lab.number, others | again)
    changed = [path.name for path, text in texts_of([lab.number]) if pages[path] != text]
    told = f"{lab.number}: {len(again)} of {len(recorded)} parts measured again"
    print(f"{told}, which changes {', '.join(changed)}" if changed else f"{told}, and no page changes")
    if changed or not again:
        write_parts(lab.number, recorded)
        return False
    return True


def _find_sweep(sweep: LabSweep, settings: LabSettings, is_recorded: bool) -> SweepDirectory | None:
    """Return the finished sweep of the lab's files in a folder, or else an unfinished one; None if there is none.

    is_recorded: its values are recorded, and a sweep that lacks runs must not replace them. Runs may have failed.
    """
    place, folder = settings.place, settings.parent
    placed = execution.place_cells(study.make_cells(sweep.load(), place.name, "default"), place.name, settings.consent)
    finished = execution.find_sweep(folder, placed, is_finished=True)
    if finished is not None:
        return finished
    found = next(execution.find_by_digest(folder, placed.digest), None)
    lacks = found is not None and any(cell.runs.total < cell.needed for cell in found.summary().cells)
    return None if is_recorded and lacks else found


def run_lab(number: str, folder: Path) -> int:
    """Run a lab with all its figures, or resume it. Print its real time. Return the status of the command."""
    began = time.monotonic()
    command = [sys.executable, "-m", "mprun", "lab", "run", number, "--profile", "published", "-o", str(folder)]
    status = subprocess.run(command, cwd=ROOT).returncode
    print(f"lab {number}: {time.monotonic() - began:.0f} s")
    return status


def main() -> None:
    """Do what the command line asks for. End with status 1 if a lab failed."""
    parser = argparse.ArgumentParser(prog="python -m docs.generate.studies")
    parser.add_argument("--labs", default=",".join(MEASURED), help="the numbers of the labs")
    parser.add_argument("--from", dest="runs", type=Path, help="record the runs of this folder; run nothing")
    parser.add_argument("--pages", action="store_true", help="write the pages from the recorded values")
    parser.add_argument("--confirm", type=Path, help="compare the runs of this folder with the recorded values")
    asked = parser.parse_args()
    numbers = asked.labs.split(",")
    if asked.confirm:
        are_equal = [confirm(open_lab(number), asked.confirm / number) for number in numbers]
        sys.exit(0 if all(are_equal) else 1)
    statuses = []
    for number in [] if asked.pages else numbers:
        folder = (asked.runs or RUNS) / number
        if asked.runs is None:
            statuses.append(run_lab(number, folder))
        lab = open_lab(number)
        parts, results = collect(lab, folder)
        print(write_parts(number, {**_kept(lab), **parts}))
        if number in PAGES:
            draw_pages(STUDIES, lab, judge_recorded(lab, read_parts(number)), results)
            _remove_others(STUDIES / name_folder(lab), lab)
    print(say_times({number: read_parts(number) for number in SHOWN}))
    for path, text in texts_of(numbers):
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(path)
    sys.exit(1 if any(statuses) else 0)


def _remove_others(folder: Path, lab: Lab) -> None:
    """Remove the pictures of figures that the lab does not have any more."""
    names = {name for figure in lab.figures for name in _picture_names(figure.name)}
    for path in (*folder.glob("*.svg"), *folder.glob("*.csv")):
        if path.stem not in names:
            path.unlink()


def _kept(lab: Lab) -> dict[str, MeasuredPart]:
    """Return the recorded parts that the lab still has."""
    names = lab.in_profile("published").names
    return {name: part for name, part in read_parts(lab.number).items() if name in names}


if __name__ == "__main__":
    main()
