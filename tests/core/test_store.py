# SPDX-License-Identifier: Apache-2.0
"""The cache of experiment kernels: names, removal, and sources that are refused before compilation."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from mprun.cli.kernel import command
from mprun.errors import MachineError, SpecError
from mprun.kernel import build, store
from mprun.kernel.addition import NOTHING, Addition
from mprun.kernel.recipe import LATER_OPTIONS, asked_options, guest_digest, recipe_digest
from mprun.machine import cache, invoking_user
from mprun.machine.version import version_in


@pytest.fixture(autouse=True)
def kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return store.store()


def put(kernels: Path, digest: str, *names: str, recipe: str = "") -> None:
    """Put a minimal kernel into the cache: its files and its record."""
    folder = kernels / digest[:16]
    folder.mkdir(parents=True)
    for name, size in (("linux", 8_280_000), ("init", 10_000), ("bulk.so", 10_000)):
        (folder / name).write_bytes(b"\x7fELF".ljust(size, b"x"))
        (folder / name).chmod(0o755)
    facts = {
        "digest": digest,
        "recipe": recipe or recipe_digest(),
        "version": "6.12.117-mprun",
        "source": "/usr/src/linux-source-6.12.tar.xz",
        "options": 303,
        "compiler": "gcc 12",
        "build_seconds": 200.0,
        "guest": guest_digest(),
    }
    build._write_facts(folder, facts)
    for name in names:
        (kernels / name).symlink_to(folder.name)


def test_list_fits_a_terminal(kernels: Path) -> None:
    put(kernels, "a" * 64, "default")
    put(kernels, "b" * 64, "mine", recipe="older")
    put(kernels, "c" * 64)
    said = CliRunner().invoke(command, ["list"]).output.splitlines()
    assert said[0] == "default  6.12.117-mprun  aaaaaaaa   8.3 MB  /usr/src/linux-source-6.12.tar.xz"
    assert said[1].startswith("mine   * 6.12.117-mprun  bbbbbbbb")
    assert said[2].startswith("-        6.12.117-mprun  cccccccc")
    assert "*" in said[3]
    assert len(said[0]) <= 80


def test_a_damaged_kernel_is_none(kernels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A damaged kernel is listed, so that it can be removed. It is not found, and no kernel is built from it."""
    monkeypatch.setattr(build, "DEFAULT_KERNEL_SOURCE", tmp_path / "none")
    monkeypatch.setattr(build, "KERNEL_SOURCE_FOLDERS", (tmp_path / "nowhere",))
    put(kernels, "a" * 64, "default")
    (kernels / "default" / "init").unlink()
    for name in ("default", "a" * 8):
        with pytest.raises(MachineError, match=r"is damaged \(.*/init is no program\); run `mprun kernel build"):
            store.find_kernel(name)
    with pytest.raises(MachineError, match="no kernel source at"):
        build.build(None, "default", 1, lambda *_: None)
    assert [kernel.name for kernel in store.list_kernels()] == ["default"]


def test_a_kernel_goes_with_the_last_of_its_names(kernels: Path) -> None:
    put(kernels, "a" * 64, "default", "mine")
    put(kernels, "b" * 64)
    done = CliRunner().invoke(command, ["rm", "--yes", "default"])
    assert done.exit_code == 0
    assert [kernel.name for kernel in store.list_kernels()] == ["mine", "b" * 16]
    CliRunner().invoke(command, ["rm", "--yes", "mine", "bbbb"])
    assert store.list_kernels() == []
    assert all(path.name.startswith(".lock") for path in kernels.iterdir())


def test_the_oldest_kernels_without_a_name_are_removed(kernels: Path) -> None:
    put(kernels, "a" * 64, "default")
    for number, digit in enumerate("bcde"):
        put(kernels, digit * 64)
        os.utime(kernels / (digit * 16) / store.FACTS, (number, number))
    said = CliRunner().invoke(command, ["prune", "--yes", "--keep", "2"])
    assert said.exit_code == 0
    assert "removed 2 without a name: cccccccc bbbbbbbb" in said.output
    assert [kernel.digest[0] for kernel in store.list_kernels()] == ["a", "d", "e"]
    assert [kernel.digest[0] for kernel in store.prune(0)] == ["e", "d"]
    assert [kernel.name for kernel in store.list_kernels()] == ["default"]
    assert store.prune(0) == []


def test_the_last_whole_build_is_the_measure(kernels: Path) -> None:
    assert build.last_whole_build_s() is None
    for number, (digit, took_s) in enumerate((("b", 300.0), ("c", 200.0), ("d", 12.0))):
        put(kernels, digit * 64)
        facts = kernels / (digit * 16) / store.FACTS
        facts.write_text(facts.read_text().replace('"build_seconds": 200.0', f'"build_seconds": {took_s}'))
        os.utime(facts, (number, number))
    # the newest one took 12 s, after a change of a file
    assert build.last_whole_build_s() == 200.0


def test_builds_with_different_names_do_not_wait_for_each_other(kernels: Path) -> None:
    waited: list[str] = []

    def note(name: str) -> None:
        waited.append(name)
        raise TimeoutError

    with cache.locked(kernels, part="one"):
        with cache.locked(kernels, lambda: note("two"), part="two"), cache.locked(kernels, lambda: note("store")):
            pass
        with pytest.raises(TimeoutError), cache.locked(kernels, lambda: note("one"), part="one"):
            pass
    assert waited == ["one"]


def test_a_kernel_that_is_built_waits_for_no_other_build(
    kernels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other builds hold both locks. A kernel that must be built says that it waits."""
    said: list[str] = []

    def note(text: str, _done: float) -> None:
        said.append(text)
        if text.startswith("waiting"):
            raise TimeoutError

    monkeypatch.setattr("shutil.which", lambda tool: tool)
    source = tmp_path / "linux-source-6.12.tar.xz"
    source.write_bytes(b"source")
    digest = store.kernel_digest(build.digest_source(source), recipe_digest((6, 12)))
    put(kernels, digest, "default")
    with cache.locked(kernels), cache.locked(kernels, part="default"):
        assert build.build(source, "default", 1, note)[1] is False
        assert said == ["reading the source"]
        source.write_bytes(b"changed")
        with pytest.raises(TimeoutError):
            build.build(source, "default", 1, note)
    source.write_bytes(b"source")
    with cache.locked(kernels), pytest.raises(TimeoutError):
        build.build(source, "other", 1, note)
    assert said[2::2] == ["waiting for another build of 'default'", "waiting for another build of a kernel"]


def test_what_is_removed_is_named_or_nothing_is(kernels: Path) -> None:
    put(kernels, "abcd" + "0" * 60)
    put(kernels, "abcd" + "1" * 60)
    for names in (["abcd"], ["abcd0", "nosuch"], ["abc"]):
        done = CliRunner().invoke(command, ["rm", "--yes", *names])
        assert isinstance(done.exception, SpecError)
    assert len(store.list_kernels()) == 2
    assert CliRunner().invoke(command, ["rm", "abcd0"], input="n\n").exit_code == 0
    assert len(store.list_kernels()) == 2


def test_a_kernel_is_found_by_its_digest(kernels: Path) -> None:
    put(kernels, "abcd" + "0" * 60)
    assert store.find_kernel("abcd0").digest == "abcd" + "0" * 60
    with pytest.raises(MachineError, match="no experiment kernel 'abce'"):
        store.find_kernel("abce")


@pytest.mark.parametrize("name", ["", "a/b", "../a", ".hidden", "a b"])
def test_a_name_that_would_leave_the_cache_is_refused(name: str) -> None:
    with pytest.raises(SpecError, match="cannot be the name"):
        build.build(None, name, 1, lambda *_: None)


def test_a_name_does_not_replace_what_is_there(kernels: Path) -> None:
    put(kernels, "a" * 64)
    with pytest.raises(SpecError, match="is another thing"):
        build.build(None, "a" * 16, 1, lambda *_: None)


def test_additions_do_not_become_the_default_kernel(tree: Path) -> None:
    with pytest.raises(SpecError, match=r"needs a name of its own, not 'default': add --name mine"):
        build.build(tree, "default", 1, lambda *_: None, Addition(("CONFIG_NET_SCH_HFSC=y",)))


def test_without_a_source_what_is_built_is_good_enough(
    kernels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "DEFAULT_KERNEL_SOURCE", tmp_path / "none")
    monkeypatch.setattr(build, "KERNEL_SOURCE_FOLDERS", (tmp_path / "nowhere",))
    put(kernels, "a" * 64, "default")
    put(kernels, "b" * 64, "stale", recipe="older")
    kernel, fresh = build.build(None, "default", 1, lambda *_: None)
    assert (kernel.digest, fresh) == ("a" * 64, False)
    for name in ("stale", "other"):
        with pytest.raises(MachineError, match=r"no kernel source at .*none: apt-get install"):
            build.build(None, name, 1, lambda *_: None)
    with pytest.raises(MachineError, match="give another --source"):
        build.build(tmp_path / "none", "default", 1, lambda *_: None)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a folder that passes for a kernel tree until a hook is inserted."""
    (tmp_path / "linux" / "arch" / "um").mkdir(parents=True)
    (tmp_path / "linux" / "Makefile").write_text("VERSION = 6\nPATCHLEVEL = 1\nSUBLEVEL = 9\n")
    return tmp_path / "linux"


def test_an_old_tree_is_refused(tree: Path) -> None:
    with pytest.raises(MachineError, match=r"is Linux 6\.1; mprun needs 6\.12 or later"):
        build.build(tree, "mine", 1, lambda *_: None)


def test_what_is_no_tree_is_refused(tree: Path, kernels: Path) -> None:
    (tree / "Makefile").write_text("all:\n")
    with pytest.raises(MachineError, match="is no Linux source tree"):
        build.build(tree, "mine", 1, lambda *_: None)
    assert [path.name for path in kernels.iterdir()] == [".lock-mine"]


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(MachineError, match="neither a tarball nor a tree"):
        build.build(tmp_path / "pipe", "mine", 1, lambda *_: None)


@pytest.mark.parametrize("suffix", ["xz", "gz"])
def test_half_a_tarball_is_refused(tree: Path, tmp_path: Path, suffix: str, kernels: Path) -> None:
    (tree / "large").write_bytes(os.urandom(200_000))
    tarball = tmp_path / f"linux.tar.{suffix}"
    with tarfile.open(tarball, f"w:{suffix}") as archive:  # type: ignore[call-overload]
        archive.add(tree, "linux")
    with pytest.raises(MachineError, match=r"is Linux 6\.1"):
        build.build(tarball, "mine", 1, lambda *_: None)
    with tarball.open("r+b") as file:
        file.truncate(100_000)
    with pytest.raises(MachineError, match=r"linux\.tar\.\w+: cannot be unpacked: .*[Uu]nexpected end"):
        build.build(tarball, "mine", 1, lambda *_: None)
    assert [path.name for path in kernels.iterdir()] == [".lock-mine"]


def test_a_cache_that_make_cannot_build_in(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "my cache"))
    with pytest.raises(MachineError, match="set XDG_CACHE_HOME"):
        build.build(tree, "mine", 1, lambda *_: None)


def test_under_sudo_the_cache_is_that_of_who_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/root")
    monkeypatch.setenv("SUDO_UID", "1234")
    monkeypatch.setenv("SUDO_GID", "1234")
    monkeypatch.setattr("pwd.getpwuid", lambda uid: SimpleNamespace(pw_dir=f"/home/{uid}"))
    given: dict[str, tuple[int, int]] = {}
    monkeypatch.setattr("os.lchown", lambda path, uid, gid: given.update({str(path): (uid, gid)}))
    monkeypatch.setattr("os.geteuid", lambda: 1234)
    assert cache.cache("kernels") == Path("/root/.cache/mprun/kernels")
    invoking_user.make_folder(tmp_path / "mine")
    assert given == {}
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert cache.cache("kernels") == Path("/home/1234/.cache/mprun/kernels")
    (tmp_path / "there").mkdir()
    invoking_user.make_folder(tmp_path / "there" / "a" / "b")
    (tmp_path / "there" / "a" / "b" / "file").touch()
    invoking_user.give(tmp_path / "there" / "a" / "b")
    assert given == {str(tmp_path / "there" / name): (1234, 1234) for name in ("a", "a/b", "a/b/file")}


def test_later_options_are_for_later_trees_only(tmp_path: Path) -> None:
    """An option of a later version of Linux leaves the recipe of earlier trees as it was."""
    assert recipe_digest((6, 12)) == recipe_digest() != recipe_digest((6, 17))
    assert set(asked_options((7, 3))) - set(asked_options((6, 16))) == set(LATER_OPTIONS)
    assert version_in("linux-source-6.12.tar.xz") == (6, 12)
    assert version_in("tree") is None
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "Makefile").write_text("VERSION = 7\nPATCHLEVEL = 3\nSUBLEVEL = 4\n")
    assert build._find_version(tree) == (7, 3)
    assert build._find_version(tmp_path / "linux-source-6.17.tar.xz") == (6, 17)
    for version, is_asked in (((7, 3), True), ((6, 12), False)):
        order = build._Order("default", tree, version, NOTHING, 1, lambda *_: None)
        assert ("CONFIG_NET_SCH_DUALPI2=y" in order.options.splitlines()) is is_asked
