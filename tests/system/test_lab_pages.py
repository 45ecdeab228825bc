# SPDX-License-Identifier: Apache-2.0
"""The commands of each lab's README, run in a working copy as they stand there.

Of commands that differ in their parameters only, the first is run and the others are validated: `mprun lab run`
runs them all.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.labs import FOLDERS
from tests.system.conftest import call, environment

BLOCK = re.compile(r"```sh\n(.*?)```", re.DOTALL)
# Transfers of two minutes.
LONG = "iperf_scenario_long"


RUN = re.compile(r"mprun (-t \S+ -x \S+)")


def script_of(folder: Path) -> str:
    lines = "".join(BLOCK.findall((folder / "README.md").read_text())).splitlines()
    script, seen = "", set()
    for line in lines:
        run = RUN.match(line)
        if run is not None and (run[1] in seen or LONG in line):
            line = line.replace("mprun", "mprun validate", 1)
        seen |= {run[1]} if run is not None else set()
        script += f"{line}\n"
    return script


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_commands_of_the_page_work(folder: Path, tmp_path: Path) -> None:
    script = script_of(folder)
    assert "mprun -t" in script
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "mprun").write_text(f'#!/bin/sh\nexec {sys.executable} -m mprun "$@"\n')
    (programs / "mprun").chmod(0o755)
    copy = tmp_path / "copy"
    assert call("lab", "start", folder.name, copy, cwd=tmp_path).status == 0
    done = subprocess.run(
        ["sh", "-ex"],
        input=script,
        cwd=copy,
        env=environment(PATH=f"{programs}:{os.environ['PATH']}"),
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
