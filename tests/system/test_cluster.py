# SPDX-License-Identifier: Apache-2.0
"""A sweep on a Dask cluster of local processes: a worker that dies, and a worker that is refused."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.system.conftest import COMMAND, LAB, Result, environment, wait_until
from tests.system.test_sweep import SWEEP, assert_equal

pytestmark = pytest.mark.fresh

pytest.importorskip("distributed", reason="dask.distributed is not installed: pip install 'mprun[cluster]'")

START_S = 60


class Cluster:
    """A scheduler and workers, each a process of the test."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            port = found.getsockname()[1]
        self.address = f"tcp://127.0.0.1:{port}"
        self._folder = folder
        self.processes: list[subprocess.Popen[bytes]] = []
        self._start("dask_scheduler", "--port", str(port))

    def add_worker(self, **changes: str) -> subprocess.Popen[bytes]:
        words = ["--nthreads", "1", "--no-nanny", "--local-directory", str(self._folder)]
        return self._start("dask_worker", self.address, *words, TMPDIR=str(self._folder), **changes)

    def _start(self, module: str, *words: str, **changes: str) -> subprocess.Popen[bytes]:
        argv = [sys.executable, "-m", f"distributed.cli.{module}", *words, "--host", "127.0.0.1", "--no-dashboard"]
        log = (self._folder / f"{len(self.processes)}.log").open("wb")
        process = subprocess.Popen(argv, cwd=self._folder, env=environment(**changes), stdout=log, stderr=log)
        self.processes.append(process)
        return process

    def wait_for(self, workers: int) -> None:
        """Wait until N workers have joined."""
        from distributed import Client

        # only some versions have types
        connect: Any = Client
        with connect(self.address, timeout=START_S) as client:
            client.wait_for_workers(workers, timeout=START_S)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    folder = tmp_path / "cluster"
    folder.mkdir()
    made = Cluster(folder)
    yield made
    for process in reversed(made.processes):
        process.kill()
        process.wait()


def test_equal_to_a_local_sweep_though_a_worker_dies(
    cluster: Cluster, tmp_path: Path, mprun: Callable[..., Result]
) -> None:
    (tmp_path / "xp.yaml").write_text(SWEEP.replace("runs: 3", "runs: 2"))
    first = cluster.add_worker()
    cluster.add_worker()
    words: list[Any] = ["sweep", "-t", LAB / "topo", "-x", tmp_path / "xp.yaml", "--json"]
    local = mprun(*words, "-o", tmp_path / "local").summary
    cluster.wait_for(2)
    argv = [*COMMAND, *map(str, words), "-o", str(tmp_path / "remote"), "--cluster", cluster.address]
    process = subprocess.Popen(argv, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, text=True)
    runs = tmp_path / "remote" / "latest-sweep" / "runs"
    wait_until(lambda: any(runs.glob("*/*")))
    first.send_signal(signal.SIGKILL)
    assert process.wait(timeout=120) == 0
    assert_equal(Path(local["directory"]), runs.resolve().parent)
    # the run in progress on the dead worker was repeated on the other worker, which cleaned up after it
    assert not list((tmp_path / "cluster").glob("*mprun-job-*"))


def test_a_worker_without_the_kernel_is_refused(cluster: Cluster, tmp_path: Path, mprun: Callable[..., Result]) -> None:
    (tmp_path / "xp.yaml").write_text(SWEEP)
    cluster.add_worker(XDG_CACHE_HOME=str(tmp_path / "empty"))
    cluster.wait_for(1)
    refused = mprun("sweep", "-t", LAB / "topo", "-x", "xp", "--cluster", cluster.address)
    assert refused.status == 3
    assert "is refused: kernel default is missing, here " in refused.err
    assert not (tmp_path / "runs").exists()


def test_a_worker_that_joins_late_and_is_another_costs_no_run(
    cluster: Cluster, tmp_path: Path, mprun: Callable[..., Result]
) -> None:
    """Without the refusal, this worker would fail fastest and so get one run after the other."""
    (tmp_path / "xp.yaml").write_text(SWEEP)
    first = cluster.add_worker()
    cluster.wait_for(1)
    argv = [*COMMAND, "sweep", "-t", str(LAB / "topo"), "-x", "xp", "--cluster", cluster.address]
    process = subprocess.Popen(argv, cwd=tmp_path, env=environment(), stderr=subprocess.PIPE, text=True)
    runs = tmp_path / "runs" / "latest-sweep"
    wait_until(lambda: any(runs.glob("partial/*")))
    # runs remain until the other worker has been given one and has been refused
    first.send_signal(signal.SIGSTOP)
    other = cluster.add_worker(XDG_CACHE_HOME=str(tmp_path / "empty"))
    assert other.wait(timeout=START_S) == 0
    first.send_signal(signal.SIGCONT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert "is refused: kernel default is missing, here " in err


def test_nobody_answers(tmp_path: Path, mprun: Callable[..., Result]) -> None:
    (tmp_path / "xp.yaml").write_text(SWEEP)
    refused = mprun("sweep", "-t", LAB / "topo", "-x", "xp", "--cluster", "localhost")
    assert refused.status == 3
    assert "no Dask scheduler answers at localhost" in refused.err
