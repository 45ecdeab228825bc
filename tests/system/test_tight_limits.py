# SPDX-License-Identifier: Apache-2.0
"""Machines with few resources: commands name the cause. `benchmarks/hostile.py limits` tries all cases."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.hostile import limits
from tests.scenes import copy_kernel

CORE = [
    ("disk of 256k", "run"),
    ("disk of 256k", "export"),
    ("64 inodes", "sweep"),
    ("12 descriptors", "packets"),
    ("8 processes", "show"),
    ("stack of 100 kB", "show"),
    ("stack of 256 kB", "run"),
    ("1 s of CPU time", "run"),
    ("files of 10 kB", "show"),
    ("files of 300 kB", "run"),
    ("400 MB of addresses", "bundle"),
    ("shared memory of 1m", "run"),
]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_kernel(tmp_path_factory.mktemp("cache"))


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts and another user need root")
@pytest.mark.parametrize(("limit", "command"), CORE)
def test_a_limit_is_named(limit: str, command: str, tmp_path: Path, cache: Path) -> None:
    """Before, most of these commands ended with a traceback, or did not name the cause."""
    found = limits.attempt(limit, command, tmp_path, cache)
    assert found.harm == "", found.gets
    assert found.gets
