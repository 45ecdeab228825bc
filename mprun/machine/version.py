# SPDX-License-Identifier: Apache-2.0
"""The identity of this mprun, and the numbers of versions.

The identity is a digest of the code, since a version number does not show changes between versions. Kernels, built
programs and installed tools have their own versions and digests.
"""

from __future__ import annotations

import hashlib
import re
from functools import cache
from glob import glob
from pathlib import Path


@cache
def code_digest() -> str:
    """Return a digest of all Python files of the package: the first 12 hexadecimal digits of a SHA-256."""
    total = hashlib.sha256()
    root = Path(__file__).parents[1]
    for name in sorted(glob("**/*.py", root_dir=root, recursive=True)):
        with open(f"{root}/{name}", "rb") as file:
            total.update(f"{name}\n".encode() + file.read())
    return total.hexdigest()[:12]


def version_in(text: str) -> tuple[int, int] | None:
    """Return the first version in a name such as `linux-source-6.12.tar.xz` or `7.3.4-mprun`; None if it has none."""
    found = re.search(r"(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else None
