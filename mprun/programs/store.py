# SPDX-License-Identifier: Apache-2.0
"""The programs that this user has built: find them, list them, install them.

One lives in `~/.cache/mprun/tools/<digest>/`, beside `tool.json`; the digest is that of its source, so what is
built already is not built again, and what is of another version is not taken.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

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


def store() -> Path:
    """Where this user's programs are."""
    return cache("tools")


def recipe_of(name: str) -> Recipe:
    """The recipe of a program. Raises SpecError for an unknown name."""
    if name not in PROGRAMS:
        raise SpecError(f"no tool '{name}' to install; there is: {', '.join(PROGRAMS)}")
    return PROGRAMS[name]


def find(name: str) -> Installed | None:
    """A program as it is built from the sources of this mprun; None if it is not."""
    recipe = recipe_of(name)
    directory = _place(recipe)
    try:
        facts = json.loads((directory / FACTS).read_text())
    except FileNotFoundError:
        return None
    path = str(directory / recipe.executable)
    return Installed(name, path, facts["version"], recipe.digest, facts["compiler"], facts["build_seconds"])


def find_executable(executable: str) -> Installed | None:
    """The program that has an executable of this name; None if there is none, or it is not built."""
    for recipe in PROGRAMS.values():
        if recipe.executable == executable:
            return find(recipe.name)
    return None


def install(name: str, jobs: int, progress: Progress) -> tuple[Installed, bool]:
    """Build a program unless it is built; it, and whether there was anything to do.

    Raises HostError for what is missing here, RunError with the end of the log if it does not build.
    """
    recipe = recipe_of(name)
    with locked(store(), lambda: progress("waiting for another build of this user", 0)):
        found = find(name)
        if found is not None:
            return found, False
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


def _place(recipe: Recipe) -> Path:
    return store() / recipe.digest[:16]
