# SPDX-License-Identifier: Apache-2.0
"""Wait until a file of a kernel tree, or a file of the user beside it, has been saved."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from mprun.kernel.tree import TreeState, scan

# Reading the states of a whole tree takes 0.3 s of CPU time.
PAUSE_S = 1.2


def states(source: Path, files: Iterable[Path]) -> dict[str, TreeState]:
    """Return the states of a tree's source files and of other files. A missing file has none."""
    found = scan(source) if source.is_dir() else {}
    for path in (source, *files):
        if path.is_file():
            status = path.stat()
            found[str(path.absolute())] = (status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return found


def wait_for_change(
    before: Mapping[str, TreeState],
    look: Callable[[], Mapping[str, TreeState]],
    pause: Callable[[float], None] = time.sleep,
) -> list[str]:
    """Wait until files differ from `before` and have settled. Return their paths, sorted.

    A save, or a checkout of many files, is complete when two looks are equal.
    """
    seen = look()
    while True:
        pause(PAUSE_S)
        now = look()
        if now == seen and now != before:
            return sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
        seen = now
