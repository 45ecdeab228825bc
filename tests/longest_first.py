# SPDX-License-Identifier: Apache-2.0
"""A plugin of pytest: the files whose tests took longest come first, so that no worker begins a long one at the end.

The durations are those that an earlier `make test` kept (`tests.phases`). Without them, the tests that run experiments
come first. Each worker reports the files with tests that are marked `alone`, so that the second phase reads no others.
"""

from __future__ import annotations

import json
from collections import defaultdict
from contextlib import suppress

import pytest

from mprun.errors import MachineError
from mprun.machine.cache import cache

# Assumed for a file without a kept duration.
SECONDS = {"tests/system": 20.0}
# The key of the files of the second phase in what a worker reports at its end.
ALONE = "files of tests that are marked alone"


def pytest_deselected(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("alone") and hasattr(item.config, "workeroutput"):
            item.config.workeroutput.setdefault(ALONE, {})[str(item.path)] = True


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    took_s = read_durations()
    # a stable sort: the tests of a file keep their order
    items.sort(key=lambda item: -took_s.get(_file(item.nodeid), SECONDS.get(item.nodeid.rpartition("/")[0], 0.0)))


def read_durations() -> dict[str, float]:
    """Return the kept duration of each file in s."""
    found: defaultdict[str, float] = defaultdict(float)
    with suppress(OSError, ValueError, MachineError):
        for test, known in json.loads((cache("tests") / "tests.json").read_text()).items():
            found[_file(test)] += known["seconds"]
    return dict(found)


def _file(test: str) -> str:
    return test.partition("::")[0]
