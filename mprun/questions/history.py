# SPDX-License-Identifier: Apache-2.0
"""The values of baselines in each commit of a git repository. The repository is only read."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from mprun.errors import SpecError
from mprun.machine.scratch import scratch
from mprun.model.frozen import Frozen
from mprun.questions.baseline import MOST_BYTES, VALUE, BaselineDifference, compare, find, parse, read
from mprun.questions.repository import Repository, open_repository

# The name of the files as they are now, if they differ from the newest commit.
NOT_COMMITTED = "now"
_FORMAT = "%H%x00%h%x00%cs%x00%s"


class PastBaseline(Frozen):
    """A baseline in a commit. name: the short id of the commit. date: as in 2026-01-31. lines: those of the file."""

    name: str
    date: str
    subject: str
    lines: Mapping[str, str]


class Past(Frozen):
    """A baseline and its versions, oldest first.

    name: of the file, from the folder that was asked for. unread: the number of versions that cannot be read.
    """

    name: str
    versions: tuple[PastBaseline, ...]
    unread: int

    def values(self) -> dict[str, list[tuple[float, str] | None]]:
        """Return the number and the unit of each value in each version; None where it is missing."""
        names = dict.fromkeys(name for one in self.versions for name in one.lines if name.startswith(VALUE))
        return {
            name.removeprefix(VALUE): [_number(one.lines.get(name)) for one in self.versions] for name in sorted(names)
        }

    def changes(self) -> Iterator[tuple[PastBaseline, list[BaselineDifference]]]:
        """Yield each version that differs from the one before, newest first."""
        pairs = zip(self.versions[1:], self.versions, strict=False)
        found = [(one, compare(before.lines, one.lines)) for one, before in pairs]
        yield from ((one, differences) for one, differences in reversed(found) if differences)


def _number(text: str | None) -> tuple[float, str] | None:
    if text is None:
        return None
    number, _, unit = text.partition(" ")
    with contextlib.suppress(ValueError):
        return float(number), unit
    return None


def read_past(folder: Path) -> list[Past]:
    """Return the baselines below a folder with their versions. Raises SpecError if there are none, MachineError."""
    paths = find([folder])
    beside = folder.parent if folder.is_file() else folder
    with scratch("mprun-git-") as work:
        # a folder may contain several repositories
        repositories = {parent: open_repository(parent, work) for parent in {path.parent for path in paths}}
        versions = [(path, list(_read_versions(path, repositories[path.parent]))) for path in paths]
    return [
        Past(str(path.relative_to(beside)), tuple(one for one in found if one is not None), found.count(None))
        for path, found in versions
    ]


def _read_versions(path: Path, repository: Repository) -> Iterator[PastBaseline | None]:
    """Yield the versions of a baseline, oldest first; None for a version that cannot be read."""
    name_inside = str(path.parent.resolve().relative_to(repository.top) / path.name)
    log = repository.read("log", "--reverse", f"--format={_FORMAT}", "--", name_inside)
    newest: Mapping[str, str] | None = None
    for line in log.split("\n")[:-1]:
        commit, name, date, subject = line.split("\0")
        try:
            newest = parse(repository.read("cat-file", "blob", f"{commit}:{name_inside}", most=MOST_BYTES), path.name)
            yield PastBaseline(name, date, subject, newest)
        except SpecError:
            yield None
    now = read(path)
    if now != newest:
        yield PastBaseline(NOT_COMMITTED, "", "not committed", now)
