# SPDX-License-Identifier: Apache-2.0
"""Who runs the jobs of a sweep: what an executor is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from mprun.sweep.worker import Job, Outcome


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
