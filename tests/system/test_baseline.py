# SPDX-License-Identifier: Apache-2.0
"""`mprun baseline`: no false alarm, a planted change of 0.1 %, and the workflow's own command."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.system.conftest import ROOT, call, environment

TOPOLOGY = """\
version: 1
params: {rate: 20mbit}
topology: multi-path
paths: [{rate: "{{ rate }}", delay: 10ms, queue: 40packets}, {rate: 10mbit, delay: 15ms, queue: 40packets}]
"""
EXPERIMENT = """\
version: 1
hosts: {client: {mptcp: {path_manager: fullmesh}}, server: {mptcp: {path_manager: fullmesh}}}
traffic: [{name: bulk, tool: iperf3, from: client, to: server, protocol: mptcp, duration: 2s}]
expect: [{metric: bulk.goodput, min: 20mbit}]
show: [bulk.subflows]
"""


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "study").mkdir()
    (tmp_path / "study" / "topo.yaml").write_text(TOPOLOGY)
    (tmp_path / "study" / "xp.yaml").write_text(EXPERIMENT)
    done = call("baseline", "write", "-t", "study/topo", "-x", "study/xp.yaml", "-p", "rate=10mbit", cwd=tmp_path)
    assert (done.status, done.out) == (0, "study/topo-xp.baseline: 2 values\n")
    return tmp_path


def test_a_baseline_holds_whatever_the_hash_seed_and_the_load(files: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as load:
        for seed in ("0", "1", "77"):
            done = call("baseline", "check", cwd=files, env=environment(PYTHONHASHSEED=seed))
            assert (done.status, done.out) == (0, "same     study/topo-xp.baseline\n")
        load.kill()


def test_a_change_of_a_thousandth_shows(files: Path) -> None:
    path = files / "study" / "topo-xp.baseline"
    base = path.read_text()
    line = next(line for line in base.splitlines() if line.startswith("value bulk.goodput"))
    value = float(line.split()[3])
    path.write_text(base.replace(line, f"value bulk.goodput = {value * 1.001} bit/s"))
    done = call("baseline", "check", "study", cwd=files)
    assert done.status == 1
    assert done.out.startswith("changed  study/topo-xp.baseline\n")
    assert done.out.rstrip().endswith("-0.100%")
    # a change of the files shows as such
    path.write_text(base)
    (files / "study" / "topo.yaml").write_text(TOPOLOGY.replace("10mbit", "10.02mbit"))
    done = call("baseline", "check", "--json", cwd=files)
    assert done.status == 1
    report = json.loads(done.out)["study/topo-xp.baseline"]
    assert report["because"] == ["other files"]
    assert {one["name"] for one in report["differences"]} == {"plan", "value bulk.goodput"}
    # another mprun with the same values is no change
    (files / "study" / "topo.yaml").write_text(TOPOLOGY)
    path.write_text("".join("mprun = before\n" if one.startswith("mprun") else one for one in base.splitlines(True)))
    done = call("baseline", "check", cwd=files)
    assert (done.status, done.out) == (0, "same     study/topo-xp.baseline, with other mprun\n")


def test_the_command_of_the_workflow_works(files: Path, tmp_path: Path) -> None:
    """The last step of the workflow runs here by hand. The steps before it belong to the service."""
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "baseline.yml").read_text())
    # YAML 1.1 reads the key `on` as true
    inputs = workflow[True]["workflow_call"]["inputs"]
    step = workflow["jobs"]["check"]["steps"][-1]
    programs = files / ".mprun" / ".venv" / "bin"
    programs.mkdir(parents=True)
    (programs / "mprun").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m mprun "$@"\n')
    (programs / "mprun").chmod(0o755)
    summary = tmp_path / "summary.md"
    env = environment(GITHUB_STEP_SUMMARY=str(summary), FOLDER=inputs["folder"]["default"])
    done = subprocess.run(["bash", "-e", "-c", step["run"]], cwd=files, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert summary.read_text().splitlines()[-1] == "| study/topo-xp.baseline | no difference | | | |"


def test_a_folder_without_baselines_is_refused(tmp_path: Path) -> None:
    done = call("baseline", "check", cwd=tmp_path)
    assert (done.status, done.err.strip()) == (
        2,
        "no baseline here: write one with `mprun baseline write -t TOPOLOGY -x EXPERIMENT`",
    )
