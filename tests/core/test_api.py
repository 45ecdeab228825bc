# SPDX-License-Identifier: Apache-2.0
"""The functions of `import mprun` for notebooks and programs."""

from __future__ import annotations

import inspect
import shutil
from pathlib import Path

import pytest

import mprun
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
