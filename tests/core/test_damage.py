# SPDX-License-Identifier: Apache-2.0
"""Damaged run directories: each command prints an answer or one error. `make fuzz` tests more cases."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import pytest

from mprun.api import Run, load
from mprun.errors import MprunError
from tests.hostile import DRAWING, VERBS, call, call_verb, copy_run, damage

pytestmark = pytest.mark.slow

QUICK = [verb for verb in VERBS if verb not in DRAWING]


@pytest.mark.parametrize("seed", range(60))
def test_a_damaged_run_makes_no_traceback(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    run = copy_run(tmp_path)
    damage(run, draw)
    for verb in draw.sample(QUICK, 2):
        called = call_verb(verb, run)
        assert called.error is None or str(called.error)


def test_tables_are_not_made_from_a_damaged_log_with_a_traceback(tmp_path: Path) -> None:
    run = copy_run(tmp_path)
    shutil.rmtree(run / "tables")
    log = run / "logs" / "probe.path0.out"
    log.write_text(log.read_text().replace("mdev = ", "mdev = ."))
    for verb in ("show", "bundle"):
        assert f"{run}/logs: damaged: ValueError" in str(call(verb, str(run)).error)


@pytest.mark.parametrize("words", [("verify",), ("runs", "rerun"), ("runs", "show")])
@pytest.mark.parametrize("seed", range(20))
def test_a_damaged_run_is_not_repeated_with_a_traceback(
    seed: int, words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No kernel is available here, so a run with undamaged files is refused too."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    run = copy_run(tmp_path)
    environment = json.loads((run / "environment.json").read_text())
    draw = random.Random(seed)
    for name in draw.sample(sorted(environment), 2):
        del environment[name]
    (run / "environment.json").write_text(json.dumps(environment))
    called = call(*words, str(run))
    assert called.error is None or str(called.error)


@pytest.mark.parametrize("seed", range(40))
def test_a_damaged_run_is_loaded_or_refused(seed: int, tmp_path: Path) -> None:
    run = copy_run(tmp_path)
    what = damage(run, random.Random(1000 + seed))
    try:
        found = load(run)
        assert isinstance(found, Run)
        found.metrics  # noqa: B018
        for table in found.tables.values():
            table.collect()
    except MprunError as error:
        assert str(error), what  # noqa: PT017
