# SPDX-License-Identifier: Apache-2.0
"""A plugin of pytest: of the tests that are marked `long`, run the part that a digest chooses.

    pytest -p tests.part --part DIGEST

CI gives the digest of the commit. So each commit runs another part, and every few commits each long test runs.
"""

from __future__ import annotations

import hashlib

import pytest

PARTS = 8


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--part", metavar="DIGEST", help="run the tests marked `long` that a digest chooses")


def is_chosen(test: str, digest: str) -> bool:
    """Return whether a digest chooses a test.

    The tests of a file are chosen together, because they share what takes long. The cases of one test are not.
    """
    file, _, case = test.rpartition("/")[2].partition("::")
    name = test if "[" in case else file
    return int(hashlib.sha256(f"{digest} {name}".encode()).hexdigest(), 16) % PARTS == 0


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    digest = str(config.getoption("--part"))
    left = [item for item in items if item.get_closest_marker("long") and not is_chosen(item.nodeid, digest)]
    config.hook.pytest_deselected(items=left)
    items[:] = [item for item in items if item not in left]
