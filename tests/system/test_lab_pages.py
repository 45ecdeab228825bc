# SPDX-License-Identifier: Apache-2.0
"""The commands of each lab's README, run in a working copy as they are written.

In the labs of the tutorial, all claims then hold, and `mprun lab check` reports no step that is left. In the other
labs, if several commands differ only in parameters, the first is run and the others are validated: `mprun lab run` runs
all of them. Each display filter on the page matches a packet of these runs. Labs for which a student builds a kernel
are tested in test_own_scheduler.py.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from mprun.labs.definition import read_lab
from tests.forked import write_program
from tests.labs import FOLDERS
from tests.system.conftest import call, environment, needs_tool

BLOCK = re.compile(r"```sh\n(.*?)```", re.DOTALL)
# Transfers of two minutes.
LONG = "iperf_scenario_long"
# A sweep of the page about which no claim is made. Half of the data still takes longer than the 2 s after which a path
# fails.
SHORTER = {"08_multipath_scenarios": ("matrix.yaml", "response: 20mb", "response: 10mb")}
RUN = re.compile(r"mprun (-t \S+ -x \S+)")
# The programs that a lab needs.
PROGRAMS = {"06_multipath_quic": ("quic",), "08_multipath_scenarios": ("quic", "noq", "aioquic", "cmtsctp")}
FILTER = re.compile(r"`((?:ip|sctp|tcp)(?:\.| &&)[^`]*)`")


def is_tutorial(folder: Path) -> bool:
    return folder.name < "10"


def script_of(folder: Path) -> str:
    lines = "".join(BLOCK.findall((folder / "README.md").read_text())).splitlines()
    script, seen = "", set()
    for line in lines:
        run = RUN.match(line)
        if run is not None and ((run[1] in seen and not is_tutorial(folder)) or LONG in line):
            line = line.replace("mprun", "mprun validate", 1)
        seen |= {run[1]} if run is not None else set()
        script += f"{line}\n"
    return script


def needs(folder: Path) -> list[pytest.MarkDecorator]:
    """Return marks that skip a lab if this machine lacks a program for it. The labs of the studies take long."""
    return [*([] if is_tutorial(folder) else [pytest.mark.long]), needs_tool(*PROGRAMS.get(folder.name, ()))]


@pytest.mark.parametrize(
    "folder",
    [
        pytest.param(folder, id=folder.name, marks=needs(folder))
        for folder in FOLDERS
        if read_lab(folder).file.kernel is None
    ],
)
def test_commands_of_the_page_work(folder: Path, tmp_path: Path) -> None:
    check_page(folder, tmp_path, script_of(folder))


def check_page(folder: Path, tmp_path: Path, script: str, **variables: str) -> None:
    """Run the script of a lab's page in a copy, and check the captures, and the claims of a lab of the tutorial.

    variables: of the environment, in addition.
    """
    assert "mprun -t" in script
    programs = tmp_path / "bin"
    write_program(programs)
    copy = tmp_path / "copy"
    assert call("lab", "start", folder.name, copy, cwd=tmp_path).status == 0
    if folder.name in SHORTER:
        file, long, short = SHORTER[folder.name]
        text = (copy / file).read_text()
        assert text.count(long) == 1
        (copy / file).write_text(text.replace(long, short))
    done = subprocess.run(
        ["sh", "-ex"],
        input=script,
        cwd=copy,
        env=environment(PATH=f"{programs}:{os.environ['PATH']}", **variables),
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    if is_tutorial(folder):
        assert_all_is_done(copy)
    captures = sorted({path.resolve() for path in copy.glob("**/runs/*/pcap/*.pcap")})
    assert find_unmatched(filters_of(folder), captures) == []


def assert_all_is_done(copy: Path) -> None:
    """Check that the runs of a page are all steps of the lab but the long ones, and that all decided claims hold."""
    graded = call("lab", "check", "--json", cwd=copy)
    (grade,) = json.loads(graded.out)
    left = [step["command"] for step in grade["left"]]
    assert [command for command in left if LONG not in command] == []
    assert {claim["verdict"] for claim in grade["claims"]} == ({"held", "open"} if left else {"held"})


def filters_of(folder: Path) -> list[str]:
    """Return the display filters of a README."""
    found = (" ".join(one.split()) for one in FILTER.findall((folder / "README.md").read_text()))
    return list(dict.fromkeys(found))


def find_unmatched(filters: list[str], captures: list[Path]) -> list[str]:
    """Return the filters that match no packet of the captures. tshark reads a capture once for all filters."""
    for capture in captures:
        if not filters:
            break
        argv = ["tshark", "-q", "-r", str(capture), "-z", f"io,stat,0,{','.join(filters)}"]
        said = subprocess.run(argv, capture_output=True, text=True).stdout
        # The row of the whole time has the numbers of frames and bytes for each filter. An empty capture has no row.
        for row in re.findall(r"^\|[^|]*<>[^|]*\|(.*)\|$", said, re.MULTILINE):
            frames = row.split("|")[: 2 * len(filters) : 2]
            filters = [one for one, number in zip(filters, frames, strict=True) if int(number) == 0]
    return filters
