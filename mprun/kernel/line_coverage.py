# SPDX-License-Identifier: Apache-2.0
"""The lines of a kernel that a run executed: `mprun kernel build --profile coverage`.

The compiler leaves notes beside each object file (`.gcno`), and the kernel counts (`profile/coverage.c`). gcov(1) makes
lines of both. The notes and the text of the counted files are kept beside the kernel. Only counters that a run has just
left are read, and never those of a stranger: gcov is not made for hostile files.
"""

from __future__ import annotations

import gzip
import json
import re
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mprun.errors import RunError
from mprun.kernel.addition import COVERED
from mprun.kernel.make import run
from mprun.kernel.store import Kernel
from mprun.machine.scratch import scratch

# The archive with notes and texts in a kernel's folder, and the table of a run.
NOTES = "coverage.zip"
TABLE = "coverage"
_HEAD = re.compile(rb"(\d{1,9}) ([^\n]{1,4096})\n")


def keep_notes(tree: Path, folder: Path) -> None:
    """Keep the compiler's notes and the text of the counted files of a built tree in the folder of its kernel."""
    notes = sorted(note for part in COVERED for note in (tree / part).rglob("*.gcno"))
    with zipfile.ZipFile(folder / NOTES, "w", zipfile.ZIP_DEFLATED) as archive:
        for note in notes:
            for path in (note, note.with_suffix(".c")):
                if path.exists():
                    archive.write(path, path.relative_to(tree))


def tabulate_coverage(kernel: Kernel, counts: bytes) -> Mapping[str, list[Any]]:
    """Return the columns of the table of lines: file, line, function, and how often the line was executed.

    counts: what /proc/mprun_coverage had. Raises RunError if it has another form, or if gcov fails.
    """
    found: dict[tuple[str, int], tuple[str, int]] = {}
    with scratch("mprun-coverage-") as work, zipfile.ZipFile(kernel.directory / NOTES) as archive:
        known = set(archive.namelist())
        names = []
        for number, (path, content) in enumerate(_split(counts)):
            note = _note_of(path, known)
            if note is None:
                raise RunError(f"the counters of lines name {path}, which kernel '{kernel.name}' does not have")
            (work / f"{number}.gcno").write_bytes(archive.read(note))
            (work / f"{number}.gcda").write_bytes(content)
            names.append(f"{number}.gcda")
        run(["gcov", "--json-format", *names], work)
        for name in names:
            for file, line, function, count in _read(work / f"{Path(name).stem}.gcov.json.gz"):
                before = found.get((file, line), (function, 0))
                found[file, line] = (before[0], before[1] + count)
    rows = sorted((file, line, *rest) for (file, line), rest in found.items())
    columns = ("file", "line", "function", "executed")
    return {name: [row[n] for row in rows] for n, name in enumerate(columns)}


def read_text(kernel: Kernel) -> Mapping[str, list[str]]:
    """Return the lines of the counted files by file; empty if the kernel does not count lines."""
    path = kernel.directory / NOTES
    if not path.exists():
        return {}
    with zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if name.endswith(".c")]
        # gcc counts only line feeds
        return {name: archive.read(name).decode(errors="replace").split("\n") for name in names}


def _split(counts: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the path and the content of each file for gcov."""
    at = 0
    while at < len(counts):
        head = _HEAD.match(counts, at)
        if head is None or (end := head.end() + int(head[1])) > len(counts):
            raise RunError("the kernel's counters of lines are damaged")
        yield head[2].decode(errors="replace"), counts[head.end() : end]
        at = end


def _note_of(path: str, known: set[str]) -> str | None:
    """Return the note for the counters of an object file, whose path begins with that of the tree in the build."""
    part = re.search(rf"(?:^|/)((?:{'|'.join(COVERED)})/.*)\.gcda$", path)
    note = f"{part[1]}.gcno" if part else ""
    return note if note in known else None


def _read(path: Path) -> Iterator[tuple[str, int, str, int]]:
    """Yield file, number, function and count of each line in what gcov wrote."""
    for file in json.loads(gzip.decompress(path.read_bytes()))["files"]:
        name = file["file"].removeprefix("./")
        for line in file["lines"]:
            yield name, line["line_number"], line.get("function_name", ""), line["count"]
