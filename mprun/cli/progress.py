# SPDX-License-Identifier: Apache-2.0
"""Progress on standard error: a bar on a terminal; elsewhere a line when the phase changes, and now and then."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


# In a log, when first something is said of what goes on, by how much longer it is until the next time, and the most.
FIRST_S, GROWTH, MOST_S = 10.0, 1.5, 120.0


class Pace:
    """When a log is told how far something is: ever more seldom, so that an hour is some forty lines."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._gap_s = FIRST_S
        self._next_s = clock() + FIRST_S

    def is_due(self) -> bool:
        """Whether it is time; if so, the next time is later."""
        now_s = self._clock()
        if now_s < self._next_s:
            return False
        self._gap_s = min(self._gap_s * GROWTH, MOST_S)
        self._next_s = now_s + self._gap_s
        return True


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

    def __init__(self, quiet: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(_make_progress() if sys.stderr.isatty() and not quiet else None)
        self._text = ""
        self._began = (0.0, 0.0)
        self._clock = clock
        self._pace = Pace(clock)
        self._task: TaskID | None = None
        self._quiet = quiet

    def show(self, text: str, done: float, note: str = "") -> None:
        """done: from 0 to 1; note: said beside the bar."""
        if self._quiet:
            return
        if self._progress is None:
            self._log(text, done, note)
            return
        if self._task is None:
            self._task = self._progress.add_task(text, total=1.0, note=note)
        self._progress.update(self._task, completed=done, description=text, note=note)

    def _log(self, text: str, done: float, note: str) -> None:
        now_s = self._clock()
        if text != self._text:
            self._text, self._began, self._pace = text, (now_s, done), Pace(self._clock)
            print(f"{text} ...", file=sys.stderr, flush=True)
        elif self._pace.is_due():
            then_s, before = self._began
            left = [f"about {say_time((1 - done) * (now_s - then_s) / (done - before))} left"] if done > before else []
            print(f"{text}: {', '.join([note or f'{done:.0%}', *left])}", file=sys.stderr, flush=True)


def say_time(seconds: float) -> str:
    """`40 s`, `12 min`, `3.5 h`: no more digits than are known."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


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
