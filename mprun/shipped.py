# SPDX-License-Identifier: Apache-2.0
"""Where the folders are that come with mprun beside its code: `labs` and `schemas`.

A checkout has them at its top; building a package puts them into it (`setup.py`).
"""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).parent


def find_shipped(name: str) -> Path:
    """A folder by its name; it does not exist where neither a checkout nor a package has it."""
    inside = _PACKAGE / name
    return inside if inside.is_dir() else _PACKAGE.parent / name
