# SPDX-License-Identifier: Apache-2.0
"""The kernel's own tests of MPTCP, and what becomes of a script that fails."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from mprun.kernel.store import find_kernel
from mprun.selftests.run import Result, run_scripts
from mprun.selftests.source import Script
from tests.system.conftest import Result as Called

TAP = "echo TAP version 13; echo 1..2; echo ok 1 - first"
FAILING = {
    "fails": f"{TAP}; echo not ok 2 - second; exit 1",
    "breaks_off": f"{TAP}; exit 0",
    "stumbles": f"{TAP}; echo ok 2 - second; exit 1",
    "cannot": "echo no such feature; exit 4",
    "dies": "poweroff -f",
}


@pytest.mark.usefixtures("leaves_nothing")
def test_the_path_manager_passes(mprun: Callable[..., Called]) -> None:
    done = mprun("kernel", "test", "--only", "pm_netlink", "--json")
    assert done.status == 0, done.err
    total = json.loads(done.out)
    assert total["passed"]
    (script,) = total["scripts"]
    assert script["script"] == "pm_netlink"
    assert script["subtests"] == script["subtests_passed"] >= 20
    assert Path(script["log"]).name == "said.txt"


def test_what_does_not_exist_is_refused(mprun: Callable[..., Called]) -> None:
    done = mprun("kernel", "test", "--only", "pm_nelink")
    assert done.status == 2
    assert "--only pm_nelink: the kernel's source has no such script or group; scripts: diag, " in done.err
    done = mprun("kernel", "test", "--only", "pm_netlink", "--scheduler", "fastest")
    assert done.status == 3
    assert "the kernel 'default' has no scheduler 'fastest' (it has: default" in done.err


def run(folder: Path, scripts: dict[str, str], scheduler: str | None = None) -> dict[str, Result]:
    """Scripts of our own in the place of the kernel's."""
    (folder / "net" / "mptcp").mkdir(parents=True)
    for name, text in scripts.items():
        path = folder / "net" / "mptcp" / f"{name}.sh"
        path.write_text(f"#!/bin/bash\n{text}\n")
        path.chmod(0o755)
    results = run_scripts(
        find_kernel(),
        folder / "net",
        [Script(name) for name in scripts],
        folder / "out",
        1,
        1,
        scheduler,
        lambda *_: None,
    )
    return {result.script.name: result for result in results}


def test_a_failure_of_any_kind_is_told(tmp_path: Path) -> None:
    found = run(tmp_path, FAILING)
    assert found["fails"].names("failed") == ["second"]
    assert found["fails"].status == 1
    assert {name: result.fault for name, result in found.items()} == {
        "fails": "",
        "breaks_off": "ended with status 0 and 1 of 2 results",
        "stumbles": "ended with status 1 though no subtest failed",
        "cannot": "cannot run: no such feature",
        "dies": "the experiment kernel ended before the script did",
    }


def test_a_scheduler_is_set_in_new_namespaces(tmp_path: Path) -> None:
    """The kernel of these tests may have one scheduler only: one that it has not must be refused there."""
    text = "ip netns add a; echo $?; ip netns exec a sysctl -n net.mptcp.scheduler"
    for folder, scheduler, status in (("none", None, "0"), ("its", "default", "0"), ("other", "fastest", "1")):
        found = run(tmp_path / folder, {"asks": text}, scheduler)
        said = found["asks"].log.read_text().split("\n")
        assert said[-3:] == [status, "default", ""]
