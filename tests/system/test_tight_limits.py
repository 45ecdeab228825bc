# SPDX-License-Identifier: Apache-2.0
"""Machines with few resources: commands name the cause. `benchmarks/hostile.py limits` tries all cases."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from mprun.machine.scratch import scratch
from tests.hostile import limits
from tests.scenes import copy_kernel
from tests.system.conftest import COMMAND, environment

pytestmark = pytest.mark.fresh

CORE = [
    ("disk of 256k", "run"),
    ("disk of 256k", "export"),
    ("64 inodes", "sweep"),
    ("12 descriptors", "packets"),
    ("8 processes", "show"),
    ("files of 10 kB", "show"),
    ("files of 300 kB", "run"),
    ("400 MB of addresses", "bundle"),
    ("shared memory of 1m", "run"),
]


@pytest.fixture(scope="module")
def cache() -> Iterator[Path]:
    with scratch("mprun-tests-cache-", Path("/var/tmp")) as folder:
        folder.chmod(0o755)
        yield copy_kernel(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts and another user need root")
@pytest.mark.parametrize(("limit", "command"), CORE)
def test_a_limit_is_named(limit: str, command: str, on_disk: Path, cache: Path) -> None:
    """Before, most of these commands ended with a traceback, or did not name the cause."""
    on_disk.chmod(0o755)
    found = limits.attempt(limit, command, on_disk, cache)
    assert found.harm == "", found.gets
    assert found.gets


@pytest.mark.parametrize(
    ("limit", "message"),
    [
        ("ulimit -s 100", "the stack may have only 100 kB, and mprun needs 256 kB: see `ulimit -s`\n"),
        ("ulimit -t 1", "only 1 s of CPU time are allowed, and mprun needs 20 s: see `ulimit -t`\n"),
    ],
)
def test_a_limit_that_could_end_a_run_is_refused_at_once(limit: str, message: str, tmp_path: Path) -> None:
    """Before, a little less stack ended Python, and the limit of CPU time killed mprun, without a message."""
    argv = ["sh", "-c", f'{limit}; exec "$@"', "sh", *COMMAND, "runs", "list"]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, env=environment())
    assert (done.returncode, done.stderr) == (3, message)
