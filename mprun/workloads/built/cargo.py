# SPDX-License-Identifier: Apache-2.0
"""Build a Rust program with cargo(1): fetch the crates of its lock file, patch one library, compile.

Crates are stored in cargo's own cache and checked against the lock file. The build uses a temporary folder, of which
only the program is kept.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from mprun.errors import MachineError, RunError, show_failure
from mprun.machine import invoking_user
from mprun.machine.cache import Progress
from mprun.machine.version import version_in
from mprun.workloads.built.source import Recipe

CARGO_REMEDY = (
    "apt-get install cargo (Debian 13, Ubuntu 24.04), apt-get install cargo-web (Debian 12), or rustup; `make quic` "
    "does it"
)
# The first version of cargo that no release has as a package of its own.
RUSTUP_FROM = (1, 86)
RUSTUP_REMEDY = (
    "apt-get install rustup (Debian 13, Ubuntu 24.04) or https://rustup.rs (Debian 12), then rustup default stable"
)


def missing(recipe: Recipe) -> str | None:
    """Return what a build needs and this machine lacks, with the command that installs it; None if nothing."""
    cargo = find_cargo()
    remedy = CARGO_REMEDY if recipe.oldest_cargo < RUSTUP_FROM else RUSTUP_REMEDY
    oldest = ".".join(map(str, recipe.oldest_cargo))
    if cargo is None:
        return f"building it needs cargo {oldest} or later: {remedy}"
    version = _version(cargo)
    if not version:
        return f"`{cargo} --version` fails; building it needs cargo {oldest} or later: {remedy}"
    if (version_in(version) or (0, 0)) < recipe.oldest_cargo:
        return f"{version} is too old, building it needs {oldest} or later: {remedy}"
    lacking = [package for tool, package in recipe.needs if not shutil.which(tool)]
    if lacking:
        return f"building it needs {', '.join(lacking)}: apt-get install {' '.join(lacking)}"
    return None


def find_cargo() -> str | None:
    """Return the path of cargo. It is also found in rustup's folder, if PATH does not have it."""
    home = invoking_user.home()
    return shutil.which("cargo") or (shutil.which("cargo", path=str(home / ".cargo" / "bin")) if home else None)


def build(recipe: Recipe, made: Path, log: Path, jobs: int, progress: Progress) -> str:
    """Build a program into a folder, with its sources beside this folder. Return the version of cargo.

    Raises MachineError for a cargo without a target, RunError with the end of the log if the build fails.
    """
    cargo = find_cargo()
    assert cargo is not None
    source = made.with_name(recipe.name)
    for folder in (recipe.folder, *(recipe.folder.with_name(name) for name in recipe.shared)):
        shutil.copytree(folder, made.with_name(folder.name), ignore=shutil.ignore_patterns("target"))
    log.write_text("")
    progress("downloading crates", 0)
    _run([cargo, "fetch", "--locked", "--target", _host(cargo)], source, log)
    packages = _packages(cargo, source, log)
    options = ["--release", "--offline", f"--jobs={jobs}"]
    if recipe.patched:
        # our patch is applied to a copy of the library's source beside ours
        copy = source / recipe.patched
        shutil.copytree(packages[recipe.patched], copy)
        _run(["patch", "-p1", "--forward", "--fuzz=0", "-i", f"../{recipe.patched}.patch"], copy, log)
        options += ["--config", f'patch.crates-io.{recipe.patched}.path="{recipe.patched}"']
    progress("compiling", 0)
    _compile([cargo, "build", *options], source, log, len(packages), progress)
    shutil.copy(source / "target" / "release" / recipe.executable, made)
    return _version(cargo)


def _packages(cargo: str, source: Path, log: Path) -> Mapping[str, Path]:
    """Return the folder of every package that a build on this machine compiles, by name."""
    argv = [cargo, "metadata", "--format-version=1", "--locked", "--offline", f"--filter-platform={_host(cargo)}"]
    told = json.loads(_run(argv, source, log))
    compiled = {node["id"] for node in told["resolve"]["nodes"]}
    return {p["name"]: Path(p["manifest_path"]).parent for p in told["packages"] if p["id"] in compiled}


def _compile(argv: list[str], source: Path, log: Path, packages: int, progress: Progress) -> None:
    """Compile, and count the packages as cargo starts each. Raises RunError."""
    process = subprocess.Popen(
        argv, cwd=source, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=_environment(source)
    )
    assert process.stderr is not None
    begun = 0
    with log.open("a") as output:
        for line in process.stderr:
            output.write(line)
            if line.strip().startswith("Compiling "):
                begun += 1
                progress("compiling", min(0.99, begun / (packages + 1)))
    if process.wait():
        raise RunError(_failure(argv, log))


def _run(argv: list[str], directory: Path, log: Path) -> str:
    done = subprocess.run(argv, cwd=directory, capture_output=True, text=True, env=_environment(directory))
    with log.open("a") as output:
        output.write(done.stderr)
    if done.returncode:
        raise RunError(_failure(argv, log))
    return done.stdout


def _environment(source: Path) -> dict[str, str]:
    """Return the user's environment, with our target folder and without what would change the build."""
    changed = {"CARGO_TARGET_DIR": str(source / "target"), "CARGO_TERM_COLOR": "never", "LC_ALL": "C.UTF-8"}
    return {name: value for name, value in os.environ.items() if name != "RUSTFLAGS"} | changed


def _failure(argv: list[str], log: Path) -> str:
    said = show_failure(log.read_text(errors="replace"))
    return f"{Path(argv[0]).name} {argv[1]} failed (whole log: {log}):\n{said}"


def _version(cargo: str) -> str:
    """Return cargo's version, such as `cargo 1.85.0 (...)`; empty if it fails, as rustup without a toolchain does."""
    return subprocess.run([cargo, "--version"], capture_output=True, text=True).stdout.strip()


def _host(cargo: str) -> str:
    """Return the target triple of this machine, such as `x86_64-unknown-linux-gnu`. Raises MachineError."""
    told = subprocess.run([cargo, "-vV"], capture_output=True, text=True).stdout
    match = re.search(r"^host: (\S+)$", told, re.MULTILINE)
    if match is None:
        raise MachineError(f"`{cargo} -vV` does not say what machine it builds for: install cargo again")
    return match[1]
