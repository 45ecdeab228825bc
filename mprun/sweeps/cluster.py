# SPDX-License-Identifier: Apache-2.0
"""Workers of a Dask cluster (dask.distributed). Each runs a job in its own virtual kernel and sends the run back.

Everything that determines a result must be the same on all machines. At the start of the sweep, a worker with another
mprun, kernel or tool is refused. A worker that joins later is sent away at its first job, which another worker gets. If
a worker dies, Dask runs its jobs elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import CancelledError
from dataclasses import replace
from importlib import import_module
from typing import Any

from mprun.engines.agent_process import find_program
from mprun.engines.capability import version_of
from mprun.errors import MachineError, MprunError, RunError
from mprun.kernel.store import find_kernel
from mprun.machine.scratch import scratch
from mprun.machine.version import code_digest
from mprun.model.frozen import Frozen
from mprun.safety.folder import Folder, UnsafeError
from mprun.sweeps.worker import Job, RunOutcome, perform
from mprun.workloads.tool import Program

# The largest file that a worker sends back, which is a capture.
MOST_FILE_BYTES = 4 << 30

# How long the scheduler may take to answer.
ANSWER_S = 30


class Needs(Frozen):
    """The needs of jobs on a machine: kernels by name, and programs."""

    kernels: tuple[str, ...]
    programs: Mapping[str, Program]


def describe(needs: Needs) -> dict[str, str]:
    """Return the versions on this machine that determine a result. An empty text means that the item is missing."""
    found = {"mprun": code_digest()}
    for name in needs.kernels:
        try:
            found[f"kernel {name}"] = find_kernel(name).digest[:12]
        except MachineError:
            found[f"kernel {name}"] = ""
    for name, program in needs.programs.items():
        if program.version:
            found[name] = version_of(name, program) if find_program(name) else ""
    return found


def differences(ours: Mapping[str, str], theirs: Mapping[str, str]) -> str:
    """Return the differences of a worker as a text for people; empty if there are none."""
    texts = [
        f"{name} is {theirs.get(name) or 'missing'}, here {value or 'missing'}"
        for name, value in ours.items()
        if theirs.get(name) != value
    ]
    return "; ".join(texts)


class Refused(RunError):
    """A worker that differs from this machine refuses a job with this error."""

    def __init__(self, worker: str, unlike: str) -> None:
        super().__init__(worker, unlike)
        self.worker, self.unlike = worker, unlike

    def __str__(self) -> str:
        return f"worker {self.worker} is refused: {self.unlike}"


def perform_remotely(job: Job, needs: Needs, wanted: Mapping[str, str]) -> tuple[RunOutcome, dict[str, bytes]]:
    """Run a job on a worker. Return its outcome, and the files of the run's directory. Raises Refused."""
    unlike = differences(wanted, describe(needs))
    if unlike:
        raise Refused(import_module("distributed").get_worker().address, unlike)
    with scratch("mprun-job-") as folder:
        directory = folder / "run"
        directory.mkdir()
        outcome = perform(replace(job, directory=directory))
        run = Folder(directory)
        return outcome, {name: run.read_bytes(name, MOST_FILE_BYTES) for name in run.find("**/*")}


class ClusterExecutor:
    """The workers of a scheduler at `address`, with one job at a time for each of their threads.

    say: gets a message for each worker that is sent away. Raises MachineError if the scheduler does not answer, has no
    worker, or has a worker that differs from this machine.
    """

    def __init__(self, address: str, needs: Needs, say: Callable[[str], None]) -> None:
        try:
            self._distributed: Any = import_module("distributed")
        except ImportError:
            raise MachineError("a cluster needs dask.distributed: pip install 'mprun[cluster]'") from None
        self._needs = needs
        self._say = say
        self._refused: set[str] = set()
        self._wanted = describe(needs)
        self._jobs: dict[Any, tuple[str, Job]] = {}
        try:
            self._client = self._distributed.Client(address, timeout=ANSWER_S)
        except (OSError, ValueError) as error:
            told = str(error) or type(error).__name__
            raise MachineError(f"no Dask scheduler answers at {address}: {told}") from None
        try:
            self._check(address)
        except BaseException:
            self._client.close()
            raise

    def _check(self, address: str) -> None:
        try:
            found: dict[str, dict[str, str]] = self._client.run(describe, self._needs)
        except ModuleNotFoundError as error:
            raise MachineError(f"the workers of {address} cannot import {error.name}: install mprun there") from None
        if not found:
            raise MachineError(f"the scheduler at {address} has no worker: start one with `dask worker {address}`")
        for worker, theirs in sorted(found.items()):
            unlike = differences(self._wanted, theirs)
            if unlike:
                raise MachineError(f"worker {worker} is refused: {unlike}")

    @property
    def slots(self) -> int:
        """The number of jobs at a time, at least one. Without a worker, jobs wait for the next worker."""
        workers = self._client.scheduler_info(n_workers=-1)["workers"].values()
        count: int = sum(worker["nthreads"] for worker in workers)
        return max(1, count)

    def submit(self, name: str, job: Job) -> None:
        future = self._client.submit(perform_remotely, job, self._needs, self._wanted, pure=False)
        self._jobs[future] = (name, job)

    def wait(self, seconds: float) -> Iterator[tuple[str, RunOutcome]]:
        try:
            done = self._distributed.wait(list(self._jobs), timeout=seconds, return_when="FIRST_COMPLETED").done
        except TimeoutError:
            return
        for future in done:
            name, job = self._jobs.pop(future)
            try:
                outcome = self._take_in(future, job)
            except Refused as refused:
                self._send_away(refused)
                self.submit(name, job)
            else:
                yield name, outcome

    def _send_away(self, refused: Refused) -> None:
        if refused.worker not in self._refused:
            self._refused.add(refused.worker)
            self._say(f"{refused}; it gets no more runs")
        self._client.retire_workers([refused.worker])

    def _take_in(self, future: Any, job: Job) -> RunOutcome:
        """Write the files of a run to the job's directory. Raises Refused."""
        try:
            outcome, files = future.result()
        except Refused:
            raise
        except MprunError as error:
            return RunOutcome("error", str(error), 0.0, 0.0)
        except (Exception, CancelledError) as error:
            # any error that Dask reports about workers that died too often
            return RunOutcome("error", f"{type(error).__name__}: {error}", 0.0, 0.0)
        for name, content in files.items():
            run = Folder(job.directory)
            try:
                if "/" in name:
                    run.make(name.rpartition("/")[0])
                run.write_bytes(name, content)
            except UnsafeError as error:
                return RunOutcome("error", f"a worker sent a file that lies outside of the run: {error}", 0.0, 0.0)
        found: RunOutcome = outcome
        return found

    def close(self) -> None:
        if self._jobs:
            self._client.cancel(list(self._jobs), force=True)
            self._jobs.clear()
        self._client.close()
