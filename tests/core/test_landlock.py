# SPDX-License-Identifier: Apache-2.0
"""The parts of a folder that every user may read. Root's programs of a run may read only these parts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mprun.safety.landlock import readable_by_all


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    """Return a folder whose parts every user may read."""
    folder = tmp_path / "etc"
    (folder / "deep" / "er").mkdir(parents=True)
    for name in ("open", "deep/open", "deep/er/open"):
        (folder / name).write_text("x")
        (folder / name).chmod(0o644)
    for path in (folder, folder / "deep", folder / "deep" / "er"):
        path.chmod(0o755)
    return folder


def test_a_folder_without_secrets_is_one_part(settings: Path) -> None:
    (settings / "link").symlink_to("/nowhere")
    assert readable_by_all(settings) == [settings]


@pytest.mark.parametrize(("secret", "mode"), [("deep/er/open", 0o640), ("deep/er", 0o750), ("deep/er", 0o754)])
def test_what_only_root_may_read_is_left_out(settings: Path, secret: str, mode: int) -> None:
    (settings / secret).chmod(mode)
    assert sorted(readable_by_all(settings)) == [settings / "deep" / "open", settings / "open"]


def test_what_vanishes_meanwhile_is_left_out(settings: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file or folder that is listed can disappear before it is opened, such as when a package is installed."""
    lstat = Path.lstat

    def lstat_late(path: Path) -> os.stat_result:
        if path in (settings / "open", settings / "deep" / "er"):
            raise FileNotFoundError(path)
        return lstat(path)

    monkeypatch.setattr(Path, "lstat", lstat_late)
    assert readable_by_all(settings) == [settings / "deep" / "open"]


def test_a_folder_that_is_not_there_has_no_parts(settings: Path) -> None:
    assert readable_by_all(settings / "not_there") == []
