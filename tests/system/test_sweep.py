# SPDX-License-Identifier: Apache-2.0
"""Sweeps in the virtual engine: killed and resumed, on one CPU and on two, and on two kernels."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import polars
import pytest

import mprun
from mprun import load
from mprun.api import Sweep
from mprun.machine.cache import cache
from mprun.runs.difference import first_difference
from mprun.storage.run_directory import RunDirectory
from mprun.storage.sweep_directory import SweepDirectory
from mprun.sweeps.sweep_summary import read_table
from tests.system.conftest import COMMAND, LAB, Result, call, environment, wait_until

SWEEP = """\
version: 1
params: {cc: cubic}
traffic:
  - {name: bulk, tool: iperf3, from: client, to: server, duration: 1s, congestion: "{{ cc }}"}
capture: [{host: client, snaplen: 100}]
probe: {pings: 0}
expect: [{metric: bulk.goodput, min: 1mbit}]
matrix: {cc: [cubic, reno]}
repeat: {runs: 3, seed: 4}
"""
Call = Callable[..., Result]


@pytest.fixture
def xp(tmp_path: Path) -> Path:
    path = tmp_path / "xp.yaml"
    path.write_text(SWEEP)
    return path


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run a sweep without interruption, on one CPU."""
    folder = tmp_path_factory.mktemp("whole")
    (folder / "xp.yaml").write_text(SWEEP)
    words = ["-j", 1, "--json", "--junit", "junit.xml", "--tap", "out.tap"]
    summary = call("sweep", "-t", LAB / "topo", "-x", "xp", *words, cwd=folder).summary
    assert (summary["status"], summary["runs"]["passed"], summary["complete"]) == ("passed", 6, True)
    return folder / str(summary["directory"])


def test_what_lies_in_the_folder_is_not_taken_for_ours(tmp_path: Path, xp: Path) -> None:
    """A folder `mprun` in a home directory is ignored, and the console script ignores it too."""
    (tmp_path / "mprun").mkdir()
    (tmp_path / "mprun" / "__init__.py").write_text("raise ImportError")
    argv = [sys.executable, "-P", "-m", "mprun", "sweep", "-t", str(LAB / "topo"), "-x", str(xp), "-p", "cc=reno"]
    done = subprocess.run(argv, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def run_of(sweep: Path, name: str) -> RunDirectory:
    return RunDirectory(sweep / "runs" / name)


def assert_equal(one: Path, other: Path) -> None:
    assert (one / "tables" / "cells.parquet").read_bytes() == (other / "tables" / "cells.parquet").read_bytes()
    names = polars.read_parquet(one / "tables" / "cells.parquet")["directory"].to_list()
    assert names
    for name in names:
        assert first_difference(RunDirectory(one / name), RunDirectory(other / name)) is None


def test_killed_and_gone_on_with_on_another_number_of_cpus(
    xp: Path, whole: Path, tmp_path: Path, mprun: Call, leaves_nothing: None
) -> None:
    """The sweep is killed twice by SIGKILL during runs.

    Its summary equals that of an undisturbed sweep, byte by byte.
    """
    words = ["sweep", "-t", LAB / "topo", "-x", xp, "-o", tmp_path / "killed", "-j", 2]
    sweeps = tmp_path / "killed" / "latest-sweep" / "runs"
    for count in (1, 3):
        process = subprocess.Popen(
            [*COMMAND, *map(str, words)], cwd=tmp_path, env=environment(), stderr=subprocess.DEVNULL
        )
        wait_until(lambda least=count: len(list(sweeps.glob("*/*"))) >= least)  # type: ignore[misc]
        process.send_signal(signal.SIGKILL)
        process.wait()
        done = len(list(sweeps.glob("*/*")))
        assert count <= done < 6
    check_incomplete(sweeps.resolve().parent, whole, mprun)
    stopped = subprocess.Popen(
        [*COMMAND, *map(str, words)], cwd=tmp_path, env=environment(), stderr=subprocess.PIPE, text=True
    )
    assert stopped.stderr is not None
    next(line for line in stopped.stderr if line.startswith("there are "))
    stopped.send_signal(signal.SIGINT)
    _, told = stopped.communicate(timeout=60)
    assert stopped.returncode == 130
    assert re.search(r"^interrupted: \d of 6 runs, \d of 2 cells whole$", told, re.MULTILINE), told
    assert f"\nto resume: mprun sweep -t {LAB / 'topo'} -x {xp}" in told
    again = mprun(*words, "--json")
    assert again.summary["directory"] == str(sweeps.resolve().parent)
    assert_equal(whole, Path(again.summary["directory"]))
    sessions = json.loads((Path(again.summary["directory"]) / "wall.json").read_text())
    assert sum(session["runs"] for session in sessions) < 6
    # the next run removes the leftovers of a killed run; here it may have begun before the killed run was dead
    assert mprun("verify", whole / "runs" / "cc=reno" / "1").status == 0


def check_incomplete(sweep: Path, whole: Path, mprun: Call) -> None:
    """Check that a killed sweep is shown, loaded, reported, compared and bundled, and marked incomplete."""
    shown = mprun("show", sweep)
    assert (shown.status, "passed  " in shown.out) == (0, False), shown.out + shown.err
    last, hint = shown.out.splitlines()[-2:]
    assert re.match(r"INCOMPLETE  \d of 6 runs, \d of 2 cells whole \(\d passed\)", last)
    assert hint.startswith(f"to resume: mprun sweep -t {LAB / 'topo'} -x ")
    with pytest.warns(UserWarning, match=r"is incomplete: \d of 6 runs"):
        loaded = load(sweep)
    assert isinstance(loaded, Sweep)
    assert 3 <= loaded.cells.height < 6
    assert not loaded.statistics.is_empty()
    bundled = mprun("bundle", sweep, "--to", "part.zip")
    assert (bundled.status, "is incomplete" in bundled.err) == (0, True)
    assert 'class="verdict incomplete"' in (sweep / "report.html").read_text()
    part = Path(bundled.out.strip())
    compared = mprun("compare", whole, (sweep.parents[1] / part).resolve(), "--json")
    assert (compared.status, json.loads(compared.out)["status"]) == (1, "incomplete")
    # the completed runs equal those of the whole sweep: pairs without a difference
    assert {one["verdict"] for one in json.loads(compared.out)["metrics"]} <= {"same", "unknown"}
    # no file of the killed sweep marks it as complete
    assert not (sweep / "summary.json").exists()


def test_repetitions_differ_and_a_run_of_one_verifies(whole: Path, tmp_path: Path, mprun: Call) -> None:
    table = polars.read_parquet(whole / "tables" / "cells.parquet").filter(polars.col("cc") == "reno")
    goodput = table["bulk.goodput_bit_per_s"]
    assert goodput.n_unique() == 3
    # the seed changes the goodputs slightly: below 2 % of 20 Mbit/s for a second, of which slow start takes a third
    assert goodput.max() - goodput.min() < 0.02 * 20e6  # type: ignore[operator]
    result = mprun("verify", whole / "runs" / "cc=reno" / "2")
    assert (result.status, result.out.split()[0]) == (0, "identical:"), result.out + result.err


def test_a_sweep_is_verified_and_its_new_runs_are_kept_if_asked(whole: Path, tmp_path: Path, mprun: Call) -> None:
    result = mprun("verify", whole, "--json", "-o", tmp_path / "again")
    assert result.status == 0, result.err
    told = json.loads(result.out)
    count = len(list(whole.glob("runs/*/*/summary.json")))
    assert (told["verdict"], told["identical"], told["runs"]) == ("identical", count, count)
    assert told["directory"] is None
    assert not (tmp_path / "again").exists()
    kept = mprun("verify", whole, "--keep", "-o", tmp_path / "again")
    assert kept.status == 0, kept.err
    (made,) = (tmp_path / "again").glob("2*-sweep")
    assert kept.out.splitlines()[-1].endswith(f"identical  every artifact of {count} runs, byte by byte  {made}")


def test_what_it_left_is_shown_compared_and_loaded(whole: Path, mprun: Call) -> None:
    listed = mprun("runs", "list", "-o", whole.parent)
    assert listed.out.split() == ["passed", "sweep", whole.name]
    chosen = ("--all", "--where", "cc=reno", "--columns", "bulk.goodput", "--json")
    rows = json.loads(mprun("runs", "list", "-o", whole.parent, *chosen).out)
    assert [row["name"] for row in rows] == [f"{whole.name}/runs/cc=reno/{number}" for number in (1, 2, 3)]
    assert all(row["values"]["bulk.goodput"]["unit"] == "bit/s" for row in rows)
    shown = mprun("show", whole)
    assert re.search(r"cc +runs +bulk.goodput \(Mbit/s\)\n", shown.out)
    assert "held in 6 of 6 runs" in shown.out
    # of three runs: Student's t of 2 degrees of freedom is 9.925 at 99 % and 4.303 at 95 %
    pattern = r"cubic +3 +[0-9.]+ ± ([0-9.]+)"
    narrow, broad = (float(re.findall(pattern, mprun("show", whole, "--ci", ci).out)[0]) for ci in ("95%", "99%"))
    assert broad == pytest.approx(narrow * 9.925 / 4.303, abs=0.02)
    alone = mprun("show", whole / "runs" / "cc=reno" / "1", "--ci", "99%")
    assert (alone.status, "a single run has no intervals" in alone.err) == (2, True)
    exported = mprun("export", whole, "--csv", "--to", whole.parents[1] / "csv")
    cells, statistics = (polars.read_csv(path) for path in exported.out.split())
    assert cells.height == 6
    means = statistics.filter(metric="bulk.goodput").sort("cc")["mean"].to_list()
    goodputs = cells.group_by("cc").agg(polars.mean("bulk.goodput_bit_per_s")).sort("cc")
    assert means == pytest.approx(goodputs["bulk.goodput_bit_per_s"].to_list())
    paper = mprun("export", whole, "--markdown", "--metric", "bulk.goodput").out.splitlines()
    mean, half = (float(text) for text in paper[2].split("|")[-2].split(" ± "))
    assert mean == pytest.approx(means[0] / 1e6, rel=0.01)
    assert half == pytest.approx(narrow, abs=0.02)
    database = Path(mprun("export", whole, "--sqlite", "--to", whole.parents[1] / "csv").out.strip())
    with closing(sqlite3.connect(database)) as opened:
        assert opened.execute('SELECT avg("bulk.goodput_bit_per_s") FROM cells WHERE cc = "cubic"').fetchone()[0] == (
            pytest.approx(means[0])
        )
    itself = mprun("compare", whole, whole, "--all", "--within", "0%")
    assert itself.status == 0
    assert "= bulk.goodput" in itself.out
    assert mprun("bundle", whole, "--to", "whole.zip").status == 0
    packed = mprun("compare", "whole.zip", whole, "--json")
    assert {one["verdict"] for one in json.loads(packed.out)["metrics"]} == {"same"}
    halves = mprun("compare", whole, "--by", "cc", "--metric", "bulk.goodput", "--json")
    (one,) = json.loads(halves.out)["metrics"]
    assert (one["runs"], one["difference"]["method"]) == ([3, 3], "Welch")
    refused = mprun("compare", whole, whole / "runs" / "cc=reno" / "1")
    assert (refused.status, "compare two of a kind" in refused.err) == (2, True)
    checks = ElementTree.parse(whole.parents[1] / "junit.xml").getroot()
    assert (checks.attrib["tests"], checks.attrib["failures"]) == ("4", "0")
    assert (whole.parents[1] / "out.tap").read_text().startswith("TAP version 14\n1..4\nok 1 - cc=cubic: runs\n")
    sweep = load(whole)
    assert isinstance(sweep, Sweep)
    assert sweep.cells.height == 6
    assert set(sweep.statistics["metric"]) >= {"bulk.goodput", "bulk.bytes"}
    assert sweep.table("goodput").collect()["cc"].unique().sort().to_list() == ["cubic", "reno"]


def test_a_killed_worker_costs_its_run_alone(xp: Path, tmp_path: Path) -> None:
    argv = [*COMMAND, "sweep", "-t", LAB / "topo", "-x", xp, "--retries", 1, "--keep", "none", "--json"]
    process = subprocess.Popen(
        list(map(str, argv)),
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    partial = tmp_path / "runs" / "latest-sweep" / "partial"
    wait_until(lambda: any(partial.glob("*/plan.json")))
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(children[0]), signal.SIGKILL)
    out, err = process.communicate(timeout=120)
    summary: dict[str, Any] = json.loads(out)
    assert "its worker ended with signal 9; trying again" in err
    assert (summary["status"], summary["runs"]["passed"]) == ("passed", 6)
    assert not list((tmp_path / summary["directory"]).glob("runs/*/*/pcap"))


def test_two_kernels_meet_the_same_world(tmp_path: Path, mprun: Call) -> None:
    """The two names stand for one build: every pair of runs is equal, so any difference would come from the kernels."""
    kernels = tmp_path / "cache" / "mprun" / "kernels"
    kernels.mkdir(parents=True)
    built = (cache("kernels") / "default").resolve()
    (kernels / "default").symlink_to(built)
    shutil.copytree(built, kernels / "another")
    (kernels / "other").symlink_to(kernels / "another")
    facts = json.loads((built / "kernel.json").read_text())
    (kernels / "other" / "kernel.json").write_text(json.dumps({**facts, "digest": "f" * 64}))
    text = SWEEP.replace("matrix: {cc: [cubic, reno]}", "matrix: {kernel: [default, other]}").replace(
        "runs: 3", "runs: 2"
    )
    (tmp_path / "xp.yaml").write_text(text.replace('"{{ cc }}"', "cubic").replace("params: {cc: cubic}\n", ""))
    result = mprun(
        "sweep", "-t", LAB / "topo", "-x", "xp", "--json", env=environment(XDG_CACHE_HOME=str(tmp_path / "cache"))
    )
    sweep = tmp_path / result.summary["directory"]
    for number in (1, 2):
        one, other = (run_of(sweep, f"kernel={name}/{number}") for name in ("default", "other"))
        assert first_difference(one, other) is None
        assert [run.environment().kernel.name for run in (one, other)] == ["default", "other"]
    compared = mprun("compare", sweep, "--by", "kernel", "--all")
    version = facts["version"]
    assert f"kernel: {version} {facts['digest'][:12]} -> {version} {'f' * 12}" in compared.out
    # equal pairs leave no interval, however much the seeds differ
    metrics = [line for line in compared.out.splitlines() if line.startswith("  = ")]
    assert any(" bulk.goodput " in line for line in metrics)
    assert not [line for line in metrics if "%, " in line]


def test_a_matrix_is_no_single_run(xp: Path, mprun: Call) -> None:
    refused = mprun("-t", LAB / "topo", "-x", xp)
    assert refused.status == 2
    assert "is 2 cells: `mprun sweep` runs all, -p cc=cubic gives one" in refused.err
    alone = mprun("-t", LAB / "topo", "-x", xp, "-p", "cc=reno", "--json")
    assert alone.status == 0
    # a cell that is not repeated equals this run
    xp.write_text(SWEEP.replace("runs: 3, ", ""))
    sweep = mprun("sweep", "-t", LAB / "topo", "-x", xp, "-p", "cc=reno", "--json").summary["directory"]
    assert first_difference(RunDirectory(alone.run), run_of(alone.run.parents[1] / sweep, "cc=reno/1")) is None


def test_a_single_run_names_the_statements_that_it_does_not_judge(xp: Path, mprun: Call) -> None:
    statement = "cells.bulk.goodput > 50gbit"
    xp.write_text(SWEEP.replace("expect: [", f'expect: [{{holds: "{statement}"}}, '))
    options = ("-t", LAB / "topo", "-x", xp, "-p", "cc=reno")
    alone = mprun(*options, "--json")
    assert (alone.status, alone.summary["status"]) == (0, "passed")
    command = f"mprun sweep -t {LAB / 'topo.yaml'} -x {xp}"
    told = f"expect: '{statement}' compares cells and was not judged: run `{command}`"
    assert alone.summary["warnings"] == [told]
    # cc is an axis: the command runs all of its values
    assert mprun(*command.split()[1:], "--json").summary["status"] == "failed"
    seeded = mprun(*options, "--seed", "7", "--json")
    assert seeded.summary["warnings"] == [told.replace(command, f"{command} --seed 7")]
    run = mprun(*options, "--strict")
    assert (run.status, " ".join(run.out.split()).count("was not judged")) == (1, 1)


def test_what_a_seed_varies(tmp_path: Path, mprun: Call) -> None:
    """A seed varies the delays of packets on a wire by up to a twentieth of a frame's time, without reordering.

    At 20 Mbit/s, a frame takes 1514 x 8 / 20 Mbit/s = 606 us, so packets are up to 30 us early or late, evenly
    distributed. The one-way delays have a standard deviation of 30 / sqrt(3) = 17.3 us. 2000 packets show it to within
    1 %, and clocks of 256 ns to within 1 % again. Packets of 30 bytes at 6 Mbit/s, one each 40 us, do not overtake each
    other.
    """
    (tmp_path / "xp.yaml").write_text(
        "version: 1\n"
        "traffic:\n"
        "  - {name: even, tool: udp, from: client, to: server, rate: 1600kbit, length: 200bytes, duration: 2s}\n"
        "  - {name: close, tool: udp, from: client, to: server, start: 3s, rate: 6mbit,"
        " length: 30bytes, duration: 100ms}\n"
        "probe: {pings: 0}\n"
        "repeat: {vary: [start, wire]}\n"
    )
    starts = []
    for seed in (1, 2):
        result = mprun("-t", LAB / "topo", "-x", "xp", "--seed", seed, "--json")
        assert result.status == 0, result.out + result.err
        assert result.metric("even.delay.stdev") == pytest.approx(30e-6 / 3**0.5, rel=0.04)
        assert (result.metric("close.reordered"), result.metric("close.loss")) == (0, 0)
        steps = [json.loads(line) for line in (result.run / "steps.jsonl").read_text().splitlines()]
        starts.append(
            next(step["asked_ns"] for step in steps if step["step"] == "start" and step.get("name") == "even")
        )
        intent = json.loads((result.run / "plan.json").read_text())["intent"]
        assert intent["vary"] == ["start", "wire"]
    assert starts[0] != starts[1]
    # within the round-trip time of the slowest path, 40 ms
    assert all(0 <= start < 40_000_000 for start in starts)


def test_a_program_makes_the_same_sweep(whole: Path, xp: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made = mprun.sweep(LAB / "topo", xp, jobs=2)
    # a program that changes its folder still finds the runs
    monkeypatch.chdir("/")
    # paths of runs differ, and nothing else does
    assert made.cells.drop("directory").equals(read_table(SweepDirectory(whole)).drop("directory"))
    assert made.summary["status"] == "passed"
    assert mprun.load("latest", tmp_path / "runs").path == made.path
    # a run that somebody else made counts, as on the command line, and is named
    (made.path / "summary.json").unlink()
    mark, *_ = sorted(made.path.glob("runs/*/*/.made"))
    mark.unlink()
    with pytest.warns(UserWarning, match="1 of them were not made by your mprun.*; another parent starts without them"):
        mprun.sweep(LAB / "topo", xp, parent=tmp_path / "runs", jobs=2)
