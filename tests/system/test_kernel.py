# SPDX-License-Identifier: Apache-2.0
"""The experiment kernel: programs that poll, randomness, a kernel that dies, and the files that a run can see."""

from __future__ import annotations

import json
import os
import signal
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from mprun.compile import allocate, compile_plan
from mprun.engines import virtual
from mprun.engines.agent_process import RunProgress
from mprun.errors import RunError
from mprun.inputs.loading import load
from mprun.kernel.store import find_kernel
from mprun.model.agent_report import AgentReport
from mprun.model.plan import Plan
from mprun.storage.run_directory import RunDirectory

pytestmark = pytest.mark.fresh

TOPOLOGY = "version: 1\nnodes: {a: {kind: host}, b: {kind: host}}\nlinks: [{between: [a, b]}]\n"
EXPERIMENT = "version: 1\ntraffic: [{name: it, tool: ping, from: a, to: b, count: 1}]\nprobe: {pings: 0}\n"
SECOND_NS = 10**9


def plan_for(folder: Path, *argv: str, seed: int = 1) -> Plan:
    """Return a plan whose only flow is the given program."""
    (folder / "topo.yaml").write_text(TOPOLOGY)
    (folder / "xp.yaml").write_text(EXPERIMENT)
    spec = load(folder / "topo.yaml", folder / "xp.yaml", seed=seed).spec
    plan = compile_plan(spec, allocate(spec))
    return replace(plan, flows=(replace(plan.flows[0], argv=argv, timeout_ns=3600 * SECOND_NS),))


def run(folder: Path, plan: Plan, progress: RunProgress = lambda *_: None) -> tuple[RunDirectory, AgentReport]:
    directory = RunDirectory.create(folder / "runs", "test", plan.digest)
    directory.folder.write_json("plan.json", plan.to_json())
    virtual.run_plan(plan, directory, find_kernel(), progress)
    return directory, directory.agent_report()


def children_s() -> float:
    """Return the CPU time of the processes that this one has started and awaited."""
    times = os.times()
    return times.children_user + times.children_system


def python(text: str) -> tuple[str, ...]:
    return ("/usr/bin/python3", "-I", "-S", "-c", text)


@pytest.mark.parametrize(
    "wait",
    [
        pytest.param("while time.monotonic() < end: pass", id="reads-the-clock"),
        pytest.param("r, w = os.pipe()\nwhile ticking(): select.select([r], [], [], 0)", id="select"),
        pytest.param("r, w = os.pipe()\np = select.poll(); p.register(r, 1)\nwhile ticking(): p.poll(0)", id="poll"),
        pytest.param("s = socket.socket(2, 2); s.setblocking(False)\nwhile ticking(): receive(s)", id="eagain"),
        pytest.param("while ticking(): os.sched_yield()", id="sched-yield"),
    ],
)
def test_time_moves_for_a_program_that_polls(tmp_path: Path, wait: str) -> None:
    """Each program polls for 20 s of simulated time. `ticking` checks the signal of a timer, not the clock."""
    text = f"""
import os, select, signal, socket, time
fired = []
signal.signal(signal.SIGALRM, lambda *_: fired.append(1))
signal.setitimer(signal.ITIMER_REAL, 20)
start = time.monotonic(); end = start + 20
def ticking(): return not fired
def receive(s):
    try: s.recv(1)
    except BlockingIOError: pass
{wait}
print(time.monotonic() - start)
"""
    before_s = children_s()
    directory, agent = run(tmp_path, plan_for(tmp_path, *python(text)))
    assert agent.error is None
    assert float(directory.log("it")) == pytest.approx(20, abs=0.01)
    # without the rules the program would read the clock 78 million times, or for ever
    assert children_s() - before_s < 60


def test_randomness_is_that_of_the_seed(tmp_path: Path) -> None:
    text = "import os; print(os.urandom(32).hex(), os.getrandom(16).hex(), id(object()))"
    outputs = []
    for number, seed in enumerate((1, 1, 2)):
        (tmp_path / str(number)).mkdir()
        directory, _ = run(tmp_path / str(number), plan_for(tmp_path / str(number), *python(text), seed=seed))
        outputs.append(directory.log("it"))
    assert outputs[0] == outputs[1] != outputs[2]
    assert len(outputs[0]) > 90


def test_a_kernel_that_dies_is_an_error_with_its_last_words(tmp_path: Path) -> None:
    # a seed that identifies its kernel
    plan = plan_for(tmp_path, "sleep", "100000000", seed=os.getpid())
    plan = replace(plan, flows=(replace(plan.flows[0], argv=python("while True: pass")),))

    is_under_way = threading.Event()

    def kill() -> None:
        is_under_way.wait(10)
        for folder in Path("/proc").iterdir():
            if folder.name.isdigit() and f"mprun_seed={plan.seed}".encode() in _command(folder):
                os.kill(int(folder.name), signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(RunError, match="the experiment kernel ended before the run did"):
        run(tmp_path, plan, lambda text, *_: is_under_way.set() if text == "it" else None)
    killer.join()


def _command(folder: Path) -> bytes:
    try:
        return (folder / "cmdline").read_bytes()
    except OSError:
        return b""


def test_only_the_run_directory_can_be_written_and_homes_are_hidden(tmp_path: Path) -> None:
    text = """
import json, os
def writable(path):
    try:
        with open(path + "/mprun-test", "w"): pass
        os.unlink(path + "/mprun-test")
        return True
    except OSError: return False
paths = ["/usr", "/etc", "/var/tmp", "/run/mprun/lib/mprun", "/run/mprun/kernel", "/run/mprun/run"]
print(json.dumps({"writable": [p for p in paths if writable(p)], "homes": os.listdir("/root") + os.listdir("/home")}))
"""
    directory, _ = run(tmp_path, plan_for(tmp_path, *python(text)))
    seen = json.loads(directory.log("it"))
    assert seen["writable"] == ["/run/mprun/run"]
    # the only remaining parts of home directories lead to the interpreter, if it is in one
    assert set(seen["homes"]) <= {".pyenv", ".local", ".cache"}
