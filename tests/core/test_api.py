# SPDX-License-Identifier: Apache-2.0
"""The functions of `import mprun` for notebooks and programs, and the output of `mprun show` for the same run."""

from __future__ import annotations

import inspect
import json
import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

import mprun
from mprun.cli import group
from mprun.errors import SpecError
from tests.hostile import RUN, make_sweep
from tests.scenes import ONE_PATH

COMMAND = "version: 1\ntraffic: [{tool: exec, from: client, to: server, command: ['true']}]\n"


def test_the_package_lists_its_functions() -> None:
    assert dir(mprun) == ["load", "run", "sweep"]
    assert all(inspect.isfunction(getattr(mprun, name)) for name in dir(mprun))


@pytest.mark.parametrize("make", [mprun.run, mprun.sweep])
def test_commands_of_files_need_consent(make: object, tmp_path: Path) -> None:
    assert callable(make)
    (tmp_path / "topo.yaml").write_text(ONE_PATH)
    (tmp_path / "xp.yaml").write_text(COMMAND)
    with pytest.raises(SpecError, match="runs commands of its own"):
        make(tmp_path / "topo", tmp_path / "xp", parent=tmp_path / "runs")
    assert inspect.signature(make).parameters["allow_exec"].default is False


def test_tables_have_one_form_in_runs_and_sweeps(tmp_path: Path) -> None:
    run = mprun.load(shutil.copytree(RUN, tmp_path / RUN.name))
    sweep = mprun.load(make_sweep(tmp_path))
    for found in (run, sweep):
        assert found.tables
        for name in found.tables:
            assert found.table(name).collect().equals(found.tables[name].collect())
        with pytest.raises(SpecError, match="table 'nothing'"):
            found.table("nothing")


def test_a_bound_of_a_metric_without_a_value_has_its_unit(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(RUN, tmp_path / RUN.name))
    summary = json.loads((folder / "summary.json").read_text())
    del summary["metrics"]["bulk.goodput"]
    verdict = {"metric": "bulk.goodput", "minimum": 3e7, "maximum": None, "equals": None, "value": None, "held": False}
    (folder / "summary.json").write_text(json.dumps({**summary, "expectations": [verdict]}))
    shown = CliRunner().invoke(group, ["show", str(folder)], catch_exceptions=False).stdout
    assert re.search(r"bulk\.goodput +not measured +✗ ≥ 30\.00 Mbit/s\n", shown)
