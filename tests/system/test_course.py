# SPDX-License-Identifier: Apache-2.0
"""A student uses what `mprun course export` packed, by the first page, with an empty folder and cache."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

from tests.system.conftest import Result, environment


def blocks_of(page: str, heading: str) -> list[list[str]]:
    """Return the blocks of commands in a section of the first page."""
    section = page.split(f"## {heading}\n")[1].split("\n## ")[0]
    return [block.replace("    ", "").split("\n") for block in re.findall(r"(?:^ {4}.*\n)+", section, re.MULTILINE)]


def test_a_student_runs_the_first_step_by_the_first_page(mprun: Callable[..., Result], tmp_path: Path) -> None:
    made = mprun("course", "export", "class.zip", "01")
    assert made.status == 0, made.err
    (digest,) = re.findall(r"SHA-256 ([0-9a-f]{64})$", made.out, re.MULTILINE)
    student = tmp_path / "student"
    with zipfile.ZipFile(tmp_path / "class.zip") as archive:
        archive.extractall(student)
    programs = student / "bin"
    programs.mkdir()
    (programs / "mprun").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m mprun "$@"\n')
    (programs / "mprun").chmod(0o755)
    env = environment(PATH=f"{programs}:/usr/bin:/bin:/usr/sbin:/sbin", XDG_CACHE_HOME=str(student / "cache"))

    def type_in(lines: list[str], status: int = 0) -> str:
        script = "set -e\n" + "\n".join(lines)
        done = subprocess.run(
            ["sh", "-c", script], cwd=student / "class", env=env, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout

    page = (student / "class" / "README.md").read_text()
    _install, check, shown = blocks_of(page, "Get ready")
    assert shown[0] == digest
    told = type_in(check)
    assert "kernel 'default': " in told
    assert re.search(r"^✓ experiment kernel ", told, re.MULTILINE)
    ((change, first, *rest),) = blocks_of(page, "Work in a lab")
    type_in([change, first])
    # the other step is left
    told = type_in([change, "mprun lab check"], status=1)
    assert "1 step left" in told
    assert [line for line in rest if line and line in told] == [rest[0]]
