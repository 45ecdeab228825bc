# SPDX-License-Identifier: Apache-2.0
"""Archives of built kernels and tools: what an import takes, and what it refuses."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from mprun.bundles import installation
from mprun.bundles.installation import digest_of, export, take_in
from mprun.cli.kernel import command
from mprun.errors import MachineError, SpecError
from mprun.kernel import store
from mprun.kernel.recipe import recipe_digest
from tests.core.test_store import put

DIGEST = "a" * 64
RECIPE = recipe_digest((6, 12))


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the archive of another user's kernel. This user's cache is empty."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other"))
    put(store.store(), DIGEST, "default", recipe=RECIPE)
    path = tmp_path / "kernel.mprun-kernel.zip"
    export(store.find_kernel(), path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "own"))
    return path


def changed(archive: Path, member: str, content: bytes) -> Path:
    """Return a copy of an archive with another content of a member."""
    copy = archive.with_name("changed.zip")
    with zipfile.ZipFile(archive) as source, zipfile.ZipFile(copy, "w", zipfile.ZIP_DEFLATED) as target:
        for info in source.infolist():
            target.writestr(info, content if info.filename == member else source.read(info))
        if member not in source.namelist():
            target.writestr(member, content)
    return copy


def test_an_imported_kernel_is_the_exported_one(archive: Path) -> None:
    with pytest.raises(MachineError, match="no experiment kernel"):
        store.find_kernel()
    assert take_in(archive, digest_of(archive), "default") == ("6.12.117-mprun", [])
    kernel = store.find_kernel()
    assert kernel.digest == DIGEST
    assert (kernel.directory / "linux").stat().st_mode & 0o777 == 0o755
    assert (kernel.directory / "kernel.json").stat().st_mode & 0o111 == 0


def test_an_archive_is_the_same_for_equal_builds(archive: Path, tmp_path: Path) -> None:
    take_in(archive, digest_of(archive), "default")
    facts = store.find_kernel().directory / "kernel.json"
    # another machine needed another time
    facts.write_text(json.dumps({**json.loads(facts.read_text()), "build_seconds": 5.0}))
    assert export(store.find_kernel(), tmp_path / "again.zip") == digest_of(archive)
    # symbols are no part of the kernel
    (store.find_kernel().directory / store.SYMBOLS).write_bytes(b"symbols")
    assert export(store.find_kernel(), tmp_path / "third.zip") == digest_of(archive)


def test_an_archive_says_how_it_is_made_again(archive: Path) -> None:
    with zipfile.ZipFile(archive) as opened:
        text = opened.read("README").decode()
    assert "GNU General" in text
    assert "linux-source-6.12.tar.xz" in text
    assert "mprun kernel build" in text


@pytest.mark.parametrize("trust", [None, "0" * 64])
def test_an_archive_without_a_known_digest_is_refused(archive: Path, trust: str | None) -> None:
    with pytest.raises(SpecError, match=f"SHA-256 {digest_of(archive)}, which this mprun does not name"):
        take_in(archive, trust, "default")
    assert not store.store().exists()


def test_an_archive_of_this_release_needs_no_digest(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = tmp_path / "trusted.txt"
    named.write_text(f"# archives of this release\n{digest_of(archive)}  kernel.mprun-kernel.zip\n")
    monkeypatch.setattr(installation, "TRUSTED", named)
    assert take_in(archive, None, "default")[0] == store.find_kernel("default").version


@pytest.mark.parametrize(
    ("member", "content", "told"),
    [
        ("kernel/linux", b"another program", "linux is not the file that was built"),
        ("kernel/kernel.json", b"{}", "has no 'version'"),
        ("../../linux", b"x", "leads out of the archive"),
    ],
)
def test_a_poisoned_archive_is_refused_even_with_its_digest(
    archive: Path, member: str, content: bytes, told: str
) -> None:
    poisoned = changed(archive, member, content)
    with pytest.raises(SpecError, match=told):
        take_in(poisoned, digest_of(poisoned), "default")
    with pytest.raises(MachineError):
        store.find_kernel()


def test_a_kernel_of_another_version_of_mprun_is_refused(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "older"))
    put(store.store(), "b" * 64, "default", recipe="older")
    older = tmp_path / "older.zip"
    export(store.find_kernel(), older)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "own"))
    with pytest.raises(SpecError, match="was built by another version of mprun"):
        take_in(older, digest_of(older), "default")


def test_the_commands_name_the_digest(archive: Path, tmp_path: Path) -> None:
    refused = CliRunner().invoke(command, ["import", str(archive)])
    assert isinstance(refused.exception, SpecError)
    done = CliRunner().invoke(command, ["import", str(archive), "--trust", digest_of(archive), "--name", "theirs"])
    assert done.output == "kernel 'theirs': 6.12.117-mprun\n"
    target = tmp_path / "mine.mprun-kernel.zip"
    written = CliRunner().invoke(command, ["export", str(target), "--name", "theirs"])
    assert f"--trust {digest_of(target)}" in written.output
