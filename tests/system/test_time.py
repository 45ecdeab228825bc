# SPDX-License-Identifier: Apache-2.0
"""Simulated time goes on for programs that wait by looking again and again, and ends those that stop it for good."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import yaml

from tests.system.conftest import Result

WAIT_S = 2
TOPOLOGY = "version: 1\ntopology: multi-path\npaths: [{rate: 20mbit, delay: 20ms}]\n"
# A program that waits by going round without sleeping; its look is true once the wait is over.
SPINNER = """
import fcntl, os, resource, select, socket, subprocess, sys, termios, time

end = time.monotonic() + SECONDS
child = subprocess.Popen(["sleep", "SECONDS"])
near, far = socket.socketpair()
far.send(b"x")


def child_has_ended():
    return os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def after(call):
    return lambda: (call(), child_has_ended())[1]


def is_dead(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return child_has_ended()


def uptime():
    with open("/proc/uptime") as file:
        return float(file.read().split()[0])


def refused():
    try:
        socket.create_connection(("127.0.0.1", 9), 1)
    except OSError:
        return time.monotonic() >= end
    raise SystemExit("somebody listens there")


def log():
    print("still waiting", file=sys.stderr, flush=True)
    return child_has_ended()


begin, ticks = uptime(), os.times().elapsed
looks = {
    "times": lambda: os.times().elapsed >= ticks + SECONDS,
    "time": lambda: time.time() >= began + SECONDS,
    "monotonic": lambda: time.monotonic() >= end,
    "getrusage": after(lambda: resource.getrusage(resource.RUSAGE_SELF)),
    "getppid": after(os.getppid),
    "TCP_INFO": after(lambda: listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)),
    "FIONREAD": after(lambda: fcntl.ioctl(near, termios.FIONREAD, b"0000")),
    "WNOHANG": child_has_ended,
    "kill": lambda: is_dead(child.pid),
    "uptime": lambda: uptime() >= begin + SECONDS,
    "select": after(lambda: select.select([near], [], [], 0)),
    "yield": after(os.sched_yield),
    "stat": after(lambda: os.path.exists("/tmp/nothing")),
    "peek": after(lambda: near.recv(1, socket.MSG_PEEK)),
    "refused": refused,
    "log": log,
}
listener, began = socket.socket(), time.time()
look = looks[sys.argv[1]]
while not look():
    pass
print(time.monotonic() - end)
"""
SPINNERS = (
    *("times", "time", "monotonic", "getrusage", "getppid", "TCP_INFO", "FIONREAD", "WNOHANG", "kill", "uptime"),
    *("select", "yield", "stat", "peek", "refused", "log"),
)


def run(mprun: Callable[..., Result], folder: Path, command: Sequence[str], **more: str) -> Result:
    entry = {"name": "it", "tool": "exec", "from": "client", "to": "server", "command": list(command), **more}
    experiment = {"version": 1, "probe": {"pings": 0}, "traffic": [entry]}
    (folder / "topo.yaml").write_text(TOPOLOGY)
    (folder / "xp.yaml").write_text(yaml.safe_dump(experiment))
    return mprun("-t", "topo", "-x", "xp", "--engine", "virtual", "--allow-exec", "--json")


@pytest.mark.parametrize("spinner", SPINNERS)
def test_time_goes_on_for_a_program_that_polls(mprun: Callable[..., Result], tmp_path: Path, spinner: str) -> None:
    """Each is late by a few turns of its loop at most, each of which takes up to 131 us a call."""
    program = SPINNER.replace("SECONDS", str(WAIT_S))
    result = run(mprun, tmp_path, ["python3", "-c", program, spinner])
    assert result.status == 0, result.err
    late_s = float((result.run / "logs" / "it.out").read_text())
    # times and uptime count in hundredths of a second, which begin before the program does
    assert -0.02 < late_s < 0.005


def test_computing_takes_no_time_and_is_no_polling(mprun: Callable[..., Result], tmp_path: Path) -> None:
    """20,000 system calls that read on, name other files, pass bytes on or draw numbers: no time but a microsecond
    for each failing call and 256 ns for each reading of the clock."""
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
