# SPDX-License-Identifier: Apache-2.0
"""The index of a folder of runs: it equals the folder, whatever happens to its file. Lists and pages made from it."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from mprun.cli import group, operand
from mprun.cli.runs import command
from mprun.errors import SpecError
from mprun.model.run_summary import MetricValue
from mprun.model.scalar import Scalar
from mprun.reports.page import ListedRun, ListingPage, render
from mprun.storage import run_directory
from mprun.storage.index.database import VERSION, FolderIndex, Index
from mprun.storage.index.listed import DirectoryKind, scan
from mprun.storage.index.selection import Listing, ListRequest, select
from mprun.storage.sweep_directory import list_sweeps
from tests.hostile import RUN, copy_run, make_sweep
from tests.hostile.texts import EVIL, OBEYED

ROOT = Path(__file__).parents[2]
TOP: Sequence[DirectoryKind] = ("run", "sweep")
ALL: Sequence[DirectoryKind] = ("run", "sweep", "run of sweep")
NOTHING: dict[str, list[str]] = {name: [] for name in ("expectations", "errors", "failures", "warnings")}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "mprun" / "index"


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A folder with four runs."""
    folder = tmp_path / "runs"
    write_run(folder, 0, {"scheduler": "default", "rate": "5mbit"}, goodput=4e6, delay=0.030)
    write_run(folder, 1, {"scheduler": "roundrobin", "rate": "20mbit"}, goodput=19e6, delay=0.020, status="failed")
    write_run(folder, 2, {"scheduler": "roundrobin", "rate": "5000kbit"}, goodput=4.5e6)
    write_run(folder, 3, {"count": 3}, subflows=2)
    return folder


UNITS = {"goodput": "bit/s", "delay": "s", "subflows": "1"}


def write_run(folder: Path, number: int, parameters: dict[str, Any], status: str = "passed", **metrics: float) -> Path:
    run = folder / f"20260101-00000{number}-topo-xp-0000000{number}"
    run.mkdir(parents=True)
    measured = {f"bulk.{name}": {"value": value, "unit": UNITS[name]} for name, value in metrics.items()}
    summary = {"status": status, "complete": True, "engine": "virtual", "seed": number, "metrics": measured, **NOTHING}
    (run / "summary.json").write_text(json.dumps(summary))
    environment = json.loads((RUN / "environment.json").read_text())
    (run / "environment.json").write_text(json.dumps({**environment, "parameters": parameters}))
    return run


def later() -> int:
    """Return a time at which no directory is fresh."""
    return time.time_ns() + 60_000_000_000


def list_runs(folder: Path, request: ListRequest = ListRequest(), kinds: Sequence[DirectoryKind] = TOP) -> Listing:  # noqa: B008
    indexed = FolderIndex(folder, scan(folder, kinds == ALL), kinds, clock=later)
    listing, reason = indexed.ask(lambda index: select(index, request))
    assert reason == ""
    return listing


def numbers(folder: Path, *where: str, **rest: Any) -> str:
    """Return the last digits of the names of the listed runs."""
    return "".join(row.entry.name[-1] for row in list_runs(folder, ListRequest(where=where, **rest)).rows)


def statuses(folder: Path) -> list[str]:
    return [row.entry.status for row in list_runs(folder).rows]


def change(cache: Path, statement: str) -> None:
    """Change the file of the index."""
    (file,) = cache.glob("*/runs.sqlite")
    with closing(sqlite3.connect(file)) as database:
        database.execute(statement)
        database.commit()


def call(*words: object) -> Result:
    return CliRunner().invoke(command, ["list", *map(str, words)])


def test_only_new_and_changed_directories_are_read(runs: Path, cache: Path) -> None:
    assert statuses(runs) == ["passed", "failed", "passed", "passed"]
    # a status that no file has shows that the file of the index was believed
    change(cache, "UPDATE runs SET status = 'kept'")
    assert statuses(runs) == ["kept"] * 4
    write_run(runs, 4, {})
    path = next(runs.glob("*0")) / "summary.json"
    path.write_text(path.read_text().replace("passed", "failed"))
    assert statuses(runs) == ["failed", "kept", "kept", "kept", "passed"]


def test_a_change_of_the_same_size_and_time_is_noticed(runs: Path) -> None:
    list_runs(runs)
    path = next(runs.glob("*1")) / "summary.json"
    before = path.stat()
    path.write_text(path.read_text().replace("failed", "passed"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size
    assert statuses(runs) == ["passed"] * 4


def test_a_fresh_directory_is_read_again(runs: Path, cache: Path) -> None:
    def question(index: Index) -> list[str]:
        return [entry.status for entry in index.entries().values()]

    FolderIndex(runs, scan(runs), TOP).ask(question)
    change(cache, "UPDATE runs SET status = 'kept'")
    assert FolderIndex(runs, scan(runs), TOP).ask(question)[0] == ["passed", "failed", "passed", "passed"]


def test_the_end_of_a_run_and_its_report_are_noticed(runs: Path) -> None:
    run = next(runs.glob("*2"))
    (run / "incomplete").touch()
    assert statuses(runs)[2] == "incomplete"
    (run / "incomplete").unlink()
    (run / "report.html").touch()
    entry = list_runs(runs).rows[2].entry
    assert (entry.status, entry.has_report) == ("passed", True)


def test_removed_runs_leave_the_index(runs: Path, cache: Path) -> None:
    list_runs(runs)
    shutil.rmtree(next(runs.glob("*1")))
    assert numbers(runs) == "023"
    (file,) = cache.glob("*/runs.sqlite")
    with closing(sqlite3.connect(file)) as database:
        for table in ("parameters", "metrics"):
            assert database.execute(
                f"SELECT count(*) FROM {table} WHERE run NOT IN (SELECT id FROM runs)"
            ).fetchone() == (0,)


@pytest.mark.parametrize("damage", ["text", "half", "middle", "empty", "version", "tables"])
def test_a_damaged_or_other_file_is_made_again(runs: Path, cache: Path, damage: str) -> None:
    whole = list_runs(runs, ListRequest(columns=("bulk.goodput", "rate")))
    (file,) = cache.glob("*/runs.sqlite")
    data = file.read_bytes()
    if damage in ("version", "tables"):
        change(cache, "PRAGMA user_version = 99" if damage == "version" else "DROP TABLE metrics")
    elif damage == "middle":
        file.write_bytes(data[:4096] + b"\xff" * (len(data) - 4096))
    else:
        file.write_bytes({"text": b"no database" * 500, "half": data[: len(data) // 2], "empty": b""}[damage])
    assert list_runs(runs, ListRequest(columns=("bulk.goodput", "rate"))) == whole
    with closing(sqlite3.connect(file)) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (VERSION,)
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_without_a_cache_the_list_is_the_same_and_the_reason_is_named(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = list_runs(runs)
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    listing, reason = FolderIndex(runs, scan(runs), TOP).ask(lambda index: select(index, ListRequest()))
    assert listing == whole
    assert "Not a directory" in reason
    shown = call("-o", runs)
    assert shown.exit_code == 0
    assert "note: the list is not kept for the next time" in shown.stderr


def test_a_file_in_the_folder_of_runs_is_not_believed(runs: Path, cache: Path) -> None:
    list_runs(runs)
    change(cache, "UPDATE runs SET status = 'forged'")
    (place,) = cache.iterdir()
    shutil.move(place, runs / place.name)
    shutil.copy(runs / place.name / "runs.sqlite", runs / "runs.sqlite")
    assert "forged" not in statuses(runs)


def test_each_folder_has_its_own_index(runs: Path, cache: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    write_run(other, 7, {})
    assert (numbers(runs), numbers(other), numbers(runs)) == ("0123", "7", "0123")
    assert len(list(cache.iterdir())) == 2
    shutil.rmtree(other)
    write_run(tmp_path / "third", 8, {})
    assert numbers(tmp_path / "third") == "8"
    # the index of the removed folder is gone
    told = sorted((place / "folder").read_text() for place in cache.iterdir())
    assert told == [str(runs), str(tmp_path / "third")]


def test_several_processes_at_once(tmp_path: Path) -> None:
    folder = tmp_path / "many"
    for number in range(10):
        run = write_run(folder, number, {"scheduler": "default"}, goodput=1e6 * number)
        for copy in range(30):
            shutil.copytree(run, folder / f"20260102-0000{copy:02}-topo-xp-{number:08x}")
    argv = [sys.executable, "-m", "mprun", "runs", "list", "-o", str(folder), "--columns", "bulk.goodput", "--json"]
    started = [subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(4)]
    ended = [process.communicate() for process in started]
    assert [process.returncode for process in started] == [0] * 4, ended
    (answer,) = {out for out, _ in ended}
    rows = json.loads(answer)
    assert len(rows) == 310
    assert {row["values"]["bulk.goodput"]["value"] for row in rows} == {1e6 * number for number in range(10)}
    assert not any(b"not kept" in told for _, told in ended)


def test_the_order_is_that_of_the_runs(tmp_path: Path) -> None:
    """Runs of the same second are in the order of their plans."""
    folder = tmp_path / "runs"
    for n, name in enumerate(("b", "c", "a")):
        run = folder / f"20260101-000000-{name}-xp-00000000"
        run.mkdir(parents=True)
        (run / "plan.json").touch()
        os.utime(run / "plan.json", ns=(n, n))
    (folder / "20260101-000000-a-xp-00000000-sweep").mkdir()
    (folder / "20260101-000000-a-xp-00000000-sweep" / "sweep.json").touch()
    names = [row.entry.name for row in list_runs(folder).rows]
    assert names == [*(run.name for run in run_directory.list_runs(folder)), "20260101-000000-a-xp-00000000-sweep"]
    assert [name.split("-")[2] for name in names] == ["b", "c", "a", "a"]


def names_in(cache: Path) -> list[str]:
    """Return the names in the file of the index."""
    (file,) = cache.glob("*/runs.sqlite")
    with closing(sqlite3.connect(file)) as database:
        return [name for (name,) in database.execute("SELECT name FROM runs ORDER BY name")]


def test_runs_of_sweeps_stay_in_the_index_as_long_as_they_exist(tmp_path: Path, cache: Path) -> None:
    folder = tmp_path / "runs"
    sweep = make_sweep(folder)
    parts = [f"{sweep.name}/runs/cc={value}/1" for value in ("cubic", "reno")]
    list_runs(folder, kinds=ALL)
    list_runs(folder)
    assert names_in(cache) == [sweep.name, *parts]
    shutil.rmtree(folder / parts[0])
    assert [row.entry.name for row in list_runs(folder, kinds=ALL).rows] == [sweep.name, parts[1]]
    shutil.rmtree(sweep)
    list_runs(folder)
    assert names_in(cache) == []


def test_runs_of_sweeps_on_demand(tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    sweep = make_sweep(folder)
    parts = [f"{sweep.name}/runs/cc={value}/1" for value in ("cubic", "reno")]
    for value, part in zip(("cubic", "reno"), parts, strict=True):
        environment = json.loads((folder / part / "environment.json").read_text())
        (folder / part / "environment.json").write_text(json.dumps({**environment, "parameters": {"cc": value}}))
    assert [row.entry.name for row in list_runs(folder).rows] == [sweep.name]
    deep = list_runs(folder, ListRequest(columns=("cc",)), ALL)
    assert [(row.entry.name, row.values["cc"]) for row in deep.rows] == [
        (sweep.name, None), (parts[0], "cubic"), (parts[1], "reno"),
    ]  # fmt: skip
    # what is known of them is neither listed nor lost
    assert [row.entry.name for row in list_runs(folder).rows] == [sweep.name]
    refused = call("-o", folder, "--where", "cc=reno")
    assert str(refused.exception) == (
        "--where cc=reno: no run has a parameter or metric 'cc'; fields: name, status, engine, seed; "
        "there are no parameters; there are no metrics; --all adds the runs of sweeps"
    )
    shutil.rmtree(sweep)
    copy_run(folder)
    assert len(list_runs(folder, kinds=ALL).rows) == 1


@pytest.mark.parametrize(
    ("where", "found"),
    [
        (["scheduler=roundrobin"], "12"),
        (["scheduler==roundrobin"], "12"),
        (["scheduler='roundrobin'"], "12"),
        (["scheduler!=roundrobin"], "0"),
        (["scheduler=roundrobin", "bulk.goodput>10mbit"], "1"),
        (["bulk.goodput > 4mbit and bulk.goodput <= 4500kbit"], "2"),
        (["bulk.goodput=4mbit"], "0"),
        (["bulk.goodput!=4mbit"], "12"),
        (["bulk.goodput=4mbit..19mbit"], "02"),
        (["not bulk.goodput > 10mbit"], "02"),
        (["bulk.delay < 25ms"], "1"),
        (["scheduler==default", "bulk.goodput > 1mbit"], "0"),
        (["rate=5mbit"], "02"),
        (["bulk.goodput / rate >= 0.9"], "12"),
        (["count=3"], "3"),
        (["count == bulk.subflows + 1"], "3"),
        (["status=failed"], "1"),
        (["engine=virtual", "seed >= 2"], "23"),
        (["bulk.goodput > 1gbit"], ""),
    ],
)
def test_statements_choose_runs(runs: Path, where: list[str], found: str) -> None:
    assert numbers(runs, *where) == found


@pytest.mark.parametrize(
    ("where", "message"),
    [
        (
            "bulk.godput > 1mbit",
            "--where 'bulk.godput > 1mbit': at 'bulk.godput' (character 1): no run has a parameter or metric "
            "'bulk.godput': did you mean 'bulk.goodput'?",
        ),
        (
            "schedular=default",
            "--where schedular=default: no run has a parameter or metric 'schedular': did you mean 'scheduler'?",
        ),
        (
            "x=1",
            "--where x=1: no run has a parameter or metric 'x'; fields: name, status, engine, seed; parameters: count, "
            "rate, scheduler; "
            "metrics: bulk.delay, bulk.goodput, bulk.subflows",
        ),
        (
            "bulk.goodput > 3ms",
            "--where 'bulk.goodput > 3ms': at '3ms' (character 16): a rate cannot be compared with a time",
        ),
        (
            "bulk.goodput = 3",
            "--where 'bulk.goodput == 3': at '3' (character 17): a rate cannot be compared with a number: give the "
            "number a unit, as in '36mbit'",
        ),
        (
            "scheduler > 3",
            "--where 'scheduler > 3': at 'scheduler' (character 1): is a text: compare it as in 'scheduler=default'",
        ),
        (
            "scheduler=default and bulk.goodput > 1mbit",
            "--where 'scheduler=default and bulk.goodput > 1mbit': write --where scheduler=default --where "
            "'bulk.goodput > 1mbit'",
        ),
        (
            "bulk.goodput > 1mbit and scheduler==default",
            "--where 'bulk.goodput > 1mbit and scheduler==default': write --where 'bulk.goodput > 1mbit' --where "
            "scheduler==default",
        ),
        (
            "count == 3 and bulk.goodput > 3",
            "--where 'count == 3 and bulk.goodput > 3': at '3' (character 31): a rate cannot be compared with a "
            "number: give the number a unit, as in '36mbit'",
        ),
        (
            "bulk.goodput",
            "--where 'bulk.goodput': at 'bulk.goodput' (character 1): is a value and nothing that may be true or "
            "false: compare it, as in 'a >= b'; if you wrote '<' or '>', which a shell takes, put the whole condition "
            "in quotes",
        ),
        (
            "label=fast",
            "--where label='fast': no run has a label: `mprun run --label TEXT` gives one",
        ),
        (
            "bulk[scheduler=default].goodput > 1mbit",
            "--where 'bulk[scheduler=default].goodput > 1mbit': at 'bulk[scheduler=default].goodput' (character 1): "
            "conditions in brackets choose no runs: write each as a --where of its own",
        ),
    ],
)
def test_wrong_statements(runs: Path, where: str, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        numbers(runs, where)
    assert str(caught.value) == message


def test_what_fits_no_run_is_explained(runs: Path) -> None:
    listing = list_runs(runs, ListRequest(where=("scheduler=rondrobin",)))
    assert (listing.rows, listing.total) == ((), 4)
    assert listing.notes == ("--where scheduler=rondrobin: no run has this value: did you mean 'roundrobin'?",)
    divided = list_runs(runs, ListRequest(where=("bulk.goodput / (seed - 1) > 1mbit",)))
    assert [row.entry.name[-1] for row in divided.rows] == ["2"]
    assert divided.notes == (
        "--where bulk.goodput / (seed - 1) > 1mbit: has no value for 20260101-000001-topo-xp-00000001: 'seed - 1': "
        "is 0: a division by zero has no value",
    )


@pytest.mark.parametrize(
    ("request_", "found"),
    [
        (ListRequest(), "0123"),
        (ListRequest(is_reversed=True), "3210"),
        (ListRequest(sort="bulk.goodput"), "0213"),
        # runs without a value are last in both orders
        (ListRequest(sort="bulk.goodput", is_reversed=True), "1203"),
        (ListRequest(sort="rate"), "0213"),
        (ListRequest(sort="scheduler"), "0123"),
        (ListRequest(sort="seed", is_reversed=True), "3210"),
        (ListRequest(sort="status"), "1023"),
    ],
)
def test_order(runs: Path, request_: ListRequest, found: str) -> None:
    assert "".join(row.entry.name[-1] for row in list_runs(runs, request_).rows) == found


@pytest.mark.parametrize("option", ["--sort", "--columns"])
def test_unknown_names_of_options(runs: Path, option: str) -> None:
    result = call("-o", runs, option, "bulk.dealy")
    assert isinstance(result.exception, SpecError)
    assert str(result.exception) == (
        f"{option} bulk.dealy: no run has a parameter or metric 'bulk.dealy': did you mean 'bulk.delay'?"
    )


def test_columns_in_the_terminal_and_as_json(runs: Path) -> None:
    shown = call("-o", runs, "--columns", "scheduler,bulk.goodput", "--where", "bulk.delay > 0s")
    assert shown.stdout == (
        "  status  engine   name                               scheduler  bulk.goodput\n"
        "  passed  virtual  20260101-000000-topo-xp-00000000     default   4.00 Mbit/s\n"
        "  failed  virtual  20260101-000001-topo-xp-00000001  roundrobin  19.00 Mbit/s\n"
    )
    rows = json.loads(call("-o", runs, "--columns", "count", "--columns", "bulk.goodput", "--json").stdout)
    assert rows[0] == {
        "name": "20260101-000000-topo-xp-00000000",
        "status": "passed",
        "engine": "virtual",
        "values": {"count": None, "bulk.goodput": {"value": 4e6, "unit": "bit/s"}},
    }
    assert rows[3]["values"] == {"count": 3, "bulk.goodput": None}
    # without columns the list is as short as its lines
    assert json.loads(call("-o", runs, "--json").stdout)[3] == {
        "name": "20260101-000003-topo-xp-00000003",
        "status": "passed",
        "engine": "virtual",
    }
    assert call("-o", runs, "--where", "bulk.goodput > 1gbit").stdout == f"no run in {runs} matches\n"
    assert call("-o", runs / "none", "--where", "x=1").stdout == f"no runs in {runs / 'none'}: no such folder\n"


def test_a_plain_list_shows_parameters_that_differ(runs: Path) -> None:
    lines = [line.split() for line in call("-o", runs).stdout.splitlines()]
    assert lines[0] == ["status", "engine", "name", "rate", "scheduler"]
    assert [line[3:] for line in lines[1:3]] == [["5mbit", "default"], ["20mbit", "roundrobin"]]
    write_run(runs, 4, {"label": "first"})
    lines = [line.split() for line in call("-o", runs).stdout.splitlines()]
    assert (lines[0][3:], lines[5][3:]) == (["label", "rate", "scheduler"], ["first", "-", "-"])


def test_a_step_with_a_typo_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the folder of a lab, the name of a step stands for its run."""
    monkeypatch.chdir(ROOT / "labs" / "03_path_manager")
    with pytest.raises(SpecError) as error:
        operand.find_run(tmp_path, "two_fulmesh")
    assert str(error.value) == f"no run 'two_fulmesh' here or in {tmp_path}: did you mean the step 'two_fullmesh'?"


def test_a_run_is_named_by_its_values(runs: Path) -> None:
    write_run(runs, 4, {"label": "first"})
    write_run(runs, 5, {"label": "x > 5 & y"})
    write_run(runs, 6, {"label": "latest"})
    newest = "20260101-000006-topo-xp-00000006"
    found = (("scheduler=roundrobin", 2), ("scheduler=roundrobin,rate=20mbit", 1), ("label=first", 4))
    for text, number in (*found, ("label=x > 5 & y", 5)):
        assert operand.find_run(runs, text).name.endswith(str(number))
        assert operand.find_either(runs, text).path == operand.find_run(runs, text).path
    for text, reason in (
        ("scheduler=robin", "scheduler=robin: no run has this value: did you mean 'roundrobin'?"),
        (
            "schedule=default",
            "schedule=default: no run has a parameter or metric 'schedule': did you mean 'scheduler'?",
        ),
        ("first", "no run 'first', but a run with this label: write 'label=first'"),
        (
            "latest",
            f"no run 'latest' here or in {runs}; this link is missing or leads to no run; the newest run is {newest}",
        ),
        ("latest-sweep", f"no run 'latest-sweep' here or in {runs}; there is no sweep: `mprun sweep` makes one"),
        ("scheduler=default,rate=20mbit", f"no run in {runs} has scheduler=default,rate=20mbit"),
    ):
        with pytest.raises(SpecError) as error:
            operand.find_run(runs, text)
        assert str(error.value) == reason


def test_values_that_only_runs_of_a_sweep_have_name_one_of_these(tmp_path: Path) -> None:
    sweep = make_sweep(tmp_path)
    for value in ("cubic", "reno"):
        file = sweep / f"runs/cc={value}/1/environment.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), "parameters": {"cc": value}}))
    done = CliRunner().invoke(group, ["compare", "-o", str(tmp_path), "cc=cubic", "cc=reno"], catch_exceptions=False)
    notes = done.stderr.splitlines()
    assert [note.partition(", ")[0] for note in notes] == [
        f"note: cc={value} is {sweep}/runs/cc={value}/1" for value in ("cubic", "reno")
    ]
    assert notes[0].endswith(", one run of a sweep; `mprun compare SWEEP --by cc` compares all its runs")
    same = CliRunner().invoke(group, ["compare", "-o", str(tmp_path), "cc=cubic", "cc=cubic"], catch_exceptions=False)
    assert same.stderr.splitlines()[-1] == f"note: A and B are the same: {sweep}/runs/cc=cubic/1"
    with pytest.raises(SpecError, match="has cc=bbr"):
        operand.find_run(tmp_path, "cc=bbr")


def test_a_range_that_ends_before_it_begins_is_refused(runs: Path) -> None:
    with pytest.raises(SpecError, match=r"the range ends before it begins: write bulk\.goodput=5mbit\.\.10mbit"):
        list_runs(runs, ListRequest(where=("bulk.goodput=10mbit..5mbit",)))


@pytest.mark.parametrize(("part", "bound"), [("5mbit..", ">= 5mbit"), ("..5mbit", "< 5mbit")])
def test_a_range_without_an_end_is_refused(runs: Path, part: str, bound: str) -> None:
    with pytest.raises(SpecError) as caught:
        list_runs(runs, ListRequest(where=(f"bulk.goodput={part}",)))
    told = f"--where bulk.goodput={part}: the range lacks an end: write it, or compare, as in 'bulk.goodput {bound}'"
    assert str(caught.value) == told


def test_a_sweep_is_no_run(tmp_path: Path) -> None:
    sweep = make_sweep(tmp_path)
    (tmp_path / "latest-sweep").symlink_to(sweep.name)
    with pytest.raises(SpecError) as error:
        operand.find_run(tmp_path, "latest-sweep")
    assert str(error.value) == (
        f"latest-sweep is a sweep: name one of its runs, as in {tmp_path}/latest-sweep/runs/CELL/1"
    )


def test_a_value_that_only_runs_of_sweeps_may_have_is_no_unknown_value(runs: Path) -> None:
    make_sweep(runs)
    told = call("-o", runs, "--where", "scheduler=blest").stderr
    assert told.startswith("note: --where scheduler=blest: no run has this value")
    assert told.endswith("; --all adds the runs of sweeps\n")


def test_without_the_link_to_the_newest_run_its_name_is_told(runs: Path) -> None:
    with pytest.raises(SpecError) as error:
        operand.find_run(runs, "latest")
    assert str(error.value) == (
        f"no run 'latest' here or in {runs}; this link is missing or leads to no run; the newest run is "
        "20260101-000003-topo-xp-00000003"
    )


def test_a_path_that_has_no_run_names_what_is_near(runs: Path) -> None:
    newest = "20260101-000003-topo-xp-00000003"
    (runs / newest / "plan.json").touch()
    sweep = "20260101-000004-topo-xp-00000004-sweep"
    for name in (sweep, ".hidden", "notes"):
        (runs / name).mkdir()
    for name in (sweep, ".hidden"):
        (runs / name / "sweep.json").touch()
    for name, told in (
        (f"{runs}/{newest[:-1]}", f"no run '{runs}/{newest[:-1]}' here or in {runs}; did you mean '{runs}/{newest}'?"),
        (f"{runs}/9", f"no run '{runs}/9' here or in {runs}; {runs} has {newest}, {sweep}"),
        (str(runs), f"{runs} has no plan.json: name a run in it: {runs}/{newest}"),
    ):
        with pytest.raises(SpecError) as error:
            operand.find_run(runs, name)
        assert str(error.value) == told


def test_damaged_and_foreign_directories_are_named(runs: Path) -> None:
    (next(runs.glob("*0")) / "summary.json").write_text('{"status": "pas')
    (next(runs.glob("*1")) / "environment.json").write_text("[]")
    for name in ("notes", "more", ".hidden", "20260101-000000-evil\x1b[2J-00000000"):
        (runs / name).mkdir()
    for name in ("20260101-000000-copy", "list.html"):
        (runs / name).touch()
    (runs / "latest").symlink_to(next(runs.glob("*3")).name)
    shown = call("-o", runs)
    assert [line.split()[0] for line in shown.stdout.splitlines()[1:]] == ["damaged", "failed", "passed", "passed"]
    assert re.sub(r"damaged: .*: run", "damaged: X: run", shown.stderr) == (
        "warning: 20260101-000000-topo-xp-00000000/summary.json: damaged: X: run it again, or take the directory from "
        "where it came\n"
        "warning: 20260101-000001-topo-xp-00000001/environment.json: damaged: X: run it again, or take the directory "
        "from where it came\n"
        "note: neither a run nor a sweep: 20260101-000000-copy, 20260101-000000-evil\ufffd[2J-00000000, more, notes\n"
    )
    rows = json.loads(call("-o", runs, "--json").stdout)
    assert ["fault" in row for row in rows] == [True, True, False, False]
    assert "20260101-000000" not in numbers(runs, "scheduler=default")


def test_a_renamed_run_or_sweep_is_listed_as_it_is_shown(runs: Path) -> None:
    run, sweep = next(runs.glob("*2")), make_sweep(runs)
    (run / "plan.json").touch()
    # the name that the user gave has no time: that of the record counts
    for path, began in ((run / "plan.json", "20260101-000001"), (sweep / "sweep.json", "20260101-000002")):
        os.utime(path, (time.mktime(time.strptime(began, "%Y%m%d-%H%M%S")),) * 2)
    run.rename(runs / "mine")
    sweep.rename(runs / "all")
    for odd in (".hidden", "evil\x1b[2J"):
        (runs / odd).mkdir()
        (runs / odd / "plan.json").touch()
    (runs / "link").symlink_to("mine")
    listed = [(row.entry.name[-5:], row.entry.kind) for row in list_runs(runs).rows]
    assert listed == [("00000", "run"), ("00001", "run"), ("mine", "run"), ("all", "sweep"), ("00003", "run")]
    assert [one.name[-5:] for one in run_directory.list_runs(runs)] == ["00000", "00001", "mine", "00003"]
    assert [one.name for one in list_sweeps(runs)] == ["all"]
    assert operand.find_either(runs, "mine").path == runs / "mine"
    (runs / "latest").symlink_to("mine")
    for wrong, meant in (("mne", "mine"), ("latset", "latest")):
        with pytest.raises(SpecError, match=f"no run '{wrong}' .* did you mean '{meant}'"):
            operand.find_either(runs, wrong)


def test_parameters_and_metrics_keep_their_types(tmp_path: Path) -> None:
    values = {"a": True, "b": 1, "c": 1.0, "d": "1", "e": None, "f": 1 << 70}
    write_run(tmp_path / "runs", 0, values, subflows=1 << 70)

    def question(index: Index) -> tuple[dict[str, Scalar], list[MetricValue]]:
        read = {name: next(iter(index.parameter(name).values())) for name in index.names("parameters")}
        return read, list(index.metric("bulk.subflows").values())

    for _ in range(2):
        (read, measured), _ = FolderIndex(tmp_path / "runs", scan(tmp_path / "runs"), TOP).ask(question)
        assert {name: (type(value), value) for name, value in read.items()} == {
            name: (type(value), value) for name, value in values.items()
        }
        assert measured == [MetricValue(float(1 << 70), "1")]


def write_page(runs: Path, target: Path, *words: object) -> str:
    result = call("-o", runs, "--html", target, *words)
    assert result.exit_code == 0, result.output
    assert result.stdout == f"{target}\n"
    return target.read_text()


def test_page_links_to_reports_and_else_to_folders(runs: Path, tmp_path: Path) -> None:
    (next(runs.glob("*1")) / "report.html").touch()
    (tmp_path / "pages").mkdir()
    page = write_page(runs, tmp_path / "pages" / "list.html")
    links = re.findall(r'<td><a href="([^"]+)"( class="folder")?', page)
    assert links[:2] == [
        ("../runs/20260101-000000-topo-xp-00000000/", ' class="folder"'),
        ("../runs/20260101-000001-topo-xp-00000001/report.html", ""),
    ]
    for link, _ in links:
        assert (tmp_path / "pages" / link).exists()
    assert write_page(runs, tmp_path / "pages" / "list.html") == page
    # the page beside the runs
    assert 'href="./2026' in write_page(runs, runs / "list.html")


def test_page_has_values_to_sort(runs: Path, tmp_path: Path) -> None:
    page = write_page(runs, tmp_path / "list.html", "--columns", "rate,bulk.goodput", "--where", "rate=5mbit")
    assert re.findall(r"<th[^>]*>([^<]*)</th>", page) == ["run", "status", "engine", "rate", "bulk.goodput"]
    assert re.findall(r'<td data-amount="([^"]+)"[^>]*>([^<]*)</td>', page) == [
        ("5000000.0", "5mbit"), ("4000000.0", "4.00 Mbit/s"), ("5000000.0", "5000kbit"), ("4500000.0", "4.50 Mbit/s"),
    ]  # fmt: skip
    assert "2 of 4 runs and sweeps · rate=5mbit" in page


def test_page_shows_its_first_rows(tmp_path: Path) -> None:
    row = ListedRun("a", "a/", False, "passed", ())
    page = ListingPage("t", "", ("run", "status"), 2, ("passed",), [row] * 5, 3)
    assert re.findall(r"<tr( hidden)?><td>", render(page)) == ["", "", "", " hidden", " hidden"]
    # all of them without scripts
    assert "<noscript><style>.runs tr[hidden] { display: table-row; }</style></noscript>" in render(page)


def test_page_needs_nothing_and_allows_only_its_own_scripts(runs: Path, tmp_path: Path) -> None:
    page = write_page(runs, tmp_path / "list.html")
    policy = re.search(r'<meta http-equiv="Content-Security-Policy" content="([^"]+)">', page)
    assert policy is not None
    allowed = {
        found.replace("&#39;", "'") for found in re.findall(r"sha256-[A-Za-z0-9+/=]+", policy[1].replace("&#43;", "+"))
    }
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    digests = {f"sha256-{base64.b64encode(hashlib.sha256(one.encode()).digest()).decode()}" for one in scripts}
    assert len(scripts) == 2
    assert allowed == digests
    assert "default-src &#39;none&#39;" in policy[1]
    assert not re.search(r'(src|href)="(https?:|//)|url\(|@import', page)


def test_a_strangers_texts_stay_texts(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    write_run(runs, 0, {EVIL: 1, "cc": EVIL})
    strange = runs / '20260101-000009-"><script>alert(1)<b>-00000000'
    shutil.copytree(next(runs.glob("*0")), strange)
    shown = call("-o", runs, "--columns", "cc")
    assert shown.exit_code == 0
    assert not OBEYED.search(shown.output)
    page = write_page(runs, tmp_path / "list.html", "--columns", "cc")
    assert "<script>alert" not in page
    assert '"><script' not in page
    assert not OBEYED.search(page)
    assert "<script>alert" not in write_page(runs, tmp_path / "list.html")


def test_options_that_conflict(runs: Path, tmp_path: Path) -> None:
    refused = call("-o", runs, "--json", "--html", tmp_path / "list.html")
    assert refused.exit_code == 2
    assert "--json conflicts with --html: remove one of the two" in refused.stderr
