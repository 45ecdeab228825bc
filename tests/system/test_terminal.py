# SPDX-License-Identifier: Apache-2.0
"""The commands in a terminal of 80 and 120 columns: no line is broken by the terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from tests.system.conftest import ROOT, environment

LAB = ROOT / "labs" / "01_multipath"
# Colours, and what a progress bar writes to replace its own line.
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
FIRST_LINE = re.compile(r"Rate of bulk by path, 0 to 9\.999 s")


def call_in_terminal(columns: int, folder: Path, *words: object) -> tuple[int, list[str]]:
    """Run mprun in a pseudo-terminal. Return the status and the lines that it shows."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    argv = [sys.executable, "-m", "mprun", *map(str, words)]
    env = environment(TERM="xterm")
    env.pop("COLUMNS", None)
    process = subprocess.Popen(argv, cwd=folder, env=env, stdin=follower, stdout=follower, stderr=subprocess.DEVNULL)
    os.close(follower)
    shown = b""
    while True:
        try:
            data = os.read(leader, 1 << 16)
        except OSError:
            break
        if not data:
            break
        shown += data
    os.close(leader)
    lines = CONTROL.sub("", shown.decode()).replace("\r\n", "\n").splitlines()
    return process.wait(), [line.rpartition("\r")[2] for line in lines]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("terminal")


@pytest.mark.parametrize("columns", [80, 120])
def test_a_run_ends_with_what_to_look_at(columns: int, folder: Path) -> None:
    status, lines = call_in_terminal(columns, folder, "-t", LAB / "topo", "-x", LAB / "xp_mptcp")
    assert status == 0
    assert max(map(len, lines)) <= columns
    # the figure needs a wide terminal
    assert any(map(FIRST_LINE.match, lines)) == (columns == 120)
    assert sum("bulk." in line for line in lines) <= 8
    assert any(line.strip().endswith("more: mprun show --all") for line in lines)
    assert lines[-1] == "to look at it: mprun show, or mprun report --open"


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize(
    "words",
    [
        *(("show",), ("show", "--all"), ("lab", "list"), ("doctor",), ("--help",), ("runs", "list")),
        ("runs", "list", "--help"),
        ("runs", "list", "--columns", "rate,bulk.goodput,bulk.efficiency.best,bulk.share.path0,bulk.retransmits"),
    ],
)
def test_no_line_is_broken_by_the_terminal(columns: int, words: tuple[str, ...], folder: Path) -> None:
    if not (folder / "runs").exists():
        assert call_in_terminal(columns, folder, "-t", LAB / "topo", "-x", LAB / "xp_mptcp")[0] == 0
    status, lines = call_in_terminal(columns, folder, *words)
    assert status == 0
    assert [line for line in lines if len(line) > columns] == []


@pytest.mark.parametrize("columns", [80, 120])
def test_a_comparison_fits_and_ends_with_the_inputs(columns: int, folder: Path) -> None:
    for experiment in ("xp_tcp", "xp_mptcp"):
        assert call_in_terminal(columns, folder, "-t", LAB / "topo", "-x", LAB / experiment)[0] == 0
    status, lines = call_in_terminal(columns, folder, "compare")
    assert status == 0
    assert max(map(len, lines)) <= columns
    file = lines.index("  experiment.yaml")
    assert file > lines.index("    bulk.retransmits  10 -> 110  +1000.00%  worse")
    assert "    +hosts:" in lines[file:]
    assert lines[-1].endswith("more lines differ (--all shows them)")
