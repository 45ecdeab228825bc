# SPDX-License-Identifier: Apache-2.0
"""Wheel and source distribution: installed outside the checkout, mprun is complete."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.phases import COUNTER
from tests.system.conftest import ROOT

Mprun = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with both distributions.

    The wheel is built from the source distribution, which is thus complete.
    """
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(build, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def environment() -> dict[str, str]:
    """Return an environment without references to the checkout, except for the counter of runs."""
    return {**os.environ, "PYTHONPATH": str(COUNTER)}


@pytest.fixture(scope="module")
def place(distributions: Path, environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with an empty folder and a virtual environment in which the wheel is installed."""
    place = tmp_path_factory.mktemp("place")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", place / "venv"], check=True)
    python = str(place / "venv" / "bin" / "python")
    (wheel,) = distributions.glob("*.whl")
    install = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        python,
        "install",
        "--quiet",
        "--no-index",
        "--no-deps",
        str(wheel),
    ]
    subprocess.run(install, check=True, timeout=120, env=environment)
    # mprun's dependencies are installed already and not tested; a checkout installed in place is not copied
    (libraries,) = (place / "venv").glob("lib/python3*/site-packages")
    (libraries / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    (place / "empty").mkdir()
    return place


@pytest.fixture(scope="module")
def mprun(place: Path, environment: dict[str, str]) -> Mprun:
    """Return a function that calls the installed script in an empty directory."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        argv = [str(place / "venv" / "bin" / "mprun"), *arguments]
        return subprocess.run(argv, cwd=place / "empty", env=environment, capture_output=True, text=True, timeout=300)

    return run


def test_validate_of_what_new_wrote(mprun: Mprun) -> None:
    assert mprun("new", "mine").returncode == 0
    checked = mprun("validate", "-t", "mine/topo", "-x", "mine/xp")
    assert (checked.returncode, checked.stdout) == (0, "ok: 3 nodes, 3 links, 1 flow, 1 capture, 4 expectations\n")


@pytest.mark.parametrize("name", ["topology", "experiment"])
def test_schemas_are_those_of_the_checkout(mprun: Mprun, name: str) -> None:
    text = (ROOT / "schemas" / f"{name}.schema.json").read_text()
    assert mprun("schema", name).stdout == text


def test_the_manual_page_is_where_man_looks(place: Path) -> None:
    """man(1) searches share/man next to the bin of each entry of PATH (manpath(1))."""
    page = (place / "venv" / "share" / "man" / "man1" / "mprun.1").read_text()
    assert page == (ROOT / "docs" / "man" / "mprun.1").read_text()


def test_labs_are_those_of_the_checkout(mprun: Mprun) -> None:
    listed = mprun("lab", "list")
    assert listed.returncode == 0, listed.stderr
    labs = {path.parent.name for path in ROOT.glob("labs/*/lab.yaml")}
    assert {line.split()[0] for line in listed.stdout.splitlines()} == labs


def test_an_experiment_runs(mprun: Mprun) -> None:
    """Agent, programs and the kernel's recipe are in the package, so the package builds its own kernel."""
    mprun("new", "runs", "--topology", "line")
    done = mprun("-t", "runs/topo", "-x", "runs/xp", "--engine", "virtual", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["status"] == "passed"
    kernel = next(
        check for check in json.loads(mprun("doctor", "--json").stdout) if check["name"] == "experiment kernel"
    )
    assert kernel["ok"], kernel


def test_what_is_distributed(distributions: Path) -> None:
    """A source distribution can be tested and read, and has no output of runs."""
    (archive,) = distributions.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        names = {Path(*Path(member.name).parts[1:]) for member in tar.getmembers()}
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    wanted = {Path(name) for name in tracked.stdout.splitlines()}
    lost = {path for path in wanted - names if path.parts[0] in ("mprun", "labs", "schemas", "docs", "tests")}
    assert not lost
    left = [path for path in names if "runs" in path.parts or path.suffix in (".pcap", ".pyc")]
    # the only run directory belongs to the tests, which damage it; `mprun/runs` is code; reports have captures
    allowed = (("tests", "outputs"), ("mprun", "runs"), ("docs", "upstream"))
    assert [path for path in left if path.parts[:2] not in allowed] == []
