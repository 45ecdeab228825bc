# SPDX-License-Identifier: Apache-2.0
"""Simulated time advances for programs that poll, and a program that stops it for good is ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import yaml

from benchmarks.programs import SPINNER, SPINNERS, WAIT_S, check_late
from tests.scenes import ONE_PATH
from tests.system.conftest import Result

pytestmark = pytest.mark.fresh


def run(mprun: Callable[..., Result], folder: Path, command: Sequence[str], **more: str) -> Result:
    entry = {"name": "it", "tool": "exec", "from": "client", "to": "server", "command": list(command), **more}
    experiment = {"version": 1, "probe": {"pings": 0}, "traffic": [entry]}
    (folder / "topo.yaml").write_text(ONE_PATH)
    (folder / "xp.yaml").write_text(yaml.safe_dump(experiment))
    return mprun("-t", "topo", "-x", "xp", "--engine", "virtual", "--allow-exec", "--json")


@pytest.mark.parametrize("spinner", SPINNERS)
def test_time_goes_on_for_a_program_that_polls(mprun: Callable[..., Result], tmp_path: Path, spinner: str) -> None:
    """Each program is late by at most a few turns of its loop. Each turn takes up to 131 us per call."""
    result = run(mprun, tmp_path, ["python3", "-c", SPINNER.read_text(), spinner, str(WAIT_S)])
    assert result.status == 0, result.err
    assert check_late((result.run / "logs" / "it.out").read_text()) == ""


def test_computing_takes_no_time_and_is_no_polling(mprun: Callable[..., Result], tmp_path: Path) -> None:
    """20,000 system calls that read further, name other files, pass bytes on or draw numbers take nearly no time.

    Each failing call takes a microsecond, and each reading of the clock 256 ns.
    """
    program = """
import os, time
began = time.monotonic()
with open("/usr/bin/python3", "rb", buffering=0) as file:
    while file.read(512) and file.tell() < 2_000_000: pass
for number in range(4000):
    os.path.exists(f"/tmp/{number}")
    os.getrandom(16)
read, write = os.pipe()
for _ in range(4000):
    os.write(write, b"x")
    os.read(read, 1)
print(time.monotonic() - began)
"""
    result = run(mprun, tmp_path, ["python3", "-c", program])
    assert result.status == 0, result.err
    assert float((result.run / "logs" / "it.out").read_text()) == pytest.approx(4000e-6, rel=0.05)


def test_the_end_of_a_program_is_seen_between_samples(mprun: Callable[..., Result], tmp_path: Path) -> None:
    """With a sample each millisecond, no wait is as long as a millisecond."""
    (tmp_path / "topo.yaml").write_text(ONE_PATH)
    flow = {"name": "it", "tool": "exec", "from": "client", "to": "server", "command": ["sleep", "0.02"]}
    experiment = {"version": 1, "probe": {"pings": 0}, "traffic": [flow], "sample": {"queues": "1ms"}}
    (tmp_path / "xp.yaml").write_text(yaml.safe_dump(experiment))
    result = mprun("-t", "topo", "-x", "xp", "--engine", "virtual", "--allow-exec", "--json")
    assert result.status == 0, result.err
    assert 0.02 <= result.metric("it.time") < 0.05


# Some seconds of CPU time, at a gigabyte a second at most.
COMPUTATION = "import hashlib\nfor _ in range(5000): hashlib.blake2s(bytes(1 << 20))\n"


@pytest.mark.parametrize("program", ["while True: pass", COMPUTATION])
def test_a_spin_without_system_calls_is_ended_with_both_causes(
    mprun: Callable[..., Result], tmp_path: Path, program: str
) -> None:
    result = run(mprun, tmp_path, ["python3", "-c", program], compute="2s")
    assert result.status == 1
    (error,) = result.summary["errors"]
    assert "used 2 s of CPU time while simulated time stood still" in error
    assert "spins" in error
    assert "'compute: 24s'" in error


def test_a_long_computation_passes_with_a_raised_limit(mprun: Callable[..., Result], tmp_path: Path) -> None:
    result = run(mprun, tmp_path, ["python3", "-c", COMPUTATION], compute="600s")
    assert result.status == 0, result.err
    assert result.metric("it.time") < 0.1
