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
    """Run mprun in a pseudo-terminal. Return the status and the lines that it shows, also of errors of `validate`."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    argv = [sys.executable, "-m", "mprun", *map(str, words)]
    env = environment(TERM="xterm")
    env.pop("COLUMNS", None)
    errors = follower if words[0] == "validate" else subprocess.DEVNULL
    process = subprocess.Popen(argv, cwd=folder, env=env, stdin=follower, stdout=follower, stderr=errors)
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
    # a carriage return alone begins the same line again
    lines = CONTROL.sub("", shown.decode()).replace("\r\n", "\n").rstrip("\n").split("\n")
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
def test_problems_of_files_fit(columns: int, tmp_path: Path) -> None:
    flow = "{name: own-program, tool: exec, from: client0, to: server, command: [echo, '{dest}']}"
    files = {
        "topo": "version: 1\ntopology: star\nclients: 1\naccess: {rate: {forward: 5mbit}, delay: 5ms}\n",
        "xp": f"version: 1\ntraffic: [{flow}]\nexpect: [{{metric: own-program.goodput, min: 1mbit}}]\n",
    }
    for name, text in files.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    status, lines = call_in_terminal(columns, tmp_path, "validate", "-t", "topo", "-x", "xp")
    assert status == 2
    # a problem begins its line, with the file that an editor opens
    assert lines[0].startswith("xp.yaml:3: expect[0].metric: flow 'own-program' has no metric 'goodput'; it has:")
    assert columns == 120 or lines[1].startswith("  ")
    (tmp_path / "xp.yaml").write_text(files["xp"].partition("expect")[0])
    status, warned = call_in_terminal(columns, tmp_path, "validate", "-t", "topo", "-x", "xp")
    assert status == 0
    assert sum(line.startswith("warning: ") for line in warned) == 2
    assert max(map(len, lines + warned)) <= columns


@pytest.mark.parametrize("columns", [80, 120])
def test_a_lab_fits_and_takes_what_exists(columns: int, tmp_path: Path) -> None:
    """The second call has the run of the first one. The names of four metrics are wider than 80 columns."""
    flow = "{name: a-long-name, tool: ping, from: client0, to: server, count: 3}"
    lab = tmp_path / "lab"
    lab.mkdir()
    (lab / "topo.yaml").write_text("version: 1\ntopology: star\nclients: 1\naccess: {delay: 5ms}\n")
    expect = "[{metric: a-long-name.rtt, max: 1ms}]"
    (lab / "xp.yaml").write_text(f"version: 1\nprobe: {{pings: 0}}\ntraffic: [{flow}]\nexpect: {expect}\n")
    shown = ", ".join(f"a-long-name.rtt{name}" for name in ("", ".min", ".max", ".stdev"))
    (lab / "lab.yaml").write_text(
        f"version: 1\ntitle: Own\naim: Own\nsteps: [{{topology: topo, experiment: xp}}]\nshow: [{shown}]\n"
        "claims: [{says: it takes time, holds: xp.a-long-name.rtt > 1ms, why: links have delays}]\n"
    )
    for existed in (False, True):
        status, lines = call_in_terminal(columns, tmp_path, "lab", "run", "lab")
        assert status == 1
        # the path of the lab is not broken
        assert [line for line in lines if len(line) > columns and "/" not in line] == []
        assert ("  1 of 1 runs existed already; to run all steps again: add --new" in lines) == existed
    (failure,) = [line.strip() for line in lines if "failure" in line]
    assert re.fullmatch(r"failure: a-long-name\.rtt is \d+\.\d+ ms; expected: ≤ 1\.000 ms", failure), failure


@pytest.mark.parametrize("columns", [80, 120])
def test_a_comparison_fits_and_has_the_inputs_before_the_metrics(columns: int, folder: Path) -> None:
    for experiment in ("xp_tcp", "xp_mptcp"):
        assert call_in_terminal(columns, folder, "-t", LAB / "topo", "-x", LAB / experiment)[0] == 0
    status, lines = call_in_terminal(columns, folder, "compare")
    assert status == 0
    assert max(map(len, lines)) <= columns
    file = lines.index("  experiment.yaml")
    metrics = lines.index("    bulk.retransmits  10 -> 110  +1000%  worse")
    assert file < metrics
    assert "    +hosts:" in lines[file:metrics]
    assert any(line.endswith("more lines differ (--all shows them)") for line in lines[file:metrics])
