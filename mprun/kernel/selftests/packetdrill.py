# SPDX-License-Identifier: Apache-2.0
"""Scripts of packetdrill: those of the kernel's own tree, and suites of a user.

packetdrill sends packets to a kernel and compares each answer with a script. No distribution has a package of the
program, and mprun neither contains nor builds it. The user names the folder in which it was built.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from mprun.errors import MachineError, SpecError
from mprun.kernel.selftests.test_source import Script, shown_tests
from mprun.model import engine_paths

NAME = "packetdrill"
NO_PROGRAM = (
    "no program 'packetdrill' in PATH: build it as its README describes and name its folder with --packetdrill DIR"
)
NO_SCRIPTS = f"the kernel's source has no scripts in tools/testing/selftests/net/{NAME}"
# The script runner in a kernel's source, beside its scripts.
RUNNER = "ksft_runner.sh"


def find_program(folder: Path | None) -> Path | None:
    """Return the folder of the program: the one that the user named, or one of PATH; None if PATH has none.

    Raises MachineError if the named folder has no such program.
    """
    if folder is None:
        found = shutil.which(NAME)
        return Path(found).resolve().parent if found else None
    if not os.access(folder / NAME, os.X_OK) or not (folder / NAME).is_file():
        raise MachineError(f"{folder} has no program '{NAME}': build it there, as its README describes")
    return folder.resolve()


def list_own(selftests: Path, program: Path) -> list[Script]:
    """Return the scripts of the kernel's tree, sorted by name. The tree's own runner reports each result."""
    folder = selftests / "net" / NAME
    shown = {**shown_tests(selftests), program: f"{engine_paths.ROOT}/program"}
    directory = f"{engine_paths.ROOT}/selftests/net/{NAME}"
    return [
        Script(NAME, path.stem, directory, (f"./{RUNNER}", path.name), shown) for path in sorted(folder.glob("*.pkt"))
    ]


def list_suite(folder: Path, program: Path) -> list[Script]:
    """Return the scripts in a user's folder and below it, sorted by path. Raises SpecError if there are none."""
    root = folder.resolve()
    shown = {root: f"{engine_paths.ROOT}/suite", program: f"{engine_paths.ROOT}/program"}
    names = [path.relative_to(root) for path in sorted(root.rglob("*.pkt"))]
    if not names:
        raise SpecError(f"--suite {folder}: no file *.pkt in this folder or below it")
    runner, suite = f"{engine_paths.ROOT}/guest/packetdrill.sh", f"{engine_paths.ROOT}/suite"
    return [
        Script(NAME, str(name.with_suffix("")), f"{suite}/{name.parent}", (runner, name.name), shown) for name in names
    ]
