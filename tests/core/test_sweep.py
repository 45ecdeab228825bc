# SPDX-License-Identifier: Apache-2.0
"""Sweeps without an engine: cells, seeds, order, and an executor that only writes the result of a run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import cycle
from pathlib import Path
from typing import Any

import polars
import pytest

from mprun.cli import operand
from mprun.cli.show import command as show
from mprun.cli.show_sweep import show_sweep
from mprun.errors import Interrupted, RunError, SpecError
from mprun.inputs.loading import load, load_cells
from mprun.model.permission import NO_COMMANDS
from mprun.model.run_files import Build
from mprun.model.run_summary import MetricValue, Status
from mprun.model.spec import LinkChange
from mprun.model.sweep_files import RunCounts, SweepSummary
from mprun.reports.sweep_page import gather
from mprun.reports.test_results import checks_of_sweep
from mprun.storage.look_up import find_either
from mprun.storage.run_directory import RunDirectory
from mprun.storage.sweep_directory import SweepDirectory, title_of
from mprun.sweeps import study
from mprun.sweeps.cluster import differences
from mprun.sweeps.estimate import estimate
from mprun.sweeps.execution import Execution, PlacedCells, find_or_create, find_sweep, slots_for
from mprun.sweeps.local import LocalExecutor
from mprun.sweeps.operands import measure_operands, read_operands
from mprun.sweeps.study import Cell
from mprun.sweeps.sweep_summary import read_summary, read_table, tell_progress, write_summary
from mprun.sweeps.worker import Job, RunOutcome, settle
from tests.hostile import RUN, make_sweep
from tests.summaries import PASSED

TOPOLOGY = """\
version: 1
topology: multi-path
paths:
  - {rate: 20mbit, delay: 20ms, queue: 80packets}
"""
EXPERIMENT = """\
version: 1
params: {cc: cubic}
traffic:
  - {name: bulk, tool: iperf3, from: client, to: server, duration: 1s, congestion: "{{ cc }}"}
"""


NO_PARAMETERS: Mapping[str, str] = {}


def make_cells(
    folder: Path, text: str, experiment: str = EXPERIMENT, parameters: Mapping[str, str] = NO_PARAMETERS
) -> tuple[Cell, ...]:
    (folder / "topo.yaml").write_text(TOPOLOGY)
    (folder / "xp.yaml").write_text(experiment + text)
    loaded = load_cells(folder / "topo", folder / "xp", parameters)
    return study.make_cells(loaded, "virtual", "default")


def test_a_sweep_of_several_versions_says_so(tmp_path: Path) -> None:
    """A sweep that was resumed with another version of mprun or of a program looked like any other."""
    sweep = SweepDirectory(make_sweep(tmp_path))
    assert read_summary(sweep).warnings == ()
    file = sweep.path / "runs" / "cc=reno" / "1" / "environment.json"
    environment = json.loads(file.read_text())
    file.write_text(json.dumps({**environment, "mprun": "0" * 12}))
    (warning,) = read_summary(sweep).warnings
    assert warning.startswith(f"several versions of mprun made these runs ({environment['mprun']}, {'0' * 12}), which")


def test_a_file_that_changes_during_a_sweep_changes_no_later_run(tmp_path: Path) -> None:
    """The file of a schedule, a trace or flows was read again for the seed of each run."""
    (tmp_path / "rates.csv").write_text("at,rate\n500ms,5mbit\n")
    topology = TOPOLOGY + "events: [{link: path0, schedule: rates.csv}]\n"
    (tmp_path / "topo.yaml").write_text(topology)
    (tmp_path / "xp.yaml").write_text(EXPERIMENT + "matrix: {cc: [cubic, reno]}\nrepeat: {runs: 2}\n")
    cells = study.make_cells(load_cells(tmp_path / "topo", tmp_path / "xp"), "virtual", "default")
    (tmp_path / "rates.csv").write_text("at,rate\n500ms,1mbit\n")
    changes = [study.make_task(cell, number).spec.topology.changes for cell in cells for number in (1, 2)]
    rates = {one.forward.rate_bit_per_s for some in changes for one in some if isinstance(one, LinkChange)}
    assert rates == {5_000_000}


def values_of(cells: tuple[Cell, ...], name: str) -> list[Any]:
    return [dict(cell.values)[name] for cell in cells]


def test_axes_are_crossed_zipped_and_cut(tmp_path: Path) -> None:
    cells = make_cells(
        tmp_path,
        "matrix:\n"
        "  cc: [cubic, reno]\n"
        "  zip: [{path0.rate: [1mbit, 2mbit, 3mbit], path0.delay: [3ms, 2ms, 1ms]}]\n"
        "  exclude: [{cc: reno, path0.rate: 2mbit}]\n",
    )
    assert [(cc, rate, delay) for (_, cc), (_, rate), (_, delay) in (cell.values for cell in cells)] == [
        ("cubic", "1mbit", "3ms"),
        ("cubic", "2mbit", "2ms"),
        ("cubic", "3mbit", "1ms"),
        ("reno", "1mbit", "3ms"),
        ("reno", "3mbit", "1ms"),
    ]
    link = cells[-1].spec.topology.links[0]
    assert (link.forward.rate_bit_per_s, link.reverse.delay_ns) == (3_000_000, 1_000_000)
    assert cells[-1].spec.experiment.traffic[0].congestion == "reno"


def test_values_that_are_equal_to_python_are_cells_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "topo.yaml").write_text(TOPOLOGY)
    text = EXPERIMENT.replace("{cc: cubic}", "{cc: cubic, flag: 0}") + 'description: "it is {{ flag }}"\n'
    (tmp_path / "xp.yaml").write_text(text + "matrix: {flag: [0, false, 1, 1.0], exclude: [{flag: 1}]}\n")
    cells = study.make_cells(load_cells(tmp_path / "topo", tmp_path / "xp"), "virtual", "default")
    assert list(map(str, values_of(cells, "flag"))) == ["0", "False", "1.0"]
    assert [cell.folder for cell in cells] == ["flag=0", "flag=false", "flag=1.0"]


@pytest.mark.parametrize(
    ("given", "rows"),
    [
        ({}, [("1mbit", "3ms"), ("2mbit", "2ms"), ("1mbit", "1ms")]),
        ({"path0.rate": "1mbit"}, [("1mbit", "3ms"), ("1mbit", "1ms")]),
        ({"path0.rate": "2mbit"}, [("2mbit", "2ms")]),
        ({"path0.rate": "9mbit", "path0.delay": "9ms"}, [("9mbit", "9ms")]),
    ],
)
def test_one_axis_of_several_that_go_together(
    tmp_path: Path, given: dict[str, str], rows: list[tuple[str, str]]
) -> None:
    """A value may be in several rows.

    If one value is given, the others follow, and a single run needs only that value.
    """
    (tmp_path / "topo.yaml").write_text(TOPOLOGY)
    zipped = "matrix: {zip: [{path0.rate: [1mbit, 2mbit, 1mbit], path0.delay: [3ms, 2ms, 1ms]}]}\n"
    (tmp_path / "xp.yaml").write_text(EXPERIMENT + zipped)
    cells = load_cells(tmp_path / "topo", tmp_path / "xp", given)
    assert [tuple(value for _, value in cell.values) for cell in cells] == rows
    if len(rows) == 1:
        assert load(tmp_path / "topo", tmp_path / "xp", given).values == cells[0].values
    else:
        with pytest.raises(SpecError, match=f"is {len(rows)} cells: .* gives one"):
            load(tmp_path / "topo", tmp_path / "xp", given)


@pytest.mark.parametrize(
    ("written", "values"),
    [
        ("{from: 1mbit, to: 9mbit, step: 4mbit}", ["1mbit", "5mbit", "9mbit"]),
        ("{from: 9mbit, to: 1mbit, step: 4mbit}", ["9mbit", "5mbit", "1mbit"]),
        ("{from: 1mbit, to: 2mbit, steps: 3}", ["1mbit", "1.5mbit", "2mbit"]),
        ("{from: 10mbit, to: 20mbit, steps: 4}", ["10mbit", "13.333336mbit", "16.666664mbit", "20mbit"]),
        ("{from: 1mbit, to: 100mbit, steps: 5, scale: log}", ["1mbit", "3.16mbit", "10mbit", "31.6mbit", "100mbit"]),
    ],
)
def test_ranges(tmp_path: Path, written: str, values: list[str]) -> None:
    assert values_of(make_cells(tmp_path, f"matrix: {{path0.rate: {written}}}\n"), "path0.rate") == values


def test_a_range_has_whole_nanoseconds(tmp_path: Path) -> None:
    """Before, the values between the ends were refused, which nobody had written."""
    cells = make_cells(tmp_path, "matrix: {path0.delay: {from: 10ms, to: 50ms, steps: 4}}\n")
    assert values_of(cells, "path0.delay") == ["10ms", "23.333333ms", "36.666667ms", "50ms"]


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (
            ", ".join(f"path{n}.rate: {{from: 1kbit, to: 1000kbit, step: 1kbit}}" for n in range(3)),
            "matrix: has 1000000000 cells: at most 10000 are allowed",
        ),
        (", ".join(f"path{n}.rate: [1kbit]" for n in range(101)), "matrix: has 101 entries: at most 100 are allowed"),
        ("cc: [a, b], exclude: [" + "{cc: a}, " * 101 + "]", "exclude: has 101 entries: at most 100 are allowed"),
        ("zip: [{" + ", ".join(f"path{n}.rate: [1kbit]" for n in range(101)) + "}]", "has 101 entries"),
    ],
)
def test_cells_are_counted_before_they_are_made(tmp_path: Path, matrix: str, message: str) -> None:
    """Before, a billion cells took more than a minute and unlimited memory."""
    with pytest.raises(SpecError, match=message):
        make_cells(tmp_path, f"matrix: {{{matrix}}}\n")


def test_seeds_are_the_cells_own(tmp_path: Path) -> None:
    """A further cell, or a different order of axes, changes no seed."""
    repeat = "repeat: {runs: 2, seed: 5}\n"
    few = make_cells(tmp_path, "matrix: {cc: [cubic, reno], path0.rate: [1mbit]}\n" + repeat)
    many = make_cells(tmp_path, "matrix: {path0.rate: [2mbit, 1mbit], cc: [bbr, reno, cubic]}\n" + repeat)

    def seeds(cells: tuple[Cell, ...]) -> dict[tuple[Any, ...], int]:
        return {(*sorted(cell.values), n): study.make_task(cell, n).seed for cell in cells for n in (1, 2)}

    assert seeds(few).items() <= seeds(many).items()
    assert len(set(seeds(many).values())) == 12


def test_where_a_cell_runs_changes_no_seed(tmp_path: Path) -> None:
    cells = make_cells(tmp_path, "matrix: {kernel: [one, other]}\nrepeat: {runs: 2}\n")
    assert [cell.kernel for cell in cells] == ["one", "other"]
    assert study.make_task(cells[0], 1).seed == study.make_task(cells[1], 1).seed


def test_a_cell_that_does_not_repeat_is_a_lone_run(tmp_path: Path) -> None:
    (cell,) = make_cells(tmp_path, "repeat: {seed: 9}\n")
    assert study.make_task(cell, 1).spec == cell.spec
    assert (cell.spec.experiment.seed, cell.spec.experiment.vary) == (9, ())


def test_repetitions_vary_starts_and_wires(tmp_path: Path) -> None:
    (cell,) = make_cells(tmp_path, "repeat: {runs: 2}\n")
    assert study.make_task(cell, 1).spec.experiment.vary == ("start", "wire")


def test_order_is_in_blocks_and_shuffled(tmp_path: Path) -> None:
    cells = make_cells(tmp_path, "matrix: {path0.rate: {from: 1mbit, to: 20mbit, step: 1mbit}}\nrepeat: {runs: 2}\n")
    first, second = ([task.cell.folder for task in study.order(cells, n)] for n in (1, 2))
    assert sorted(first) == sorted(second)
    assert first != second
    assert first != [cell.folder for cell in cells]


def test_folders_tell_apart(tmp_path: Path) -> None:
    names = [study.name_folder((("cc", text),)) for text in ("a b", "a_b", "a/b", "x" * 200, "x" * 201)]
    assert len(set(names)) == 5
    assert all("/" not in name and len(name) < 120 for name in names)


class FakeExecutor:
    """An executor that ends runs when `wait` is called, the last first. `result` gives the metric of a job."""

    def __init__(self, places: int, result: Callable[[Job], float | None], most: int | None = None) -> None:
        self.slots = places
        self.begun: list[str] = []
        self._result = result
        self._left = most
        self._running: list[tuple[str, Job]] = []

    def submit(self, name: str, job: Job) -> None:
        assert len(self._running) < self.slots
        self.begun.append(name)
        self._running.append((name, job))

    def wait(self, seconds: float) -> Iterator[tuple[str, RunOutcome]]:
        if self._left == 0:
            raise KeyboardInterrupt
        if self._left is not None:
            self._left -= 1
        name, job = self._running.pop()
        value = self._result(job)
        status: Status = "error" if value is None else "passed"
        metrics = {} if value is None else {"bulk.goodput": MetricValue(value, "bit/s")}
        errors = () if value else ("it broke",)
        summary = PASSED._replace(status=status, seed=job.spec.experiment.seed, metrics=metrics, errors=errors)
        RunDirectory(job.directory).write_summary(summary)
        yield name, RunOutcome(status, "" if value else "it broke", 1.0, 0.9)

    def close(self) -> None:
        self._running.clear()


def by_seed(job: Job) -> float:
    return 1e6 + job.spec.experiment.seed % 1000


KERNELS = {"default": Build("6.12", "d")}


def sweep_of(folder: Path, cells: tuple[Cell, ...], anew: bool = False) -> SweepDirectory:
    return find_or_create(folder / "runs", PlacedCells(tuple(cells), KERNELS), {}, anew)[0]


def conduct(sweep: SweepDirectory, cells: tuple[Cell, ...], executor: FakeExecutor, retries: int = 0) -> SweepSummary:
    return Execution(sweep, cells, retries=retries).run(executor, lambda state: None, lambda text: None)


TWO_BY_THREE = "matrix: {cc: [cubic, reno]}\nrepeat: {runs: 3}\n"


# A worker that is done as soon as it has a job.
ECHO = """\
import pickle, sys
from mprun.sweeps.worker import RunOutcome
while True:
    try:
        pickle.load(sys.stdin.buffer)
    except EOFError:
        break
    pickle.dump(RunOutcome("passed", "", 0.0, 0.0), sys.stdout.buffer)
    sys.stdout.buffer.flush()
"""


def table_of(sweep: SweepDirectory) -> bytes:
    return (sweep.path / "tables" / "cells.parquet").read_bytes()


def test_the_table_does_not_depend_on_places(tmp_path: Path) -> None:
    cells = make_cells(tmp_path, TWO_BY_THREE)
    tables = []
    for places in (1, 2, 5):
        sweep = sweep_of(tmp_path, cells, anew=True)
        summary = conduct(sweep, cells, FakeExecutor(places, by_seed))
        assert summary.complete
        tables.append(table_of(sweep))
    assert tables[0] == tables[1] == tables[2]
    table = polars.read_parquet(tmp_path / "runs" / "latest-sweep" / "tables" / "cells.parquet")
    assert table.columns == ["cc", "run", "seed", "status", "directory", "bulk.goodput_bit_per_s"]
    assert table["cc"].to_list() == ["cubic"] * 3 + ["reno"] * 3
    assert (table["bulk.goodput_bit_per_s"] == 1e6 + table["seed"] % 1000).all()


@pytest.mark.parametrize("after", range(6))
def test_interrupted_and_gone_on_with(tmp_path: Path, after: int) -> None:
    cells = make_cells(tmp_path, TWO_BY_THREE)
    whole = sweep_of(tmp_path, cells)
    conduct(whole, cells, FakeExecutor(2, by_seed))
    sweep = sweep_of(tmp_path, cells)
    assert sweep.path != whole.path
    first = FakeExecutor(2, by_seed, most=after)
    with pytest.raises(Interrupted):
        conduct(sweep, cells, first)
    found = find_sweep(tmp_path / "runs", PlacedCells(cells, KERNELS), is_finished=False)
    assert found is not None
    assert (found.path, found.count()) == (sweep.path, after)
    again = sweep_of(tmp_path, cells)
    assert again.path == sweep.path
    second = FakeExecutor(2, by_seed)
    assert conduct(again, cells, second).complete
    assert len(second.begun) == 6 - after
    assert table_of(again) == table_of(whole)
    assert find_sweep(tmp_path / "runs", PlacedCells(cells, KERNELS), is_finished=False) is None
    assert not list(sweep.path.glob("partial/*"))


@pytest.mark.parametrize("value", ["reno", "bbr"])
def test_a_statement_about_cells_that_a_parameter_leaves_out_is_not_judged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], value: str
) -> None:
    text = "cells[cc=cubic].bulk.goodput > cells[cc=reno].bulk.goodput"
    cells = make_cells(tmp_path, TWO_BY_THREE + f'expect: [{{holds: "{text}"}}]\n', parameters={"cc": value})
    (told,) = cells[0].warnings
    assert told.endswith(f"expect[0].holds: is not judged: -p cc={value} leaves out cells that '{text}' names")
    sweep = sweep_of(tmp_path, cells)
    summary = conduct(sweep, cells, FakeExecutor(2, by_seed))
    assert (summary.status, summary.statements[0].held) == ("passed", None)
    show_sweep(summary, sweep)
    assert f"  ? {text}\n" in capsys.readouterr().out
    assert [(one.held, one.is_skipped, one.is_error) for one in checks_of_sweep(summary)][-1] == (True, True, False)
    assert not any("holds" in one.expectation for one in measure_operands(read_operands(sweep, sweep), 0.95).expected)


def test_an_option_for_the_metrics_of_a_run_is_not_ignored_for_a_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = make_cells(tmp_path, TWO_BY_THREE)
    sweep = sweep_of(tmp_path, cells)
    conduct(sweep, cells, FakeExecutor(2, by_seed))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SpecError, match=r"'--all' shows a run: .* `mprun export .* --markdown --metric NAME`"):
        show.main([str(sweep.path), "--all"], standalone_mode=False)


@pytest.mark.parametrize("after", [0, 2, 5])
def test_an_interrupted_sweep_is_read_as_far_as_it_is(tmp_path: Path, after: int) -> None:
    """The sweep is incomplete, even if all completed runs passed."""
    cells = make_cells(tmp_path, TWO_BY_THREE + 'expect: [{holds: "cells[cc=reno].bulk.goodput > 1mbit"}]\n')
    sweep = sweep_of(tmp_path, cells)
    with pytest.raises(
        Interrupted, match=rf"^interrupted: {after} of 6 runs, \d of 2 cells whole\nresults so far: mprun"
    ):
        conduct(sweep, cells, FakeExecutor(2, by_seed, most=after))
    summary, table = read_summary(sweep), read_table(sweep)
    assert (summary.status, summary.complete) == ("incomplete", False)
    assert summary.runs == RunCounts(after, 0, 0)
    made = [cell.runs.total for cell in summary.cells]
    assert [cell.needed for cell in summary.cells] == [3, 3]
    assert tell_progress(summary) == f"{after} of 6 runs, {sum(count == 3 for count in made)} of 2 cells whole"
    assert (table.height, table.columns[:5]) == (after, ["cc", "run", "seed", "status", "directory"])
    # the statement is about a cell without a run: neither true nor false
    assert summary.statements[0].held is (True if made[1] else None)
    assert [len(sample.get("bulk.goodput", ())) for sample in gather(sweep, summary.cells).samples] == made
    # reading the sweep writes no summary that could mark it as complete
    assert not sweep.has("summary.json")
    assert conduct(sweep, cells, FakeExecutor(2, by_seed)).status == "passed"
    assert read_summary(sweep).status == "passed"


def test_a_sweep_that_is_gone_on_with_is_not_what_it_was(tmp_path: Path) -> None:
    """The summary reported errors.

    If the sweep is killed in the next repetition, it is incomplete, with the runs passed so far.
    """
    cells = make_cells(tmp_path, TWO_BY_THREE)
    sweep = sweep_of(tmp_path, cells)
    assert conduct(sweep, cells, FakeExecutor(2, lambda job: None)).status == "error"
    with pytest.raises(Interrupted):
        conduct(sweep, cells, FakeExecutor(2, by_seed, most=4))
    assert not (sweep.path / "tables" / "cells.parquet").exists()
    summary = read_summary(sweep)
    assert (summary.status, summary.runs) == ("incomplete", RunCounts(4, 0, 0))
    # a sweep that was killed after its last run, before its summary, lacks no run
    conduct(sweep, cells, FakeExecutor(2, by_seed))
    whole, table = read_summary(sweep), read_table(sweep)
    sweep.forget()
    assert read_summary(sweep) == whole
    assert read_table(sweep).equals(table)


def test_a_sweep_is_removed_unless_somebody_works_on_it(tmp_path: Path) -> None:
    cells = make_cells(tmp_path, TWO_BY_THREE)
    first, second = sweep_of(tmp_path, cells, anew=True), sweep_of(tmp_path, cells, anew=True)
    with second.held(), pytest.raises(RunError, match="another mprun is running this sweep"):
        second.remove()
    assert (tmp_path / "runs" / "latest-sweep").resolve() == second.path
    second.remove()
    assert (tmp_path / "runs" / "latest-sweep").resolve() == first.path
    first.remove()
    assert list((tmp_path / "runs").iterdir()) == []


def test_the_command_that_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cells = make_cells(tmp_path, TWO_BY_THREE)
    sweep = sweep_of(tmp_path, cells)
    assert (sweep.command, sweep.tell_how_to_go_on()) == ("", "")
    (tmp_path / "my lab").mkdir()
    monkeypatch.chdir(tmp_path / "my lab")
    sweep.note_command(["sweep", "-t", "topo", "-p", "cc=a b", "--new"])
    assert sweep.command == "mprun sweep -t topo -p 'cc=a b'"
    monkeypatch.chdir(tmp_path)
    assert sweep.tell_how_to_go_on() == f"to resume: cd '{tmp_path}/my lab' && mprun sweep -t topo -p 'cc=a b'"
    with sweep.held():
        assert sweep.tell_how_to_go_on() == "it is running now"
    assert sweep.tell_how_to_go_on().startswith("to resume: ")


def test_only_cells_of_an_engine_that_boots_one_have_the_kernel_that_was_asked_for(tmp_path: Path) -> None:
    (tmp_path / "topo.yaml").write_text(TOPOLOGY)
    (tmp_path / "xp.yaml").write_text(EXPERIMENT + "matrix: {engine: [virtual, real], cc: [cubic]}\n")
    cells = study.make_cells(load_cells(tmp_path / "topo", tmp_path / "xp"), "auto", "mine")
    assert [(cell.engine, cell.kernel) for cell in cells] == [("virtual", "mine"), ("real", "default")]


def test_a_resumed_sweep_has_the_figures_and_metrics_of_its_files_now(tmp_path: Path) -> None:
    """They are no part of the digest, and those of the first call stayed."""
    matrix = "matrix: {cc: [cubic, reno]}\n"
    first = sweep_of(tmp_path, make_cells(tmp_path, matrix))
    assert first.record.show == ()
    again = sweep_of(tmp_path, make_cells(tmp_path, matrix + "show: [bulk.goodput]\nplots: [{series: rate}]\n"))
    assert again.path == first.path
    assert again.record.show == ("bulk.goodput",)
    assert [one.series for one in again.record.plots] == ["rate"]


def test_axes_keep_the_order_of_the_matrix(tmp_path: Path) -> None:
    """A sweep that is read again has this order too.

    The names of folders depend on the order, and a bundle is checked by these names.
    """
    matrix = "matrix: {path0.rate: [1mbit, 2mbit], path0.delay: [2ms], cc: [cubic, reno]}\nrepeat: {runs: 1}\n"
    cells = make_cells(tmp_path, matrix)
    sweep = sweep_of(tmp_path, cells)
    summary = conduct(sweep, cells, FakeExecutor(1, by_seed))
    axes = ["path0.rate", "path0.delay", "cc"]
    for kept in (sweep.record, read_summary(sweep), summary):
        assert all(list(cell.values) == axes for cell in kept.cells)
        assert [study.name_folder(tuple(cell.values.items())) for cell in kept.cells] == [cell.folder for cell in cells]
    assert read_table(sweep).columns[:3] == axes


def test_figures_have_the_runs_of_each_cell(tmp_path: Path) -> None:
    """A column has one type, so its values are not written as in the files."""
    experiment = EXPERIMENT.replace("{cc: cubic}", "{cc: cubic, part: 1}")
    cells = make_cells(tmp_path, "matrix: {part: [1, 1.5, 2]}\nrepeat: {runs: 2}\n", experiment)
    sweep = sweep_of(tmp_path, cells)
    summary = conduct(sweep, cells, FakeExecutor(1, by_seed))
    found = gather(sweep, summary.cells)
    expected: list[list[float]] = [[], [], []]
    assert [title_of(kept.run) for kept in sweep.runs()][:2] == ["topo-xp: part=1, run 1", "topo-xp: part=1, run 2"]
    for kept in sweep.runs():
        expected[kept.cell].append(kept.summary.metrics["bulk.goodput"].value)
    assert [len(values) for values in expected] == [2, 2, 2]
    assert [list(sample["bulk.goodput"]) for sample in found.samples] == expected
    # a run that ended with an error is in no statistics, although it may have measured something
    first = next(iter(sweep.runs()))
    first.run.write_summary(first.summary._replace(status="error"))
    again = write_summary(sweep)
    [sample, *_] = gather(sweep, again.cells).samples
    assert (again.cells[0].metrics["bulk.goodput"].count, len(sample["bulk.goodput"])) == (1, 1)


def test_a_sweep_that_was_killed_as_it_was_made_is_resumed_and_is_the_latest(tmp_path: Path) -> None:
    cells = make_cells(tmp_path, TWO_BY_THREE)
    first = sweep_of(tmp_path, cells)
    (tmp_path / "runs" / "latest-sweep").unlink()
    assert sweep_of(tmp_path, cells).path == first.path
    assert (tmp_path / "runs" / "latest-sweep").resolve() == first.path.resolve()


def test_files_that_a_killed_sweep_had_not_finished_go(tmp_path: Path) -> None:
    sweep = sweep_of(tmp_path, make_cells(tmp_path, TWO_BY_THREE))
    (sweep.path / "tables").mkdir()
    for name in (".0123.partial", "tables/.4567.partial"):
        (sweep.path / name).touch()
    sweep.tidy()
    assert sorted(path.name for path in sweep.path.rglob("*")) == ["inputs", "runs", "sweep.json", "tables"]


def test_other_files_are_another_sweep(tmp_path: Path) -> None:
    cells = make_cells(tmp_path, TWO_BY_THREE)
    first = sweep_of(tmp_path, cells)
    assert sweep_of(tmp_path, make_cells(tmp_path, TWO_BY_THREE + "description: other\n")).path != first.path
    kernels = {"default": Build("6.12", "of another build")}
    assert find_or_create(tmp_path / "runs", PlacedCells(cells, kernels), {}, False)[0].path != first.path


@pytest.mark.parametrize("text", ['{"format": 99}', '{"form'])
def test_a_sweep_that_cannot_be_read_keeps_no_other_from_running(tmp_path: Path, text: str) -> None:
    cells = make_cells(tmp_path, TWO_BY_THREE)
    odd = sweep_of(tmp_path, cells)
    (odd.path / "sweep.json").write_text(text)
    assert sweep_of(tmp_path, cells).path != odd.path
    assert estimate(cells, 1, tmp_path / "runs").seconds is None


def test_the_estimate_goes_by_the_newest_runs(tmp_path: Path) -> None:
    """The newest runs are not the last by name: 60 runs of 1 s, then 60 of 3 s in cells whose names come first."""
    cells = make_cells(tmp_path, TWO_BY_THREE)
    sweep = sweep_of(tmp_path, cells)
    for n in range(120):
        is_old = n < 60
        run = sweep.path / "runs" / ("cc=reno" if is_old else "cc=cubic") / str(n)
        run.mkdir(parents=True)
        (run / "environment.json").write_text((RUN / "environment.json").read_text())
        (run / "wall.json").write_text(json.dumps([{"wall_s": 1.0 if is_old else 3.0}]))
        os.utime(run / "wall.json", (n, n))
    # a run that was cut off does not count
    (run / "environment.json").unlink()
    found = estimate(cells, 2, tmp_path / "runs")
    assert (found.known, found.seconds) == (49, 3.0 * 6 / 2)


def test_an_error_is_tried_again_as_often_as_asked(tmp_path: Path) -> None:
    cells = make_cells(tmp_path, TWO_BY_THREE)
    tries: Counter[int] = Counter()

    def fail_twice(job: Job) -> float | None:
        tries[job.spec.experiment.seed] += 1
        return None if tries[job.spec.experiment.seed] <= 2 else by_seed(job)

    sweep = sweep_of(tmp_path, cells)
    once = conduct(sweep, cells, FakeExecutor(2, fail_twice), retries=1)
    assert (once.status, once.runs.error, once.complete) == ("error", 6, False)
    # the same command repeats only the runs that ended with an error
    again = conduct(sweep_of(tmp_path, cells), cells, FakeExecutor(2, fail_twice))
    assert (again.status, again.runs.passed, again.complete) == ("passed", 6, True)


def test_one_cell_in_error_keeps_no_other_from_its_end(tmp_path: Path) -> None:
    cells = make_cells(tmp_path, TWO_BY_THREE)
    summary = conduct(
        sweep_of(tmp_path, cells),
        cells,
        FakeExecutor(2, lambda job: None if job.spec.experiment.traffic[0].congestion == "reno" else by_seed(job)),
    )
    assert summary.runs == RunCounts(3, 0, 3)
    assert [cell.told.errors for cell in summary.cells] == [{}, {"it broke": 3}]


def test_a_worker_that_died_leaves_a_summary_all_the_same(tmp_path: Path) -> None:
    """Otherwise its run would be missing in the sweep's counts."""
    spec = make_cells(tmp_path, TWO_BY_THREE)[0].spec
    job = Job(spec, ("heed",), "virtual", "default", tmp_path, "pcaps", NO_COMMANDS)
    summary = settle(job, RunOutcome("error", "its worker ended with signal 9", 1.0, 0.0))
    assert (summary.status, summary.errors) == ("error", ("its worker ended with signal 9",))
    assert (summary.warnings, summary.seed) == (("heed",), spec.experiment.seed)
    # a summary that the worker itself wrote stays
    assert settle(job, RunOutcome("passed", "", 1.0, 1.0)) == summary


UNTIL = "repeat: {until: {metric: bulk.goodput, within: 1%}, min: 3, max: 12}\nmatrix: {cc: [cubic, reno]}\n"

NARROW = (
    "repeated until the interval was narrow: such intervals cover less than stated (of 95 %: 92 % at worst from 5 runs "
    "on, 90 % from 3)"
)
WIDE = "bulk.goodput is not within 1 % of its mean after 12 runs, the 'max': half of the interval is"


def test_until_the_interval_is_narrow(tmp_path: Path) -> None:
    """Cubic varies by a thousandth, so three runs are enough. Reno varies by half, so twelve runs are not enough."""
    cells = make_cells(tmp_path, UNTIL)

    def result(job: Job) -> float:
        is_reno = job.spec.experiment.traffic[0].congestion == "reno"
        return 1e6 + job.spec.experiment.seed % 1000 * (1000 if is_reno else 1)

    tables = []
    for places in (1, 4):
        sweep = sweep_of(tmp_path, cells, anew=True)
        summary = conduct(sweep, cells, FakeExecutor(places, result))
        assert [cell.runs.total for cell in summary.cells] == [3, 12]
        narrow, wide = summary.warnings
        assert (narrow, wide.startswith(WIDE), wide.endswith(" % (cc=reno)")) == (NARROW, True, True)
        assert [cell.needed for cell in summary.cells] == [3, 12]
        tables.append(table_of(sweep))
    assert tables[0] == tables[1]


@pytest.mark.parametrize(
    ("text", "told"), [(UNTIL, "6.64 % (cc=cubic), 6.64 % (cc=reno)"), (UNTIL.partition("matrix")[0], "6.64 %")]
)
def test_cells_that_reach_the_most_runs_are_told(tmp_path: Path, text: str, told: str) -> None:
    """The summary said that the interval was narrow, although no cell had reached the width.

    Half of twelve values are 10 % below the mean and half above: 10 % * t(11) / sqrt(11) = 10 % * 2.201 / 3.317.
    """
    cells = make_cells(tmp_path, text)
    sweep = sweep_of(tmp_path, cells)
    values = {name: cycle((0.9e6, 1.1e6)) for name in (None, "cubic", "reno")}
    executor = FakeExecutor(2, lambda job: next(values[job.spec.experiment.traffic[0].congestion]))
    summary = conduct(sweep, cells, executor)
    assert summary.warnings == (f"{WIDE} {told}",)


def test_runs_in_real_time_are_never_side_by_side() -> None:
    assert [slots_for({"virtual"}, jobs, cpus=2) for jobs in (None, 1, 4)] == [2, 1, 4]
    assert [slots_for({"virtual", "real"}, jobs, cpus=2) for jobs in (None, 1)] == [1, 1]
    with pytest.raises(SpecError, match="one after the other"):
        slots_for({"virtual", "real"}, 4, cpus=2)


def test_no_more_workers_than_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker loads all of Python. So a worker starts when a job needs it, and takes the next job when it is idle."""
    started = []

    def start() -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen([sys.executable, "-c", ECHO], stdin=subprocess.PIPE, stdout=subprocess.PIPE))
        return started[-1]

    monkeypatch.setattr("mprun.sweeps.local._start", start)
    (cell,) = make_cells(tmp_path, "")
    job = Job(cell.spec, (), "virtual", "default", tmp_path, "pcaps", NO_COMMANDS)
    executor = LocalExecutor(8)
    try:
        for names in (["a"], ["b", "c"]):
            for name in names:
                executor.submit(name, job)
            over: list[str] = []
            while len(over) < len(names):
                over += [name for name, outcome in executor.wait(10.0)]
            assert sorted(over) == names
        assert len(started) == 2
    finally:
        executor.close()
    executor.close()
    assert [process.poll() for process in started] == [0, 0]


def test_only_one_works_on_a_sweep(tmp_path: Path) -> None:
    sweep = sweep_of(tmp_path, make_cells(tmp_path, TWO_BY_THREE))
    with sweep.held(), pytest.raises(RunError, match="another mprun"), SweepDirectory(sweep.path).held():
        pass


def test_what_makes_a_worker_another_is_named() -> None:
    ours = {"mprun": "1", "kernel default": "a", "iperf3": "iperf 3.12"}
    assert differences(ours, ours) == ""
    assert differences(ours, {"mprun": "2", "kernel default": "", "iperf3": "iperf 3.12"}) == (
        "mprun is 2, here 1; kernel default is missing, here a"
    )


def test_latest_is_the_newest_of_runs_and_sweeps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parent = tmp_path / "runs"
    sweep = sweep_of(tmp_path, make_cells(tmp_path, ""))
    assert find_either(parent, "latest").path == sweep.path
    operand.find_either(parent, "latest")
    assert capsys.readouterr().err == ""
    run = parent / "20261125-120000-topo-xp-0123abcd"
    shutil.copytree(RUN, run)
    (parent / "latest").symlink_to(run.name)
    for newer in (run / "summary.json", sweep.path / "sweep.json", run / "summary.json"):
        for file in (run / "summary.json", sweep.path / "sweep.json"):
            os.utime(file, (1, 2 if file == newer else 1))
        # the name decides nothing: a resumed sweep is newer than its name
        assert find_either(parent, "latest").path == newer.parent
        assert operand.find_either(parent, "latest").path == newer.parent
        assert capsys.readouterr().err == f"note: latest is {newer.parent}\n"
    assert find_either(parent, str(parent / "latest")).path == run
    (parent / "latest").unlink()
    (parent / "latest").symlink_to("removed")
    with pytest.raises(SpecError, match=r"no run 'latest' here .* this link is missing or leads to no run"):
        find_either(parent, "latest")
    (parent / "latest").unlink()
    (parent / "latest").symlink_to(run.name)
    (parent / "latest-sweep").unlink()
    (parent / "latest-sweep").symlink_to("removed")
    assert find_either(parent, "latest").path == run
    (parent / "latest-sweep").unlink()
    (parent / "latest-sweep").symlink_to(sweep.path.name)
    assert operand.find_run(parent, "latest").path == run
    assert find_either(parent, "latest-sweep").path == sweep.path
