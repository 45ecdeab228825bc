# SPDX-License-Identifier: Apache-2.0
"""Progress of a sweep on standard error: a bar on a terminal, otherwise a line at growing intervals."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from mprun.cli.progress import Live, Pace, say_time

if TYPE_CHECKING:
    from rich.progress import Progress

    from mprun.sweeps.execution import SweepProgress

MOST_RUNNING = 3
BAR_WIDTH = 30


class SweepBar(Live):
    """The number of finished runs, the running ones, and the remaining time."""

    def __init__(self) -> None:
        super().__init__(_make_progress() if sys.stderr.isatty() else None)
        self._pace = Pace()
        if self._progress is not None:
            self._task = self._progress.add_task("", total=None, left="", note="")

    def show(self, state: SweepProgress) -> None:
        left = "" if state.left_s is None else f"about {say_time(state.left_s)} left"
        bad = [f"{count} {word}" for count, word in ((state.failed, "failed"), (state.errors, "errors")) if count]
        if self._progress is not None:
            more = len(state.running) - MOST_RUNNING
            note = ", ".join([*state.running[:MOST_RUNNING], *([f"{more} more"] if more > 0 else [])])
            text = ", ".join([f"{state.done} of {state.total} runs", *bad])
            # the short texts matter most, so the list of running cells gets only the remaining room
            room = self._progress.console.width - BAR_WIDTH - len(text) - len(left) - 4
            note = f"{note[: max(0, room - 1)]}…" if len(note) > room else note
            self._progress.update(
                self._task, completed=state.done, total=state.total, description=text, left=left, note=note
            )
        elif self._pace.is_due():
            words = [f"{state.done} of {state.total} runs", *bad, *([left] if left else [])]
            print(", ".join(words), file=sys.stderr, flush=True)

    def say(self, text: str) -> None:
        """Print a line that stays."""
        if self._progress is not None:
            self._progress.console.print(text, markup=False, highlight=False)
        else:
            print(text, file=sys.stderr, flush=True)


def _make_progress() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    return Progress(
        BarColumn(bar_width=BAR_WIDTH),
        TextColumn("{task.description}"),
        TextColumn("{task.fields[left]}"),
        TextColumn("[dim]{task.fields[note]}"),
        console=Console(stderr=True),
        transient=True,
    )
