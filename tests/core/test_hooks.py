# SPDX-License-Identifier: Apache-2.0
"""Hooks of the experiment kernel: they fit exactly or change nothing, and their patches are unified diffs."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from mprun.errors import MachineError
from mprun.kernel import recipe
from mprun.kernel.build import DEFAULT_KERNEL_SOURCE
from mprun.kernel.patch import (
    COLD,
    COLD_LINE,
    PATCHES,
    PLACES,
    Hook,
    Hunk,
    UnfitTree,
    our_files,
    read_hooks,
    read_patch,
)
from mprun.kernel.recipe import C_SOURCES, recipe_digest
from mprun.kernel.tree import put_files
from tests.vm.store import keep

pytestmark = pytest.mark.slow

HOOKS = read_hooks()
PATHS = sorted(PATCHES.iterdir())
# The patches of subjects, which fit Linux 6.12; the others are variants for other trees.
SUBJECTS = [path for path in PATHS if path.name.count(".") == 1]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a kernel tree with only the files that the hooks change."""
    for first, *_ in HOOKS:
        path = tmp_path / first.file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text((path.read_text() if path.exists() else "/* above */\n") + first.old + "/* below */\n")
    for folder in COLD:
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / "Makefile").write_text("obj-y += it.o\n")
    (tmp_path / "include" / "linux").mkdir(parents=True, exist_ok=True)
    return tmp_path


def apply_hooks(tree: Path) -> None:
    put_files(tree, our_files(tree, C_SOURCES))


def contents(tree: Path) -> dict[Path, str]:
    return {path: path.read_text() for path in tree.rglob("*") if path.is_file()}


def name_of(value: object) -> str:
    """Return the name of a hook or of an alternative in the name of a test."""
    hunk = value[0] if isinstance(value, tuple) else value
    return f"{hunk.patch}-{hunk.purpose}" if isinstance(hunk, Hunk) else str(value)


def test_hooks_and_files_are_put_in(tree: Path) -> None:
    apply_hooks(tree)
    for first, *_ in HOOKS:
        assert first.new in (tree / first.file).read_text()
    for folder in COLD:
        assert (tree / folder / "Makefile").read_text().endswith(COLD_LINE)
    for name, placed in PLACES.items():
        assert (tree / placed).read_bytes() == (C_SOURCES / name).read_bytes()


def test_an_error_is_about_the_patch_of_the_subject_and_not_a_variant() -> None:
    assert {first.patch for first, *_ in HOOKS} == {path.name for path in SUBJECTS}
    assert {hunk.patch for hook in HOOKS for hunk in hook} == {path.name for path in PATHS}


def test_every_change_is_marked() -> None:
    for hook in HOOKS:
        for hunk in hook:
            assert "mprun" in hunk.new.replace(hunk.old, "")


ALTERNATIVES = [(hook, other) for hook in HOOKS for other in hook[1:]]


@pytest.mark.parametrize(("hook", "other"), ALTERNATIVES, ids=name_of)
def test_trees_that_have_other_text_get_their_own(tree: Path, hook: Hook, other: Hunk) -> None:
    """The lines of a variant are in place of those of the patch, in the same file or in another one."""
    path, first = tree / hook[0].file, hook[0]
    path.write_text(path.read_text().replace(first.old, "/* gone */\n"))
    with (tree / other.file).open("a") as file:
        file.write(other.old)
    apply_hooks(tree)
    assert (tree / other.file).read_text().endswith(other.new)
    assert f"\n{first.new}" not in path.read_text() or first.new == other.new


@pytest.mark.parametrize(("hook", "other"), ALTERNATIVES, ids=name_of)
def test_a_tree_with_the_text_of_two_trees_is_refused(tree: Path, hook: Hook, other: Hunk) -> None:
    with (tree / other.file).open("a") as file:
        file.write(other.old)
    before = contents(tree)
    with pytest.raises(UnfitTree, match=f"{re.escape(str(hook[0]))} fits 2 times instead of once"):
        apply_hooks(tree)
    assert contents(tree) == before


@pytest.mark.parametrize("hook", HOOKS, ids=name_of)
@pytest.mark.parametrize("times", [0, 2])
def test_a_tree_that_does_not_fit_is_refused_unchanged(tree: Path, hook: Hook, times: int) -> None:
    """The error names the patch, the file and the hook."""
    first = hook[0]
    path = tree / first.file
    path.write_text(path.read_text().replace(first.old, first.old * times or "/* gone */\n"))
    before = contents(tree)
    with pytest.raises(MachineError) as raised:
        apply_hooks(tree)
    assert str(raised.value).startswith(
        f"{first.patch}: {first.file}: the hook {first.purpose!r} fits {times} times instead of once: "
    )
    assert contents(tree) == before


def test_a_folder_that_is_no_kernel_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match="is this a Linux tree"):
        apply_hooks(tmp_path)


@pytest.mark.parametrize(
    ("text", "starts"),
    [
        ("a;\nb;\n", [0]),
        ("x\na;\nb;\n", [2]),
        # A block begins and ends with a line, as in patch(1).
        ("\ta;\nb;\n", []),
        ("a;\nb; /* c */\n", []),
        ("a;\nb;", []),
        # The second block begins where the first one ends.
        ("a;\nb;\na;\nb;\n", [0, 6]),
    ],
)
def test_a_block_of_lines_is_found_as_whole_lines(text: str, starts: list[int]) -> None:
    assert Hunk("p.patch", "f.c", "purpose", "a;\nb;\n", "a;\n").starts_in(text) == starts


def test_blocks_that_overlap_are_two() -> None:
    assert Hunk("p.patch", "f.c", "purpose", "a;\na;\n", "a;\n").starts_in("a;\na;\na;\n") == [0, 3]


PATCH = """\
SPDX-License-Identifier: GPL-2.0-only

--- a/kernel/f.c
+++ b/kernel/f.c
@@ -3,2 +3,3 @@ first
 a;
-b;
+c;
+d;
@@ -9 +10,2 @@ second
 e;
+f;
--- a/net/g.c
+++ b/net/g.c
@@ -1,2 +1,1 @@ third
-
 --- a/h
"""


def test_a_patch_is_read(tmp_path: Path) -> None:
    path = tmp_path / "mine.patch"
    path.write_text(PATCH)
    assert list(read_patch(path)) == [
        Hunk("mine.patch", "kernel/f.c", "first", "a;\nb;\n", "a;\nc;\nd;\n"),
        Hunk("mine.patch", "kernel/f.c", "second", "e;\n", "e;\nf;\n"),
        Hunk("mine.patch", "net/g.c", "third", "\n--- a/h\n", "--- a/h\n"),
    ]


@pytest.mark.parametrize(
    ("good", "bad", "error"),
    [
        ("-3,2 +3,3", "-3,3 +3,3", "2 old and 3 new lines"),
        ("-3,2 +3,3", "-3,2 +3,2", "2 old and 3 new lines"),
        ("-9 +10,2", "-9,0 +10,2", "1 old and 2 new lines"),
        (" a;\n-b;\n", " a;\n", "1 old and 3 new lines"),
        ("+f;\n", "+f;\nnext\n", "no hunk that changes lines"),
        ("-9 +10,2 @@ second\n e;\n+f;", "-9 +10 @@ second\n e;", "no hunk that changes lines"),
        ("-9 +10,2 @@ second\n e;\n+f;", "-9 +10,0 @@ second\n-e;", "no hunk that changes lines"),
        ("@@ second", "@@", "1 old and 2 new lines"),
        ("+++ b/net/g.c", "+++ b/net/h.c", "net/g.c: no change of this file"),
        ("@@ -1,2 +1,1 @@ third\n-\n --- a/h\n", "", "net/g.c: no change of this file"),
        (PATCH, "Nothing.\n", "no file is changed"),
    ],
)
def test_a_patch_with_a_fault_is_refused(good: str, bad: str, error: str, tmp_path: Path) -> None:
    assert good in PATCH
    path = tmp_path / "mine.patch"
    path.write_text(PATCH.replace(good, bad))
    with pytest.raises(ValueError, match=f"^mine.patch: .*{re.escape(error)}"):
        list(read_patch(path))


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.name)
def test_a_patch_is_a_unified_diff_with_a_licence_and_a_reason(path: Path) -> None:
    """Reading it checks the counts. The lines of its hunks ascend, and new numbers follow from old ones."""
    assert path.suffix == ".patch"
    head, *changes = re.split(r"^--- a/", path.read_text(), flags=re.MULTILINE)
    licence, empty, *reason = head.splitlines()
    assert (licence, empty) == ("SPDX-License-Identifier: GPL-2.0-only", "")
    assert "".join(reason).endswith(".")
    assert max(map(len, reason)) <= 120
    assert len(list(read_patch(path))) == sum(change.count("\n@@ -") for change in changes)
    for change in changes:
        end = shift = 0
        for start, old, new_start, new in re.findall(r"^@@ -(\d+),(\d+) \+(\d+),(\d+) @@", change, re.MULTILINE):
            assert int(start) > end
            assert int(new_start) == int(start) + shift
            end = int(start) + int(old) - 1
            shift += int(new) - int(old)


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.name)
def test_purposes_name_hooks(path: Path) -> None:
    """Each purpose occurs once in a patch. A variant has only hooks of its subject's patch."""
    purposes = [hunk.purpose for hunk in read_patch(path)]
    assert len(set(purposes)) == len(purposes)
    subject = PATCHES / f"{path.name.partition('.')[0]}.patch"
    assert set(purposes) <= {hunk.purpose for hunk in read_patch(subject)}


@pytest.mark.parametrize("name", [path.name for path in PATHS])
def test_the_recipe_has_every_patch(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = recipe_digest()
    monkeypatch.setattr(recipe, "PATCHES", shutil.copytree(PATCHES, tmp_path / "patches"))
    assert recipe_digest() == before
    with (tmp_path / "patches" / name).open("a") as file:
        file.write("+int changed;\n")
    assert recipe_digest() != before


@pytest.fixture(scope="module")
def linux() -> Path:
    """Return the files of Linux 6.12 that our patches change. The cache keeps them: unpacking takes seconds."""
    if not DEFAULT_KERNEL_SOURCE.exists():
        pytest.skip(f"{DEFAULT_KERNEL_SOURCE} is not installed: the patches are not tried on it")
    names = sorted({hook[0].file for hook in HOOKS} | {f"{folder}/Makefile" for folder in COLD})
    source = DEFAULT_KERNEL_SOURCE.stat()
    digest = hashlib.sha256(f"{DEFAULT_KERNEL_SOURCE} {source.st_size} {source.st_mtime_ns} {names}".encode())

    def unpack(folder: Path) -> None:
        root = DEFAULT_KERNEL_SOURCE.name.partition(".tar")[0]
        argv = ["tar", "-C", str(folder), "--strip-components=1", "--occurrence", "-xf", str(DEFAULT_KERNEL_SOURCE)]
        subprocess.run([*argv, *(f"{root}/{name}" for name in names)], check=True)

    return keep(f"patched-files-{digest.hexdigest()[:16]}", unpack, print)


@pytest.mark.parametrize("path", SUBJECTS, ids=lambda path: path.name)
def test_patch_1_takes_a_patch_with_its_line_numbers(linux: Path, path: Path) -> None:
    if not shutil.which("patch"):
        pytest.skip("patch is not installed: it does not try the patches")
    done = subprocess.run(["patch", "-p1", "--dry-run", "-d", linux, "-i", path], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert "offset" not in done.stdout


def test_git_makes_the_same_tree_of_all_patches(linux: Path, tmp_path: Path) -> None:
    theirs = tmp_path / "linux"
    shutil.copytree(linux, theirs)
    for path in SUBJECTS:
        subprocess.run(["git", "apply", "--unidiff-zero", "--whitespace=nowarn", path], cwd=theirs, check=True)
    ours = our_files(linux, C_SOURCES)
    changed = {hook[0].file for hook in HOOKS}
    assert changed <= ours.keys()
    for name in changed:
        cold = COLD_LINE if name.removesuffix("/Makefile") in COLD else ""
        assert (theirs / name).read_text() + cold == ours[name].decode()
