# SPDX-License-Identifier: Apache-2.0
"""All processes of mprun, of a sweep or of a worker end when it is killed.

`benchmarks/kill.py` has the campaign with kills at random moments.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mprun.machine.scratch import scratch
from tests.descendants import below, children, command, end, wait_gone
from tests.scenes import RATES_ONLY
from tests.system.conftest import COMMAND, ROOT, environment, wait_until

pytestmark = pytest.mark.fresh

# After a kill, all started processes must end within this time.
GONE_S = 1.0
# As long as any test may last, so that a run never ends by itself.
XP = """\
version: 1
traffic:
  - {name: bulk, tool: iperf3, from: client, to: server, protocol: tcp, duration: 3000s}
probe: {pings: 1}
"""
MATRIX = "matrix: {path0.rate: {from: 5mbit, to: 8mbit, step: 1mbit}}\n"
WORKER = "mprun.sweeps.worker"


@pytest.fixture(autouse=True)
def leaves_no_folder() -> Iterator[None]:
    """Clean up after killed runs: a killed run leaves its folders to the next run, and another test may count them."""
    yield
    for prefix in ("mprun-run-", "mprun-channel-"):
        with scratch(prefix):
            pass


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "topo.yaml").write_text(RATES_ONLY)
    (tmp_path / "xp.yaml").write_text(XP)
    (tmp_path / "cells.yaml").write_text(XP + MATRIX)
    return tmp_path


@contextmanager
def started(folder: Path, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start mprun. All its remaining processes end with the test."""
    process = subprocess.Popen(
        [*COMMAND, *words], cwd=folder, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield process
    finally:
        end([*below(process.pid), process.pid])
        process.wait()


def all_gone(pids: list[int]) -> list[str]:
    """Return the commands of processes that still exist after GONE_S, and kill them."""
    left = wait_gone(pids, GONE_S)
    told = [command(pid) for pid in left]
    end(left)
    return told


def progress() -> str:
    """Return the progress that the agent of the current run reports."""
    said = Path(tempfile.gettempdir()).glob("mprun-channel-*/reports/progress")
    return "".join(path.read_text() for path in said)


def find_worker(sweep: int) -> int | None:
    return next((pid for pid in children(sweep) if WORKER in command(pid)), None)


def find_kernel_of(pid: int) -> int | None:
    return next((child for child in below(pid) if "rootfstype=hostfs" in command(child)), None)


@pytest.mark.alone
def test_a_worker_that_still_imports_ends_with_its_sweep(files: Path) -> None:
    """A worker reads its jobs after its imports. The test kills the sweep as soon as the worker exists.

    At this time the worker is still importing and its own code has not started.
    """
    with started(files, "sweep", "-t", "topo", "-x", "cells", "-j", "1") as sweep:
        wait_until(lambda: find_worker(sweep.pid) is not None)
        worker = find_worker(sweep.pid)
        assert worker is not None
        sweep.kill()
        sweep.wait()
        assert all_gone([worker]) == []


@pytest.mark.alone
def test_a_sweep_ends_with_all_below_it(files: Path) -> None:
    with started(files, "sweep", "-t", "topo", "-x", "cells", "-j", "1") as sweep:
        wait_until(lambda: find_kernel_of(sweep.pid) is not None)
        everything = below(sweep.pid)
        sweep.kill()
        sweep.wait()
        assert all_gone(everything) == []


@pytest.mark.alone
def test_the_kernel_of_a_worker_ends_with_the_worker(files: Path) -> None:
    with started(files, "sweep", "-t", "topo", "-x", "cells", "-j", "1") as sweep:
        wait_until(lambda: find_kernel_of(sweep.pid) is not None)
        worker = find_worker(sweep.pid)
        assert worker is not None
        everything = [worker, *below(worker)]
        os.kill(worker, signal.SIGKILL)
        assert all_gone(everything) == []


@pytest.mark.parametrize("engine", ["virtual", "real"])
@pytest.mark.parametrize("moment", ["starting", "running"])
@pytest.mark.alone
def test_a_run_ends_with_all_below_it(files: Path, engine: str, moment: str) -> None:
    with started(files, "-t", "topo", "-x", "xp", "--engine", engine) as run:
        wait_until(lambda: bool(children(run.pid)) if moment == "starting" else "bulk" in progress())
        everything = below(run.pid)
        run.kill()
        run.wait()
        assert all_gone(everything) == []


def test_a_child_whose_parent_has_ended_already_does_not_begin() -> None:
    """The signal of prctl(2) is sent if a parent ends later.

    Here the parent ends between fork and the call of prctl.
    """
    program = """
import os
from mprun.engines.agent_process import die_with
parent = os.getpid()
if os.fork():
    os._exit(0)
while os.getppid() == parent:
    pass
die_with(parent)
print("lives", flush=True)
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    # the output ends when the child has ended, because the child holds the other end
    assert (done.stdout, done.stderr) == ("", "")


def test_a_signal_that_python_ignores_comes_again() -> None:
    """Python ignores an exception in a finalizer, and with it the interrupt."""
    program = """
import os, signal, time
from mprun.cli import listen
class Deaf:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)
        for _ in range(1000):
            pass
came = listen()
try:
    Deaf()
    time.sleep(60)
except KeyboardInterrupt:
    print("interrupted", len(came))
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=30)
    assert (done.stdout, done.stderr) == ("interrupted 2\n", "")


def test_a_place_for_temporary_files_is_found_without_writing() -> None:
    """Python tests each place with a file of a random name, which stays if Python is killed then."""
    program = """
import os, sys
from mprun.machine.scratch import temporary
made = []
sys.addaudithook(lambda event, values: made.append(values) if event == "open" and values[2] & os.O_CREAT else None)
print(temporary(), made)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, env=environment(TMPDIR="/var/tmp")
    )
    assert (done.stdout, done.stderr) == ("/var/tmp []\n", "")
