# SPDX-License-Identifier: Apache-2.0
"""The interface of executors, which run the jobs of a sweep, and a loop that keeps all their slots busy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from mprun.sweeps.worker import Job, RunOutcome

_POLL_S = 0.5


class Executor(Protocol):
    """Runs several jobs at the same time, up to its number of slots.

    To close it ends the jobs in progress. It may be closed more than once.
    """

    @property
    def slots(self) -> int:
        """The number of jobs at a time."""

    def submit(self, name: str, job: Job) -> None:
        """Start a job. The caller starts no more jobs at a time than there are slots."""

    def wait(self, seconds: float) -> Iterator[tuple[str, RunOutcome]]:
        """Yield the jobs that have ended, after this time at the latest."""

    def close(self) -> None: ...


def run_all(
    executor: Executor, next_job: Callable[[], tuple[str, Job] | None], look: Callable[[], None] = lambda: None
) -> Iterator[tuple[str, RunOutcome]]:
    """Yield each job by its name when it has ended, until no job is left.

    next_job: returns None if no job is left, or if the next one must wait for those in progress. look: called from time
    to time and at the end, when as many slots as possible are busy.
    """
    running = 0
    while True:
        while running < executor.slots and (named := next_job()):
            executor.submit(*named)
            running += 1
        look()
        if not running:
            return
        for name, outcome in executor.wait(_POLL_S):
            running -= 1
            yield name, outcome
