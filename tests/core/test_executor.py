# SPDX-License-Identifier: Apache-2.0
"""The executor on a machine that records all requests and fails at step k, for every k."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from mprun.agent.main import AgentRun, perform
from mprun.agent.process import ProcessError
from mprun.compile import allocate, compile_plan
from mprun.inputs.loading import load
from mprun.model.permission import Permissions
from tests.scenes import ONE_PATH

LAB = Path(__file__).parents[2] / "labs" / "01_multipath"
SECOND_NS = 10**9


class Failure(Exception):
    """The error that the recording machine raises at step `fail_at`."""


class RecordingProcess:
    """A process that ends after the time in its plan. Daemons run until they are stopped."""

    def __init__(self, machine: RecordingMachine, planned: dict[str, Any]) -> None:
        self.plan = planned
        self.name: str = planned["name"]
        self.status: int | None = None
        self.timed_out = False
        self.why: str | None = None
        self.started_ns = machine.clock_ns
        self.deadline_ns = self.started_ns + planned["timeout_ns"]
        self.pid = 1
        self._machine = machine
        is_daemon = planned["role"] in ("switch", "capture", "server")
        self._ends_ns = None if is_daemon else machine.clock_ns + machine.lasts_ns

    def cut(self) -> dict[str, int]:
        return {}

    def poll(self) -> bool:
        if self.status is None and self._ends_ns is not None and self._machine.clock_ns >= self._ends_ns:
            self.status = 0
            self._machine.alive.remove(self.name)
        return self.status is not None

    def wait_ready(self) -> None:
        self._machine.step(f"ready {self.name}")

    def stop(self) -> None:
        if not self.poll():
            self.status = -15
            self._machine.alive.remove(self.name)
            self._machine.stopped.append(self.name)
            self._machine.stopped_ns[self.name] = self._machine.clock_ns

    def notify(self, number: int) -> None:
        self._machine.notified.append((self.name, number, self._machine.clock_ns))

    def tail(self) -> str:
        return ""


class RecordingMachine:
    """A simulated machine. Time passes only while a caller waits."""

    def __init__(self, fail_at: int | None = None, lasts_ns: int = 10 * SECOND_NS) -> None:
        self.clock_ns = 0
        self.links_empty_ns = 0
        self.lasts_ns = lasts_ns
        self.steps: list[str] = []
        self.alive: list[str] = []
        self.stopped: list[str] = []
        self.stopped_ns: dict[str, int] = {}
        self.notified: list[tuple[str, int, int]] = []
        self.sampled: dict[str, list[int]] = {}
        self.is_recording = True
        self.attended: dict[int, RecordingProcess] = {}
        self.released = False
        self.readback: dict[str, Any] = {}
        self.network = None
        self.tracepoints: list[str] = []
        self.left_bytes = 1 << 40
        self._fail_at = fail_at

    def step(self, name: str) -> None:
        self.steps.append(name)
        if self._fail_at is not None and len(self.steps) == self._fail_at + 1:
            raise ProcessError(f"failed at {name}") if name.startswith("ready") else Failure(name)

    def now_ns(self) -> int:
        return self.clock_ns

    def build(self) -> None:
        self.step("build")

    def start(self, planned: dict[str, Any]) -> RecordingProcess:
        self.step(f"start {planned['name']}")
        self.alive.append(planned["name"])
        return RecordingProcess(self, planned)

    def configure_switches(self) -> None:
        self.step("configure switches")

    def watch_host(self) -> None:
        return None

    def find_down(self) -> list[str]:
        return ["r1.r1-eth0"] if self.clock_ns < 3 * SECOND_NS + SECOND_NS // 2 else []

    def change(self, commands: list[dict[str, Any]]) -> None:
        self.step(f"change {len(commands)}")

    def send_train(self, train: dict[str, Any]) -> dict[str, Any]:
        self.step(f"train {train['link']}")
        return {}

    def observe(self, host: str) -> None:
        self.step(f"observe {host}")

    def start_sampling(self, with_cpu: bool) -> None:
        self.step("start sampling")

    def sample(self, series: str, at_ns: int) -> None:
        self.sampled.setdefault(series, []).append(at_ns)

    def prepare_trace(self, tracepoints: list[str]) -> None:
        self.tracepoints = tracepoints
        self.step("prepare trace")

    def begin_trace(self) -> None:
        if self.tracepoints:
            self.step("begin trace")

    def end_trace(self) -> None:
        if self.tracepoints:
            self.step("end trace")
            self.tracepoints = []

    def record_closed(self) -> None:
        assert self.is_recording

    def finish_record(self) -> None:
        self.is_recording = False

    def counters(self, host: str) -> dict[str, int]:
        self.step(f"counters {host}")
        return {}

    def indices(self, node: str) -> dict[str, int]:
        return {"lo": 1}

    def boot_ns(self) -> int:
        return 0

    def holds_packets(self) -> bool:
        return self.clock_ns < self.links_empty_ns

    def free_bytes(self) -> int:
        return self.left_bytes

    def faulty_packets(self) -> dict[str, dict[str, int]]:
        return {}

    def filtered_packets(self) -> dict[str, dict[str, int]]:
        self.step("filtered packets")
        return {}

    def attend(self, process: RecordingProcess) -> int:
        self.attended[id(process)] = process
        return id(process)

    def leave(self, descriptor: int) -> None:
        del self.attended[descriptor]

    def sleep_until(self, moment_ns: int) -> None:
        self.clock_ns = max(self.clock_ns, moment_ns)

    def pause(self, until_ns: int) -> list[int]:
        self.sleep_until(until_ns)
        return [descriptor for descriptor, process in self.attended.items() if process.poll()]

    def release(self, is_switched_off: bool) -> None:
        assert not self.alive, "processes outlive their namespaces"
        self.released = True


def run_on(
    machine: RecordingMachine, folder: Path, inputs: tuple[Path, Path] = (LAB / "topo", LAB / "xp_mptcp")
) -> tuple[int, dict[str, Any]]:
    spec = load(*inputs).spec
    plan = json.loads(json.dumps(compile_plan(spec, allocate(spec)).to_json()))
    run = AgentRun(str(folder), plan, machine, True, reports=str(folder), orders=str(folder))  # type: ignore[arg-type]
    status = perform(run, None)
    result: dict[str, Any] = json.loads((folder / "agent.json").read_text())
    return status, result


def all_steps(folder: Path) -> list[str]:
    machine = RecordingMachine()
    run_on(machine, folder)
    return machine.steps


def test_order_of_a_run(tmp_path: Path) -> None:
    assert all_steps(tmp_path) == [
        "build",
        *("start capture.client", "ready capture.client", "start capture.server", "ready capture.server"),
        *("start bulk.server", "ready bulk.server", "start probe.path0", "start probe.path1"),
        *("observe client", "observe server", "counters client", "counters router", "counters server"),
        *("start sampling", "start bulk", "counters client", "counters router", "counters server", "filtered packets"),
    ]


def test_trace_events_are_prepared_before_any_program_starts(tmp_path: Path) -> None:
    (tmp_path / "topo.yaml").write_text(ONE_PATH)
    (tmp_path / "xp.yaml").write_text(
        "version: 1\ntracepoints: ['mptcp:*']\n"
        "traffic: [{name: bulk, tool: iperf3, from: client, to: server, protocol: mptcp, duration: 1s}]\n"
    )
    machine = RecordingMachine()
    run_on(machine, tmp_path, (tmp_path / "topo", tmp_path / "xp"))
    assert machine.steps[:2] == ["build", "prepare trace"]
    assert machine.steps.index("start bulk") == machine.steps.index("begin trace") + 1
    assert machine.steps[-1] == "end trace"


def assert_captures_were_read(machine: RecordingMachine) -> None:
    """Each capture is notified once when the traffic is over, and stopped after two ticks of a one-second timer."""
    captures = {name for name in machine.stopped if name.startswith("capture.")}
    assert sorted(name for name, number, _ in machine.notified if number == signal.SIGUSR1) == sorted(captures)
    assert all(machine.stopped_ns[name] >= moment_ns + 2 * SECOND_NS for name, _, moment_ns in machine.notified)


def test_a_whole_run_lets_its_captures_read_all(tmp_path: Path) -> None:
    machine = RecordingMachine()
    run_on(machine, tmp_path)
    assert len(machine.notified) == 2
    assert_captures_were_read(machine)


def test_packets_under_way_arrive_before_counters_are_read(tmp_path: Path) -> None:
    machine = RecordingMachine()
    machine.links_empty_ns = 100 * SECOND_NS
    status, _ = run_on(machine, tmp_path)
    assert status == 0
    assert all(moment_ns >= 100 * SECOND_NS for _, number, moment_ns in machine.notified if number == signal.SIGUSR1)
    assert machine.sampled["queues"][-1] >= 100 * SECOND_NS
    assert_captures_were_read(machine)


def test_links_that_never_empty_do_not_keep_a_run(tmp_path: Path) -> None:
    machine = RecordingMachine()
    machine.links_empty_ns = 10**6 * SECOND_NS
    status, _ = run_on(machine, tmp_path)
    assert status == 0
    assert machine.clock_ns < 2 * 3600 * SECOND_NS


@pytest.mark.parametrize("step", range(2, 20))
def test_a_run_that_fails_lets_its_captures_read_all(tmp_path: Path, step: int) -> None:
    machine = RecordingMachine(fail_at=step)
    run_on(machine, tmp_path)
    assert machine.notified
    assert_captures_were_read(machine)


def test_a_run_that_succeeds_stops_its_daemons_in_reverse(tmp_path: Path) -> None:
    machine = RecordingMachine()
    status, result = run_on(machine, tmp_path)
    assert status == 0
    assert result["complete"]
    assert machine.stopped == ["bulk.server", "capture.server", "capture.client"]
    assert machine.released


@pytest.mark.parametrize("step", range(20))
def test_failure_at_each_step_stops_what_was_started(tmp_path: Path, step: int) -> None:
    machine = RecordingMachine(fail_at=step)
    status, result = run_on(machine, tmp_path)
    assert status == 1
    assert not result["complete"]
    assert machine.steps[step].split()[-1] in result["error"]
    assert machine.released
    assert not machine.is_recording
    daemons = [name.removeprefix("start ") for name in machine.steps[:step] if name.startswith("start ")]
    daemons = [name for name in daemons if name.startswith("capture") or name.endswith("server")]
    assert [name for name in machine.stopped if name in daemons] == daemons[::-1]


def test_there_are_as_many_steps_as_are_tried(tmp_path: Path) -> None:
    assert len(all_steps(tmp_path)) == 20


def test_a_flow_that_does_not_end_is_stopped_at_its_time_out(tmp_path: Path) -> None:
    machine = RecordingMachine(lasts_ns=30 * SECOND_NS)
    _, result = run_on(machine, tmp_path)
    assert not result["processes"]["bulk"]["timed_out"]
    (tmp_path / "again").mkdir()
    machine = RecordingMachine(lasts_ns=50 * SECOND_NS)
    _, result = run_on(machine, tmp_path / "again")
    assert result["processes"]["bulk"]["timed_out"]
    assert "bulk" in machine.stopped


def test_series_are_sampled_at_their_intervals(tmp_path: Path) -> None:
    text = (LAB / "xp_mptcp.yaml").read_text() + "sample: {interfaces: 400ms, sockets: 3s}\n"
    (tmp_path / "xp.yaml").write_text(text)
    machine = RecordingMachine(lasts_ns=2 * SECOND_NS)
    status, result = run_on(machine, tmp_path, (LAB / "topo", tmp_path / "xp"))
    assert status == 0
    zero_ns = result["zero_ns"]
    moments = {
        series: [(moment - zero_ns) / SECOND_NS for moment in found] for series, found in machine.sampled.items()
    }
    # at time zero, every 0.4 s, and after queues are drained and captures have their last packets
    assert moments["interfaces"] == pytest.approx([0, 0.4, 0.8, 1.2, 1.6, 4.2])
    assert moments["queues"] == pytest.approx([0, 4.2])
    assert "sockets" not in moments
    assert not machine.is_recording


def test_stop_file_ends_a_run_in_order(tmp_path: Path) -> None:
    (tmp_path / "stop").touch()
    machine = RecordingMachine()
    status, result = run_on(machine, tmp_path)
    assert status == 1
    assert result["error"] == "stopped by the user"
    assert machine.released


SWITCHED = """\
version: 1
nodes: {a: {kind: host}, b: {kind: host}, s1: {kind: switch, openflow: {mode: reactive}}}
links: [{between: [a, s1]}, {between: [s1, b]}]
"""
PING = """\
version: 1
traffic: [{tool: ping, from: a, to: b, start: 0s}]
probe: {pings: 0}
"""


@pytest.fixture
def switched(tmp_path: Path) -> tuple[Path, Path]:
    (tmp_path / "topo.yaml").write_text(SWITCHED)
    (tmp_path / "xp.yaml").write_text(PING)
    return tmp_path / "topo", tmp_path / "xp"


def test_switches_run_before_anything_else(tmp_path: Path, switched: tuple[Path, Path]) -> None:
    machine = RecordingMachine()
    status, _ = run_on(machine, tmp_path, switched)
    assert status == 0
    assert machine.steps[:9] == [
        *("build", "start switches.db", "ready switches.db", "start controller", "start switches"),
        *("configure switches", "ready switches.db", "ready controller", "ready switches"),
    ]
    assert machine.stopped == ["switches", "controller", "switches.db"]


@pytest.mark.parametrize("step", range(9))
def test_failure_at_each_step_of_switches_stops_their_programs(
    tmp_path: Path, switched: tuple[Path, Path], step: int
) -> None:
    machine = RecordingMachine(fail_at=step)
    status, _ = run_on(machine, tmp_path, switched)
    assert status == 1
    assert machine.alive == []
    assert machine.released


def test_changes_happen_at_their_moments(tmp_path: Path) -> None:
    (tmp_path / "topo.yaml").write_text(
        "version: 1\nextends: " + str(LAB / "topo.yaml") + "\nevents:\n"
        "  - {at: 3s, link: path0, set: {loss: 1%}}\n  - {at: 9900ms, link: path0, state: down}\n"
    )
    spec = load(tmp_path / "topo", LAB / "xp_mptcp", allowed=Permissions(outside=True)).spec
    plan = json.loads(json.dumps(compile_plan(spec, allocate(spec)).to_json()))
    machine = RecordingMachine()
    run = AgentRun(str(tmp_path), plan, machine, True, str(tmp_path), str(tmp_path))  # type: ignore[arg-type]
    assert perform(run, None) == 0
    assert [step for step in machine.steps if step.startswith("change")] == ["change 2", "change 2"]
    lines = [json.loads(line) for line in (tmp_path / "steps.jsonl").read_text().splitlines()]
    assert [line["actual_ns"] for line in lines if line["step"] == "change"] == [3 * SECOND_NS, 99 * SECOND_NS // 10]


def test_a_change_that_fails_ends_the_run(tmp_path: Path) -> None:
    (tmp_path / "topo.yaml").write_text(
        "version: 1\nextends: " + str(LAB / "topo.yaml") + "\nevents: [{at: 3s, link: path0, set: {loss: 1%}}]\n"
    )
    spec = load(tmp_path / "topo", LAB / "xp_mptcp", allowed=Permissions(outside=True)).spec
    plan = json.loads(json.dumps(compile_plan(spec, allocate(spec)).to_json()))
    machine = RecordingMachine(fail_at=16)
    run = AgentRun(str(tmp_path), plan, machine, True, str(tmp_path), str(tmp_path))  # type: ignore[arg-type]
    assert perform(run, None) == 1
    assert machine.steps[16] == "change 2"
    assert machine.released
    assert machine.alive == []


ORDER = """\
version: 1
traffic:
  - {name: a, tool: ping, from: client, to: server, start: 1s}
  - {name: b, tool: ping, from: client, to: server, start: {after: a, offset: 500ms}}
  - name: c
    tool: ping
    from: client
    to: server
    start: {after: b, of: start, offset: 2s}
    repeat: {times: 2, pause: 3s}
  - {name: d, tool: ping, from: client, to: server, start: {after: c}}
probe: {pings: 0}
"""


def start_times(folder: Path) -> dict[str, float]:
    """Return the start of each flow in seconds from time zero."""
    lines = [json.loads(line) for line in (folder / "steps.jsonl").read_text().splitlines()]
    starts = [line for line in lines if line["step"] == "start" and line["phase"] == "run"]
    assert all(line["asked_ns"] == line["actual_ns"] for line in starts)
    return {line["name"]: line["actual_ns"] / SECOND_NS for line in starts}


def test_flows_start_when_others_have_started_or_ended(tmp_path: Path) -> None:
    (tmp_path / "xp.yaml").write_text(ORDER)
    machine = RecordingMachine(lasts_ns=10 * SECOND_NS)
    status, _ = run_on(machine, tmp_path, (LAB / "topo", tmp_path / "xp"))
    assert status == 0
    # the recording machine notices an end at the next tick of half a second
    assert start_times(tmp_path) == {"a": 1, "b": 11.5, "c-1": 13.5, "c-2": 26.5, "d": 36.5}


def test_a_flow_starts_although_the_one_before_was_stopped(tmp_path: Path) -> None:
    (tmp_path / "xp.yaml").write_text(ORDER.replace("start: 1s", "start: 1s, timeout: 4s"))
    machine = RecordingMachine(lasts_ns=10 * SECOND_NS)
    _, result = run_on(machine, tmp_path, (LAB / "topo", tmp_path / "xp"))
    assert result["processes"]["a"]["timed_out"]
    assert start_times(tmp_path)["b"] == 5.5


SECURE = """\
version: 1
traffic: [{name: web, tool: https, from: client, to: server, sizes: [1kb]}]
probe: {pings: 0}
"""


def test_preparations_come_before_anything_listens(tmp_path: Path) -> None:
    (tmp_path / "xp.yaml").write_text(SECURE)
    machine = RecordingMachine(lasts_ns=SECOND_NS)
    status, result = run_on(machine, tmp_path, (LAB / "topo", tmp_path / "xp"))
    assert status == 0
    assert machine.steps[:4] == ["build", "start web.certificate", "start web.server", "ready web.server"]
    assert result["processes"]["web.certificate"]["role"] == "preparation"


def test_a_preparation_that_does_not_end_ends_the_run(tmp_path: Path) -> None:
    (tmp_path / "xp.yaml").write_text(SECURE)
    machine = RecordingMachine(lasts_ns=100 * SECOND_NS)
    status, result = run_on(machine, tmp_path, (LAB / "topo", tmp_path / "xp"))
    assert status == 1
    assert result["error"] == "web.certificate: did not end in 60 s, its time limit"
    assert machine.steps[-1] == "start web.certificate"
    assert machine.alive == []
