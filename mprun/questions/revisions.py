# SPDX-License-Identifier: Apache-2.0
"""The commits between two revisions of a user's git repository."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mprun.errors import SpecError
from mprun.machine import invoking_user
from mprun.machine.cache import cache
from mprun.questions.repository import Repository, open_repository


@dataclass(frozen=True)
class History:
    """The commits between a good and a bad one.

    - good, bad: their full ids.
    - commits: reachable from `bad` and not from `good`, each after its parents.
    """

    repository: Repository
    good: str
    bad: str
    commits: tuple[str, ...]
    parents: Mapping[str, tuple[str, ...]]

    def describe(self, commit: str) -> str:
        """Return the short id and the subject of a commit."""
        return self.repository.read("log", "-1", "--format=%h %s", commit).strip()


def read_history(tree: Path, good: str, bad: str) -> History:
    """Return the commits between two revisions. Raises SpecError for revisions that do not fit, MachineError.

    mprun's folder for the repository is in the cache, and is kept for the next search.
    """
    repository = open_repository(tree, cache("bisect"))
    first, last = (_resolve(repository, revision) for revision in (good, bad))
    lines = repository.read("rev-list", "--topo-order", "--reverse", "--parents", f"{first}..{last}").splitlines()
    found = {words[0]: tuple(words[1:]) for words in map(str.split, lines)}
    if not found:
        raise SpecError(f"there is no commit from {good} to {bad}: exchange --good and --bad?")
    if repository.read("merge-base", first, last).strip() != first:
        raise SpecError(f"{good} is no ancestor of {bad}: name a good commit from which {bad} descends")
    invoking_user.give(repository.own)
    return History(repository, first, last, tuple(found), found)


def _resolve(repository: Repository, revision: str) -> str:
    try:
        words = ("--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
        return repository.read("rev-parse", *words).strip()
    except SpecError:
        raise SpecError(f"{repository.top} has no commit '{revision}'") from None
