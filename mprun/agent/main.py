# SPDX-License-Identifier: Apache-2.0
"""One run: build, start what must listen, measure idle paths, go through the timeline, tidy up.

    python -m mprun.agent.main RUN_DIRECTORY [--simulated] [--shell before|after|only]

reads `plan.json` there and leaves `steps.jsonl`, `agent.json`, `logs/` and `pcap/`. Exit status 0
if every step succeeded; what failed is in `agent.json`.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
import traceback
from typing import IO, Any

from mprun.agent import namespace
from mprun.agent.build import Builder, BuildError
from mprun.agent.network import NamespaceNode, PlannedNetwork
from mprun.agent.observer import Observer
from mprun.agent.process import ProcessError, RunningProcess

SECOND_NS = 1_000_000_000
TICK_NS = SECOND_NS // 2
# iputils' ping takes a monotonic clock in its first second for unset and then ignores its interval.
FIRST_PHASE_NS = 2 * SECOND_NS
# How long before a flow is due to end its sockets are looked at for the last time.
LAST_SAMPLE_NS = 1_000_000
# What the kernel still has to say of sockets that have just closed.
SETTLE_S = 0.2


class Stopped(Exception):
    """The user wants the run to end now."""


class Run:
    """The state of a run in the agent: what has been started, and where it is written down."""

    def __init__(self, directory: str, is_simulated: bool) -> None:
        self.directory = directory
        self.is_simulated = is_simulated
        with open(f"{directory}/plan.json") as file:
            self.plan: dict[str, Any] = json.load(file)
        self.network: PlannedNetwork | None = None
        self.zero_ns: int | None = None
        self.daemons: list[RunningProcess] = []
        self.flows: list[RunningProcess] = []
        self.observers: list[Observer] = []
        self.counters_before: dict[str, dict[str, int]] = {}
        self.result: dict[str, Any] = {"error": None, "complete": False, "processes": {}}
        self._steps: IO[str] = open(f"{directory}/steps.jsonl", "w", buffering=1)  # noqa: SIM115  until the end
        self._progress = os.open(f"{directory}/.progress", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)

    def note(self, step: str, asked_ns: int | None = None, **facts: Any) -> None:
        """A line of steps.jsonl; times count from time zero once there is one, from boot before."""
        zero = self.zero_ns or 0
        line: dict[str, Any] = {"step": step, "phase": "run" if self.zero_ns is not None else "before"}
        line |= {"asked_ns": asked_ns, "actual_ns": time.monotonic_ns() - zero, **facts}
        self._steps.write(json.dumps(line) + "\n")

    def report(self, text: str, done_ns: int = 0) -> None:
        """Tell the terminal where the run is, and end it if the user asked for that."""
        line = json.dumps({"text": text, "done_ns": done_ns, "end_ns": self.plan["end_ns"]})
        os.pwrite(self._progress, (line + "\n").ljust(200).encode(), 0)
        if os.path.exists(f"{self.directory}/.stop"):
            raise Stopped

    def node(self, name: str) -> NamespaceNode:
        assert self.network is not None
        node: NamespaceNode = self.network.nameToNode[name]
        return node

    def hosts_in_use(self) -> list[str]:
        """Hosts that a flow starts or ends on, in the plan's order."""
        used = {end for flow in self.plan["intent"]["traffic"] for end in (flow["source"], flow["destination"])}
        return [node["name"] for node in self.plan["nodes"] if node["name"] in used]

    def start(self, planned: dict[str, Any]) -> RunningProcess:
        asked = planned["at_ns"]
        process = RunningProcess(planned, self.node(planned["node"]), self.directory)
        self.note("start", asked, name=process.name, node=planned["node"])
        return process

    def end_of(self, process: RunningProcess) -> None:
        """Write down how a process ended."""
        self.note("end", None, name=process.name, status=process.status)
        self.result["processes"][process.name] = {
            "status": process.status,
            "timed_out": process.timed_out,
            "role": process.plan["role"],
        }


def next_phase(run: Run, at_least_ns: int = 0) -> None:
    """Where waiting is free, sleep until the next whole second of the monotonic clock: phases then
    start at the same time whatever came before took."""
    if not run.is_simulated:
        return
    now = max(time.monotonic_ns() + SECOND_NS // 10, at_least_ns)
    sleep_until(-(-now // SECOND_NS) * SECOND_NS)


def sleep_until(moment_ns: int) -> None:
    remaining = moment_ns - time.monotonic_ns()
    if remaining > 0:
        time.sleep(remaining / SECOND_NS)


def carry_out(run: Run, shell: str | None) -> None:
    """All phases. Raises BuildError, ProcessError or Stopped."""
    home = namespace.open_current()
    run.report("building the network")
    builder = Builder(run.plan, home)
    run.network = builder.network
    started = time.monotonic_ns()
    try:
        builder.build()
    finally:
        run.result["readback"] = builder.readback
    run.note("built", None, nodes=len(run.plan["nodes"]), took_ns=time.monotonic_ns() - started)
    if shell in ("before", "only"):
        interact(run)
    if shell == "only":
        return
    next_phase(run, FIRST_PHASE_NS)
    run.report("starting captures and servers")
    for planned in run.plan["daemons"]:
        process = run.start(planned)
        run.daemons.append(process)
        process.wait_ready()
        run.note("ready", None, name=process.name)
    measure_idle_paths(run)
    for host in run.hosts_in_use():
        node = run.node(host)
        with namespace.inside(node.namespace, home):
            run.observers.append(Observer(host))
            run.counters_before[host] = read_counters()
    next_phase(run)
    run.zero_ns = time.monotonic_ns()
    run.note("time zero")
    go_through_timeline(run)
    settle(run)
    if shell == "after":
        interact(run)


def measure_idle_paths(run: Run) -> None:
    if not run.plan["probes"]:
        return
    next_phase(run)
    run.report("measuring idle paths")
    probes = [run.start(planned) for planned in run.plan["probes"]]
    for probe in probes:
        wait_for(probe)
        run.end_of(probe)
        if probe.status:
            raise ProcessError(f"{probe.name}: no answer over this path before any traffic{probe.tail()}")


def wait_for(process: RunningProcess) -> None:
    deadline = process.started_ns + process.plan["timeout_ns"]
    descriptor = os.pidfd_open(process.pid)
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    poll.poll(max(0, deadline - time.monotonic_ns()) / 1e6)
    os.close(descriptor)
    if not process.poll():
        process.timed_out = True
        process.stop()


def go_through_timeline(run: Run) -> None:
    """Start each flow at its time on an absolute clock and wait until all have ended."""
    assert run.zero_ns is not None
    waiting = sorted(run.plan["flows"], key=lambda flow: flow["at_ns"])
    ends = [flow["start_ns"] + (flow["duration_ns"] or 0) for flow in run.plan["intent"]["traffic"]]
    last_samples = sorted(run.zero_ns + end - LAST_SAMPLE_NS for end in ends)
    active: dict[int, RunningProcess] = {}
    poll = select.poll()
    for observer in run.observers:
        poll.register(observer.fileno(), select.POLLIN)
    observing = {observer.fileno(): observer for observer in run.observers}
    tick_ns = run.zero_ns
    while waiting or active:
        now = time.monotonic_ns()
        while waiting and run.zero_ns + waiting[0]["at_ns"] <= now:
            process = run.start(waiting.pop(0))
            run.flows.append(process)
            descriptor = os.pidfd_open(process.pid)
            active[descriptor] = process
            poll.register(descriptor, select.POLLIN)
        sampling = now >= tick_ns
        while last_samples and now >= last_samples[0]:
            last_samples.pop(0)
            sampling = True
        if sampling:
            for observer in run.observers:
                observer.sample()
        if now >= tick_ns:
            done_ns = now - run.zero_ns
            run.report(", ".join(p.name for p in active.values()) or "waiting", done_ns)
            tick_ns = now - done_ns % TICK_NS + TICK_NS
        moments = [tick_ns, *last_samples[:1]] + [p.started_ns + p.plan["timeout_ns"] for p in active.values()]
        if waiting:
            moments.append(run.zero_ns + waiting[0]["at_ns"])
        for descriptor, _ in pause(poll, min(moments)):
            if descriptor in observing:
                observing[descriptor].read()
        for descriptor, process in list(active.items()):
            if not process.poll() and time.monotonic_ns() >= process.started_ns + process.plan["timeout_ns"]:
                process.timed_out = True
                process.stop()
            if process.poll():
                poll.unregister(descriptor)
                os.close(descriptor)
                del active[descriptor]
                run.end_of(process)


def pause(poll: select.poll, until_ns: int) -> list[tuple[int, int]]:
    """What happened until a moment, or nothing if it came first. poll(2) counts in milliseconds, so
    the rest is slept."""
    remaining = until_ns - time.monotonic_ns()
    if remaining >= 1_000_000:
        return poll.poll(remaining // 1_000_000)
    if remaining > 0:
        time.sleep(remaining / SECOND_NS)
    return poll.poll(0)


def settle(run: Run) -> None:
    """Let queues drain and sockets close, then take in what the kernel said of them."""
    assert run.network is not None
    time.sleep(SETTLE_S)
    counters = {}
    for observer in run.observers:
        observer.read()
        with namespace.inside(run.node(observer.host).namespace, run.network.home):
            after = read_counters()
        before = run.counters_before[observer.host]
        counters[observer.host] = {k: v - before.get(k, 0) for k, v in after.items() if v != before.get(k, 0)}
    run.result["counters"] = counters


def read_counters() -> dict[str, int]:
    """The MIB counters of the namespace at hand (nstat(8)), as `MPTcpExtMPJoinSynRx`."""
    counters = {}
    for name in ("netstat", "snmp"):
        with open(f"/proc/thread-self/net/{name}") as file:
            lines = file.read().splitlines()
        for names, values in zip(lines[::2], lines[1::2], strict=True):
            group = names.split(":")[0]
            for counter, value in zip(names.split()[1:], values.split()[1:], strict=True):
                counters[group + counter] = int(value)
    return counters


def interact(run: Run) -> None:
    """Mininet's prompt on the running network."""
    from mininet.cli import CLI

    signal.signal(signal.SIGINT, signal.default_int_handler)
    CLI(run.network)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def tidy_up(run: Run) -> None:
    """Stop everything in the reverse of the order in which it was started, whatever happened."""
    for process in reversed(run.flows):
        if not process.poll():
            process.stop()
            run.end_of(process)
    for process in reversed(run.daemons):
        early = process.poll()
        process.stop()
        run.end_of(process)
        if early and process.status and run.result["error"] is None:
            run.result["error"] = f"{process.name}: ended with status {process.status} during the run{process.tail()}"
    for observer in run.observers:
        observer.read()
        observer.close()
    run.result["observed"] = {
        o.host: {"events": o.events, "closed": o.closed, "samples": o.samples} for o in run.observers
    }
    if run.network is not None:
        run.network.release()


def main(arguments: list[str]) -> int:
    """Run and leave the record; the exit status is 0 if every step succeeded."""
    directory = arguments[0]
    shell = arguments[-1] if "--shell" in arguments else None
    namespace.be_punctual()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    run = Run(directory, is_simulated="--simulated" in arguments)
    try:
        carry_out(run, shell)
        run.result["complete"] = True
    except (BuildError, ProcessError) as error:
        run.result["error"] = str(error)
    except Stopped:
        run.result["error"] = "stopped by the user"
    except Exception as error:
        run.result["error"] = f"the agent could not go on: {error or type(error).__name__}; see logs/agent.log"
        traceback.print_exc()
    finally:
        tidy_up(run)
        run.result["zero_ns"] = run.zero_ns
        run.note("end of run")
        with open(f"{directory}/agent.json", "w") as file:
            json.dump(run.result, file)
    return 0 if run.result["complete"] and run.result["error"] is None else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
