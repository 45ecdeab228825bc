# SPDX-License-Identifier: Apache-2.0
"""The labs that come with mprun: find them, and make a working copy of a lab."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from mprun.errors import SpecError
from mprun.json_schema import SCHEMAS, render
from mprun.lab.file import FILE, Lab, read_lab
from mprun.shipped import find_labs

ANSWERS = "ANSWERS.md"
# The folder of a working copy with the schemas that its files name for an editor.
SCHEMA_FOLDER = ".schemas"
_SCHEMA_LINE = re.compile(r"\$schema=(?:\.\./)+schemas/")


def open_lab(name: str, parameters: Mapping[str, str] = {}) -> Lab:
    """Return a lab by its number or name (`04` or `04_backup`), or by its folder. Raises SpecError.

    parameters: as in `read_lab`.
    """
    if (Path(name) / FILE).is_file():
        return read_lab(Path(name), parameters)
    labs = find_labs()
    number = name.split("_")[0].zfill(2)
    if number not in labs:
        raise SpecError(f"no lab '{name}'; labs: {', '.join(path.name for path in labs.values())}")
    return read_lab(labs[number], parameters)


def copy_lab(lab: Lab, target: Path) -> None:
    """Make a working copy without the answers and without results of runs. Raises SpecError if `target` exists."""
    if target.exists():
        raise SpecError(f"{target} exists already: name another directory")

    def left_out(folder: str, names: list[str]) -> set[str]:
        return {name for name in names if name in (ANSWERS, "runs") or _is_of_a_run(Path(folder) / name)}

    shutil.copytree(lab.folder, target, symlinks=True, ignore=left_out)
    (target / SCHEMA_FOLDER).mkdir(exist_ok=True)
    for name in SCHEMAS:
        (target / SCHEMA_FOLDER / f"{name}.schema.json").write_text(render(name), encoding="utf-8")
    for path in sorted(target.rglob("*.yaml")):
        up = "../" * (len(path.relative_to(target).parts) - 1)
        text = path.read_text(encoding="utf-8")
        path.write_text(_SCHEMA_LINE.sub(f"$schema={up}{SCHEMA_FOLDER}/", text), encoding="utf-8")


def _is_of_a_run(path: Path) -> bool:
    """Return True for an experiment's link to a file of its newest run. A link to a folder is kept."""
    return path.is_symlink() and not path.is_dir()
