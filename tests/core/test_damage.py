# SPDX-License-Identifier: Apache-2.0
"""Damaged run directories: each command prints an answer or one error. `make fuzz` tests more cases."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import NoReturn

import pytest

from mprun.api import Run, load
from mprun.errors import MprunError
from mprun.runs import runner
from mprun.storage.run_directory import RunDirectory
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
        told = str(call(verb, str(run)).error)
        assert f"{run}: its tables cannot be made: ValueError" in told
        assert "is damaged, or, if a new run" in told


def test_a_defect_of_mprun_is_not_told_as_damage_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = copy_run(tmp_path)
    shutil.rmtree(run / "tables")

    def fail(_evidence: object) -> NoReturn:
        raise KeyError("nosuch")

    monkeypatch.setattr(runner, "measure", fail)
    with pytest.raises(MprunError, match=r"its tables cannot be made: KeyError: .nosuch.: .* mprun has a defect"):
        runner.restore_tables(RunDirectory(run))


@pytest.mark.parametrize("words", [("verify",), ("verify", "--keep"), ("show",)])
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
