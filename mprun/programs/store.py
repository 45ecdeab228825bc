# SPDX-License-Identifier: Apache-2.0
"""The programs that this user has built: find them, list them, install them.

One lives in `~/.cache/mprun/tools/<digest>/`, beside `tool.json`; the digest is that of its source, so what is
built already is not built again, and what is of another version is not taken. Under sudo they are root's own, as root
runs them in the real engine; the virtual engine has no rights of root, and takes those of the user who called sudo.
"""

from __future__ import annotations

import json
import os
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mprun import genuine, invoker
from mprun.cache import Progress, cache, locked
from mprun.errors import HostError, SpecError
from mprun.programs import PROGRAMS, cargo, gcc
from mprun.programs.recipe import FACTS, CRecipe, Recipe


@dataclass(frozen=True)
class Installed:
    """A program that can be run."""

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
    """Where the programs are. as_user: under sudo, those of the user who called it."""
    return cache("tools", of_root=not as_user)


def recipe_of(name: str) -> Recipe:
    """The recipe of a program. Raises SpecError for an unknown name."""
    if name not in PROGRAMS:
        raise SpecError(f"no tool '{name}' to install; there is: {', '.join(PROGRAMS)}")
    return PROGRAMS[name]


def find(name: str, as_user: bool = False) -> Installed | None:
    """A program as it is built from the sources of this mprun; None if it is not.

    as_user: it will run without the rights of root that sudo gave. Raises HostError where its file is not the one that
    was built, or could be replaced by another user.
    """
    recipe = recipe_of(name)
    directory = _place(recipe, as_user)
    try:
        facts = json.loads((directory / FACTS).read_text())
        installed = Installed(
            name,
            str(directory / recipe.executable),
            *(facts["version"], recipe.digest, facts["compiler"], facts["build_seconds"]),
        )
        digests = facts["files"]
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError):
        raise HostError(f"{directory / FACTS} is damaged; run `mprun tools install {name}`") from None
    if change := genuine.find_change(directory, digests, [recipe.executable]):
        raise HostError(f"{change}; run `mprun tools install {name}`")
    owners = (0, invoker.user() if as_user else os.geteuid())
    if strange := genuine.find_stranger(directory, [recipe.executable, FACTS], owners):
        raise HostError(f"{strange}: remove {directory} and run `mprun tools install {name}`")
    return installed


def find_executable(executable: str, as_user: bool = False) -> Installed | None:
    """The program that has an executable of this name; None if there is none, or it is not built. Raises as `find`."""
    for recipe in PROGRAMS.values():
        if recipe.executable == executable:
            return find(recipe.name, as_user)
    return None


def install(name: str, jobs: int, progress: Progress) -> tuple[Installed, bool]:
    """Build a program unless it is built; it, and whether there was anything to do.

    Raises HostError for what is missing here, RunError with the end of the log if it does not build.
    """
    recipe = recipe_of(name)
    with locked(store(), lambda: progress("waiting for another build of this user", 0), of_root=_is_of_root()):
        with suppress(HostError):
            found = find(name)
            if found is not None:
                return found, False
        if _place(recipe).exists():
            shutil.rmtree(_place(recipe))
        _build(recipe, jobs, progress)
    built = find(name)
    if built is None:
        raise HostError(f"{store()}: what was built is gone again; another program empties this folder")
    return built, True


def missing(recipe: Recipe) -> str | None:
    """What building a program needs and this machine has not, with what mends it; None if nothing."""
    return gcc.missing(recipe) if isinstance(recipe, CRecipe) else cargo.missing()


def _build(recipe: Recipe, jobs: int, progress: Progress) -> None:
    if isinstance(recipe, CRecipe):
        progress("compiling", 0)
        gcc.build(recipe, _place(recipe), store())
    else:
        cargo.build(recipe, _place(recipe), store(), jobs, progress)


def _place(recipe: Recipe, as_user: bool = False) -> Path:
    return store(as_user) / recipe.digest[:16]


def _is_of_root() -> bool:
    return invoker.is_root_for_user()
