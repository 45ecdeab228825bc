# SPDX-License-Identifier: Apache-2.0
"""Where the folders are that come with mprun beside its code: `labs`, `schemas` and a profile of Wireshark.

A checkout has the first two at its top; building a package puts them into it (`setup.py`). What is in a lab is for
`mprun.lab.file`: a shell that completes a name asks here, and waits.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from mprun.errors import SpecError

_PACKAGE = Path(__file__).parent
# Columns, colours and buttons for MPTCP (wireshark(1), configuration profiles).
PROFILE = _PACKAGE / "wireshark" / "mptcp"


def find_shipped(name: str) -> Path:
    """A folder by its name; it does not exist where neither a checkout nor a package has it."""
    inside = _PACKAGE / name
    return inside if inside.is_dir() else _PACKAGE.parent / name


def find_labs() -> Mapping[str, Path]:
    """Number -> folder of every lab in this directory's `labs`, or else of those that come with mprun. Raises SpecError
    where there are none."""
    for folder in (Path("labs"), find_shipped("labs")):
        labs = {path.parent.name.split("_")[0]: path.parent for path in sorted(folder.glob("*/lab.yaml"))}
        if labs:
            return labs
    raise SpecError("no labs here: change into a checkout of mprun")
