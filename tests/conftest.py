# SPDX-License-Identifier: Apache-2.0
"""Options for all tests."""

from __future__ import annotations

import os

import pytest

from tests.stored_runs import FRESH


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
