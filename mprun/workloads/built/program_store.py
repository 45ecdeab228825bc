# SPDX-License-Identifier: Apache-2.0
"""The programs that this user has built: find, list and install them.

A program is in `~/.cache/mprun/tools/<digest>/`, beside `tool.json`. The digest is that of its source. A program is
therefore not built twice, and a program of another version is not used. The package mprun-kernel brings programs, too,
which stay where pip put them. A program that this user has built comes first.

Under sudo the programs are root's own, because root runs them in the real engine. The virtual engine runs without
root's rights and uses the programs of the user who called sudo.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from contextlib import suppress
from pathlib import Path

from mprun.errors import MachineError, SpecError
from mprun.machine import invoking_user, packaged
from mprun.machine.cache import Progress, cache, locked
from mprun.machine.scratch import scratch
from mprun.model.frozen import Frozen
from mprun.safety import unchanged_program
from mprun.workloads.built import PROGRAMS, cargo, gcc, pip
from mprun.workloads.built.source import FACTS, CRecipe, PipRecipe, Recipe, run


class BuiltProgram(Frozen):
    """A built program."""

    name: str
    path: str
    version: str
    digest: str
    compiler: str
    build_seconds: float

    @property
    def directory(self) -> Path:
        return Path(self.path).parent


def store(as_user: bool = False) -> Path:
    """Return the folder of the programs. as_user: under sudo, the folder of the user who called it."""
    return cache("tools", of_root=not as_user)


def recipe_of(name: str) -> Recipe:
    """Return the recipe of a program. Raises SpecError for an unknown name."""
    if name not in PROGRAMS:
        raise SpecError(f"no tool '{name}' to install; there is: {', '.join(PROGRAMS)}")
    return PROGRAMS[name]


def find(name: str, as_user: bool = False) -> BuiltProgram | None:
    """Return a program that was built from the sources of this mprun; None if it was not built.

    as_user: it will run without the root rights that sudo gave. Raises MachineError if its file has changed since the
    build, or if another user could replace it.
    """
    recipe = recipe_of(name)
    owners = (0, invoking_user.user() if as_user else os.geteuid())
    directory = _folder_of(recipe, as_user)
    if not directory.exists():
        directory = _find_packed(recipe, owners) or directory
    try:
        facts = json.loads((directory / FACTS).read_text())
        installed = BuiltProgram(
            name,
            str(directory / recipe.executable),
            *(facts["version"], recipe.digest, facts["compiler"], facts["build_seconds"]),
        )
        digests = facts["files"]
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError):
        raise MachineError(f"{directory / FACTS} is damaged; run `mprun tools install {name}`") from None
    if change := unchanged_program.find_change(directory, digests, [recipe.executable]):
        raise MachineError(f"{change}; run `mprun tools install {name}`")
    if strange := unchanged_program.find_stranger(directory, [recipe.executable, FACTS], owners):
        raise MachineError(f"{strange}: remove {directory} and run `mprun tools install {name}`")
    return installed


def find_executable(executable: str, as_user: bool = False) -> BuiltProgram | None:
    """Return the built program that has an executable of this name, or None. Raises MachineError as `find` does."""
    recipe = next((one for one in PROGRAMS.values() if one.executable == executable), None)
    return None if recipe is None else find(recipe.name, as_user)


def install(name: str, jobs: int, progress: Progress) -> tuple[BuiltProgram, bool]:
    """Build a program unless it is built. Return the program, and True if it was built now.

    Raises MachineError for what is missing on this machine, RunError with the end of the log if the build fails.
    """
    recipe = recipe_of(name)
    of_root = invoking_user.is_root_for_user()
    with locked(store(), lambda: progress("waiting for another build of this user", 0), of_root=of_root):
        with suppress(MachineError):
            found = find(name)
            if found is not None and (not isinstance(recipe, PipRecipe) or pip.starts(found.path)):
                return found, False
        if _folder_of(recipe).exists():
            shutil.rmtree(_folder_of(recipe))
        build(recipe, _folder_of(recipe), store(), jobs, progress)
    built = find(name)
    if built is None:
        raise MachineError(f"{store()}: what was built is gone again; another program empties this folder")
    return built, True


def missing(recipe: Recipe) -> str | None:
    """Return what a build needs and this machine lacks, with the command that installs it; None if nothing."""
    if isinstance(recipe, PipRecipe):
        return pip.missing(recipe)
    return gcc.missing(recipe) if isinstance(recipe, CRecipe) else cargo.missing(recipe)


def build(recipe: Recipe, target: Path, parent: Path, jobs: int, progress: Progress) -> None:
    """Build a program into `target`, which is complete or does not exist. Temporary files and logs go to `parent`.

    Raises MachineError for what is missing on this machine, RunError with the last messages if the build fails.
    """
    if lacking := missing(recipe):
        raise MachineError(f"{recipe.name}: {lacking}")
    started = time.monotonic()
    with scratch(".build-", parent) as work:
        made = work / "made"
        made.mkdir()
        if isinstance(recipe, PipRecipe):
            progress("installing", 0)
            compiler = pip.build(recipe, made)
        elif isinstance(recipe, CRecipe):
            progress("compiling", 0)
            compiler = gcc.build(recipe, made)
        else:
            compiler = cargo.build(recipe, made, parent / f"{recipe.name}.log", jobs, progress)
        version = run([str(made / recipe.executable), "--version"]).strip()
        recipe.put(made, target, version, compiler, time.monotonic() - started)


def _find_packed(recipe: Recipe, owners: tuple[int, ...]) -> Path | None:
    """Return the folder of a program in the package mprun-kernel; None without it, or if others could replace it.

    So root leaves a package in the environment of the user who called sudo alone.
    """
    tools = packaged.find_built("tools")
    folder = tools / recipe.digest[:16] if tools else None
    if folder is None or not folder.exists():
        return None
    return None if unchanged_program.find_stranger(folder, [recipe.executable, FACTS], owners) else folder


def _folder_of(recipe: Recipe, as_user: bool = False) -> Path:
    return store(as_user) / recipe.digest[:16]
