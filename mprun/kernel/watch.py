# SPDX-License-Identifier: Apache-2.0
"""Wait until a file of a kernel tree, or a file of the user beside it, has been saved."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from watchfiles import watch

from mprun.errors import MachineError
from mprun.kernel.tree import TreeState, scan

PAUSE_S = 1.2


class Watched:
    """A tree or a tarball, and other files. The kernel of this machine reports changes in a tree (inotify(7)).

    Reading the states of a whole tree takes 0.3 s of CPU time, so the tree is read again only after a report.
    """

    def __init__(self, source: Path, files: Iterable[Path]) -> None:
        self._tree = source if source.is_dir() else None
        self._files = (source, *files)
        self._reports: Iterator[object] | None = None
        self._known: Mapping[str, TreeState] | None = None

    def look(self) -> dict[str, TreeState]:
        """Return the states of the tree's source files and of other files. A missing file has none."""
        if self._known is None:
            self._known = scan(self._tree) if self._tree is not None else {}
        return {**self._known, **_states_of(self._files)}

    def pause(self, pause_s: float) -> None:
        """Wait for a time, or until the tree has changed and has been left alone for a moment."""
        if self._tree is None:
            time.sleep(pause_s)
        elif self._reports is None:
            # what was saved before the first report is found by reading the tree once more
            self._reports = _report_changes(self._tree, pause_s)
            next(self._reports)
            self._known = None
        elif next(self._reports):
            self._known = None


def _report_changes(tree: Path, pause_s: float) -> Iterator[object]:
    """Yield a set of changes in a tree, which is empty after each pause without a change."""
    try:
        yield from watch(
            tree,
            watch_filter=None,
            rust_timeout=round(pause_s * 1000),
            yield_on_timeout=True,
            ignore_permission_denied=True,
        )
    except OSError as error:
        raise MachineError(
            f"{tree} cannot be watched: {error}; if it has too many folders, raise the limit: "
            "sysctl fs.inotify.max_user_watches=1000000"
        ) from error


def _states_of(files: Iterable[Path]) -> dict[str, TreeState]:
    found = {}
    for path in files:
        if path.is_file():
            status = path.stat()
            found[str(path.absolute())] = (status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return found


def wait_for_change(
    before: Mapping[str, TreeState],
    look: Callable[[], Mapping[str, TreeState]],
    pause: Callable[[float], None],
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
