# SPDX-License-Identifier: Apache-2.0
"""The identity of this mprun: a digest of its code, since a version number does not show changes between versions.

Kernels, built programs and installed tools have their own versions and digests.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path


@cache
def code_digest() -> str:
    """Return a digest of all Python files of the package: the first 12 hexadecimal digits of a SHA-256."""
    total = hashlib.sha256()
    root = Path(__file__).parents[1]
    for path in sorted(root.rglob("*.py")):
        total.update(f"{path.relative_to(root)}\n".encode() + path.read_bytes())
    return total.hexdigest()[:12]
