# SPDX-License-Identifier: Apache-2.0
"""The labs that come with mprun: find them, and make a working copy of a lab."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from mprun.errors import MprunError, SpecError
from mprun.inputs.json_schema import SCHEMAS, render
from mprun.inputs.named_file import spell
from mprun.labs.definition import FILE, Lab, read_lab
from mprun.machine.packaged import find_labs
from mprun.model.problem import tell_unknown
from mprun.safety.folder import Folder

ANSWERS = "ANSWERS.md"
# The folder with the files of a lab that the student is to write.
SOLUTION = "solution"
# The file of a working copy with the name of its lab.
ORIGIN = ".lab"
# The folder of a working copy with the schemas that its files name for an editor.
SCHEMA_FOLDER = ".schemas"
_SCHEMA_LINE = re.compile(r"\$schema=(?:\.\./)+schemas/")
# A link or a picture of a page. Its groups: the text, the target, and the part of the target after `#`.
_PAGE_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)#\s]+)(#[^)\s]*)?\)")

# A comment before or after a number that is generated. A licence stays.
_MARK = re.compile(r"<!--(?! SPDX).*?-->")


def open_lab(name: str, parameters: Mapping[str, str] = {}) -> Lab:
    """Return a lab by its number or name (`04` or `04_backup`), or by its folder. Raises SpecError.

    parameters: as in `read_lab`.
    """
    if (Path(name) / FILE).is_file():
        folder = Path(name)
        # `.` and `..` have no name of their own
        return read_lab(folder if folder.name not in ("", "..") else folder.resolve(), parameters)
    labs = find_labs()
    named = {**{folder.name: folder for folder in labs.values()}, **labs}
    wanted = name.zfill(2) if name.isdigit() else name
    if name.replace("-", "").replace(",", "").isdigit() and not name.isdigit():
        raise SpecError(f"no lab '{name}': name each lab, as in 'mprun lab run 1 2 3'")
    if wanted not in named and any(Path(one).is_file() for one in spell(name)):
        raise SpecError(f"no lab '{name}', and a file of this name is here: write mprun -t TOPOLOGY -x {name}")
    number = name.lower().removeprefix("lab").strip("-_ ").zfill(2)
    if wanted not in named and number in labs:
        raise SpecError(f"no lab '{name}': did you mean '{number}'?")
    if wanted not in named:
        raise SpecError(tell_unknown("lab", name, [folder.name for folder in labs.values()]))
    return read_lab(named[wanted], parameters)


def open_here(parameters: Mapping[str, str] = {}) -> Lab:
    """Return the lab of the current folder, or of the nearest folder above. Raises SpecError if there is none."""
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / FILE).is_file():
            return read_lab(folder, parameters)
    raise SpecError("no lab here: name a lab, or change into a copy that `mprun lab start` made")


def find_original(lab: Lab) -> Lab:
    """Return the lab of mprun that a working copy was made from, or the lab itself. Raises SpecError."""
    original = find_labs().get((find_origin(lab.folder) or "").partition("_")[0])
    return lab if original is None else read_lab(original)


def is_shipped(lab: Lab) -> bool:
    """Return whether a lab is a lab of mprun, and no copy or lab of the user."""
    return any(lab.folder.resolve() == folder.resolve() for folder in find_labs().values())


def find_origin(folder: Path) -> str | None:
    """Return the name of the lab of mprun that a working copy was made from; None if a folder is no such copy."""
    try:
        name = Folder(folder).read_text(ORIGIN).strip()
    except (MprunError, OSError, ValueError):
        return None
    return name if any(one.name == name for one in find_labs().values()) else None


def copy_lab(lab: Lab, target: Path, is_of_course: bool = False) -> None:
    """Make a working copy without the answers and without results of runs. Raises SpecError if `target` exists.

    is_of_course: the copy goes to another machine. So its pages get no links to files outside the lab, and its files
    keep the names of schemas that are two folders above.
    """
    if target.exists():
        raise SpecError(f"{target} exists already: name another directory, as in `mprun lab start {lab.number} mine`")

    def left_out(folder: str, names: list[str]) -> set[str]:
        return {name for name in names if name in (ANSWERS, SOLUTION, "runs") or _is_of_a_run(Path(folder) / name)}

    shutil.copytree(lab.folder, target, symlinks=True, ignore=left_out)
    if not is_of_course:
        _add_schemas(target)
    for page in sorted(target.rglob("*.md")):
        original = lab.folder / page.relative_to(target)
        page.write_text(_with_links(page, original, is_of_course), encoding="utf-8")
    if not (target / ORIGIN).exists():
        (target / ORIGIN).write_text(f"{lab.name}\n", encoding="utf-8")


def _add_schemas(target: Path) -> None:
    """Add the schemas to a copy, and name them in its files."""
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


def _with_links(page: Path, original: Path, is_of_course: bool) -> str:
    """Return the text of a copied page with links that work in the copy, and without the marks of generated numbers.

    A link to a file outside the lab leads to the file beside the original. A link to a missing file becomes its text,
    and with `is_of_course` each link to a file outside the lab.
    """

    def follow(link: re.Match[str]) -> str:
        text, target, anchor = link.groups(default="")
        if "://" in target or (page.parent / target).exists():
            return link[0]
        outside = original.parent / target
        if is_of_course or not outside.exists() or outside.name == ANSWERS or outside.parent.name == SOLUTION:
            return text
        way = Path(os.path.relpath(outside.resolve(), page.parent.resolve())).as_posix()
        return f"[{text}]({way}{anchor})"

    return _PAGE_LINK.sub(follow, _MARK.sub("", page.read_text(encoding="utf-8")))
