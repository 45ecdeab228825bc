# SPDX-License-Identifier: Apache-2.0
"""The functions of `import mprun` for notebooks and programs, and the output of `mprun show` for the same run."""

from __future__ import annotations

import inspect
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars
import pytest
from click.testing import CliRunner

import mprun
from mprun.cli import group
from mprun.errors import SpecError
from tests.hostile import RUN, make_sweep
from tests.pages import ROOT
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


@pytest.mark.parametrize("make", [mprun.run, mprun.sweep])
@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"seed": "3"}, "seed: '3' is no whole number from 0 on: write seed=3"),
        ({"seed": "a"}, "seed: 'a' is no whole number from 0 on: write seed=1"),
        ({"seed": -1}, "seed: -1 is no whole number"),
        ({"seed": True}, "seed: True is no whole number"),
        ({"engine": "vritual"}, "no engine 'vritual': did you mean 'virtual'?"),
        ({"parameters": ["cc=reno"]}, "parameters: a list has no names: write {'cc': 'reno'}"),
        ({"topology": {"version": 1}}, "topology: a dict is no path: write a file"),
        ({"parent": 5}, "parent: a int is no path: write parent='runs'"),
        ({"parameters": {5: 3}}, "parameters: 5 is no name: write {'cc': 'reno'}"),
        ({"parameters": {"cc": None}}, "parameters['cc']: a NoneType is no value: write a text or a number"),
        ({"parameters": {"cc": ["reno"]}}, "parameters['cc']: a list is no value: write a text or a number"),
        ({"allow_exec": "no"}, "allow_exec: 'no' is no consent: write allow_exec=True or allow_exec=False"),
    ],
)
def test_arguments_that_cannot_be_meant_are_named(make: object, changed: dict[str, object], message: str) -> None:
    assert callable(make)
    with pytest.raises(SpecError) as caught:
        make(**{"topology": "topo", "experiment": "xp", **changed})
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("jobs", [0, "4", True])
def test_a_sweep_takes_no_number_of_jobs_that_the_command_line_refuses(jobs: Any) -> None:
    with pytest.raises(SpecError, match=f"jobs: {jobs!r} is no number of runs: write jobs=2"):
        mprun.sweep("topo", "xp", jobs=jobs)


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ({"parameters": {"cx": "reno"}}, "parameters['cx']: no parameter 'cx' in "),
        ({"seed": 1 << 70}, "seed: 1180591620717411303424 is negative or has more than 63 bits: write seed=1"),
        ({}, "this experiment runs commands of its own; if you want them, add allow_exec=True"),
    ],
)
def test_messages_name_arguments_and_no_options(named: dict[str, Any], message: str, tmp_path: Path) -> None:
    (tmp_path / "topo.yaml").write_text(ONE_PATH)
    (tmp_path / "xp.yaml").write_text(COMMAND)
    with pytest.raises(SpecError) as caught:
        mprun.run(tmp_path / "topo", tmp_path / "xp", parent=tmp_path / "runs", **named)
    assert str(caught.value).startswith(message)
    assert str(caught.value) == "\n".join(caught.value.problems)


def test_values_of_several_axes_are_one_argument(tmp_path: Path) -> None:
    (tmp_path / "topo.yaml").write_text(ONE_PATH)
    matrix = "matrix: {cc: [cubic, reno], path0.rate: [5mbit, 6mbit]}\nparams: {cc: cubic}\n"
    (tmp_path / "xp.yaml").write_text(f"{COMMAND}{matrix}".replace("'true'", "'{{ cc }}'"))
    with pytest.raises(SpecError) as caught:
        mprun.run(tmp_path / "topo", tmp_path / "xp", parent=tmp_path / "runs", allow_exec=True)
    assert "mprun.sweep runs all, parameters={'cc': 'cubic', 'path0.rate': '5mbit'} gives one" in str(caught.value)


def test_a_run_that_ended_with_an_error_says_so(tmp_path: Path) -> None:
    (tmp_path / "topo.yaml").write_text(ONE_PATH)
    (tmp_path / "xp.yaml").write_text(COMMAND.replace("'true'", "'false'"))
    with pytest.warns(UserWarning, match="exec ended with status 1"):
        run = mprun.run(tmp_path / "topo", tmp_path / "xp", parent=tmp_path / "runs", allow_exec=True, as_root=True)
    assert run.summary["status"] == "error"
    assert re.search(r": error, .*exec ended with status 1.*>", repr(run))


def test_an_error_names_the_signal_that_ended_a_program(tmp_path: Path) -> None:
    (tmp_path / "topo.yaml").write_text(ONE_PATH)
    (tmp_path / "xp.yaml").write_text(COMMAND.replace("['true']", "[sh, -c, 'kill -s SEGV $$']"))
    with pytest.warns(UserWarning, match=r"exec ended with status -11 \(SIGSEGV\): it printed nothing"):
        mprun.run(tmp_path / "topo", tmp_path / "xp", parent=tmp_path / "runs", allow_exec=True, as_root=True)


def test_load_names_what_exists(tmp_path: Path) -> None:
    sweep = make_sweep(tmp_path)
    with pytest.raises(SpecError) as caught:
        mprun.load("zz", parent=tmp_path)
    assert str(caught.value) == f"no run 'zz' here or in {tmp_path}; {tmp_path} has 1 sweep: {sweep.name}"


@pytest.mark.parametrize("path", [5, None, True])
def test_load_refuses_what_is_no_path(path: Any) -> None:
    with pytest.raises(SpecError, match=f"^path: a {type(path).__name__} is no path: write mprun.load"):
        mprun.load(path)
    with pytest.raises(SpecError, match=f"^parent: a {type(path).__name__} is no path: write parent='runs'"):
        mprun.load("latest", parent=path)


def test_tables_have_one_form_in_runs_and_sweeps(tmp_path: Path) -> None:
    run = mprun.load(shutil.copytree(RUN, tmp_path / RUN.name))
    sweep = mprun.load(make_sweep(tmp_path))
    for found in (run, sweep):
        assert found.tables
        for name in found.tables:
            assert found.table(name).collect().equals(found.tables[name].collect())
        with pytest.raises(SpecError, match="table 'nothing'"):
            found.table("nothing")
    with pytest.raises(SpecError, match=r"no table 'packets': `mprun packets .*` makes it$"):
        run.table("packets")


def test_an_axis_with_the_name_of_a_column_is_beside_it(tmp_path: Path) -> None:
    sweep = mprun.load(make_sweep(tmp_path))
    assert isinstance(sweep, mprun.api.Sweep)
    axis = sweep.cells.columns[0]
    named = replace(sweep, cells=sweep.cells.rename({axis: "flow"}))
    table = named.table("sockets").collect()
    assert table["matrix.flow"].equals(sweep.table("sockets").collect()[axis], check_names=False)
    assert table["flow"].equals(sweep.table("sockets").collect()["flow"])


def test_the_page_reads_the_rows_of_its_tables(tmp_path: Path) -> None:
    found = {"run": mprun.load(shutil.copytree(RUN, tmp_path / RUN.name)), "sweep": mprun.load(make_sweep(tmp_path))}
    shown = re.findall(r"^    ((?:run|sweep)\.table\(.*)$", (ROOT / "docs" / "reports.md").read_text(), re.MULTILINE)
    assert len(shown) == 2
    for line in shown:
        assert isinstance(eval(line, found), polars.DataFrame)


def test_a_bound_of_a_metric_without_a_value_has_its_unit(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(RUN, tmp_path / RUN.name))
    summary = json.loads((folder / "summary.json").read_text())
    del summary["metrics"]["bulk.goodput"]
    verdict = {"metric": "bulk.goodput", "minimum": 3e7, "maximum": None, "equals": None, "value": None, "held": False}
    (folder / "summary.json").write_text(json.dumps({**summary, "expectations": [verdict]}))
    shown = CliRunner().invoke(group, ["show", str(folder)], catch_exceptions=False).stdout
    assert re.search(r"bulk\.goodput +not measured +✗ ≥ 30\.00 Mbit/s\n", shown)


def test_a_command_that_is_no_function_is_told_apart() -> None:
    with pytest.raises(AttributeError, match="it has load, run, sweep, and a shell all commands"):
        mprun.compare  # noqa: B018


def test_an_unknown_argument_is_answered_with_the_known_ones() -> None:
    asked: list[tuple[Any, Any]] = [(mprun.run, {"scheduler": "default"}), (mprun.sweep, {"repeat": 3})]
    for make, given in asked:
        with pytest.raises(TypeError, match=r"takes topology, .* as parameters=\{'NAME': VALUE\}, and all else in the"):
            make("topo", "xp", **given)
    with pytest.raises(TypeError, match=r"load\(\) has no argument 'pat': it takes path, parent$"):
        mprun.load(**{"pat": "latest"})


def test_an_unknown_attribute_is_answered_with_the_known_ones(tmp_path: Path) -> None:
    for found, asked in ((mprun.load(RUN), "cells"), (mprun.load(make_sweep(tmp_path)), "metrics")):
        with pytest.raises(AttributeError, match=f"has no '{asked}': it has .*path, .*summary, table, tables"):
            getattr(found, asked)
        assert not hasattr(found, "_repr_html_")
        assert replace(found) == found


def test_a_metric_as_a_column_is_answered_with_the_way_to_its_values(tmp_path: Path) -> None:
    run, sweep = mprun.load(RUN), mprun.load(make_sweep(tmp_path))
    assert isinstance(run, mprun.api.Run)
    assert isinstance(sweep, mprun.api.Sweep)
    way = r"no column 'bulk\.goodput': a row has each metric: write (metrics\.filter\(.*\)\['value'\]\.item\(\))$"
    with pytest.raises(polars.exceptions.ColumnNotFoundError, match=way) as caught:
        run.metrics["bulk.goodput"]
    found = re.search(way, str(caught.value))
    assert found is not None
    assert eval(found[1], {"metrics": run.metrics}) == run.summary["metrics"]["bulk.goodput"]["value"]
    with pytest.raises(polars.exceptions.ColumnNotFoundError, match=r"write 'bulk\.goodput_bit_per_s', with the unit$"):
        sweep.cells["bulk.goodput"]
    assert len(sweep.cells["bulk.goodput_bit_per_s"]) == 2
    with pytest.raises(polars.exceptions.ColumnNotFoundError, match="no column 'any': columns: "):
        sweep.cells["any"]
