# SPDX-License-Identifier: Apache-2.0
"""Execute a run: build, start servers, measure idle paths, run the timeline, wait for packets under way, clean up.

    python -m mprun.agent.main RUN_DIRECTORY REPORTS ORDERS [--simulated | --confine --lifeline FD] \
        [--shell before|after|only] [--hold NS]

It reads `plan.json` from the run directory and writes `steps.jsonl`, `agent.json`, `record.gz`, `logs/` and `pcap/`
there. The exit status is 0 if every step succeeded. `agent.json` has the reason for a failure.

- REPORTS: the folder of the file `progress`.
- ORDERS: the folder in which a file `stop` ends the run.
- --confine: confine the commands of a file, because the kernel is the machine's own.
- --hold: stop at this time of CLOCK_MONOTONIC, and execute lines of the user.
- --lifeline: the reading end of a pipe that mprun keeps open until it ends.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import traceback
from collections.abc import Callable
from functools import partial
from typing import IO, Any

from mprun.agent import kernel_counts, limit, memory, namespace, run_file, sysctl
from mprun.agent.machine import SECOND_NS, Machine
from mprun.agent.machine_load import MachineWatch
from mprun.agent.openvswitch import EARLIEST_NS
from mprun.agent.process import NoProcess, ProcessError, RunningProcess
from mprun.agent.readback import BuildError
from mprun.agent.schedule import FlowSchedule, Sampling
from mprun.model.agent_report import AgentReport, Captured, Ended, spell_status, write_report
from mprun.model.engine_paths import HELD, LIBRARY_NAMES, LINE_COUNTS, PROMPT_OUTPUT

TICK_NS = SECOND_NS // 2
# The interval at which the lateness of timers is measured during the measurement of idle paths.
IDLE_TICK_NS = SECOND_NS // 50
# The series that every run samples at time zero and at the end.
TOTALS = ("interfaces", "ports", "queues")
# In the first second of a monotonic clock, iputils' ping considers it unset and then ignores its interval.
FIRST_PHASE_NS = 2 * SECOND_NS
# The status that a shell gives for a program that it cannot start.
NOT_FOUND = 127
# The last sample of a flow's sockets is taken this long before the flow is due to end.
LAST_SAMPLE_NS = 1_000_000
# All links must be up within the first time; the second is the interval of checks.
LINKS_UP_NS, LOOK_NS = 60 * SECOND_NS, SECOND_NS // 20
# The time in which the kernel reports sockets that have just closed.
SETTLE_NS = SECOND_NS // 5
# The kernel passes packets to tcpdump in blocks. A block that is not full is passed when the kernel's one-second timer
# expires for the second time, as the first may have come just after the block was begun (packet_mmap).
CAPTURE_NS = 2 * SECOND_NS + SETTLE_NS
# The longest time that packets under way at the end of the traffic get to arrive, in simulated time and in real time.
DRAIN_NS, REAL_DRAIN_NS = 3600 * SECOND_NS, 60 * SECOND_NS
# Captures end if less space is left on the disk, so that the rest of the run can be written.
RESERVE_BYTES = 64 << 20


class Stopped(Exception):
    """The user wants the run to end now."""


class AgentRun:
    """The state of a run in the agent: the processes that it has started, and its result."""

    def __init__(
        self, directory: str, plan: dict[str, Any], machine: Machine, is_simulated: bool, reports: str, orders: str
    ) -> None:
        self.directory = directory
        self.plan = plan
        self.machine = machine
        self.is_simulated = is_simulated
        self.zero_ns: int | None = None
        self.daemons: list[RunningProcess] = []
        self.preparations: list[RunningProcess] = []
        self.probes: list[RunningProcess] = []
        self.flows: list[RunningProcess] = []
        self.captures_are_read = False
        self.counters_before: dict[str, dict[str, int]] = {}
        self.processes: dict[str, Ended] = {}
        self.captures: dict[str, Captured] = {}
        self.hold_ns: int | None = None
        self.result = AgentReport(None, False, self.processes, self.captures)
        self._steps: IO[str] = open(f"{directory}/steps.jsonl", "w", buffering=1)  # noqa: SIM115  until the end
        self._progress = os.open(f"{reports}/progress", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        self._orders = orders
        self._stop = f"{orders}/stop"

    def note(self, step: str, asked_ns: int | None = None, **facts: Any) -> None:
        """Write a line to steps.jsonl. Times count from time zero, or from boot if the step comes before time zero.

        In simulated time, times before time zero are rounded down to a millisecond. An additional file that a program
        looks for moves these times by a microsecond, but has no effect on later times.
        """
        actual_ns = self.machine.now_ns() - (self.zero_ns or 0)
        if self.zero_ns is None and self.is_simulated:
            actual_ns -= actual_ns % 1_000_000
        line: dict[str, Any] = {"step": step, "phase": "run" if self.zero_ns is not None else "before"}
        line |= {"asked_ns": asked_ns, "actual_ns": actual_ns, **facts}
        self._steps.write(json.dumps(line) + "\n")

    def report(self, text: str, done_ns: int = 0, end_ns: int | None = None) -> None:
        """Report the run's progress to the terminal. Raises Stopped if the user asked for the end."""
        line = json.dumps({"text": text, "done_ns": done_ns, "end_ns": end_ns or self.plan["end_ns"]})
        os.pwrite(self._progress, (line + "\n").ljust(200).encode(), 0)
        if os.path.exists(self._stop):
            raise Stopped

    def wait_for_order(self, name: str) -> str:
        """Return the text of an order. No simulated time passes. Raises Stopped if the user asked for the end."""
        while not os.path.exists(f"{self._orders}/{name}"):
            if os.path.exists(self._stop):
                raise Stopped
        with open(f"{self._orders}/{name}") as order:
            return order.read()

    def hosts_in_use(self) -> list[str]:
        """Return the names of the hosts where a flow starts or ends, in the plan's order."""
        used = {end for flow in self.plan["intent"]["traffic"] for end in (flow["source"], flow["destination"])}
        return [node["name"] for node in self.plan["nodes"] if node["name"] in used]

    def start(
        self, planned: dict[str, Any], among: list[RunningProcess], asked_ns: int | None = None
    ) -> RunningProcess:
        """Start a process of the plan and add it to `among`, where `tidy_up` finds it.

        asked_ns: the time at which the plan starts the process, for steps.jsonl. Raises ProcessError.
        """
        process = self.machine.start(planned)
        among.append(process)
        self.note("start", asked_ns, name=process.name, node=planned["node"])
        return process

    def end_of(self, process: RunningProcess) -> None:
        """Record how a process ended."""
        self.note("end", None, name=process.name, status=process.status)
        status, plan = (process.status, process.timed_out), process.plan
        times_ns = (process.started_ns, self.machine.now_ns())
        ended = Ended(*status, plan["role"], plan["flows"], *times_ns, process.cut(), process.why or "")
        self.processes[process.name] = ended

    def never_started(self, planned: dict[str, Any], why: str) -> None:
        """Record that a process could not be started. The other processes continue."""
        self.note("end", None, name=planned["name"], status=NOT_FOUND)
        now = self.machine.now_ns()
        ended = Ended(NOT_FOUND, False, planned["role"], planned["flows"], now, now, why=why)
        self.processes[planned["name"]] = ended

    def next_phase(self, at_least_ns: int = 0) -> None:
        """In simulated time, sleep until the next whole second of the clock.

        Phases then start at the same time, however long the earlier phases lasted.
        """
        if self.is_simulated:
            now = max(self.machine.now_ns() + SECOND_NS // 10, at_least_ns)
            self.machine.sleep_until(-(-now // SECOND_NS) * SECOND_NS)


def carry_out(run: AgentRun, shell: str | None) -> None:
    """Run all phases. Raises BuildError, ProcessError or Stopped."""
    run.report("building the network")
    if not run.is_simulated:
        # only this machine has these values; the values of an experiment kernel follow from its digest
        run.result = run.result._replace(sysctls=sysctl.read_transports())
    check_congestion_controls(run)
    try:
        with memory.taken_at_once(run.is_simulated):
            run.machine.build()
    finally:
        run.result = run.result._replace(readback=run.machine.readback)
    if run.plan["switch_programs"]:
        start_switches(run)
    run.note("built", None, nodes=len(run.plan["nodes"]))
    if shell in ("before", "only"):
        interact(run)
    if shell == "only":
        return
    if run.plan["tracepoints"]:
        run.machine.prepare_trace(run.plan["tracepoints"])
    run.next_phase(FIRST_PHASE_NS)
    wait_for_links(run)
    if run.plan["trains"]:
        calibrate(run)
        return
    prepare(run)
    run.report("starting captures and servers")
    for planned in run.plan["daemons"]:
        process = run.start(planned, run.daemons)
        process.wait_ready()
        run.note("ready", None, name=process.name)
        if planned["role"] == "capture":
            run.captures[process.name] = Captured(run.machine.now_ns(), run.machine.indices(planned["node"]))
    measure_idle_paths(run)
    for host in run.hosts_in_use():
        run.machine.observe(host)
    # the kernels of hosts and routers count packets
    counted = [node["name"] for node in run.plan["nodes"] if node["kind"] in ("host", "router")]
    run.counters_before |= {node: run.machine.counters(node) for node in counted}
    run.machine.start_sampling(with_cpu="cpu" in run.plan["samples"])
    run.machine.begin_trace()
    run.next_phase()
    run.zero_ns = run.machine.now_ns()
    run.result = run.result._replace(boot_ns=run.machine.boot_ns())
    run.note("time zero")
    if run.plan["reseed"]:
        run.machine.reseed(**run.plan["reseed"])
    sample_totals(run)
    go_through_timeline(run, run.zero_ns)
    settle(run)
    if shell == "after":
        interact(run)
        run.captures_are_read = False


def check_congestion_controls(run: AgentRun) -> None:
    """Check that the kernel has the congestion controls that flows request. Raises BuildError.

    An MPTCP socket without a subflow accepts any name, and then uses its host's congestion control
    (mptcp_setsockopt_sol_tcp_congestion()).
    """
    wanted = sysctl.congestion_controls(run.plan["intent"]["traffic"])
    has = sysctl.choices_of(sysctl.CONGESTION) if wanted else None
    for flow, name in wanted.items():
        if has is not None and name not in has:
            raise BuildError(f"{flow}: no congestion control '{name}': this kernel has: {', '.join(has)}")


def start_switches(run: AgentRun) -> None:
    """Start the programs of switches, and configure them.

    A controller is ready when all switches have connected to it.
    """
    wait_s = (EARLIEST_NS - run.machine.now_ns()) / SECOND_NS
    if wait_s > 0 and not run.is_simulated:
        print(f"Open vSwitch works from 10 s after boot on: {wait_s:.0f} s to wait", flush=True)
    run.machine.sleep_until(EARLIEST_NS)
    for planned in run.plan["switch_programs"]:
        process = run.start(planned, run.daemons)
        if planned["ready"] and planned["ready"]["kind"] == "socket":
            process.wait_ready()
    try:
        run.machine.configure_switches()
    finally:
        run.result = run.result._replace(readback=run.machine.readback)
    for process in run.daemons:
        process.wait_ready()


def wait_for_links(run: AgentRun) -> None:
    """Wait until every interface works. An earlier packet would be lost without a trace. Raises BuildError."""
    began = run.machine.now_ns()
    deadline = began + LINKS_UP_NS
    while down := run.machine.find_down():
        if run.machine.now_ns() >= deadline:
            raise BuildError(f"{len(down)} interfaces do not come up, the first is {down[0]}")
        run.machine.sleep_until(run.machine.now_ns() + LOOK_NS)
    if run.machine.now_ns() >= began + LOOK_NS:
        run.next_phase()


def calibrate(run: AgentRun) -> None:
    """Send each train (a series of frames over one link) alone, one train after the other."""
    trains = run.plan["trains"]
    for number, train in enumerate(trains):
        run.report(f"calibrating {train['link']}, {number + 1} of {len(trains)}")
        run.result = run.result._replace(trains=(*run.result.trains, run.machine.send_train(train)))


def prepare(run: AgentRun) -> None:
    """Run the preparations of flows one after the other, before any server listens. Raises ProcessError."""
    for planned in run.plan["preparations"]:
        run.report(f"preparing {planned['flows'][0]}")
        process = run.start(planned, run.preparations)
        wait_for(run, process)
        run.end_of(process)
        if process.timed_out:
            limit_s = planned["timeout_ns"] / SECOND_NS
            raise ProcessError(f"{process.name}: did not end in {limit_s:g} s, its time limit{process.tail()}")
        if process.status:
            raise ProcessError(f"{process.name}: ended with status {spell_status(process.status)}{process.tail()}")
    if run.plan["preparations"]:
        run.next_phase()


def measure_idle_paths(run: AgentRun) -> None:
    """Run all probes at the same time, before there is any traffic. Raises ProcessError."""
    if not run.plan["probes"]:
        return
    run.next_phase()
    run.report("measuring idle paths")
    for planned in run.plan["probes"]:
        run.start(planned, run.probes)
    watch = None if run.is_simulated else run.machine.watch_host()
    for probe in run.probes:
        wait_for(run, probe, watch)
        run.end_of(probe)
        if probe.status:
            raise ProcessError(f"{probe.name}: no answer over this path before any traffic{tell_silence(probe)}")
    if watch is not None:
        run.result = run.result._replace(host_idle=watch.sum_up())


def tell_silence(probe: RunningProcess) -> str:
    """Return why a probe failed, to append to a message: no ping was answered, or what its program printed."""
    said = probe.tail()
    if ", 100% packet loss" not in said:
        return said
    path = probe.name.partition(".")[2]
    return (
        f": none of its pings was answered. Look at the rate, loss, corruption, delay and queue of the links of {path}"
        ", at its routes and at middleboxes (mprun plan prints them). To run without these pings, write "
        "'probe: {pings: 0}' in the experiment"
    )


def wait_for(run: AgentRun, process: RunningProcess, watch: MachineWatch | None = None) -> None:
    """Wait until a process has ended, or its time-out has ended it. watch: gets the lateness of timers meanwhile."""
    descriptor = run.machine.attend(process)
    tick_ns = run.machine.now_ns() + IDLE_TICK_NS
    while not process.poll() and (now := run.machine.now_ns()) < process.deadline_ns:
        if watch is not None and now >= tick_ns:
            watch.note_late(now - tick_ns)
            tick_ns = now + IDLE_TICK_NS
        run.machine.pause(process.deadline_ns if watch is None else min(process.deadline_ns, tick_ns))
    run.machine.leave(descriptor)
    end_if_late(process, run.machine.now_ns())


def end_if_late(process: RunningProcess, now_ns: int) -> bool:
    """End a process whose time-out has passed. Return True if it did."""
    is_late = now_ns >= process.deadline_ns and not process.poll()
    if is_late:
        process.timed_out = True
        process.stop()
    return is_late


def end_of_endless(process: RunningProcess) -> int | None:
    """Return when an endless process must be told to end; None if it ends by itself or was told already."""
    lasts_ns = process.plan["lasts_ns"] if process.plan["is_endless"] and not process.is_told else None
    return None if lasts_ns is None else process.started_ns + int(lasts_ns)


def go_through_timeline(run: AgentRun, zero_ns: int) -> None:
    """Start each flow at its time on an absolute clock, and wait until all flows have ended.

    zero_ns: time zero on CLOCK_MONOTONIC.
    """
    machine = run.machine
    schedule = FlowSchedule(run.plan["flows"], zero_ns)
    host = None if run.is_simulated else run.machine.watch_host()
    changes = list(run.plan["changes"])
    active: dict[int, RunningProcess] = {}
    sampling = Sampling(run.plan["samples"], zero_ns, run.plan["watches"])
    last_samples: list[int] = []
    tick_ns = zero_ns
    while active or not schedule.is_empty:
        now = machine.now_ns()
        due_series = sampling.take_due(now)
        if last_samples and now >= last_samples[0] and "sockets" not in due_series:
            due_series.append("sockets")
        last_samples = [moment for moment in last_samples if moment > now]
        for series in due_series:
            machine.sample(series, now)
        while changes and zero_ns + changes[0]["at_ns"] <= now:
            change = changes.pop(0)
            machine.change(change["commands"])
            run.note("change", change["at_ns"], name=change["name"], values=change["values"])
        if run.hold_ns is not None and run.hold_ns <= now:
            answer_lines(run)
        while due := schedule.take_due(now):
            due_ns, planned = due
            try:
                process = run.start(planned, run.flows, due_ns - zero_ns)
            except NoProcess as error:
                run.never_started(planned, str(error))
                schedule.note_end(planned, now)
                continue
            active[machine.attend(process)] = process
            if planned["lasts_ns"]:
                last_samples = sorted([*last_samples, due_ns + planned["lasts_ns"] - LAST_SAMPLE_NS])
        if now >= tick_ns:
            if host is not None:
                host.note_late(now - tick_ns)
            run.report(", ".join(p.name for p in active.values()) or "waiting", now - zero_ns)
            spare_disk(run)
            machine.record_closed()
            tick_ns += TICK_NS * (1 + (now - tick_ns) // TICK_NS)
        moments = [tick_ns, sampling.next_ns(), *last_samples[:1], *schedule.next_ns()]
        moments += [process.deadline_ns for process in active.values()]
        moments += [run.hold_ns] if run.hold_ns is not None else []
        moments += [end_ns for p in active.values() if (end_ns := end_of_endless(p)) is not None]
        ended = machine.pause(min(moments + [zero_ns + change["at_ns"] for change in changes[:1]]))
        now = machine.now_ns()
        for descriptor, process in list(active.items()):
            if (tell_ns := end_of_endless(process)) is not None and now >= tell_ns:
                # its time-out ends it if it does not obey
                process.tell_to_end()
            if descriptor in ended or end_if_late(process, now):
                if "cpu" in run.plan["samples"] and not process.timed_out:
                    # the kernel reports its CPU time until it is waited for
                    machine.sample("cpu", now)
                process.poll()
                machine.leave(descriptor)
                del active[descriptor]
                run.end_of(process)
                schedule.note_end(process.plan, machine.now_ns())
    if host is not None:
        run.result = run.result._replace(host=host.sum_up())


def live_captures(run: AgentRun) -> list[RunningProcess]:
    """Return the captures that still run."""
    return [process for process in run.daemons if process.plan["role"] == "capture" and not process.poll()]


def call_in_captures(run: AgentRun) -> int | None:
    """Tell the captures that the traffic is over. Return when they will have read all of it; None without captures.

    Each capture prints how many packets it has seen until now.
    """
    captures = live_captures(run)
    for process in captures:
        process.notify(signal.SIGUSR1)
    run.captures_are_read = True
    return run.machine.now_ns() + CAPTURE_NS if captures else None


def spare_disk(run: AgentRun) -> None:
    """End the captures while there is still space for the rest of the run."""
    captures = live_captures(run)
    if captures and run.machine.free_bytes() < RESERVE_BYTES:
        for process in captures:
            process.stop()
            run.note("ended for lack of space", None, name=process.name)
            run.captures[process.name] = run.captures[process.name]._replace(ended_ns=run.machine.now_ns())


def sample_totals(run: AgentRun) -> None:
    """Sample the series that are counted over the whole run, at its beginning and its end."""
    now_ns = run.machine.now_ns()
    for series in (*TOTALS, *({"cpu"} & run.plan["samples"].keys())):
        run.machine.sample(series, now_ns)


def drain(run: AgentRun) -> None:
    """Wait until no link holds a packet: a packet under way is neither received nor lost.

    A program of a file may send until the run ends, so the wait is bounded. The interval of checks grows with the time
    waited, so that an hour of simulated time takes about a hundred checks.
    """
    began_ns = run.machine.now_ns()
    most_ns = DRAIN_NS if run.is_simulated else REAL_DRAIN_NS
    while run.machine.holds_packets() and (waited_ns := run.machine.now_ns() - began_ns) < most_ns:
        run.report("waiting for packets under way")
        run.machine.sleep_until(run.machine.now_ns() + max(SETTLE_NS, waited_ns // 10))


def settle(run: AgentRun) -> None:
    """Wait until links are empty and sockets are closed, then record the kernel's counters."""
    drain(run)
    run.machine.sleep_until(call_in_captures(run) or run.machine.now_ns() + SETTLE_NS)
    counters = {}
    for node, before in run.counters_before.items():
        after = run.machine.counters(node)
        counters[node] = {k: v - before.get(k, 0) for k, v in after.items() if v != before.get(k, 0)}
    counted_before = {
        node: {name: value for name, value in before.items() if value} for node, before in run.counters_before.items()
    }
    filtered = run.machine.filtered_packets()
    run.result = run.result._replace(counters=counters, counters_before=counted_before, filtered=filtered)
    sample_totals(run)
    run.machine.end_trace()
    if run.plan["faults"]:
        run.result = run.result._replace(faults=run.machine.faulty_packets())


def interact(run: AgentRun) -> None:
    """Open Mininet's prompt on the running network."""
    from mininet.cli import CLI

    # Mininet's own commands wait for ever for telnet(1) and iperf(1), which no run needs
    CLI.do_iperf = CLI.do_iperfudp = _tell_iperf3
    signal.signal(signal.SIGINT, signal.default_int_handler)
    CLI(run.machine.network())
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def answer_lines(run: AgentRun) -> None:
    """Execute lines of the user, as in `client ss -tin`, until the user ends the run.

    Simulated time passes only while a line is executed. Raises Stopped.
    """
    network = run.machine.network()
    names = sorted(node.name for node in network.values())
    number = 0
    while True:
        run.report(f"{HELD} {number}", run.machine.now_ns() - (run.zero_ns or 0))
        name, *words = run.wait_for_order(str(number)).split(" ")
        if name in names and words:
            # as at Mininet's prompt, a name in a command stands for the address of the node
            words = [network[word].defaultIntf().updateIP() or word if word in names else word for word in words]
            text = network[name].cmd(" ".join(words))
        else:
            text = f"write a node and a command, as in `{names[0]} ip route`; nodes: {', '.join(names)}\n"
        with open(f"{run.directory}/{PROMPT_OUTPUT}", "w") as output:
            output.write(text)
        number += 1


def _tell_iperf3(_prompt: object, _line: str) -> None:
    print("write `server iperf3 -s -D`, and then `client iperf3 -c server`, with the names of your hosts")


def tidy_up(run: AgentRun) -> None:
    """Stop all processes in the reverse of the order in which they were started.

    If one process cannot be stopped or recorded, the others are still stopped. If a run ends early, its captures get
    the same time as in a whole run, so that they keep what they have seen.
    """
    read_ns = None if run.captures_are_read else call_in_captures(run)
    for process in [*reversed(run.flows), *reversed(run.probes), *reversed(run.preparations)]:
        if not process.poll():
            _try(run, process.stop)
            _try(run, partial(run.end_of, process))
    if read_ns is not None:
        run.machine.sleep_until(read_ns)
    for process in reversed(run.daemons):
        early = process.poll()
        _try(run, process.stop)
        _try(run, partial(run.end_of, process))
        if early and process.status and run.result.error is None:
            reason = f"{process.name}: ended with status {spell_status(process.status)} during the run{process.tail()}"
            run.result = run.result._replace(error=reason)
    _try(run, partial(blame, run))
    _try(run, run.machine.finish_record)
    _try(run, lambda: run.machine.release(is_switched_off=run.is_simulated))
    _try(run, lambda: run.note("end of run"))


def blame(run: AgentRun) -> None:
    """Set the run's error if the kernel ended processes of an entry after the entry's own process had ended."""
    ended = limit.read()
    for process in (*run.daemons, *run.preparations, *run.probes, *run.flows):
        if process.pid in ended and not process.why and run.result.error is None:
            run.result = run.result._replace(error=f"{process.name}: {ended[process.pid]}")


def _try(run: AgentRun, action: Callable[[], None]) -> None:
    """Do a step of the clean-up. The first failure becomes the run's error if the run has none yet."""
    try:
        action()
    except Exception as error:
        run.result = run.result._replace(complete=False)
        if run.result.error is None:
            run.result = run.result._replace(error=f"the agent could not tidy up: {error}")
        traceback.print_exc()


def perform(run: AgentRun, shell: str | None) -> int:
    """Carry out the plan and write the result. Return 0 if every step succeeded, else 1."""
    try:
        carry_out(run, shell)
        run.result = run.result._replace(complete=True)
    except (BuildError, ProcessError) as error:
        run.result = run.result._replace(error=str(error))
    except Stopped:
        run.result = run.result._replace(error="stopped by the user")
    except Exception as error:
        reason = f"the agent could not continue: {str(error) or type(error).__name__}; see logs/agent.log"
        run.result = run.result._replace(error=reason)
        traceback.print_exc()
    finally:
        tidy_up(run)
        run.result = run.result._replace(zero_ns=run.zero_ns)
        with run_file.create(f"{run.directory}/agent.json") as made:
            json.dump(write_report(run.result), made)
        kernel_counts.write_stops(f"{run.directory}/stops.json")
        kernel_counts.write_lines(f"{run.directory}/{LINE_COUNTS}")
    return 0 if run.result.complete and run.result.error is None else 1


def is_cut(lifeline: int) -> bool:
    """Return True if mprun has ended. Close the descriptor.

    The kernel kills this process when unshare(1) ends, but only after unshare has asked for that (prctl(2)). If mprun
    was killed before, nobody else ends this process.
    """
    with os.fdopen(lifeline, "rb") as pipe:
        return bool(select.select([pipe], [], [], 0)[0])


def show_library_names(orders: str) -> None:
    """Let all programs find the names of libraries that are among the orders, if there are any."""
    names = f"{orders}/{os.path.basename(LIBRARY_NAMES)}"
    if os.path.exists(names):
        namespace.call("mount", names.encode(), LIBRARY_NAMES.encode(), None, namespace.MS_BIND, None)


def main(arguments: list[str]) -> int:
    """Run the plan inside an engine. Return the exit status."""
    directory, reports, orders = arguments[:3]
    if "--lifeline" in arguments and is_cut(int(arguments[arguments.index("--lifeline") + 1])):
        return 1
    shell = arguments[-1] if "--shell" in arguments else None
    namespace.be_punctual()
    show_library_names(orders)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    is_simulated = "--simulated" in arguments
    with memory.taken_at_once(is_simulated), open(f"{directory}/plan.json") as text:
        plan = json.load(text)
    # our programs that draw random numbers then draw the same ones again
    os.environ["MPRUN_SEED"] = str(plan["seed"])
    confine: Callable[[], None] | None = None
    if "--confine" in arguments:
        from mprun.agent import confinement  # few runs have a command to confine, and imports are expensive

        confine = confinement.confine
    machine = Machine(plan, directory, (reports, orders), confine)
    run = AgentRun(directory, plan, machine, is_simulated, reports, orders)
    run.hold_ns = int(arguments[arguments.index("--hold") + 1]) if "--hold" in arguments else None
    return perform(run, shell)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
