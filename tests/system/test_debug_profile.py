# SPDX-License-Identifier: Apache-2.0
"""A kernel of the debug profile: memory that a scheduler loses fails the run, and lab 01 has no report."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from mprun.kernel.addition import TEMPLATES
from tests.system.conftest import LAB, SHORT, Result, call
from tests.system.own_kernel import CACHE, build

pytestmark = [pytest.mark.long, pytest.mark.fresh]
# Each socket with this scheduler loses one object.
PREPARE = "\tmsk->mprun.push.exact = true;\n"
LOSE = "\tint *lost = kmalloc(100, GFP_ATOMIC);\n\n\tif (lost)\n\t\tWRITE_ONCE(*lost, 1);\n"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], Result]:
    """Return a function that runs an experiment on a kernel of the profile that has the scheduler `loser`."""
    text = (TEMPLATES / "scheduler.c").read_text().replace("@NAME@", "loser").replace("@FILE@", "loser.c")
    assert PREPARE in text
    CACHE.mkdir(parents=True, exist_ok=True)
    path = CACHE / "loser.c"
    path.write_text(text.replace(PREPARE, LOSE + PREPARE))
    env = build("checked", "--with-scheduler", str(path), "--profile", "debug")
    folder = tmp_path_factory.mktemp("debug")
    return lambda xp: call("-t", LAB / "topo", "-x", xp, "--kernel", "checked", "--json", cwd=folder, env=env)


def test_memory_that_a_scheduler_loses_is_named(run: Callable[[Path], Result], tmp_path: Path) -> None:
    (tmp_path / "xp.yaml").write_text(SHORT.replace("fullmesh}", "fullmesh, scheduler: loser}"))
    result = run(tmp_path / "xp")
    assert result.status == 1, result.err
    (failure,) = result.summary["failures"]
    # iperf3 has five sockets: two of the client, the listening one, two accepted ones; a stale pointer may hide some
    assert re.search(r"kernel reported [2-5] faults, the first at ", failure)
    assert '"kmemleak: unreferenced object 0x' in failure
    assert " in prepare()" in failure


def test_lab_01_loses_no_memory(run: Callable[[Path], Result]) -> None:
    result = run(LAB / "xp_mptcp")
    assert result.status == 0, result.err
    assert result.summary["failures"] == result.summary["warnings"] == []
