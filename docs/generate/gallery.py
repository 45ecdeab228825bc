# SPDX-License-Identifier: Apache-2.0
"""The pictures of docs/gallery/index.md. `python -m docs.generate.gallery` draws them again.

A picture `LAB.STEP.png` is the upper part of the report of a run of this step, as Chromium shows the page. So
this needs the program `chromium`. The pictures have few colours, so that the page is small.
"""

from __future__ import annotations

import io
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image

from docs.generate.pictures import run_step
from mprun.labs.catalog import open_lab
from mprun.labs.definition import Lab, Step

PAGE = Path(__file__).parents[1] / "gallery" / "index.md"
# The window in pixels, and the number of colours of a picture.
WIDTH, HEIGHT, COLOURS = 1200, 1150, 256
_SHOWN = re.compile(r"\]\(([\w-]+)\.(\w+)\.png\)")


@dataclass(frozen=True)
class Shot:
    """A picture of the gallery: its file, and the lab and the step of its run."""

    path: Path
    lab: Lab
    step: Step


def shots() -> list[Shot]:
    """Return the pictures that the page shows, in its order. Raises ValueError if a lab has no such step."""
    found = []
    for name, wanted in _SHOWN.findall(PAGE.read_text(encoding="utf-8")):
        lab = open_lab(name)
        step = next((one for one in lab.steps if one.name == wanted), None)
        if step is None:
            raise ValueError(f"{name} has no step '{wanted}', which {PAGE.name} shows")
        found.append(Shot(PAGE.parent / f"{name}.{wanted}.png", lab, step))
    return found


def draw() -> Iterator[tuple[Path, bytes]]:
    """Run each step and draw its report. Yield each picture's path and content. Raises ValueError if a run fails."""
    for shot in shots():
        with TemporaryDirectory() as folder:
            run = run_step(shot.lab, shot.step.command(shot.lab.folder), Path(folder))
            subprocess.run([sys.executable, "-m", "mprun", "report", str(run.path)], check=True, capture_output=True)
            yield shot.path, _photograph(run.path / "report.html", Path(folder))


def _photograph(page: Path, folder: Path) -> bytes:
    """Return a picture of a page as PNG. folder: for the browser's profile."""
    target = folder / "page.png"
    argv = ["chromium", "--headless", "--no-sandbox", "--hide-scrollbars", "--force-device-scale-factor=1"]
    argv += [f"--user-data-dir={folder / 'profile'}", f"--window-size={WIDTH},{HEIGHT}", f"--screenshot={target}"]
    subprocess.run([*argv, page.resolve().as_uri()], check=True, capture_output=True, timeout=120)
    packed = io.BytesIO()
    with Image.open(target) as picture:
        few = picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
        few.save(packed, "png", optimize=True)
    return packed.getvalue()


def main() -> None:
    """Draw the pictures of the gallery."""
    for path, content in draw():
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        print(f"{path}  {len(content) / 1000:.0f} kB")


if __name__ == "__main__":
    main()
