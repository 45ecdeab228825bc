# SPDX-License-Identifier: Apache-2.0
"""A run of a sweep, and the process that makes one run after the other.

A worker is long-lived, so that Python and mprun are loaded once. `main` reads pickled jobs from standard input and
answers each on standard output. A worker ends with its parent (`local.py`), together with the current run.
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
from dataclasses import field
from pathlib import Path
from typing import BinaryIO, Literal

from mprun.errors import MprunError, explain_machine
from mprun.model.engine_name import EngineChoice
from mprun.model.frozen import Frozen
from mprun.model.permission import Consent
from mprun.model.run_summary import Summary
from mprun.model.scalar import Scalar
from mprun.model.spec import Spec
from mprun.runs import runner
from mprun.runs.place import choose_place
from mprun.storage.run_directory import RunDirectory

# The runs whose captures are kept: all, none, or those that did not pass.
Keep = Literal["pcaps", "none", "failed"]


class Job(Frozen):
    """A run and its directory, which is empty.

    - inputs: files to keep beside the resolved ones, text by name.
    - parameters: the values of the files' parameters and axes.
    """

    spec: Spec
    warnings: tuple[str, ...]
    engine: EngineChoice
    kernel: str
    directory: Path
    keep: Keep
    consent: Consent
    inputs: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, Scalar] = field(default_factory=dict)


class RunOutcome(Frozen):
    """The end of a run. wall_s: its real time. simulation_s: the engine's part of this time."""

    status: str
    error: str
    wall_s: float
    simulation_s: float


def perform(job: Job) -> RunOutcome:
    """Run a job. An error that stops it is in the outcome, and in the summary of its directory."""
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
        summary = _no_summary(job, explained or f"mprun failed: {str(error) or type(error).__name__}")
    try:
        if not run.has("summary.json"):
            run.write_summary(summary)
    except OSError as error:
        # the caller writes the summary, or reports that it cannot
        told = "; ".join(summary.errors) or str(error)
        return RunOutcome("error", told, time.monotonic() - started, 0.0)
    if job.keep == "none" or (job.keep == "failed" and summary.status == "passed"):
        run.drop_captures()
    simulation_s = run.wall_s()
    return RunOutcome(summary.status, "; ".join(summary.errors), time.monotonic() - started, simulation_s)


def _run(job: Job, run: RunDirectory) -> Summary:
    place = choose_place(job.engine, job.kernel)
    request = runner.RunRequest(job.spec, place, job.warnings, job.inputs, None, job.consent, job.parameters)
    _, summary = runner.run_into(lambda digest: run, request, lambda text, done, note: None)
    return summary


def _no_summary(job: Job, error: str) -> Summary:
    return Summary(
        status="error",
        complete=False,
        seed=job.spec.experiment.seed,
        metrics={},
        expectations=(),
        errors=(error,),
        failures=(),
        warnings=job.warnings,
        engine=job.engine,
    )


def settle(job: Job, outcome: RunOutcome) -> Summary:
    """Return the summary of a job that has ended. If its worker died before it wrote one, write it now."""
    run = RunDirectory(job.directory)
    if not run.has("summary.json"):
        run.write_summary(_no_summary(job, outcome.error))
    return run.summary()


def serve(jobs: BinaryIO, answers: BinaryIO) -> None:
    """Run jobs until there are no more."""
    while True:
        try:
            job = pickle.load(jobs)
        except EOFError:
            return
        pickle.dump(perform(job), answers)
        answers.flush()


def main() -> None:
    # not the user's interruption, which keeps finished runs: the current run ends at once
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))
    # output of a library must not get between the answers
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    # the receiver of the answers may be gone
    with contextlib.suppress(BrokenPipeError):
        serve(sys.stdin.buffer, answers)
