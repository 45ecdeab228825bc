# SPDX-License-Identifier: Apache-2.0
"""Build a C program with gcc(1) and libraries from packages of the distribution."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from mprun.workloads.built.source import CRecipe, run


def missing(recipe: CRecipe) -> str | None:
    """Return what a build needs and this machine lacks, with the command that installs it; None if nothing."""
    if not shutil.which("gcc"):
        return "building it needs gcc: apt-get install gcc libc6-dev"
    lacking = {header: package for header, package in recipe.headers if not _has_header(header)}
    if lacking:
        return f"building it needs {', '.join(lacking)}: apt-get install {' '.join(lacking.values())}"
    return None


def build(recipe: CRecipe, made: Path) -> str:
    """Build a program into a folder. Return the version of the compiler. Raises RunError with its messages."""
    sources = [str(path) for path in recipe.sources() if path.suffix == ".c"]
    libraries = ", ".join(f"{package} {_version_of(package)}" for _, package in recipe.headers)
    version = f'-DVERSION="{recipe.executable} on {libraries}"'
    program = str(made / recipe.executable)
    run(["gcc", "-O2", "-Wall", "-Wextra", version, "-o", program, *sources, *recipe.flags])
    return run(["gcc", "--version"]).splitlines()[0]


def _has_header(header: str) -> bool:
    argv = ["gcc", "-fsyntax-only", "-include", header, "-x", "c", "/dev/null"]
    return subprocess.run(argv, capture_output=True).returncode == 0


def _version_of(package: str) -> str:
    done = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", package], capture_output=True, text=True)
    return done.stdout or "of unknown version"
