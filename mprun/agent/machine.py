# SPDX-License-Identifier: Apache-2.0
"""The agent's actions on its machine: build the network, start processes, watch, wait. `main` decides their order.

`Machine` carries them out. Tests use another class that records the calls and fails at will.
"""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from mprun.agent import kernel_file, kernel_log, namespace
from mprun.agent.machine_load import MachineWatch
from mprun.agent.network_commands import Builder
from mprun.agent.observer import Observer
from mprun.agent.process import RunningProcess
from mprun.agent.readback import BuildError
from mprun.agent.record import KERNEL_LOG, TRACE, Recorder
from mprun.agent.sampler import CpuSampler, Sampler, holds_packets, interface_sampler, queue_sampler
from mprun.agent.schedule import PROGRESS

if TYPE_CHECKING:
    from mprun.agent.trace_event import TraceEvents
    from mprun.model.agent_report import Arrivals

SECOND_NS = 1_000_000_000
# Counters of IPv6, and of SCTP. They exist only if the kernel has these protocols.
LISTED_COUNTERS = ("snmp6", "sctp/snmp")
# The file of an experiment kernel that changes its seed (`kernel/src/mprun_random.c`).
RESEED = "/proc/mprun_reseed"
# The pages of trace events in an entry of the record.
_TRACE_PAGES = 256


class Machine(Builder):
    """The machine that the agent runs on, and the network that it builds there. Times are ns of CLOCK_MONOTONIC."""

    def __init__(
        self,
        plan: dict[str, Any],
        directory: str,
        channel: Sequence[str] = (),
        confine: Callable[[], None] | None = None,
    ) -> None:
        """Prepare the run in its directory.

        channel: the folders for messages with mprun, which commands of a file do not see. confine: called in each
        process that becomes a command of a file, and does so, too; without it, the experiment kernel confines them.
        """
        super().__init__(plan, namespace.open_current())
        self._directory = directory
        self._channel = channel
        self._confine = confine
        self._poll = select.poll()
        self._recorder = Recorder(directory)
        self._observers: dict[int, Observer] = {}
        self._samplers: dict[str, Sampler | CpuSampler] = {}
        self._cpu: CpuSampler | None = None
        self._started: list[RunningProcess] = []
        self._trace: TraceEvents | None = None

    def now_ns(self) -> int:
        """Return the time now."""
        return time.monotonic_ns()

    def watch_host(self) -> MachineWatch:
        """Start to watch whether this machine keeps up."""
        return MachineWatch()

    def send_train(self, train: dict[str, Any]) -> Arrivals:
        """Send a series of frames over a link and measure their arrival. train: the series in the plan."""
        # only a calibration sends trains, and `statistics` is slow to import
        from mprun.agent.packet_train import send_train

        return send_train(train, self._inside)

    def start(self, planned: dict[str, Any]) -> RunningProcess:
        """Start a process of the plan in its node. Raises ProcessError."""
        node = self._network.nameToNode[planned["node"]]
        confine = self._confine if planned["is_foreign"] else None
        around = namespace.own_mounts(self._channel) if planned["is_foreign"] and confine is None else None
        process = RunningProcess(planned, node, self._directory, confine, around)
        if self._cpu is None:
            self._started.append(process)
        else:
            self._cpu.add(process.pid, process.name, planned["node"])
        return process

    def observe(self, host: str) -> None:
        """Start to record what happens to a host's connections. `pause` wakes up for these events."""
        with self._inside(host):
            observer = Observer(host, self._recorder)
        self._observers[observer.fileno()] = observer
        self._poll.register(observer.fileno(), select.POLLIN)

    def start_sampling(self, with_cpu: bool) -> None:
        """Find out what can be sampled. with_cpu: also sample CPU time."""
        network = self._network
        wires = [network.wires] if network.wires else []
        self._samplers["interfaces"] = interface_sampler(self._recorder, [*network.hosts, *network.switches])
        self._samplers["ports"] = interface_sampler(self._recorder, wires)
        self._samplers["queues"] = queue_sampler(self._recorder, wires)
        if with_cpu:
            self._cpu = self._samplers["cpu"] = CpuSampler(self._recorder)
            for process in self._started:
                self._cpu.add(process.pid, process.name, process.plan["node"])

    def prepare_trace(self, tracepoints: list[str]) -> None:
        """Prepare the recording of trace events, before any program starts. Raises BuildError."""
        # few runs have trace events, and imports are expensive
        from mprun.agent.trace_event import TraceEvents

        self._trace = TraceEvents(tracepoints)

    def begin_trace(self) -> None:
        """Begin to record the trace events that were prepared."""
        if self._trace is not None:
            self._trace.begin()

    def end_trace(self) -> None:
        """Write the trace events to the record."""
        if self._trace is None:
            return
        formats, lost, pages = self._trace.end()
        self._trace = None
        source = self._recorder.add_source({"formats": formats, "lost": lost})
        for first in range(0, len(pages), _TRACE_PAGES):
            self._recorder.write(TRACE, source, self.now_ns(), pages[first : first + _TRACE_PAGES])

    def sample(self, series: str, at_ns: int) -> None:
        """Record one sample of a series.

        - `interfaces`: the counters of all nodes.
        - `ports`, `queues`: the counters of all wires.
        - `sockets`: the sockets of the observed hosts.
        - `progress`: the MPTCP connections of the observed hosts.
        - `cpu`: CPU time.

        at_ns: now; the same time for all series that are sampled together.
        """
        if series == PROGRESS:
            for observer in self._observers.values():
                observer.sample_progress(at_ns)
            return
        samplers = self._observers.values() if series == "sockets" else [self._samplers[series]]
        for sampler in samplers:
            sampler.sample(at_ns)

    def record_closed(self) -> None:
        """Record which sockets have closed."""
        for observer in self._observers.values():
            observer.read_closed()

    def finish_record(self) -> None:
        """Record the kernel's last messages, its trace events and the experiment kernel's log, and end the record."""
        self.end_trace()
        self.record_closed()
        for observer in self._observers.values():
            observer.read_events()
            observer.close()
        self._observers = {}
        kernel_log.find_leaks(lambda ns: self.sleep_until(self.now_ns() + ns))
        if log := kernel_log.read():
            self._recorder.write(KERNEL_LOG, 0, self.now_ns(), [log])
        self._recorder.close()

    def counters(self, node: str) -> dict[str, int]:
        """Return the MIB counters of a node (nstat(8)), such as `MPTcpExtMPJoinSynRx`, and SCTP's if it is loaded."""
        counters = {}
        with self._inside(node):
            for name in ("netstat", "snmp"):
                with open(f"/proc/thread-self/net/{name}") as file:
                    lines = file.read().splitlines()
                for names, values in zip(lines[::2], lines[1::2], strict=True):
                    group = names.split(":")[0]
                    for counter, value in zip(names.split()[1:], values.split()[1:], strict=True):
                        counters[group + counter] = int(value)
            for name in LISTED_COUNTERS:
                with suppress(FileNotFoundError), open(f"/proc/thread-self/net/{name}") as file:
                    counters |= {name: int(value) for name, value in map(str.split, file)}
        return counters

    def indices(self, node: str) -> dict[str, int]:
        """Return the kernel's index of each interface of a node, by name. Captured packets carry these indices."""
        with self._inside(node):
            return {name: number for number, name in socket.if_nameindex()}

    def boot_ns(self) -> int:
        """Return the time when the monotonic clock began, on the clock that captures show."""
        before_ns = time.monotonic_ns()
        clock_ns = time.time_ns()
        return clock_ns - (before_ns + time.monotonic_ns()) // 2

    def holds_packets(self) -> bool:
        """Return True if a packet is under way on a shaped link."""
        wires = self._network.wires
        return wires is not None and holds_packets(wires)

    def free_bytes(self) -> int:
        """Return the free bytes that a user has on the run directory's disk."""
        disk = os.statvfs(self._directory)
        return disk.f_bavail * disk.f_frsize

    def reseed(self, at_ns: int, seed: int) -> None:
        """Let the kernel use the random numbers of another seed after a time. Raises BuildError."""
        try:
            kernel_file.write(RESEED, f"{at_ns} {seed}")
        except FileNotFoundError:
            raise BuildError("this kernel cannot change its seed during a run: build it again with mprun") from None

    def attend(self, process: RunningProcess) -> int:
        """Let `pause` wake when a process ends. Return the descriptor to pass to `leave`."""
        descriptor = os.pidfd_open(process.pid)
        self._poll.register(descriptor, select.POLLIN)
        return descriptor

    def leave(self, descriptor: int) -> None:
        """End what `attend` began for a process, and close its descriptor."""
        self._poll.unregister(descriptor)
        os.close(descriptor)

    def pause(self, until_ns: int) -> list[int]:
        """Wait until a time, or until a watched event happens.

        Return the descriptors (of `attend`) of the processes that have ended. poll(2) counts in milliseconds, so the
        rest is slept, and then poll(2) only looks. With a sample each millisecond, every wait is shorter than one.
        """
        remaining = max(0, until_ns - time.monotonic_ns())
        if 0 < remaining < 1_000_000:
            time.sleep(remaining / SECOND_NS)
            remaining = 0
        ready = [descriptor for descriptor, _ in self._poll.poll(remaining // 1_000_000)]
        for descriptor in ready:
            if descriptor in self._observers:
                self._observers[descriptor].read_events()
        return [descriptor for descriptor in ready if descriptor not in self._observers]

    def sleep_until(self, moment_ns: int) -> None:
        """Sleep until a time. Return at once if the time has passed."""
        remaining = moment_ns - time.monotonic_ns()
        if remaining > 0:
            time.sleep(remaining / SECOND_NS)

    def _inside(self, host: str) -> Any:
        return namespace.inside(self._network.nameToNode[host].namespace, self._home)
