# SPDX-License-Identifier: Apache-2.0
"""Known failures that are not caused by the tested kernel, with a reason for each."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import yaml

from mprun.errors import SpecError
from mprun.kernel.addition import read_text
from mprun.model.frozen import Frozen

LIST = Path(__file__).parent / "known.yaml"
_FORM = "write entries as in '- {script: diag, subtest: NAME, reason: WHY}'"


class Known(Frozen):
    """A known failure. subtest: a pattern of names (glob(7)). scheduler: the only scheduler under which it fails."""

    script: str
    subtest: str
    reason: str
    scheduler: str | None = None

    def is_of(self, script: str, scheduler: str | None) -> bool:
        """Return whether it is about a script that runs with this scheduler."""
        return self.script == script and self.scheduler in (None, scheduler)


_NEEDED, _ALLOWED = {"script", "subtest", "reason"}, {"script", "subtest", "reason", "scheduler"}


def read_known(path: Path = LIST) -> tuple[Known, ...]:
    """Return a list of known failures.

    Raises MachineError if the file cannot be read, SpecError for a problem in it.
    """
    try:
        entries = yaml.safe_load(read_text(path)) or []
    except yaml.YAMLError as error:
        raise SpecError(f"{path} is no YAML: {' '.join(str(error).split())}") from error
    if not isinstance(entries, list):
        raise SpecError(f"{path}: is no list: {_FORM}")
    return tuple(_known(path, number, entry) for number, entry in enumerate(entries, 1))


def _known(path: Path, number: int, entry: object) -> Known:
    where = f"{path}: entry {number}"
    if not isinstance(entry, dict) or not all(isinstance(text, str) and text for text in entry.values()):
        raise SpecError(f"{where}: {_FORM}")
    if missing := _NEEDED - entry.keys():
        raise SpecError(f"{where}: has no '{min(missing)}': {_FORM}")
    if unknown := entry.keys() - _ALLOWED:
        raise SpecError(f"{where}: unknown key '{min(map(str, unknown))}'; keys: {', '.join(sorted(_ALLOWED))}")
    return Known(**entry)


def find_known(known: Sequence[Known], script: str, subtest: str, scheduler: str | None) -> Known | None:
    """Return the entry that matches a failure; None if there is none."""
    mine = (entry for entry in known if entry.is_of(script, scheduler))
    return next((entry for entry in mine if fnmatchcase(subtest, entry.subtest)), None)
