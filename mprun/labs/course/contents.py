# SPDX-License-Identifier: Apache-2.0
"""The contents of a course: labs without answers, kernel, schemas, hand-out and first page, in a folder or an archive.

The kernel is in an archive as `mprun kernel export` writes it. Equal labs and kernels give equal bytes.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path

from mprun.bundles import installation
from mprun.bundles.archive import write_archive
from mprun.errors import SpecError
from mprun.inputs.json_schema import SCHEMAS, render
from mprun.kernel.store import Kernel
from mprun.labs.catalog import copy_lab
from mprun.labs.course.pages import Facts, LabFacts, draw_handout, write_readme
from mprun.labs.definition import Lab
from mprun.machine.scratch import scratch
from mprun.model.frozen import Frozen
from mprun.safety.folder import Folder

README, HANDOUT, LABS, SCHEMA_FOLDER, SUMS = "README.md", "handout.html", "labs", "schemas", "SHA256SUMS"
ARCHIVE_SUFFIX = ".zip"


class Course(Frozen):
    """A written course.

    - digest: the SHA-256 of its kernel archive.
    - files: their names, the checksums included.
    - size_bytes: the size of the archive, or of all files in the folder.
    """

    digest: str
    files: tuple[str, ...]
    size_bytes: int


def export_course(labs: Sequence[Lab], kernel: Kernel, target: Path) -> Course:
    """Write a course to an archive, if the name of `target` ends in `.zip`, or else to a new folder.

    Raises SpecError if the folder exists already, or if a lab has a link that leads out of the lab.
    """
    is_archive = target.suffix == ARCHIVE_SUFFIX
    if target.exists():
        raise SpecError(f"{target} exists already: name another {'file' if is_archive else 'directory'}, or remove it")
    if not target.absolute().parent.is_dir():
        raise SpecError(f"{target}: no folder {target.parent}")
    with scratch("mprun-course-", target.absolute().parent) as work:
        facts, contents = _contents_of(labs, kernel, work)
        if is_archive:
            write_archive(target, {f"{target.stem}/{name}": content for name, content in contents.items()})
            size_bytes = target.stat().st_size
        else:
            folder = Folder(work).make("course")
            for name, content in contents.items():
                one = folder.make(str(Path(name).parent))
                one.write_bytes(Path(name).name, content)
            os.rename(folder.path, target)
            size_bytes = sum(map(len, contents.values()))
    return Course(facts.digest, tuple(sorted(contents)), size_bytes)


def _contents_of(labs: Sequence[Lab], kernel: Kernel, work: Path) -> tuple[Facts, dict[str, bytes]]:
    """Return the facts of a course and its files by name. work: an empty folder."""
    folder, number = Folder(work), version("mprun")
    archive = f"mprun-{number}-x86_64{installation.SUFFIX}"
    digest = installation.export(kernel, work / archive)
    contents = {archive: folder.read_bytes(archive, folder.size(archive))}
    for lab in labs:
        copy = work / LABS / lab.folder.resolve().name
        copy_lab(lab, copy, is_of_course=True)
        contents |= {f"{LABS}/{copy.name}/{name}": data for name, data in _files_of(lab, copy)}
    contents |= {f"{SCHEMA_FOLDER}/{name}.schema.json": render(name).encode() for name in SCHEMAS}
    facts = Facts(number, kernel.version, archive, digest, tuple(_facts_of(lab) for lab in labs))
    contents |= {README: write_readme(facts).encode(), HANDOUT: draw_handout(facts).encode()}
    sums = [f"{hashlib.sha256(contents[name]).hexdigest()}  {name}\n" for name in sorted(contents)]
    return facts, contents | {SUMS: "".join(sums).encode()}


def _facts_of(lab: Lab) -> LabFacts:
    steps = tuple(step.command(lab.folder) for step in lab.in_profile("quick").steps)
    file = lab.file
    build = None if file.kernel is None else file.kernel.build
    asked = tuple(_plain(question.ask) for question in file.questions)
    return LabFacts(lab.folder.resolve().name, lab.number, _plain(file.title), _plain(file.aim), steps, asked, build)


def _plain(text: str) -> str:
    """Return a text of a lab in one line, without the marks of code."""
    return " ".join(text.replace("`", "").split())


def _files_of(lab: Lab, copy: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the files of a copied lab. A link to a folder of the lab becomes a copy of this folder."""
    folder, root = Folder(copy), copy.resolve()
    names = folder.find("**/*")
    yield from ((name, folder.read_bytes(name)) for name in names)
    for path in sorted(one for one in copy.rglob("*") if one.is_symlink()):
        link, real = path.relative_to(copy).as_posix(), path.resolve()
        if not real.is_relative_to(root):
            raise SpecError(f"{lab.folder / link}: leads out of the lab: replace the link with a copy")
        under = f"{real.relative_to(root).as_posix()}/"
        for name in names:
            if name.startswith(under):
                yield f"{link}/{name.removeprefix(under)}", folder.read_bytes(name)
