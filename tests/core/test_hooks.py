# SPDX-License-Identifier: Apache-2.0
"""Hooks of the experiment kernel: they fit exactly or change nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from mprun.errors import HostError
from mprun.kernel.hooks import COLD, COLD_LINE, HOOKS, PLACES, Hook, apply_hooks
from mprun.kernel.recipe import SOURCES

pytestmark = pytest.mark.slow


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a kernel tree with only the files that the hooks change."""
    for hook in HOOKS:
        path = tmp_path / hook.file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text((path.read_text() if path.exists() else "/* above */\n") + hook.find + "/* below */\n")
    for folder in COLD:
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / "Makefile").write_text("obj-y += it.o\n")
    (tmp_path / "include" / "linux").mkdir(parents=True, exist_ok=True)
    return tmp_path


def test_hooks_and_files_are_put_in(tree: Path) -> None:
    apply_hooks(tree, SOURCES)
    for hook in HOOKS:
        assert hook.replace in (tree / hook.file).read_text()
    for folder in COLD:
        assert (tree / folder / "Makefile").read_text().endswith(COLD_LINE)
    for name, place in PLACES.items():
        assert (tree / place).read_bytes() == (SOURCES / name).read_bytes()


def test_every_changed_line_is_marked() -> None:
    for hook in HOOKS:
        assert "mprun" in hook.replace
        assert hook.purpose


@pytest.mark.parametrize(
    ("hook", "find", "replace"),
    [(hook, find, replace) for hook in HOOKS for find, replace in hook.instead],
    ids=lambda value: value.file if isinstance(value, Hook) else "",
)
def test_trees_that_have_other_text_get_their_own(tree: Path, hook: Hook, find: str, replace: str) -> None:
    path = tree / hook.file
    path.write_text(path.read_text().replace(hook.find, find))
    apply_hooks(tree, SOURCES)
    assert replace in path.read_text()
    assert "mprun" in replace


@pytest.mark.parametrize("hook", [hook for hook in HOOKS if hook.moved_to], ids=lambda hook: hook.file)
def test_lines_that_have_moved_are_found(tree: Path, hook: Hook) -> None:
    (tree / hook.file).write_text((tree / hook.file).read_text().replace(hook.find, "/* moved */\n"))
    moved = tree / hook.moved_to
    moved.write_text(hook.find)
    apply_hooks(tree, SOURCES)
    assert moved.read_text() == hook.replace
    assert hook.replace not in (tree / hook.file).read_text()


@pytest.mark.parametrize("number", range(len(HOOKS)))
@pytest.mark.parametrize("times", [0, 2])
def test_a_tree_that_does_not_fit_is_refused_unchanged(tree: Path, number: int, times: int) -> None:
    hook = HOOKS[number]
    path = tree / hook.file
    path.write_text(path.read_text().replace(hook.find, hook.find * times or "/* gone */\n"))
    before = {path: path.read_text() for path in tree.rglob("*") if path.is_file()}
    with pytest.raises(HostError, match=f"fits {times} times instead of once"):
        apply_hooks(tree, SOURCES)
    assert {path: path.read_text() for path in tree.rglob("*") if path.is_file()} == before


def test_a_folder_that_is_no_kernel_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="is this a Linux tree"):
        apply_hooks(tmp_path, SOURCES)
