# SPDX-License-Identifier: Apache-2.0
"""Options for all tests."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mprun.safety.folder import free_bytes
from tests.stored_runs import FRESH

if TYPE_CHECKING:
    from mprun.reports.chart import ChartSize, Image
    from mprun.reports.figure import Chart

# Tests make and remove many small files, which takes less time in memory than on a disk.
MEMORY, NEEDED_BYTES = Path("/dev/shm"), 4 << 30


def holds_files(folder: Path) -> bool:
    """Return whether a file system in memory has room for the files of the tests, and lets programs start from it."""
    if not os.access(folder, os.W_OK | os.X_OK) or os.statvfs(folder).f_flag & os.ST_NOEXEC:
        return False
    return free_bytes(folder) >= NEEDED_BYTES


if "TMPDIR" not in os.environ and holds_files(MEMORY):
    os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden files with what is now")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Let a test that is marked `fresh`, and the fixtures that it makes, take no run from the store of runs."""
    os.environ.pop(FRESH, None)
    if item.get_closest_marker("fresh"):
        os.environ[FRESH] = "1"


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update-golden"))


@pytest.fixture(scope="session")
def painted_once() -> Iterator[None]:
    """Paint equal figures of reports once in this process, for tests of pages. Tests of figures call `paint` itself."""
    from mprun.reports import chart, gallery

    kept: dict[str, dict[str, bytes]] = {}

    def paint_once(figure: Chart, layout: ChartSize, images: Sequence[Image]) -> dict[str, bytes]:
        # not the values: two that are not a number are not equal
        key = repr((figure, layout, images))
        if key not in kept:
            kept[key] = chart.paint(figure, layout, images)
        return kept[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gallery, "paint", paint_once)
        yield
