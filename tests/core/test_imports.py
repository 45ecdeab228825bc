# SPDX-License-Identifier: Apache-2.0
"""Imports point down the data's way only, and the core imports nothing of the machine."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "mprun"

# What each part may import of mprun, beside itself.
VALUES = {"errors", "plan", "capabilities", "spec.spec"}
MAY_IMPORT = {
    "errors": set(),
    "folder": {"errors"},
    "form": set(),
    "capabilities": set(),
    "plan": {"errors"},
    "plugin": set(),
    "text": set(),
    "spec": {"errors", "folder", "plugin", "topologies", "tools", "mininet_library"},
    "topologies": {"errors", "spec"},
    "tools": VALUES | {"plugin", "spec"},
    "compile": VALUES | {"tools", "spec.path", "spec.span", "spec.ofctl", "spec.address"},
    "mininet_library": set(),
    "agent": {"landlock", "mininet_library"},
    "landlock": set(),
    "table": {"errors", "form", "text"},
    "rundir": {"errors", "folder", "form", "invoker", "plan", "table", "text"},
    "invoker": set(),
    "cache": {"errors", "invoker"},
    "settings": {"cache", "errors", "spec.configuration"},
    "genuine": {"cache", "errors"},
    "scratch": {"errors", "invoker"},
    "shipped": {"errors"},
    "version": set(),
    "kernel": {"errors", "cache", "genuine", "invoker", "scratch"},
    "programs": {"errors", "cache", "genuine", "invoker", "scratch"},
    "engines": VALUES
    | {
        "agent",
        "cache",
        "folder",
        "invoker",
        "landlock",
        "mininet_library",
        "rundir",
        "scratch",
        "kernel",
        "programs",
        "tools",
        "compile",
    },
    "selftests": {"errors", "cache", "scratch", "engines", "kernel"},
    "analysis": VALUES
    | {
        # the record of a run has one description, that of its writer
        "agent.event",
        "agent.message",
        "agent.record",
        "tools",
        "compile",
        "spec.claim",
        "spec.evaluation",
        "spec.expression",
        "spec.fault",
        "spec.metric",
        # conditions are spelled as files spell values
        "spec.scalar",
        "text",
    },
    "report": {"errors", "text", "rundir", "spec", "tools", "analysis", "sweep.directory", "sweep.summary", "version"},
    "lab": VALUES | {"spec", "analysis", "compile", "engines", "rundir", "runner", "shipped", "sweep"},
    "sweep": VALUES
    | {
        "cache",
        "folder",
        "form",
        "text",
        "spec",
        "analysis",
        "compile",
        "engines",
        "invoker",
        "kernel",
        "rundir",
        "runner",
        "scratch",
        "table",
        "tools.tool",
        "version",
    },
    "capture": VALUES | {"analysis", "compile.network", "report.value", "rundir", "tools"},
    "dissection": {"errors", "analysis", "rundir", "tools"},
    "runner": VALUES
    | {"spec", "tools", "analysis", "compile", "engines", "kernel", "rundir", "scratch", "capture", "version"}
    | {"landlock", "settings"},
    "bundle": {
        "errors",
        "folder",
        "text",
        "spec",
        "analysis",
        "plan",
        "engines",
        "kernel",
        "rundir",
        "runner",
        "sweep",
        "version",
    },
    "results": {"errors", "folder", "analysis.cells", "rundir", "sweep", "report"},
}
CORE = ("spec", "topologies", "tools", "compile", "analysis", "plan.py", "plugin.py", "text.py", "capabilities.py")
MACHINE = {"os", "subprocess", "socket", "time", "random", "mininet", "matplotlib"}
# Reading the user's files is the input stage's work.
EXCEPTIONS = {
    # A user's Mininet class is a program that describes a topology.
    "spec/mininet_topo.py": {"mininet"},
    "spec/reader.py": {"os"},
    "spec/input.py": {"os"},
}

FILES = sorted(path for path in PACKAGE.rglob("*.py") if "__pycache__" not in path.parts)


def imported(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def part_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_down(path: Path) -> None:
    part = part_of(path)
    if part in ("cli", "__init__", "__main__"):
        return
    allowed = MAY_IMPORT[part] | {part}
    for name in imported(path):
        if name == "mprun" or not name.startswith("mprun."):
            continue
        inner = name.removeprefix("mprun.")
        if inner.split(".")[0] == "engines" and part == "engines":
            continue
        assert any(inner == one or inner.startswith(one + ".") for one in allowed), f"{part} imports {name}"


@pytest.mark.parametrize("path", [p for p in FILES if p.relative_to(PACKAGE).parts[0] in CORE], ids=lambda p: p.stem)
def test_core_leaves_the_machine_alone(path: Path) -> None:
    roots = {name.split(".")[0] for name in imported(path)}
    assert not roots & MACHINE - EXCEPTIONS.get(str(path.relative_to(PACKAGE)), set())


def test_every_part_is_listed() -> None:
    assert {part_of(path) for path in FILES} - {"cli", "__init__", "__main__"} == set(MAY_IMPORT)
