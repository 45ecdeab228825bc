# SPDX-License-Identifier: Apache-2.0
"""The loop that does all jobs: a run during which files of this machine changed is made again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mprun.runs.runner import MOST_DISTURBED
from mprun.sweeps.executor import run_all
from mprun.sweeps.worker import Job, RunOutcome

CHANGED = '{"paths": ["/usr/lib/libc.so.6"], "problem": ""}'


@dataclass
class Executor:
    """Does one job at a time. disturbed: the number of attempts that a change disturbs. status: of each run."""

    disturbed: int
    status: str = "passed"
    slots: int = 1
    submitted: list[tuple[str, Path]] = field(default_factory=list)

    def submit(self, name: str, job: Job) -> None:
        assert list(job.directory.iterdir()) == []
        (job.directory / "summary.json").write_text("{}")
        if len(self.submitted) < self.disturbed:
            (job.directory / "changed.json").write_text(CHANGED)
        self.submitted.append((name, job.directory))

    def wait(self, seconds: float) -> Iterator[tuple[str, RunOutcome]]:
        yield self.submitted[-1][0], RunOutcome(self.status, "", 0.0, 0.0)

    def close(self) -> None:
        pass


def do(executor: Executor, directory: Path) -> tuple[list[str], list[tuple[str, str]]]:
    """Do one job. Return the names of the jobs that ended, and what was said of disturbed ones."""
    directory.mkdir()
    job: Any = SimpleNamespace(directory=directory)
    jobs, said = [("it", job)], list[tuple[str, str]]()
    ended = run_all(executor, lambda: jobs.pop() if jobs else None, lambda: None, lambda *words: said.append(words))
    return [name for name, _, _ in ended], said


@pytest.mark.parametrize(("disturbed", "attempts"), [(0, 1), (1, 2), (MOST_DISTURBED + 5, MOST_DISTURBED + 1)])
def test_a_disturbed_run_is_made_again_in_an_empty_directory(disturbed: int, attempts: int, tmp_path: Path) -> None:
    executor = Executor(disturbed)
    ended, said = do(executor, tmp_path / "run")
    assert ended == ["it"]
    assert executor.submitted == [("it", tmp_path / "run")] * attempts
    assert said == [("it", "/usr/lib/libc.so.6")] * (attempts - 1)
    assert (tmp_path / "run" / "changed.json").exists() == (disturbed > MOST_DISTURBED)


def test_an_error_is_left_to_the_caller(tmp_path: Path) -> None:
    executor = Executor(1, "error")
    assert do(executor, tmp_path / "run") == (["it"], [])
    assert len(executor.submitted) == 1
