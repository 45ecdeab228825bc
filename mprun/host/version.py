# SPDX-License-Identifier: Apache-2.0
"""The identity of this mprun: a digest of its code, since a version number does not show changes between versions.

Kernels, built programs and installed tools have their own versions and digests.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any


@cache
def code_digest() -> str:
    """Return a digest of all Python files of the package: 12 hexadecimal digits of SHA-256."""
    total = hashlib.sha256()
    root = Path(__file__).parents[1]
    for path in sorted(root.rglob("*.py")):
        total.update(f"{path.relative_to(root)}\n".encode() + path.read_bytes())
    return total.hexdigest()[:12]


def code_of(environment: Mapping[str, Any]) -> str:
    """Return the digest of the mprun that made a run, from the run's environment. Older runs do not record it."""
    return str(environment.get("mprun", "not recorded"))
