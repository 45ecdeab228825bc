# SPDX-License-Identifier: Apache-2.0
"""The pictures in the READMEs of labs. `python -m docs.generate.pictures [LAB]...` draws them again.

A README that shows `pictures/STEP.FIGURE.svg` gets this figure of the report of a run of this step. Runs of the virtual
engine are repeatable, so the same program, kernel and matplotlib draw the same bytes. The first line of a picture names
the version of matplotlib.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib

from mprun.labs.catalog import open_lab
from mprun.labs.definition import Lab
from mprun.machine.packaged import find_labs
from mprun.reports.chart import WIDE, paint
from mprun.reports.run_charts import charts_of
from mprun.storage.look_up import find_run
from mprun.storage.run_directory import RunDirectory

_SHOWN = re.compile(r"\]\((pictures/(\w+)\.([\w-]+)\.svg)\)")
_MADE = re.compile(rb"<!-- make pictures, matplotlib (\S+) -->")
_DECLARATION = b'<?xml version="1.0" encoding="utf-8" standalone="no"?>\n'


@dataclass(frozen=True)
class Picture:
    """A picture in a README: its file, the name of a step, and the name of a figure of its run."""

    path: Path
    step: str
    figure: str


def pictures_of(lab: Lab) -> list[Picture]:
    """Return the pictures that the README of a lab shows."""
    text = (lab.folder / "README.md").read_text(encoding="utf-8")
    found = {name: Picture(lab.folder / name, step, figure) for name, step, figure in _SHOWN.findall(text)}
    return list(found.values())


def draw(lab: Lab) -> Iterator[tuple[Path, bytes]]:
    """Run the steps that the README shows. Yield each picture's path and content.

    Raises ValueError if a run fails, or if a step or a figure does not exist.
    """
    wanted: dict[str, list[Picture]] = {}
    for picture in pictures_of(lab):
        wanted.setdefault(picture.step, []).append(picture)
    steps = {step.name: step for step in lab.steps}
    for name, pictures in wanted.items():
        if name not in steps:
            raise ValueError(f"{lab.name} has no step '{name}', which its README shows; steps: {', '.join(steps)}")
        figures = _figures(lab, steps[name].command(lab.folder))
        for picture in pictures:
            if picture.figure not in figures:
                raise ValueError(f"step {name} has no figure '{picture.figure}'; figures: {', '.join(figures)}")
            yield picture.path, figures[picture.figure]


def _figures(lab: Lab, command: str) -> Mapping[str, bytes]:
    """Run a step, and return the figures of its report as SVG, by name."""
    with TemporaryDirectory() as folder:
        charts = charts_of(run_step(lab, command, Path(folder)))
        return {chart.name: _document(paint(chart, WIDE, ("svg",))["svg"]) for chart in charts}


def run_step(lab: Lab, command: str, parent: Path) -> RunDirectory:
    """Run the command of a step, and return its run in `parent`. Raises ValueError if the run fails."""
    # also of a lab whose reader builds a kernel: its README shows steps that need no other scheduler
    words = [*command.split()[1:], "--engine", "virtual", "--kernel", "default", "-o", str(parent)]
    # the run may make links, which belong to the experiment's folder: this is not the current folder
    files = [str(lab.folder / word) if before in ("-t", "-x") else word for before, word in _pairs(words)]
    done = subprocess.run([sys.executable, "-m", "mprun", *files], capture_output=True, text=True)
    if done.returncode != 0:
        raise ValueError(f"{command}: {done.stderr[-2000:]}{done.stdout[-2000:]}")
    return find_run(parent, "latest")


def _pairs(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    return zip(["", *words], words, strict=False)


def made_with(picture: bytes) -> str:
    """Return the version of matplotlib that drew a picture; empty for another file."""
    found = _MADE.search(picture)
    return "" if found is None else found[1].decode()


def _document(svg: bytes) -> bytes:
    made = f"<!-- make pictures, matplotlib {matplotlib.__version__} -->\n".encode()
    return svg.replace(_DECLARATION, _DECLARATION + made, 1)


def main(names: Sequence[str]) -> None:
    """Draw the pictures of some labs, or of all."""
    labs = [open_lab(name) for name in (names or [str(folder) for folder in find_labs().values()])]
    for lab in labs:
        for path, content in draw(lab):
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(content)
            print(f"{path}  {len(content) / 1000:.0f} kB")


if __name__ == "__main__":
    main(sys.argv[1:])
