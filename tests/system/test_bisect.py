# SPDX-License-Identifier: Apache-2.0
"""`mprun bisect` over versions of a program, with a build and a run for each tested commit.

A search over versions of a kernel needs a kernel build; `make cycle` measures such builds.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.system.conftest import call

TOPOLOGY = """\
version: 1
nodes: {client: {kind: host}, server: {kind: host}}
links: [{name: path0, between: [client, server], rate: 20mbit, delay: 10ms}]
"""
EXPERIMENT = """\
version: 1
params: {tree: .}
traffic:
  - name: mine
    tool: exec
    from: client
    to: server
    files: ["{{ tree }}/client"]
    command: [python3, client]
    metrics: [{name: sent, regex: "sent ([0-9]+)", unit: bytes}]
probe: {pings: 0}
"""
STATEMENT = "mine.sent > 1000000bytes"
FIRST_BAD, BROKEN = 8, 6


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """Return a repository of 13 versions. From one on, the program sends 0.3 % more. One version does not build."""
    (tmp_path / "topo.yaml").write_text(TOPOLOGY)
    (tmp_path / "xp.yaml").write_text(EXPERIMENT)
    root = tmp_path / "program"
    root.mkdir()
    git(root, "init", "-q")
    for number in range(13):
        sent = 1_003_000 if number >= FIRST_BAD else 1_000_000
        (root / "source").write_text(f"print('sent {sent}')  # version {number}\n")
        (root / "build").write_text("exit 1\n" if number == BROKEN else "cp source client\n")
        git(root, "add", "-A")
        git(root, "commit", "-q", "-m", f"Version {number}")
        git(root, "tag", f"v{number}")
    return root


def git(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    argv = ["git", "-C", str(root), "-c", "user.name=A", "-c", "user.email=a@example.org", *words]
    return subprocess.run(argv, capture_output=True, text=True, check=True)


def words(program: Path, *more: str) -> list[str]:
    files = ["-t", str(program.parent / "topo"), "-x", str(program.parent / "xp"), "--tree", str(program)]
    return ["bisect", *files, "--build", "sh build", "--allow-exec", "--allow-outside", "--fail-if", STATEMENT, *more]


def test_the_version_that_changed_a_figure_is_found(program: Path, tmp_path: Path) -> None:
    found = call(*words(program, "--good", "v0", "--bad", "v12", "--json"), cwd=tmp_path)
    assert found.status == 0, found.err
    report = json.loads(found.out)
    assert report["first_bad"] == [git(program, "rev-parse", f"v{FIRST_BAD}").stdout.strip()]
    assert (report["before"]["figures"]["mine.sent"]["value"], report["after"]["figures"]["mine.sent"]["value"]) == (
        1_000_000,
        1_003_000,
    )
    assert report["builds"] <= 4
    assert report["skipped"] == 1
    assert [line for line in found.err.splitlines() if line.startswith("skip")] != []
    assert not (program / "client").exists()


def test_the_end_of_a_search_is_printed(program: Path, tmp_path: Path) -> None:
    good, bad = f"v{FIRST_BAD - 1}", f"v{FIRST_BAD}"
    found = call(*words(program, "--good", good, "--bad", bad), cwd=tmp_path)
    assert found.status == 0, found.err
    lines = found.out.splitlines()
    assert f"first bad commit: {git(program, 'log', '-1', '--format=%h %s', bad).stdout.strip()}" in lines
    assert f"bad if: {STATEMENT}" in lines


def test_git_can_run_the_search_itself(program: Path, tmp_path: Path) -> None:
    mprun = str(Path(sys.executable).with_name("mprun"))
    git(program, "bisect", "start", "v12", "v0")
    argv = [mprun, *words(program, "-o", str(tmp_path / "runs"))]
    said = git(program, "bisect", "run", *argv).stdout
    assert f"{git(program, 'rev-parse', f'v{FIRST_BAD}').stdout.strip()} is the first bad commit" in said


def test_a_name_that_the_run_did_not_measure_ends_the_search(program: Path, tmp_path: Path) -> None:
    argv = words(program, "--good", "v0", "--bad", "v12")
    argv[argv.index(STATEMENT)] = "mine.send > 1"
    found = call(*argv, cwd=tmp_path)
    assert found.status == 2
    assert "--fail-if: 'mine.send > 1': at 'mine.send'" in found.err
    assert "the run measured no 'mine.send': did you mean 'mine.sent'?" in found.err
