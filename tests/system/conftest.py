# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the system tests, which call mprun as a user does, in both engines."""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars
import pytest

from mprun.kernel.store import find_kernel
from mprun.kernel.symbols import has_symbols
from mprun.machine.scratch import scratch
from mprun.workloads.built.program_store import find
from tests import forked
from tests.phases import COUNTER

ROOT = Path(__file__).parents[2]
LAB = ROOT / "labs" / "01_multipath"
# A second of MPTCP over all paths between client and server.
SHORT = """\
version: 1
hosts:
  client: {mptcp: {path_manager: fullmesh}}
  server: {mptcp: {path_manager: fullmesh}}
traffic:
  - {name: bulk, tool: iperf3, from: client, to: server, protocol: mptcp, start: 0s, duration: 1s}
capture:
  - {host: client, snaplen: 100}
"""
TIMEOUT_S = 300
COMMAND = [sys.executable, "-m", "mprun"]
# The host's own kernel may deliver the first bytes of a subflow that has just joined only after a retransmission, a
# quarter of a second later (seen with 6.18, 1 of 200 runs). iperf3 3.12 gives up before. mprun reports the run as an
# error, correctly, and the test runs it again.
LOST_CONTROL = "control socket has closed unexpectedly"

# A host that is busy elsewhere, as a shared machine of a CI, may take the processors away while a test compares what
# the real engine measures with what it must measure. A defect shows in all three attempts.
measures_real_time = pytest.mark.flaky(reruns=2, only_rerun="AssertionError")


def needs_tool(*names: str) -> pytest.MarkDecorator:
    """Return the mark of a test that needs tools which `mprun tools install` builds, as `make test` does."""
    lacking = [name for name in names if find(name) is None]
    return pytest.mark.skipif(bool(lacking), reason=f"not built: mprun tools install {' '.join(lacking)}")


# Tests that run in parallel have their own directories for mprun's files in the system's temporary directory.
if worker := os.environ.get("PYTEST_XDIST_WORKER"):
    _until_exit = contextlib.ExitStack()
    _own = _until_exit.enter_context(scratch(f"mprun-tests-{os.getuid()}-{worker}-"))
    atexit.register(_until_exit.close)
    _own.chmod(0o1777)
    os.environ["TMPDIR"] = tempfile.tempdir = str(_own)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests with an engine `real` among their parameters: they run in real time."""
    for item in items:
        parameters = getattr(item, "callspec", None)
        if parameters and "real" in parameters.params.values() and Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.alone)


@dataclass(frozen=True)
class Result:
    """The end of a call of mprun: its status and output."""

    status: int
    out: str
    err: str

    @property
    def summary(self) -> dict[str, Any]:
        value: dict[str, Any] = json.loads(self.out)
        return value

    @property
    def run(self) -> Path:
        """The run's directory. Use -o, or the path is relative to the directory of the call."""
        return Path(self.summary["directory"])

    def metric(self, name: str) -> float:
        return float(self.summary["metrics"][name]["value"])

    def rows(self, table: str) -> list[dict[str, Any]]:
        """Return the rows of a table of the run."""
        return polars.read_parquet(self.run / "tables" / f"{table}.parquet").to_dicts()


def digests_of(run: Path) -> dict[str, str]:
    """Return the SHA-256 digests of all files that must be the same in each repetition."""
    files = [*sorted(run.glob("pcap/*.pcap")), run / "summary.json", run / "steps.jsonl"]
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def environment(**changes: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{COUNTER}", **changes}


def call(
    *arguments: object, cwd: Path, prefix: list[str] | None = None, env: Mapping[str, str] | None = None
) -> Result:
    """Run mprun and wait for its end.

    Most calls are forked from a process that has imported mprun (`tests.forked`). Calls of the real engine, below
    another program, and with an environment of their own start Python.
    """
    if not (prefix or env or "real" in arguments):
        return Result(*forked.call([*map(str, arguments)], cwd, environment(), TIMEOUT_S))
    argv = [*(prefix or []), *COMMAND, *map(str, arguments)]
    for _ in range(3):
        done = subprocess.run(
            argv, cwd=cwd, capture_output=True, text=True, env=env or environment(), timeout=TIMEOUT_S
        )
        if "real" not in arguments or LOST_CONTROL not in done.stdout + done.stderr:
            break
    return Result(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def on_disk() -> Iterator[Path]:
    """Return a folder that remains where a test mounts another file system at /dev/shm."""
    with tempfile.TemporaryDirectory(prefix="mprun-tests-", dir="/var/tmp") as folder:
        yield Path(folder)


@pytest.fixture
def mprun(tmp_path: Path) -> Callable[..., Result]:
    """Return a function that calls mprun in an empty directory."""

    def run(*arguments: object, **options: Any) -> Result:
        result = call(*arguments, cwd=tmp_path, **options)
        if "--json" in arguments and result.out.startswith('{"directory": "runs'):
            out = result.out.replace('"directory": "', f'"directory": "{tmp_path}/', 1)
            return Result(result.status, out, result.err)
        return result

    return run


def snapshot() -> dict[str, list[str]]:
    """Return all things that a run must leave unchanged: namespaces, interfaces, mounts, mprun's processes."""
    mounts = Path("/proc/mounts").read_text().splitlines()
    interfaces = sorted(os.listdir("/sys/class/net"))
    named = sorted(os.listdir("/run/netns")) if os.path.isdir("/run/netns") else []
    temporary = sorted(path.name for path in Path(tempfile.gettempdir()).glob("mprun-*"))
    return {
        "temporary": temporary,
        "mounts": mounts,
        "interfaces": interfaces,
        "namespaces": named,
        "processes": leftovers(),
    }


def leftovers() -> list[str]:
    """Return the processes of a run, whoever their parent is now.

    In simulated time, only processes started here count.
    """
    found = []
    mine = f"init={tempfile.gettempdir()}/"
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
            state = (folder / "stat").read_text().rsplit(")", 1)[1].split()[0]
        except OSError:
            continue
        text = b" ".join(words).decode(errors="replace")
        if state != "Z" and (mine in text or "mprun.agent.main" in text):
            found.append(f"{folder.name} {text[:120]}")
    return found


@pytest.fixture
def leaves_nothing() -> Iterator[None]:
    """Fail the test if a new process, mount, interface or namespace exists after it."""
    before = snapshot()
    yield
    deadline = time.monotonic() + 5
    while snapshot() != before and time.monotonic() < deadline:
        time.sleep(0.05)
    assert snapshot() == before


def wait_until(is_so: Callable[[], bool], seconds: float = 60) -> None:
    """Wait until `is_so` is true. Fail after `seconds`."""
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, f"not so within {seconds:g} s"
        time.sleep(0.01)


def interrupt_when(
    text: str,
    number: signal.Signals,
    *arguments: object,
    cwd: Path,
    prefix: Sequence[str] = (),
    before: Callable[[], object] = lambda: None,
) -> tuple[int, str]:
    """Start mprun, send it a signal when its progress shows `text`, and return its status and errors.

    before: called before the signal, while mprun runs.
    """
    process = subprocess.Popen(
        [*prefix, *COMMAND, *map(str, arguments)],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
        start_new_session=True,
    )
    assert process.stderr is not None
    said = ""
    for line in process.stderr:
        said += line
        if text in line:
            before()
            process.send_signal(number)
            break
    _, rest = process.communicate(timeout=60)
    return process.returncode, said + rest


@pytest.fixture(scope="session")
def symbols() -> None:
    """Give the default kernel its symbols, if it does not have them. This takes as long as building a kernel."""
    if not has_symbols(find_kernel().directory):
        subprocess.run([*COMMAND, "kernel", "build", "--symbols"], check=True, env=environment())
