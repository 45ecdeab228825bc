# SPDX-License-Identifier: Apache-2.0
"""Calls that are forked are like calls that start Python."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.forked import call

TOPOLOGY = "version: 1\ntopology: multi-path\npaths: [{rate: 10mbit}]\n"
EXPERIMENT = "version: 1\ntraffic: [{name: a, tool: ping, from: client, to: server, count: 1}]\n"


def start(words: list[str], cwd: Path, env: dict[str, str]) -> tuple[int, str, str]:
    argv = [sys.executable, "-m", "mprun", *words]
    done = subprocess.run(argv, cwd=cwd, env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["--version"],
        ["validate", "-t", "topo", "-x", "xp"],
        ["validate", "-t", "none", "-x", "xp"],
        ["no-such-command"],
        ["graph", "-t", "topo", "--addresses"],
        ["lab", "list"],
    ],
)
def test_status_output_and_errors_are_equal(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "topo.yaml").write_text(TOPOLOGY)
    (tmp_path / "xp.yaml").write_text(EXPERIMENT)
    assert call(words, tmp_path, os.environ, 60) == start(words, tmp_path, {**os.environ})


def test_each_call_has_its_environment(tmp_path: Path) -> None:
    without = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    told = [call(["kernel", "list"], tmp_path, env, 60) for env in (without, os.environ)]
    assert told == [start(["kernel", "list"], tmp_path, env) for env in (without, {**os.environ})]
    assert told[0] != told[1]


def test_a_call_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    call(["--version"], tmp_path, os.environ, 60)
    with pytest.raises(TimeoutError):
        call(["lab", "list"], tmp_path, os.environ, 0.001)
