# SPDX-License-Identifier: Apache-2.0
"""The gallery of reports: each picture belongs to a step of a lab, and the page has the step's command."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from docs.generate import gallery
from tests.pages import commands_in_blocks

# A page that loads quickly.
MOST_BYTES = 1_000_000


def test_every_picture_is_shown_with_the_command_that_makes_it() -> None:
    shots = gallery.shots()
    assert len(shots) >= 5
    assert {shot.path for shot in shots} == set(gallery.PAGE.parent.glob("*.png"))
    shown = commands_in_blocks(gallery.PAGE, "indented")
    for shot in shots:
        assert shot.step.command(shot.lab.folder.parent) in shown
        assert f"mprun lab start {shot.lab.number}" in shown


def test_the_pictures_are_small() -> None:
    paths = [shot.path for shot in gallery.shots()]
    assert sum(path.stat().st_size for path in paths) < MOST_BYTES
    for path in paths:
        with Image.open(path) as picture:
            assert picture.size == (gallery.WIDTH, gallery.HEIGHT)


def test_a_picture_of_a_missing_step_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "index.md"
    page.write_text("![a](01_multipath.other.png)")
    monkeypatch.setattr(gallery, "PAGE", page)
    with pytest.raises(ValueError, match="01_multipath has no step 'other'"):
        gallery.shots()
