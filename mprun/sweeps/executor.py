# SPDX-License-Identifier: Apache-2.0
"""The interface of executors, which run the jobs of a sweep, and a loop that keeps all their slots busy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Protocol

from mprun.runs.runner import MOST_DISTURBED
from mprun.safety.folder import Folder
from mprun.storage.run_directory import RunDirectory
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
    executor: Executor,
    next_job: Callable[[], tuple[str, Job] | None],
    look: Callable[[], None],
    say_disturbed: Callable[[str, str], None] = lambda name, path: None,
) -> Iterator[tuple[str, Job, RunOutcome]]:
    """Yield each job with its name when it has ended, until no job is left.

    - next_job: returns None if no job is left, or if the next one must wait for those in progress.
    - look: called from time to time and at the end, when as many slots as possible are busy.
    - say_disturbed: gets the name of a job that is done again, MOST_DISTURBED times at most, and a file that changed.
    """
    running: dict[str, Job] = {}
    disturbed: list[tuple[str, Job]] = []
    counts = Counter[str]()
    while True:
        while len(running) < executor.slots and (named := disturbed.pop() if disturbed else next_job()):
            executor.submit(*named)
            running |= [named]
        look()
        if not running:
            return
        for name, outcome in executor.wait(_POLL_S):
            job = running.pop(name)
            paths = () if outcome.status == "error" else RunDirectory(job.directory).changed_files().paths
            if paths and counts[name] < MOST_DISTURBED:
                counts[name] += 1
                say_disturbed(name, paths[0])
                _empty(job)
                disturbed.append((name, job))
            else:
                yield name, job, outcome


def _empty(job: Job) -> None:
    """Remove what a run has written, so that its directory is empty again."""
    folder = Folder(job.directory.parent)
    folder.remove_tree(job.directory.name)
    folder.make(job.directory.name)
