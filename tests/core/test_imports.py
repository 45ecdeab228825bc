# SPDX-License-Identifier: Apache-2.0
"""Imports point down the data's way only, and the core imports nothing of the machine."""

from __future__ import annotations

import ast
import graphlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "mprun"

# The order of rooms: each may import those above it. A room is a package, a part of a package that is named here, or a
# module directly in `mprun`.
ROOMS = """
    errors
    machine safety model
    statements storage
    inputs.traces inputs.keys workloads inputs
    compile
    agent kernel engines kernel.selftests
    captures metrics runs
    sweeps reports
    bundles labs questions
    api cli __init__ __main__
""".split()
CORE = ("model", "statements", "workloads", "inputs", "compile", "metrics")
MACHINE = {"os", "subprocess", "socket", "time", "random", "mininet", "matplotlib"}
# Reading the user's files is the input stage's work; a user's Mininet class is a program that describes a topology. The
# traces that come with mprun are drawn by a program.
READING = {
    "inputs/mininet_topo.py": {"mininet"},
    "inputs/named_file.py": {"os"},
    "inputs/attachment.py": {"os"},
    "inputs/traces/generate.py": {"random"},
}

FILES = sorted(path for path in PACKAGE.rglob("*.py") if "__pycache__" not in path.parts)


def module_of(path: Path) -> str:
    """Return the name of a file's module within `mprun`; that of a package is its own."""
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")


MODULES = {module_of(path): path for path in FILES}


def names_in(path: Path) -> Iterator[tuple[str, str]]:
    """Return each import of a file: the module, and the name taken from it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from ((node.module, alias.name) for alias in node.names)


def imported_modules(path: Path) -> set[str]:
    """Return the modules of `mprun` that a file imports, at any place in it."""
    found = set()
    for module, name in names_in(path):
        # `import mprun` alone is for the place of its files
        if (module == "mprun" and name) or module.startswith("mprun."):
            inner = module.removeprefix("mprun").removeprefix(".")
            whole = f"{inner}.{name}".removeprefix(".")
            found.add(whole if whole in MODULES else inner or "__init__")
    return found - {module_of(path)}


def room_of(module: str) -> str:
    parts = module.split(".")
    names = [".".join(parts[:count]) for count in range(len(parts), 0, -1)]
    return next((name for name in names if name in ROOMS), parts[0])


IMPORTED: Mapping[str, set[str]] = {module: imported_modules(path) for module, path in MODULES.items()}


@pytest.mark.parametrize("module", IMPORTED)
def test_imports_point_down(module: str) -> None:
    """A module imports modules of its own room and of rooms above it in the list."""
    above = ROOMS[: ROOMS.index(room_of(module)) + 1]
    assert not [other for other in IMPORTED[module] if room_of(other) not in above]


@pytest.mark.parametrize("module", [module for module in IMPORTED if room_of(module) in ("captures", "metrics")])
def test_what_is_measured_does_not_depend_on_commands(module: str) -> None:
    """A run is read by its intent: the stages after it import nothing of the stage that makes commands."""
    assert not [other for other in IMPORTED[module] if room_of(other) == "compile"]


def test_no_files_import_each_other() -> None:
    graphlib.TopologicalSorter(IMPORTED).prepare()


def test_a_circle_of_files_would_be_found() -> None:
    """The check above fails for a circle, whatever its length."""
    circle = {"compile.wire": {"compile.network"}, "compile.network": {"plan"}, "plan": {"compile.wire"}}
    with pytest.raises(graphlib.CycleError):
        graphlib.TopologicalSorter(circle).prepare()


def is_core(path: Path) -> bool:
    """Return whether a file is of the core. The workloads' own programs are built on this machine."""
    return path.relative_to(PACKAGE).parts[0] in CORE and not path.is_relative_to(PACKAGE / "workloads" / "built")


@pytest.mark.parametrize("path", [path for path in FILES if is_core(path)], ids=lambda path: path.stem)
def test_core_leaves_the_machine_alone(path: Path) -> None:
    roots = {module.split(".")[0] for module, _ in names_in(path)}
    assert not roots & MACHINE - READING.get(str(path.relative_to(PACKAGE)), set())


def test_every_room_is_listed_once() -> None:
    assert sorted(ROOMS) == sorted({room_of(module) for module in MODULES if module} | {"__init__"})
