# SPDX-License-Identifier: Apache-2.0
"""Commits of a user's git repository, and a checkout of our own in which they are taken out one after the other.

The user's repository and work tree are only read.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mprun import invoker
from mprun.cache import cache
from mprun.errors import HostError, SpecError


@dataclass(frozen=True)
class History:
    """The commits between a good and a bad one.

    - top: the repository's work tree.
    - good, bad: their full ids.
    - commits: reachable from `bad` and not from `good`, each after its parents.
    """

    top: Path
    good: str
    bad: str
    commits: tuple[str, ...]
    parents: Mapping[str, tuple[str, ...]]

    def describe(self, commit: str) -> str:
        """Return the short id and the subject of a commit."""
        return git(self.top, "log", "-1", "--format=%h %s", commit).strip()


def read_history(tree: Path, good: str, bad: str) -> History:
    """Return the commits between two revisions. Raises SpecError for revisions that do not fit, HostError."""
    try:
        top = Path(git(tree, "rev-parse", "--show-toplevel").strip())
    except SpecError as error:
        raise SpecError(f"{tree} is no git repository: name a clone with --tree ({error})") from None
    first, last = (_resolve(top, revision) for revision in (good, bad))
    lines = git(top, "rev-list", "--topo-order", "--reverse", "--parents", f"{first}..{last}").splitlines()
    found = {words[0]: tuple(words[1:]) for words in map(str.split, lines)}
    if not found:
        raise SpecError(f"there is no commit from {good} to {bad}: exchange --good and --bad?")
    if git(top, "merge-base", first, last).strip() != first:
        raise SpecError(f"{good} is no ancestor of {bad}: name a good commit from which {bad} descends")
    return History(top, first, last, tuple(found), found)


def _resolve(top: Path, revision: str) -> str:
    try:
        return git(top, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}").strip()
    except SpecError:
        raise SpecError(f"{top} has no commit '{revision}'") from None


@dataclass(frozen=True)
class Checkout:
    """A clone for our use, which shares the objects of the user's repository. It is kept for the next search."""

    path: Path

    def take(self, commit: str) -> None:
        """Check a commit out. Files that are not part of the commit are removed."""
        git(self.path, "-c", "core.hooksPath=/dev/null", "checkout", "--quiet", "--force", "--detach", commit)
        git(self.path, "clean", "-ffdxq")

    def remove(self) -> None:
        """Remove the clone."""
        shutil.rmtree(self.path)


def checkout_of(history: History) -> Checkout:
    """Return the checkout for a user's repository. It is made if it does not exist."""
    name = hashlib.sha256(str(history.top).encode()).hexdigest()[:16]
    path = cache("bisect") / name
    if not (path / ".git" / "HEAD").is_file():
        shutil.rmtree(path, ignore_errors=True)
        invoker.make_folder(path.parent)
        git(path.parent, "clone", "--quiet", "--shared", "--no-checkout", str(history.top), name)
        invoker.give(path)
    return Checkout(path)


def git(folder: Path, *words: str) -> str:
    """Return the output of git. Raises SpecError with its last line, HostError if git is not installed."""
    if not shutil.which("git"):
        raise HostError("git is not installed: apt-get install git")
    # a git hook or alias that calls mprun sets GIT_DIR and others
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    done = subprocess.run(
        ["git", "-C", str(folder), *words],
        capture_output=True,
        text=True,
        errors="replace",
        env={**environment, "LC_ALL": "C"},
    )
    if done.returncode:
        said = done.stderr.strip().splitlines()
        raise SpecError(said[-1] if said else f"git {words[0]}: status {done.returncode}")
    return done.stdout
