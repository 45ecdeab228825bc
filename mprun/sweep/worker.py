# SPDX-License-Identifier: Apache-2.0
"""One run of a sweep, and the process that makes one after the other.

A worker is long-lived, so that Python and mprun are loaded once: `main` takes pickled jobs
from standard input and answers each on standard output. It ends with its parent (`local.py`), and with it the run
under way.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import sys
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Literal

from mprun import runner
from mprun.errors import MprunError, explain_machine
from mprun.model.engine import EngineChoice
from mprun.model.permission import Consent
from mprun.model.spec import Spec
from mprun.place import choose_place
from mprun.rundir import RunDirectory

# Whose captures are kept: of all runs, of none, of those that did not pass.
Keep = Literal["pcaps", "none", "failed"]


@dataclass(frozen=True)
class Job:
    """A run, and where it goes: an empty directory. inputs: files to keep beside the resolved ones, text by name."""

    spec: Spec
    warnings: tuple[str, ...]
    engine: EngineChoice
    kernel: str
    directory: Path
    keep: Keep
    consent: Consent
    inputs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """How a run ended. wall_s: real time of it; simulation_s: of that, the time that the engine took."""

    status: str
    error: str
    wall_s: float
    simulation_s: float


def perform(job: Job) -> Outcome:
    """Run it. What keeps it from its end is the outcome's error, and in the directory's summary."""
    started = time.monotonic()
    run = RunDirectory.lay_out(job.directory)
    try:
        summary = _run(job, run)
    except MprunError as error:
        summary = _no_summary(job, str(error))
    except Exception as error:
        explained = explain_machine(error)
        if explained is None:
            traceback.print_exc()
        summary = _no_summary(job, explained or f"mprun failed: {error or type(error).__name__}")
    try:
        if not run.has("summary.json"):
            run.write("summary.json", summary)
    except OSError as error:
        # who asked for the run writes it, or says so
        told = "; ".join(summary["errors"]) or str(error)
        return Outcome("error", told, time.monotonic() - started, 0.0)
    if job.keep == "none" or (job.keep == "failed" and summary["status"] == "passed"):
        run.drop_captures()
    simulation_s = run.read("wall.json")[-1]["wall_s"] if run.has("wall.json") else 0.0
    return Outcome(summary["status"], "; ".join(summary["errors"]), time.monotonic() - started, simulation_s)


def _run(job: Job, run: RunDirectory) -> dict[str, Any]:
    place = choose_place(job.engine, job.kernel)
    request = runner.Request(job.spec, place, job.warnings, job.inputs, consent=job.consent)
    _, summary = runner.run_into(lambda digest: run, request, lambda text, done, note: None)
    return summary


def _no_summary(job: Job, error: str) -> dict[str, Any]:
    """That of a run that did not come to one."""
    return {
        "status": "error",
        "engine": job.engine,
        "complete": False,
        "seed": job.spec.experiment.seed,
        "metrics": {},
        "expectations": [],
        "errors": [error],
        "failures": [],
        "warnings": list(job.warnings),
    }


def settle(job: Job, outcome: Outcome) -> dict[str, Any]:
    """The summary of a job that has ended; where its worker died before it wrote one, it is written now."""
    run = RunDirectory(job.directory)
    if not run.has("summary.json"):
        run.write("summary.json", _no_summary(job, outcome.error))
    return dict(run.read("summary.json"))


def serve(jobs: BinaryIO, answers: BinaryIO) -> None:
    """Jobs until there are no more."""
    while True:
        try:
            job = pickle.load(jobs)
        except EOFError:
            return
        pickle.dump(perform(job), answers)
        answers.flush()


def main() -> None:
    # not the interruption of a user, who wants to keep what there is: the run under way ends at once
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))
    # what a library prints must not stand among the answers
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    # nobody may be left to wait for an answer
    with contextlib.suppress(BrokenPipeError):
        serve(sys.stdin.buffer, answers)
