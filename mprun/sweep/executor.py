# SPDX-License-Identifier: Apache-2.0
"""Who runs the jobs of a sweep: what an executor is, and keeping all its places at work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from mprun.sweep.worker import Job, Outcome

_POLL_S = 0.5


class Executor(Protocol):
    """Runs jobs at the same time, as many as it has places. Closing it, again too, ends what is
    under way."""

    @property
    def places(self) -> int:
        """How many at one time."""

    def submit(self, name: str, job: Job) -> None:
        """Begin one; called for no more at a time than there are places."""

    def wait(self, seconds: float) -> Iterator[tuple[str, Outcome]]:
        """Those that have ended, after this long at the latest."""

    def close(self) -> None: ...


def run_all(
    executor: Executor, next_job: Callable[[], tuple[str, Job] | None], look: Callable[[], None] = lambda: None
) -> Iterator[tuple[str, Outcome]]:
    """Each job by its name when it has ended, until none is under way and there is no next one.

    next_job: None if nothing is left, or must wait for what is under way. look: called now and then, and at the end,
    with every place taken that can be.
    """
    running = 0
    while True:
        while running < executor.places and (named := next_job()):
            executor.submit(*named)
            running += 1
        look()
        if not running:
            return
        for name, outcome in executor.wait(_POLL_S):
            running -= 1
            yield name, outcome
