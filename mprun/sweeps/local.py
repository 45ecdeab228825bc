# SPDX-License-Identifier: Apache-2.0
"""Workers on this machine, one process each."""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from mprun.engines.agent_process import STOP_S, die_with
from mprun.sweeps.worker import Job, RunOutcome


@dataclass
class _Worker:
    process: subprocess.Popen[bytes]
    name: str | None = None
    started: float = 0.0


class LocalExecutor:
    """Workers, one for each concurrent job. A worker that dies is replaced, and its run ends with an error."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self._workers: list[_Worker] = []

    def submit(self, name: str, job: Job) -> None:
        worker = next((worker for worker in self._workers if worker.name is None), None)
        if worker is None:
            assert len(self._workers) < self.slots
            worker = _Worker(_start())
            self._workers.append(worker)
        worker.name, worker.started = name, time.monotonic()
        assert worker.process.stdin is not None
        # `wait` finds a worker that has died meanwhile
        with contextlib.suppress(BrokenPipeError):
            pickle.dump(job, worker.process.stdin)
            worker.process.stdin.flush()

    def wait(self, seconds: float) -> Iterator[tuple[str, RunOutcome]]:
        busy = {worker.process.stdout: worker for worker in self._workers if worker.name is not None}
        ready, _, _ = select.select([stream for stream in busy if stream], [], [], seconds)
        for stream in ready:
            worker = busy[stream]
            name, worker.name = worker.name, None
            assert name is not None
            try:
                outcome: RunOutcome = pickle.load(stream)
            except (EOFError, pickle.UnpicklingError):
                status = worker.process.wait()
                worker.process = _start()
                cause = f"signal {-status}" if status < 0 else f"status {status}"
                wall_s = time.monotonic() - worker.started
                outcome = RunOutcome("error", f"its worker ended with {cause}", wall_s, 0.0)
            yield name, outcome

    def close(self) -> None:
        """Let workers end what they are doing, then kill them."""
        for worker in self._workers:
            if worker.name is not None:
                worker.process.terminate()
        deadline = time.monotonic() + STOP_S
        for worker in self._workers:
            assert worker.process.stdin is not None
            assert worker.process.stdout is not None
            with contextlib.suppress(BrokenPipeError):
                worker.process.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                worker.process.wait(max(0.0, deadline - time.monotonic()))
            worker.process.kill()
            worker.process.wait()
            worker.process.stdout.close()
        self._workers.clear()


def _start() -> subprocess.Popen[bytes]:
    """Start a worker in its own session, because mprun itself passes Ctrl-C on to it.

    The worker ends with this process from its first moment on: its imports take longer than many sweeps last. With -P,
    a folder in the working directory is not taken for a module, such as a checkout named mprun.
    """
    argv = [sys.executable, "-P", "-c", "from mprun.sweeps.worker import main; main()"]
    return subprocess.Popen(
        argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=partial(die_with, os.getpid()),
    )
