# SPDX-License-Identifier: Apache-2.0
"""`mprun kernel build --watch`: each save is one build and one run."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner

from mprun.cli import kernel_watch
from mprun.cli.kernel import command
from mprun.errors import RunError
from mprun.kernel.tree import TreeState
from mprun.kernel.watch import Watched, wait_for_change

A, B, C = (1, 1, 1), (2, 2, 2), (3, 3, 3)


def looks(*states: Mapping[str, TreeState]) -> Iterator[Mapping[str, TreeState]]:
    """Return one state after the other; the last one for ever."""
    yield from states
    while True:
        yield states[-1]


def test_a_change_is_taken_when_it_has_settled() -> None:
    before = {"a.c": A, "b.c": A, "gone.c": A}
    seen = looks(before, before, {**before, "a.c": B}, {"a.c": C, "b.c": A}, {"a.c": C, "b.c": A, "new.c": A})
    pauses: list[float] = []
    assert wait_for_change(before, lambda: next(seen), pauses.append) == ["a.c", "gone.c", "new.c"]
    assert len(pauses) == 5


def test_a_save_during_the_build_is_not_missed() -> None:
    seen = looks({"a.c": B})
    assert wait_for_change({"a.c": A}, lambda: next(seen), lambda _: None) == ["a.c"]


def test_trees_tarballs_and_own_files_are_watched(tmp_path: Path) -> None:
    tree, own = tmp_path / "linux", tmp_path / "mine.c"
    tree.mkdir()
    (tree / "a.c").write_text("int a;\n")
    own.write_text("int it;\n")
    assert set(Watched(tree, [own, tmp_path / "missing.c"]).look()) == {"a.c", str(own)}
    assert set(Watched(own, []).look()) == {str(own)}


def test_a_save_in_a_tree_is_reported_and_so_is_a_save_beside_it(tmp_path: Path) -> None:
    """The tree is read again only after a report of the kernel, and the other files at each look."""
    tree, own = tmp_path / "linux", tmp_path / "mine.c"
    (tree / "net").mkdir(parents=True)
    (tree / "net" / "a.c").write_text("int a;\n")
    own.write_text("int it;\n")
    watched = Watched(tree, [own])
    before = watched.look()
    # saved before the first report, as during a build
    (tree / "net" / "b.c").write_text("int b;\n")
    assert watched.look() == before
    assert wait_for_change(before, watched.look, watched.pause) == ["net/b.c"]
    before = watched.look()
    (tree / "net" / "a.c").write_text("int other;\n")
    assert wait_for_change(before, watched.look, watched.pause) == ["net/a.c"]
    before = watched.look()
    own.write_text("int other;\n")
    assert wait_for_change(before, watched.look, watched.pause) == [str(own)]


def test_each_save_builds_and_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The second build fails, so nothing runs after it. Then the user ends it."""
    builds: list[int] = []

    def build() -> None:
        builds.append(1)
        if len(builds) == 2:
            raise RunError("does not compile")

    def change(*_: object) -> list[str]:
        if len(builds) == 3:
            raise KeyboardInterrupt
        return ["a.c", "b.c", "c.c", "d.c"]

    monkeypatch.setattr(kernel_watch, "wait_for_change", change)
    argv = [sys.executable, "-c", "import sys; print('ran'); sys.exit(3)"]
    with pytest.raises(KeyboardInterrupt):
        kernel_watch.watch(tmp_path, [], build, argv)
    said = capfd.readouterr()
    assert said.out == "ran\n" * 2
    assert said.err.count("status 3") == 2
    assert said.err.count("does not compile") == 1
    assert said.err.count("changed: a.c, b.c, c.c and 1 more\n") == 2


def test_a_command_without_watch_is_an_error() -> None:
    done = CliRunner().invoke(command, ["build", "--", "mprun", "-t", "topo"])
    assert done.exit_code == 2
    assert "'mprun' is unexpected: a command needs --watch" in done.output
