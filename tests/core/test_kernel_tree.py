# SPDX-License-Identifier: Apache-2.0
"""The tree that is kept for a kernel's name: only what has changed is copied, and the user's tree is only read."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from mprun.kernel.build import unpack
from mprun.kernel.tree import KeptTree, read_source, scan
from mprun.safety.folder import UnsafeError

OURS = {"net/mptcp/Makefile": b"mptcp-y := ours.o a.o\n", "net/mptcp/ours.c": b"int ours;\n"}
OLD_NS = 10**18


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Return a small tree of the user, as git would check it out."""
    root = tmp_path / "linux"
    for name, text in {
        "Makefile": "VERSION = 6\n",
        "net/mptcp/Makefile": "mptcp-y := a.o\n",
        "net/mptcp/a.c": "int a;\n",
        "net/mptcp/b.c": "int b;\n",
        "net/mptcp/Kconfig": "config MPTCP\n",
        "scripts/run.sh": "#!/bin/sh\n",
        "Documentation/x.rst": "words\n",
        "drivers/gpu/drm/x.c": "int x;\n",
        "drivers/gpu/drm/Kconfig": "config DRM\n",
    }.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (root / "scripts" / "run.sh").chmod(0o755)
    (root / "include").mkdir()
    (root / "include" / "link").symlink_to("../scripts")
    return root


@pytest.fixture
def kept(tmp_path: Path) -> KeptTree:
    return KeptTree(tmp_path / "kept")


def update(kept: KeptTree, source: Path, ours: dict[str, bytes] | None = None) -> str:
    with kept.under_way():
        return kept.update(source, OURS if ours is None else ours, lambda _: None)


def contents(root: Path) -> dict[str, str]:
    return {
        str(path.relative_to(root)): os.readlink(path) if path.is_symlink() else path.read_text()
        for path in sorted(root.rglob("*"))
        if path.is_symlink() or path.is_file()
    }


def age(kept: KeptTree) -> None:
    """Make all files of the tree old, so that a written file is seen by its time."""
    for path in kept.tree.rglob("*"):
        os.utime(path, ns=(OLD_NS, OLD_NS), follow_symlinks=False)


def written(kept: KeptTree) -> set[str]:
    return {
        str(path.relative_to(kept.tree))
        for path in kept.tree.rglob("*")
        if not path.is_dir() and path.lstat().st_mtime_ns != OLD_NS
    }


def test_the_tree_has_what_a_build_reads_and_our_files_on_top(source: Path, kept: KeptTree) -> None:
    before = contents(source)
    update(kept, source)
    missing = {"Documentation/x.rst", "drivers/gpu/drm/x.c"}
    expected = {name: text for name, text in before.items() if name not in missing}
    assert contents(kept.tree) == expected | {name: text.decode() for name, text in OURS.items()}
    assert (kept.tree / "scripts" / "run.sh").stat().st_mode & 0o111
    assert contents(source) == before


def test_only_changed_files_are_written(source: Path, kept: KeptTree) -> None:
    first = update(kept, source)
    age(kept)
    assert update(kept, source) == first
    assert written(kept) == set()
    (source / "net" / "mptcp" / "a.c").write_text("int c;\n")
    second = update(kept, source)
    assert written(kept) == {"net/mptcp/a.c"}
    assert second != first
    assert contents(kept.tree)["net/mptcp/a.c"] == "int c;\n"


def test_a_change_of_the_same_size_and_time_is_seen(source: Path, kept: KeptTree) -> None:
    """Programs such as rsync and tar set the time of a file back."""
    first = update(kept, source)
    path = source / "net" / "mptcp" / "a.c"
    times = path.stat()
    path.write_text("int z;\n")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert update(kept, source) != first
    assert contents(kept.tree)["net/mptcp/a.c"] == "int z;\n"


def test_a_file_that_was_only_touched_is_not_compiled_again(source: Path, kept: KeptTree) -> None:
    first = update(kept, source)
    age(kept)
    for path in source.rglob("*.c"):
        path.touch()
    assert update(kept, source) == first
    assert written(kept) == set()


def test_the_digest_is_that_of_contents_not_of_the_place(source: Path, kept: KeptTree, tmp_path: Path) -> None:
    first = update(kept, source)
    other = tmp_path / "other"
    subprocess.run(["cp", "-r", source, other], check=True)
    assert update(KeptTree(tmp_path / "second"), other) == first
    age(kept)
    # a name that moves to another tree, whose files have other times and perhaps other contents
    (other / "net" / "mptcp" / "b.c").write_text("int d;\n")
    assert update(kept, other) != first
    assert written(kept) == {"net/mptcp/b.c"}


def test_files_come_and_go(source: Path, kept: KeptTree) -> None:
    update(kept, source)
    (source / "net" / "mptcp" / "b.c").unlink()
    (source / "net" / "mptcp" / "new.c").write_text("int n;\n")
    update(kept, source)
    assert not (kept.tree / "net" / "mptcp" / "b.c").exists()
    assert (kept.tree / "net" / "mptcp" / "new.c").exists()


def test_the_tree_loses_our_files_when_the_recipe_does(source: Path, kept: KeptTree) -> None:
    update(kept, source)
    update(kept, source, {})
    assert contents(kept.tree)["net/mptcp/Makefile"] == "mptcp-y := a.o\n"
    assert not (kept.tree / "net" / "mptcp" / "ours.c").exists()


def test_products_of_a_build_are_neither_copied_nor_removed(source: Path, kept: KeptTree) -> None:
    """The user's tree has been built in, for another architecture. Our tree has its own products."""
    first = update(kept, source)
    (kept.tree / "net" / "mptcp" / "a.o").write_text("ours")
    for name in (
        "net/mptcp/a.o",
        "net/mptcp/.a.o.cmd",
        "scripts/.kallsyms.cmd",
        "scripts/kallsyms",
        "include/config/auto.conf",
        "include/generated/autoconf.h",
        "arch/x86/include/generated/asm/x.h",
        ".config",
        ".config.old",
        "vmlinux",
        "System.map",
        "net/mptcp/.a.c.swp",
        "net/mptcp/a.c~",
        "net/mptcp/.#a.c",
        "net/mptcp/a.c.orig",
    ):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text("theirs")
    before = contents(source)
    assert update(kept, source) == first
    assert contents(kept.tree)["net/mptcp/a.o"] == "ours"
    assert "theirs" not in contents(kept.tree).values()
    assert contents(source) == before


@pytest.mark.parametrize("git", ["folder", "file"])
def test_a_checkout_and_a_worktree_of_git(source: Path, git: str) -> None:
    first = scan(source)
    if git == "folder":
        (source / ".git").mkdir()
        (source / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    else:
        (source / ".git").write_text("gitdir: /elsewhere\n")
    assert scan(source) == first


def test_the_configuration_is_kept_until_options_change(source: Path, kept: KeptTree) -> None:
    update(kept, source)
    assert not kept.is_configured_with("CONFIG_NET=y")
    (kept.tree / ".config").write_text("CONFIG_NET=y\n")
    kept.note_options("CONFIG_NET=y")
    update(kept, source)
    assert kept.is_configured_with("CONFIG_NET=y")
    assert not kept.is_configured_with("CONFIG_NET=y\nCONFIG_SCTP=y")
    (source / "net" / "mptcp" / "Kconfig").write_text("config MPTCP\n\tbool\n")
    update(kept, source)
    assert not kept.is_configured_with("CONFIG_NET=y")


def test_an_interrupted_build_leaves_no_half_object(source: Path, kept: KeptTree) -> None:
    update(kept, source)
    old, new = kept.tree / "net" / "mptcp" / "a.o", kept.tree / "net" / "mptcp" / "b.o"
    for path in (old, new):
        (path.parent / f".{path.name}.cmd").write_text("cmd")
        path.write_text("object")
    for path in (old, old.parent / ".a.o.cmd"):
        os.utime(path, ns=(OLD_NS, OLD_NS))

    def interrupted() -> None:
        with kept.under_way():
            kept.update(source, OURS, lambda _: None)
            (kept.tree / "net" / "mptcp" / "a.c").write_text("half")
            new.write_text("half an object")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    update(kept, source)
    assert old.exists()
    assert not new.exists()
    assert contents(kept.tree)["net/mptcp/a.c"] == "int a;\n"


def test_a_tree_that_does_not_compile_keeps_its_objects(source: Path, kept: KeptTree) -> None:
    update(kept, source)
    made = kept.tree / "net" / "mptcp" / "a.o"

    def failing() -> None:
        with kept.under_way():
            made.write_text("object")
            (made.parent / ".a.o.cmd").write_text("cmd")
            raise RuntimeError("does not compile")

    with pytest.raises(RuntimeError):
        failing()
    update(kept, source)
    assert made.exists()


def test_nothing_is_written_or_removed_through_a_link(source: Path, kept: KeptTree, tmp_path: Path) -> None:
    """A link becomes a folder in a later version, and then a link again. It leads to a folder of the user."""
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "thesis").write_text("of the user\n")
    link = source / "include" / "link"
    for is_link in (True, False, True):
        if link.is_symlink():
            link.unlink()
        elif link.exists():
            subprocess.run(["rm", "-r", link], check=True)
        if is_link:
            link.symlink_to(victim)
        else:
            link.mkdir()
            (link / "thesis").write_text("of the tree\n")
        update(kept, source)
        assert contents(kept.tree) | {"net/mptcp/Makefile": ""} == {
            name: text
            for name, text in (contents(source) | {"net/mptcp/ours.c": "int ours;\n", "net/mptcp/Makefile": ""}).items()
            if name not in ("Documentation/x.rst", "drivers/gpu/drm/x.c")
        }
        if not is_link:
            (kept.tree / "include" / "link" / "thesis.o").write_text("product")
        assert contents(victim) == {"thesis": "of the user\n"}


def test_our_files_are_not_written_through_a_link(source: Path, kept: KeptTree, tmp_path: Path) -> None:
    (tmp_path / "victim").mkdir()
    subprocess.run(["rm", "-r", source / "net" / "mptcp"], check=True)
    (source / "net" / "mptcp").symlink_to(tmp_path / "victim")
    update(kept, source)
    assert contents(tmp_path / "victim") == {}
    assert contents(kept.tree)["net/mptcp/ours.c"] == "int ours;\n"


def test_a_pipe_in_place_of_a_source_file_is_named(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "Makefile")
    with pytest.raises(UnsafeError, match="Makefile: is a pipe, not a regular file: remove it"):
        read_source(tmp_path, "Makefile")


def test_a_tarball_with_a_colon_in_its_name_is_a_file_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, tar(1) started rsh(1) with the name before the colon."""
    (tmp_path / "linux").mkdir()
    (tmp_path / "linux" / "Makefile").write_text("VERSION = 6\n")
    archive = tmp_path / "nowhere.invalid:linux.tar"
    subprocess.run(["tar", "-c", "--force-local", "-f", archive, "-C", tmp_path, "linux"], check=True)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path)
    assert (unpack(Path(archive.name), tmp_path / "work", []) / "Makefile").is_file()
