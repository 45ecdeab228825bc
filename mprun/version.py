# SPDX-License-Identifier: Apache-2.0
"""Which mprun this is: a digest of its code, as a version's number does not tell of changes between two.

Kernels, built programs and installed tools have versions and digests of their own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any


@cache
def code_digest() -> str:
    """Of all Python files of the package, 12 hexadecimal digits."""
    total = hashlib.sha256()
    root = Path(__file__).parent
    for path in sorted(root.rglob("*.py")):
        total.update(f"{path.relative_to(root)}\n".encode() + path.read_bytes())
    return total.hexdigest()[:12]


def code_of(environment: Mapping[str, Any]) -> str:
    """The digest of the mprun that made a run, by its environment; older runs do not know it."""
    return str(environment.get("mprun", "not recorded"))
