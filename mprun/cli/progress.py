# SPDX-License-Identifier: Apache-2.0
"""Progress on standard error: a bar on a terminal; elsewhere a line when the phase changes."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class Live:
    """Stands on the terminal while something goes on, if there is one."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress

    def __enter__(self) -> Self:
        if self._progress is not None:
            self._progress.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if self._progress is not None:
            self._progress.stop()


class Bar(Live):
    """Shows what is going on and how far it is; quiet while a person has the terminal."""

    def __init__(self, quiet: bool = False) -> None:
        super().__init__(_make_progress() if sys.stderr.isatty() and not quiet else None)
        self._text = ""
        self._task: TaskID | None = None
        self._quiet = quiet

    def show(self, text: str, done: float, note: str = "") -> None:
        """done: from 0 to 1; note: said beside the bar."""
        if self._quiet:
            return
        if self._progress is None:
            if text != self._text:
                print(f"{text} ...", file=sys.stderr, flush=True)
            self._text = text
            return
        if self._task is None:
            self._task = self._progress.add_task(text, total=1.0, note=note)
        self._progress.update(self._task, completed=done, description=text, note=note)


def _make_progress() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    return Progress(
        BarColumn(bar_width=30),
        TaskProgressColumn(),
        TextColumn("{task.description}"),
        TextColumn("[dim]{task.fields[note]}"),
        TimeRemainingColumn(compact=True),
        console=Console(stderr=True),
        transient=True,
    )
