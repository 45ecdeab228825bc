# SPDX-License-Identifier: Apache-2.0
"""Failures that are known and not the kernel's that is tested: a list with a reason for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import yaml

LIST = Path(__file__).parent / "known.yaml"


@dataclass(frozen=True)
class Known:
    """subtest: a pattern of a name (glob(7)). scheduler: fails only under this one."""

    script: str
    subtest: str
    reason: str
    scheduler: str | None = None


def read_known(path: Path = LIST) -> tuple[Known, ...]:
    """The list as it is in the package."""
    return tuple(Known(**entry) for entry in yaml.safe_load(path.read_text()) or ())


def find_known(known: Sequence[Known], script: str, subtest: str, scheduler: str | None) -> Known | None:
    """The entry that a failure falls under."""
    for entry in known:
        is_ours = entry.script == script and entry.scheduler in (None, scheduler)
        if is_ours and fnmatchcase(subtest, entry.subtest):
            return entry
    return None
