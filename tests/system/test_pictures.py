# SPDX-License-Identifier: Apache-2.0
"""The pictures in the READMEs of labs are the figures of runs of the labs' steps, drawn by `make pictures`."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import matplotlib
import pytest

from docs.generate import pictures
from mprun.labs.definition import read_lab
from tests.labs import FOLDERS
from tests.system.conftest import needs_tool

# Pages load quickly, and a picture of a line for each path is small.
MOST_BYTES = 40_000
TUTORIAL = [folder for folder in FOLDERS if folder.name < "10"]


def texts(svg: bytes) -> list[str]:
    """Return the texts in a picture, sorted."""
    root = ElementTree.fromstring(svg)
    return sorted("".join(text.itertext()) for text in root.iter("{http://www.w3.org/2000/svg}text"))


@pytest.mark.parametrize("folder", TUTORIAL, ids=lambda folder: folder.name)
def test_each_lab_of_the_tutorial_has_small_pictures_that_its_page_shows(folder: Path) -> None:
    shown = {picture.path for picture in pictures.pictures_of(read_lab(folder))}
    assert len(shown) >= 2
    assert shown == set((folder / "pictures").iterdir())
    assert all(path.stat().st_size < MOST_BYTES for path in shown)


@pytest.mark.parametrize(
    "folder",
    [
        pytest.param(one, id=one.name, marks=needs_tool(*(["quic"] if one.name.endswith("quic") else [])))
        for one in TUTORIAL
    ],
)
def test_pictures_are_those_of_the_runs(folder: Path) -> None:
    """Another version of matplotlib places texts and lines elsewhere. Then only the texts are compared."""
    for path, made in pictures.draw(read_lab(folder)):
        kept = path.read_bytes()
        if pictures.made_with(kept) == matplotlib.__version__:
            assert kept == made, f"{path}: run: make pictures"
        else:
            assert texts(kept) == texts(made), f"{path}: run: make pictures"


def test_a_picture_of_a_missing_step_or_figure_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "lab"
    folder.mkdir()
    for name in ("topo.yaml", "xp_tcp.yaml", "xp_mptcp.yaml", "lab.yaml", "published.csv"):
        (folder / name).write_text((TUTORIAL[0] / name).read_text())
    for picture, reason in (("other.rate-bulk", "has no step 'other'"), ("xp_tcp.rate", "has no figure 'rate'")):
        (folder / "README.md").write_text(f"![a](pictures/{picture}.svg)")
        with pytest.raises(ValueError, match=reason):
            list(pictures.draw(read_lab(folder)))
