# SPDX-License-Identifier: Apache-2.0
"""Executed lines: from the compiler's notes and counters to a run's table and `mprun coverage`."""

from __future__ import annotations

import json
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from mprun.cli.coverage import _show_lines, command
from mprun.errors import RunError, SpecError
from mprun.kernel.addition import read_additions
from mprun.kernel.line_coverage import NOTES, TABLE, keep_notes, read_text, tabulate_coverage
from mprun.kernel.store import Kernel
from mprun.storage.run_directory import RunDirectory

PROGRAM = """\
static int choose(int number)
{
	if (number > 2)
		return 1;
	return 0;
}

int main(int count, char **words)
{
	int sum = 0;

	for (int i = 0; i < 5; i++)
		sum += choose(i);
	return sum + choose(count) == 9;
}
"""
PLACE = "net/mptcp/options"


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a tree in which one file was compiled with counters, and executed."""
    made = tmp_path_factory.mktemp("tree")
    (made / PLACE).parent.mkdir(parents=True)
    (made / f"{PLACE}.c").write_text(PROGRAM)
    (made / "net/ipv4").mkdir()
    subprocess.run(["gcc", "-O0", "--coverage", "-c", "-o", f"{PLACE}.o", f"{PLACE}.c"], cwd=made, check=True)
    subprocess.run(["gcc", "--coverage", "-o", "program", f"{PLACE}.o"], cwd=made, check=True)
    subprocess.run(["./program"], cwd=made, check=True)
    return made


@pytest.fixture(scope="module")
def kernel(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Kernel:
    folder = tmp_path_factory.mktemp("kernel")
    keep_notes(tree, folder)
    return Kernel("lines", str(folder / "linux"), "6.12", "ab" * 32, "source", 1, "gcc", 1.0)


def counts_of(tree: Path) -> bytes:
    content = (tree / f"{PLACE}.gcda").read_bytes()
    return f"{len(content)} /elsewhere/{PLACE}.gcda\n".encode() + content


def test_counters_become_lines(tree: Path, kernel: Kernel) -> None:
    table = tabulate_coverage(kernel, counts_of(tree))
    executed = dict(zip(table["line"], table["executed"], strict=True))
    assert set(table["file"]) == {f"{PLACE}.c"}
    # `choose` is called for 0 to 4, and for the number of words, which is 1
    assert executed | {6: 6} == {1: 6, 3: 6, 4: 2, 5: 4, 6: 6, 8: 1, 10: 1, 12: 6, 13: 5, 14: 1}
    assert table["function"][:2] == ["choose", "choose"]
    assert table["function"][-1] == "main"


def test_the_same_counters_twice_add_up(tree: Path, kernel: Kernel) -> None:
    once = tabulate_coverage(kernel, counts_of(tree))["executed"]
    assert tabulate_coverage(kernel, counts_of(tree) * 2)["executed"] == [2 * count for count in once]


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        (b"what is this", "damaged"),
        (b"100 /x/net/mptcp/options.gcda\nshort", "damaged"),
        (b"0 /x/net/mptcp/other.gcda\n", "which kernel 'lines' does not have"),
        (b"0 /x/net/mptcp/../../etc/passwd.gcda\n", "which kernel 'lines' does not have"),
    ],
)
def test_strange_counters_are_refused(kernel: Kernel, counts: bytes, said: str) -> None:
    with pytest.raises(RunError, match=said):
        tabulate_coverage(kernel, counts)


def test_notes_and_texts_are_kept(kernel: Kernel) -> None:
    with zipfile.ZipFile(kernel.directory / NOTES) as archive:
        assert archive.namelist() == [f"{PLACE}.gcno", f"{PLACE}.c"]
    assert read_text(kernel)[f"{PLACE}.c"] == PROGRAM.split("\n")


def test_the_profile_adds_a_file_and_a_variable() -> None:
    added = read_additions(None, (), (), "coverage")
    assert added.counts_lines
    assert [file.path for file in added.files] == ["net/mptcp/own_coverage.c"]
    assert added.variables[0].startswith("GCOV_PROFILE=$(if $(filter net/core ")
    assert not read_additions(None, (), (), "debug").counts_lines
    added.check_files("vmlinux.a:net/mptcp/own_coverage.o:                 U convert_to_gcda")
    with pytest.raises(SpecError):
        added.check_files("vmlinux.a:net/mptcp/own_coverage.o:                 U printk")


def make_run(parent: Path, title: str, executed: dict[int, int], digest: str = "ab" * 32) -> RunDirectory:
    run = RunDirectory.create(parent, title, "0" * 64)
    engine = {"engine": "virtual", "versions": {}, "warnings": [], "python": "3.11"}
    run.folder.write_json("environment.json", {**engine, "kernel": {"version": "6.12", "digest": digest}})
    functions = ["first" if line < 5 else "second" for line in executed]
    files = ["net/mptcp/options.c"] * len(executed)
    table: dict[str, list[Any]] = {
        "file": files,
        "line": list(executed),
        "function": functions,
        "executed": list(executed.values()),
    }
    run.write_tables({TABLE: table})
    run.mark_complete()
    return run


def call(parent: Path, *words: str) -> Result:
    return CliRunner().invoke(command, [*words, "-o", str(parent)], catch_exceptions=True)


@pytest.fixture
def parent(tmp_path: Path) -> Path:
    make_run(tmp_path, "one", {1: 3, 2: 1, 3: 1, 4: 0, 7: 2, 9: 0})
    make_run(tmp_path, "two", {1: 5, 2: 0, 3: 0, 4: 1, 7: 0, 9: 0})
    return tmp_path


def names(parent: Path) -> tuple[str, str]:
    one, two = (next(path.name for path in parent.iterdir() if f"-{title}-" in path.name) for title in ("one", "two"))
    return one, two


def test_a_run_is_counted_by_file(parent: Path) -> None:
    result = call(parent, names(parent)[0])
    assert result.exit_code == 0, result.output
    assert result.output.splitlines()[-1].split() == ["net/mptcp/options.c", "6", "4", "66.7%"]


def test_lines_that_only_the_first_run_executed(parent: Path) -> None:
    one, two = names(parent)
    result = call(parent, one, two)
    assert result.output.splitlines() == [
        f"3 lines executed by {one} and not by {two}",
        "",
        "net/mptcp/options.c",
        "  first: 2-3",
        "  second: 7",
    ]
    lines = json.loads(call(parent, two, one, "--json").output)["lines"]
    assert lines == [{"file": "net/mptcp/options.c", "line": 4, "function": "first", "executed": 1}]


def test_lines_that_a_run_missed(parent: Path) -> None:
    result = call(parent, names(parent)[0], "--missed")
    assert result.output.splitlines()[0] == "2 of 6 lines not executed"
    assert result.output.splitlines()[3:] == ["  first: 4", "  second: 9"]


def test_runs_of_different_kernels_are_not_compared(parent: Path) -> None:
    other = make_run(parent, "other", {1: 1}, "cd" * 32)
    result = call(parent, names(parent)[0], other.name)
    assert isinstance(result.exception, SpecError)
    assert "had different kernels" in str(result.exception)


def test_the_text_of_a_tree_is_cleaned(capsys: pytest.CaptureFixture[str]) -> None:
    """A tree may be a stranger's. Its text could control the terminal."""
    line = {"file": "net/a.c", "line": 2, "function": "first", "executed": 1}
    _show_lines([line], {"net/a.c": ["", "\tint a; /* \x1b]0;title\x07\x9b2J \u202e */"]})
    assert capsys.readouterr().out.endswith("int a; /* \ufffd]0;title\ufffd\ufffd2J \ufffd */\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [(["--file", "net/none*"], "counts no file"), (["--missed", "--text"], "not in this user's store")],
)
def test_what_cannot_be_shown(parent: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], said: str) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(parent / "cache"))
    result = call(parent, names(parent)[0], *words)
    assert isinstance(result.exception, SpecError)
    assert said in str(result.exception)


def test_a_run_without_counts_names_the_command(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path, "none", "0" * 64)
    run.mark_complete()
    result = call(tmp_path, run.name)
    assert "mprun kernel build --source TREE --name lines --profile coverage" in str(result.exception)
