# SPDX-License-Identifier: Apache-2.0
"""Cached programs are executed only if they are unchanged since the build. No other user can replace them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from mprun.errors import MachineError
from mprun.machine import cache
from mprun.safety import unchanged_program
from mprun.workloads.built import PROGRAMS, program_store

# An old file: its time of change is not recent.
OLD = Path("/usr/bin/true").resolve()


@pytest.fixture(autouse=True)
def _empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "cache" / "mprun").mkdir(parents=True)


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "made" / "program"
    path.parent.mkdir()
    path.write_text("#!/bin/sh\ntrue\n")
    path.chmod(0o755)
    return path


def test_a_changed_program_is_found_out(program: Path) -> None:
    """A change is found even if size and time of change are the same."""
    built = unchanged_program.digest_files(program.parent, ["program", "missing"])
    assert list(built) == ["program"]
    assert unchanged_program.find_change(program.parent, built, ["program"]) is None
    before = program.stat()
    program.write_text("#!/bin/sh\nfals\n")
    os.utime(program, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (
        unchanged_program.find_change(program.parent, built, ["program"]) == f"{program} is not the file that was built"
    )
    assert unchanged_program.find_change(program.parent, {}, ["program"]) == f"{program} is not the file that was built"
    program.chmod(0o644)
    assert unchanged_program.find_change(program.parent, built, ["program"]) == f"{program} is no program"


def test_a_file_that_is_as_it_was_is_not_hashed_again() -> None:
    built = unchanged_program.digest_files(OLD.parent, [OLD.name])
    assert unchanged_program.find_change(OLD.parent, built, [OLD.name]) is None
    place = cache.cache(unchanged_program.SEEN)
    seen = json.loads(place.read_text())
    assert seen == {str(OLD): [*unchanged_program._state(OLD), built[OLD.name]]}
    assert place.stat().st_mode & 0o777 == 0o600
    # a stored digest is used, and only for a file in this state
    place.write_text(json.dumps({str(OLD): [*seen[str(OLD)][:-1], "0" * 64]}))
    assert unchanged_program.find_change(OLD.parent, built, [OLD.name]) is not None
    place.write_text(json.dumps({str(OLD): [*seen[str(OLD)][:-2], 0, "0" * 64]}))
    assert unchanged_program.find_change(OLD.parent, built, [OLD.name]) is None
    # nor if another user could have written the record
    place.write_text(json.dumps({str(OLD): [*seen[str(OLD)][:-1], "0" * 64]}))
    place.chmod(0o666)
    assert unchanged_program.find_change(OLD.parent, built, [OLD.name]) is None


@pytest.mark.parametrize("text", ["[]", "{", '{"a": 1}', ""])
def test_damage_to_what_was_seen_does_no_harm(text: str) -> None:
    cache.cache(unchanged_program.SEEN).write_text(text)
    assert (
        unchanged_program.find_change(OLD.parent, unchanged_program.digest_files(OLD.parent, [OLD.name]), [OLD.name])
        is None
    )


def test_a_program_that_others_could_replace_is_named(program: Path) -> None:
    mine = (0, os.geteuid())
    assert unchanged_program.find_stranger(program.parent, ["program"], mine) is None
    whose = unchanged_program._name(os.geteuid())
    told = unchanged_program.find_stranger(program.parent, ["program"], (4242,))
    assert told == f"{program.parent.parent} belongs to {whose}, not to user 4242"
    for path in (program, program.parent, program.parent.parent):
        mode = path.stat().st_mode
        path.chmod(0o777)
        assert (
            unchanged_program.find_stranger(program.parent, ["program"], mine) == f"{path} can be written by every user"
        )
        path.chmod(mode)
    program.parent.parent.chmod(0o1777)
    assert unchanged_program.find_stranger(program.parent, ["program"], mine) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_strangers_program_is_refused(program: Path) -> None:
    os.chown(program, 65534, 65534)
    assert (
        unchanged_program.find_stranger(program.parent, ["program"], (0,)) == f"{program} belongs to nobody, not to you"
    )


def _put_tool(of_user: bool) -> Path:
    """Put a minimal tool into the store: an executable and its record."""
    recipe = PROGRAMS["cmtsctp"]
    made = program_store.store(as_user=of_user) / "made"
    made.mkdir(parents=True)
    (made / recipe.executable).write_text("#!/bin/sh\n")
    (made / recipe.executable).chmod(0o755)
    recipe.put(made, made.with_name(recipe.digest[:16]), "1", "gcc", 1.0)
    return made.with_name(recipe.digest[:16])


def test_a_changed_tool_is_refused_with_the_command_that_builds_it() -> None:
    folder = _put_tool(of_user=False)
    found = program_store.find("cmtsctp")
    assert found is not None
    assert found.path == f"{folder}/cmtsctp"
    (folder / "cmtsctp").write_text("#!/bin/sh\nrm -r ~\n")
    fault = rf"{folder}/cmtsctp is not the file that was built; run `mprun tools install cmtsctp`"
    with pytest.raises(MachineError, match=fault):
        program_store.find("cmtsctp")
    with pytest.raises(MachineError, match=fault):
        program_store.find_executable("cmtsctp")
    (folder / "tool.json").write_text("{}")
    with pytest.raises(MachineError, match=r"tool.json is damaged; run `mprun tools install cmtsctp`"):
        program_store.find("cmtsctp")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root is called by sudo")
def test_under_sudo_root_runs_its_own_tools_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUDO_UID", "65534")
    monkeypatch.setenv("SUDO_GID", "65534")
    folder = _put_tool(of_user=True)
    for path in (folder.parent, folder, *folder.iterdir()):
        os.chown(path, 65534, 65534)
    with pytest.raises(MachineError, match=rf"{folder.parent} belongs to nobody, not to you: remove {folder} and run"):
        program_store.find("cmtsctp")
    assert program_store.find("cmtsctp", as_user=True) is not None
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr("pwd.getpwuid", lambda uid: SimpleNamespace(pw_dir=f"/home/{uid}"))
    assert program_store.store() == Path("/home/0/.cache/mprun/tools")
    assert program_store.store(as_user=True) == Path("/home/65534/.cache/mprun/tools")
