# SPDX-License-Identifier: Apache-2.0
"""Lab 07: the commands of its page, with the solution in place of the student's file, on a kernel with the solution.

The kernel is the one that tests share (own_kernel.py).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.system.conftest import call, environment
from tests.system.own_kernel import CACHE, LAB, SOLUTION, build_own_kernel
from tests.system.test_lab_pages import check_page, script_of

pytestmark = pytest.mark.fresh

TEMPLATE = "mprun kernel template scheduler own.c\n"
BUILD = "mprun kernel build --name mine --with-scheduler own.c"


@pytest.mark.long
def test_the_solution_passes_and_the_commands_of_the_page_work(tmp_path: Path) -> None:
    _, more = build_own_kernel()
    script = script_of(LAB)
    assert TEMPLATE in script
    assert f"{BUILD}\n" in script
    written = script.replace(TEMPLATE, f"{TEMPLATE}cp {SOLUTION} own.c\n")
    check_page(LAB, tmp_path, written.replace(BUILD, " ".join([BUILD, *more])), XDG_CACHE_HOME=str(CACHE))


def test_a_lab_without_its_kernel_names_the_command_that_builds_it(tmp_path: Path) -> None:
    empty = environment(XDG_CACHE_HOME=str(tmp_path))
    refused = call("lab", "run", "07", cwd=tmp_path, env=empty)
    assert refused.status == 3
    assert "no kernel 'mine' exists: mprun kernel build --name mine --with-scheduler own.c" in " ".join(
        refused.err.split()
    )
    mixed = call("lab", "run", "01", "07", cwd=tmp_path, env=empty)
    assert mixed.status == 2
    assert "these labs run on different kernels (default, mine): run each lab alone" in " ".join(mixed.err.split())


def test_a_kernel_without_the_scheduler_names_the_command_that_adds_it(tmp_path: Path) -> None:
    files = ("-t", LAB / "topo_unlike", "-x", LAB / "requests")
    refused = call(*files, "--engine", "virtual", cwd=tmp_path)
    assert refused.status == 2
    said = refused.err
    assert "hosts.client.mptcp.scheduler: kernel 'default' has no scheduler 'own'; it has: default, " in said
    assert "; to add your own: mprun kernel build --name mine --with-scheduler FILE.c, then --kernel mine" in said
