# SPDX-License-Identifier: Apache-2.0
"""The store of runs for the tests: what it takes for the same run, and that a wrong entry is found."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mprun.kernel.store import Kernel
from tests import stored_runs
from tests.phases import read_runs
from tests.stored_runs import PACKAGE, command_of, is_chosen, key_of, of_code, prune, storing

Run = Callable[..., Path]


class Engine:
    """An engine that writes the number of its runs, unless it repeats."""

    def __init__(self) -> None:
        self.runs = 0
        self.repeats = True

    def run_plan(self, plan: Any, run: Any, kernel: Any, progress: Any, shell: str | None = None) -> None:
        self.runs += 1
        (run.path / "logs").mkdir(exist_ok=True)
        (run.path / "agent.json").write_text("{}" if self.repeats else str(self.runs))
        (run.path / "wall.json").write_text(str(self.runs))


@pytest.fixture
def engine() -> Engine:
    return Engine()


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: Engine) -> Run:
    """Return a function that makes a run in a new directory, in the test of the given name."""
    folder = tmp_path / "kernel"
    folder.mkdir()
    (folder / "linux").write_bytes(b"a kernel")
    monkeypatch.setattr("mprun.engines.agent_process.find_built", lambda plan, as_user: {})
    monkeypatch.setenv(stored_runs.FOLDER, str(tmp_path / "store"))
    monkeypatch.setenv(stored_runs.RECORD, str(tmp_path / "record"))
    monkeypatch.setenv(stored_runs.SEED, "0")
    (tmp_path / "record").touch()
    take_or_run = storing(engine.run_plan)
    kernel = Kernel("default", str(folder / "linux"), "6.12", "digest", "source", 1, "gcc", 1.0)

    def make(test: str, text: str = "plan", again: bool = False, **options: Any) -> Path:
        monkeypatch.setenv(stored_runs.TEST, f"{test} (call)")
        path = tmp_path / f"run{len(list(tmp_path.glob('run*')))}"
        path.mkdir()
        plan: Any = SimpleNamespace(to_text=lambda: text)
        choose(key_of(plan, kernel), again)
        take_or_run(plan, SimpleNamespace(path=path), kernel, None, **options)
        return path

    def choose(key: str, again: bool) -> None:
        for seed in range(1000):
            monkeypatch.setenv(stored_runs.SEED, str(seed))
            if is_chosen(key) is again:
                return

    return make


def record(folder: Path) -> list[str]:
    return [line.split()[0] for line in (folder / "record").read_text().splitlines()]


def test_another_test_gets_a_copy_and_the_same_test_a_run(run: Run, engine: Engine, tmp_path: Path) -> None:
    run("one")
    taken = run("two")
    assert engine.runs == 1
    assert (taken / "agent.json").read_text() == "{}"
    assert (taken / "logs").is_dir()
    run("two")
    assert engine.runs == 2
    run("two", text="another plan")
    assert engine.runs == 3
    assert record(tmp_path) == ["made", "taken", "made", "made"]


def test_each_command_of_a_page_gets_a_copy(
    run: Run, engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("one")
    monkeypatch.setenv(stored_runs.TEST, "page (call)")
    for number in (0, 1, 1):
        command = command_of(number)
        assert command.endswith(" (call)")
        run(command.removesuffix(" (call)"))
        monkeypatch.setenv(stored_runs.TEST, "page (call)")
    assert record(tmp_path) == ["made", "taken", "taken", "made"]
    assert read_runs(tmp_path / "record")["taken"] == {"page": 2}


def test_a_shell_a_fresh_test_and_a_repetition_make_their_run(
    run: Run, engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("one")
    run("two", shell="after")
    monkeypatch.setenv(stored_runs.FRESH, "1")
    run("three")
    monkeypatch.delenv(stored_runs.FRESH)

    def run_again() -> None:
        run("four")

    run_again()
    assert engine.runs == 4
    assert record(tmp_path) == ["made"]


def test_a_poisoned_entry_is_found_when_its_run_is_made_again(run: Run, engine: Engine, tmp_path: Path) -> None:
    run("one")
    assert (run("two", again=True) / "wall.json").read_text() == "2"
    (poisoned,) = (tmp_path / "store").glob("*/run/agent.json")
    poisoned.write_text("[]")
    # who takes it does not see it
    assert (run("three") / "agent.json").read_text() == "[]"
    assert (run("four", again=True) / "agent.json").read_text() == "{}"
    assert record(tmp_path) == ["made", "checked", "taken", "checked", "differs"]
    assert (tmp_path / "record").read_text().endswith(" agent.json\n")


def test_a_file_more_or_less_is_a_difference(run: Run, engine: Engine, tmp_path: Path) -> None:
    run("one")
    (kept,) = (tmp_path / "store").glob("*/run")
    (kept / "agent.json").rename(kept / "other.json")
    run("two", again=True)
    assert (tmp_path / "record").read_text().endswith(" agent.json other.json\n")


def test_a_store_that_cannot_be_written_has_no_effect(run: Run, engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "store").touch()
    run("one")
    run("two")
    assert engine.runs == 2


def test_a_line_of_the_agent_changes_the_key_and_one_of_the_analysis_does_not(tmp_path: Path) -> None:
    copy = tmp_path / "mprun"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("target", "__pycache__"))
    digests = [of_code(copy)]
    for name in ("metrics/summary.py", "agent/main.py", "safety/seccomp.py", "workloads/built/exchange/src/lib.rs"):
        of_code.cache_clear()
        with (copy / name).open("a") as file:
            file.write("// one line more\n" if name.endswith(".rs") else "# one line more\n")
        digests.append(of_code(copy))
    of_code.cache_clear()
    assert digests[0] == digests[1]
    assert len({*digests[1:]}) == 4


def test_the_oldest_entries_go_first(tmp_path: Path) -> None:
    for number in range(3):
        entry = tmp_path / str(number)
        entry.mkdir()
        (entry / "run").write_bytes(bytes(100))
        os.utime(entry, (number, number))
    prune(tmp_path, most_bytes=250)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1", "2"]
