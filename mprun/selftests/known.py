# SPDX-License-Identifier: Apache-2.0
"""Known failures that are not caused by the tested kernel, with a reason for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import yaml

LIST = Path(__file__).parent / "known.yaml"


@dataclass(frozen=True)
class Known:
    """A known failure. subtest: a pattern of names (glob(7)). scheduler: the only scheduler under which it fails."""

    script: str
    subtest: str
    reason: str
    scheduler: str | None = None


def read_known(path: Path = LIST) -> tuple[Known, ...]:
    """Return the list of known failures."""
    return tuple(Known(**entry) for entry in yaml.safe_load(path.read_text()) or ())


def find_known(known: Sequence[Known], script: str, subtest: str, scheduler: str | None) -> Known | None:
    """Return the entry that matches a failure; None if there is none."""
    for entry in known:
        is_ours = entry.script == script and entry.scheduler in (None, scheduler)
        if is_ours and fnmatchcase(subtest, entry.subtest):
            return entry
    return None
