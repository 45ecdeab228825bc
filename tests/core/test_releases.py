# SPDX-License-Identifier: Apache-2.0
"""Files of each release stay readable: topologies, experiments, labs, bundles with their runs, and baselines."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner

import mprun
from mprun.api import Run
from mprun.cli import group
from mprun.inputs.loading import load_cells
from mprun.labs.definition import read_lab
from mprun.questions.baseline import parse
from tests.pages import ROOT

RELEASES = sorted((ROOT / "tests" / "golden" / "release").iterdir())


@pytest.fixture(params=RELEASES, ids=[path.name for path in RELEASES])
def release(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return a copy of the files of a release."""
    shutil.copytree(request.param, tmp_path, dirs_exist_ok=True)
    return tmp_path


@pytest.fixture
def run(release: Path) -> Path:
    """Return the run in the bundle of a release."""
    with zipfile.ZipFile(release / "run.mprun.zip") as archive:
        archive.extractall(release / "runs" / "old")
    return release / "runs" / "old"


def test_each_release_has_files() -> None:
    assert {path.name for path in RELEASES} >= {"0.1"}


def test_a_topology_and_an_experiment_open(release: Path) -> None:
    (cell,) = load_cells(release / "topo", release / "xp")
    assert cell.warnings == ()
    assert [flow.name for flow in cell.spec.experiment.traffic] == ["bulk", "get"]


def test_a_lab_opens(release: Path) -> None:
    assert read_lab(release).file.title


def test_a_baseline_opens(release: Path) -> None:
    path = release / "topo-xp.baseline"
    assert parse(path.read_text(), path.name)["status"] == "passed"


def test_a_run_opens(run: Path) -> None:
    old = mprun.load(run)
    assert isinstance(old, Run)
    (goodput,) = old.metrics.filter(metric="bulk.goodput")["value"]
    assert goodput == pytest.approx(20501286.97)
    assert not old.tables["sockets"].collect().is_empty()


@pytest.mark.parametrize(
    "words", ["show {run} --all", "show {run} --counters", "report {run}", "export {run} --csv", "compare {run} {run}"]
)
def test_commands_read_a_run(words: str, run: Path) -> None:
    done = CliRunner().invoke(group, words.format(run=run).split())
    assert done.exit_code == 0, done.output
