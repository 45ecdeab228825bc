# SPDX-License-Identifier: Apache-2.0
"""Damaged run directories: each command gives an answer or one error, whatever the damage is. `make fuzz` does more."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.hostile import DRAWING, VERBS, call_verb, copy_run, damage

QUICK = [verb for verb in VERBS if verb not in DRAWING]


@pytest.mark.parametrize("seed", range(60))
def test_a_damaged_run_makes_no_traceback(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    run = copy_run(tmp_path)
    damage(run, draw)
    for verb in draw.sample(QUICK, 2):
        called = call_verb(verb, run)
        assert called.error is None or str(called.error)
