# SPDX-License-Identifier: Apache-2.0
"""Progress on standard error: a bar on a terminal, otherwise a line at each new phase and at growing intervals."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Self

from mprun.cli.prose import terminal_width
from mprun.safety.text import printable

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


# In a log: the time until the first line of progress, the growth factor of the intervals, and the longest interval.
FIRST_S, GROWTH, MOST_S = 10.0, 1.5, 120.0
# A terminal shows no bar before, since most work is done by then, and the import of rich takes a tenth of a short run.
BAR_AFTER_S = 1.0
BAR_WIDTH = 30
# The letters of a phase, such as the names of many flows, beside which a bar and a note have room.
MOST_LETTERS = 34
_TEXTS = ("{task.description}", "[dim]{task.fields[note]}")


class Pace:
    """The times at which a log gets a line of progress. The intervals grow, so that an hour has about forty lines."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._gap_s = FIRST_S
        self._next_s = clock() + FIRST_S

    def is_due(self) -> bool:
        """Return True if a line is due. The next line is then due later."""
        now_s = self._clock()
        if now_s < self._next_s:
            return False
        self._gap_s = min(self._gap_s * GROWTH, MOST_S)
        self._next_s = now_s + self._gap_s
        return True


class Live:
    """A progress display that is on the terminal inside the `with` block, if there is a terminal."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress

    def __enter__(self) -> Self:
        if self._progress is not None:
            self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._progress is not None:
            self._progress.stop()


class Bar(Live):
    """The phase and the progress of a long operation. It is quiet while a person uses the terminal."""

    def __init__(self, quiet: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(None)
        self._is_terminal = sys.stderr.isatty()
        self._start_s = clock()
        self._text = ""
        self._began = (0.0, 0.0)
        self._clock = clock
        self._pace = Pace(clock)
        self._task: TaskID | None = None
        self._quiet = quiet

    def show(self, text: str, done: float, note: str = "") -> None:
        """Show a phase. done: from 0 to 1. note: a text next to the bar."""
        if self._quiet:
            return
        if not self._is_terminal:
            self._log(text, done, note)
            return
        if self._clock() - self._start_s < BAR_AFTER_S:
            return
        import textwrap

        if self._progress is None:
            self._progress = make_progress(*_TEXTS, is_timed=True)
            self._progress.start()
        if self._task is None:
            # hidden, as it would begin with 0 %
            self._task = self._progress.add_task(text, total=None, visible=False, note=note)
        # the end of a transfer with a size is not known before: until there is a share, the bar moves to and fro
        total = 1.0 if done else None
        text = textwrap.shorten(text, MOST_LETTERS, placeholder=" …")
        self._progress.update(self._task, total=total, completed=done, description=text, visible=True, note=note)

    def _log(self, text: str, done: float, note: str) -> None:
        now_s = self._clock()
        if text != self._text:
            self._text, self._began, self._pace = text, (now_s, done), Pace(self._clock)
            print(f"{text} ...", file=sys.stderr, flush=True)
        elif self._pace.is_due():
            then_s, before = self._began
            rest = max(0, 1 - done) / (done - before) if done > before else None
            left = [] if rest is None else [f"about {say_time(rest * (now_s - then_s))} left"]
            print(f"{text}: {', '.join([note or f'{done:.0%}', *left])}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def passing(text: str) -> Iterator[None]:
    """Show a line on the terminal, if there is one, inside the `with` block. It needs no import, so it is early."""
    line = f"{printable(text)} ..."[: terminal_width() - 1] if sys.stderr.isatty() else ""
    if line:
        print(line, end="", file=sys.stderr, flush=True)
    try:
        yield
    finally:
        if line:
            print(f"\r{' ' * len(line)}\r", end="", file=sys.stderr, flush=True)


def say_time(seconds: float) -> str:
    """Return `40 s`, `12 min` or `3.5 h`, with no more digits than are known."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def make_progress(*texts: str, is_timed: bool = False) -> Progress:
    """Return a bar on standard error with texts behind it. is_timed: with the share that is done, and the time left."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns: list[ProgressColumn] = [BarColumn(bar_width=BAR_WIDTH), *map(TextColumn, texts)]
    if is_timed:
        columns = [columns[0], TaskProgressColumn(), *columns[1:], TimeRemainingColumn(compact=True)]
    return Progress(*columns, console=Console(stderr=True), transient=True)
