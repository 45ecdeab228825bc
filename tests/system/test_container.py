# SPDX-License-Identifier: Apache-2.0
"""The virtual engine without the rights that a container takes away, and what mprun says where it cannot work."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pages import ROOT
from tests.system.conftest import COMMAND, LAB, environment

pytestmark = pytest.mark.fresh

TAKES = ("capabilities", "seccomp", "capabilities,seccomp", "shm", "root", "capabilities,seccomp,shm,root")


def call(kinds: str, *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, str(ROOT / "tests" / "system" / "container.py"), kinds]
    return subprocess.run([*argv, *COMMAND, *words], cwd=cwd, env=environment(), capture_output=True, text=True)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a run that was made with all rights."""
    folder = tmp_path_factory.mktemp("free")
    words = ["-t", str(LAB / "topo"), "-x", str(LAB / "xp_mptcp")]
    subprocess.run([sys.executable, "-m", "mprun", *words], cwd=folder, check=True, capture_output=True)
    return folder / "runs" / "latest"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make /dev/shm and / as a container has them")
@pytest.mark.parametrize("kinds", TAKES)
def test_a_run_repeats_byte_by_byte_in_a_container(kinds: str, made: Path, on_disk: Path) -> None:
    shutil.copytree(made, on_disk / "run")
    done = call(kinds, "verify", "run", cwd=on_disk)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "identical" in done.stdout


def test_without_ptrace_the_message_names_the_remedy(tmp_path: Path) -> None:
    done = call("ptrace", "-t", str(LAB / "topo"), "-x", str(LAB / "xp_mptcp"), cwd=tmp_path)
    assert done.returncode != 0
    assert "refuses it to trace programs" in " ".join(done.stderr.split())
    doctor = call("ptrace", "doctor", cwd=tmp_path)
    assert "✗ ptrace" in doctor.stdout
    assert "docker run --cap-add SYS_PTRACE" in doctor.stdout
