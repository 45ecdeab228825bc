# SPDX-License-Identifier: Apache-2.0
"""Options for all tests."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pytest

from tests.stored_runs import FRESH

if TYPE_CHECKING:
    from mprun.reports.chart import ChartSize, Image
    from mprun.reports.figure import Chart


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
