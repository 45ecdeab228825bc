# SPDX-License-Identifier: Apache-2.0
"""The published figures of the studies in the documentation. `python -m docs.generate.studies LAB RUNS` writes them.

RUNS is a folder with runs of `mprun lab run LAB --profile published -o RUNS`. The page of the lab's figures goes to
`docs/measured/studies/figures-LAB`, and its table to the top of the page of the study.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path

from mprun.labs.catalog import open_lab
from mprun.labs.definition import Lab
from mprun.labs.grade import digests_of, grade
from mprun.labs.steps import LabSettings, find_sweep, measured_by, measured_by_sweep
from mprun.labs.study_figure import JudgedFigure, judge_figure
from mprun.labs.study_page import ResultDirectory, name_folder, table, write_page
from mprun.runs.place import choose_place

STUDIES = Path(__file__).parents[1] / "measured" / "studies"
# The page of the study by the number of its lab.
PAGES: Mapping[str, str] = {"10": "openflow_topologies", "11": "classroom", "12": "short_flows", "13": "sctp_and_mptcp"}
BEGIN, END = "<!-- figures: python -m docs.generate.studies -->", "<!-- end of figures -->"
TIMES = "Times are the sums of the real times of the runs,\non a loaded machine with two cores."
_TABLE = re.compile(f"{re.escape(BEGIN)}.*{re.escape(END)}", re.DOTALL)


def insert(page: str, lines: str) -> str:
    """Return a page with its table of figures replaced. Raises ValueError if the page has no place for the table."""
    if not _TABLE.search(page):
        raise ValueError(f"the page has no place for the table: write '{BEGIN}' and '{END}'")
    return _TABLE.sub(lambda _: f"{BEGIN}\n\n{lines}\n\n{END}", page, count=1)


def judge_figures(lab: Lab, folder: Path) -> tuple[list[JudgedFigure], dict[str, ResultDirectory], dict[str, float]]:
    """Return the figures with the runs and sweeps of a folder, and their real times, by name."""
    graded = grade(lab, "published", digests_of(lab, "published"), folder)
    settings = LabSettings(choose_place("virtual", "default"), folder)
    found = {sweep.name: find_sweep(sweep, settings) for sweep in lab.sweeps}
    sweeps = {name: sweep for name, sweep in found.items() if sweep is not None}
    runs = {name: measured_by(run) for name, run in graded.runs.items()}
    swept = {name: measured_by_sweep(sweep) for name, sweep in sweeps.items()}
    judged = [judge_figure(figure, {**runs, **swept}, {}) for figure in lab.figures]
    results: dict[str, ResultDirectory] = {**graded.runs, **sweeps}
    return judged, results, {name: result.wall_s() for name, result in results.items()}


def main(name: str, folder: Path) -> None:
    """Write the page of a lab's figures, and the table of the study's page."""
    lab = open_lab(name)
    judged, results, walls_s = judge_figures(lab, folder)
    print(write_page(STUDIES, lab, judged, results, walls_s))
    page = STUDIES / f"{PAGES[lab.number]}.md"
    link = f"[Pictures, values and reasons]({name_folder(lab)}/README.md). "
    lines = [*table(lab, judged, walls_s), "", link + TIMES]
    page.write_text(insert(page.read_text(encoding="utf-8"), "\n".join(lines)), encoding="utf-8")
    print(page)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
