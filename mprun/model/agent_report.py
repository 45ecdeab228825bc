# SPDX-License-Identifier: Apache-2.0
"""The agent's report, `agent.json`: ends of processes, captures, counters, and the load of the host.

The agent makes these values and writes them. All other rooms read them with `mprun.model.codec`. They are named tuples,
because the agent also imports this module: a dataclass takes four times as long to create.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping
from typing import Any, NamedTuple


def spell_status(status: int | None) -> str:
    """Return an exit status, and the name of the signal if one ended the program, such as `-11 (SIGSEGV)`."""
    names = {-one.value: one.name for one in signal.Signals}
    return f"{status} ({names[status]})" if status in names else str(status)


class Ended(NamedTuple):
    """The end of a process. Times are those of the agent's clock.

    `status`: its exit status; None if it was never waited for.
    `flows`: the flow that it is part of, and then the flow's group.
    `cut`: the size of what was printed, in bytes, of each log that does not hold all of it.
    `why`: the agent's reason for a status that the program did not choose.
    """

    status: int | None
    timed_out: bool
    role: str
    flows: tuple[str, ...] = ()
    started_ns: int = 0
    ended_ns: int = 0
    cut: Mapping[str, int] = {}
    why: str = ""


class Captured(NamedTuple):
    """A capture's process.

    `ready_ns`: when it was live.
    `interfaces`: the kernel's number of each interface of its node.
    `ended_ns`: when it was ended before the run was over, as the disk was nearly full.
    """

    ready_ns: int
    interfaces: Mapping[str, int] = {}
    ended_ns: int | None = None


class MachineLoad(NamedTuple):
    """The load of a host in real time (`mprun.agent.machine_load`). Shares are of the time that was watched.

    `cpu_pressure`: the share in which some task waited for a CPU; None where the kernel does not count it.
    `steal`: the share that the hypervisor took.
    `late_most_ns`: how late the latest of the agent's timers came.
    `late_worst_ns`: how late the worst timers came, the latest first.
    `timers`: the number of timers. `late_median_ns`: their median lateness.
    """

    cpu_pressure: float | None = None
    steal: float = 0.0
    late_most_ns: int = 0
    late_worst_ns: tuple[int, ...] = ()
    timers: int = 0
    late_median_ns: int = 0


class Delays(NamedTuple):
    """Statistics of the delays of a train's frames, ns. `correlation`: of each delay with the one before."""

    median: float
    mean: float
    deviation: float
    correlation: float = 0.0


class Arrivals(NamedTuple):
    """The arrival of a train of frames at the other end of a link.

    `sent`, `received`: frames. `distinct`: the received ones without duplicates.
    `delay_ns`: of the frames that came; None if none came.
    `first_ns`, `last_ns`: the first and the last arrival, from the first sending.
    `took_ns`: how long sending took. `unseen`: frames that came too fast to be counted.
    `late`: frames that came after a frame that was sent later.
    """

    sent: int
    received: int
    distinct: int
    delay_ns: Delays | None
    first_ns: int | None
    last_ns: int | None
    took_ns: int
    unseen: int = 0
    late: int = 0


class AgentReport(NamedTuple):
    """The content of `agent.json`.

    `error`: the reason why the agent gave up; None if it did not.
    `complete`: every step was done.
    `processes`: ended processes by their names. `captures`: by the names of their processes.
    `counters`: by host or router, the growth of each counter of the kernel (nstat(8)) from time zero.
    `counters_before`: in the same way, the values before time zero. Counters that were zero are left out.
    `filtered`: by middlebox, the counts of its rules.
    `faults`: the number of packets of the faults in the file that came, by node and interface.
    `sysctls`: the kernel's settings of transports, where the kernel is the machine's own.
    `zero_ns`: time zero on the agent's clock; None if the run did not come so far.
    `boot_ns`: the boot of that clock, since 1970.
    `host`: while flows ran; `host_idle`: while idle paths were measured; both in real time only.
    `trains`: of a calibration, in the order of the plan.
    `readback`: the settings that the kernel reports after the network was built.
    """

    error: str | None
    complete: bool
    processes: Mapping[str, Ended] = {}
    captures: Mapping[str, Captured] = {}
    counters: Mapping[str, Mapping[str, int]] = {}
    counters_before: Mapping[str, Mapping[str, int]] = {}
    filtered: Mapping[str, Mapping[str, int]] = {}
    faults: Mapping[str, Mapping[str, int]] = {}
    sysctls: Mapping[str, str] | None = None
    zero_ns: int | None = None
    boot_ns: int | None = None
    host: MachineLoad | None = None
    host_idle: MachineLoad | None = None
    trains: tuple[Arrivals, ...] = ()
    readback: Mapping[str, Any] | None = None

    @property
    def zero_epoch_ns(self) -> int | None:
        """Time zero, since 1970; None if the run did not come so far."""
        return None if self.zero_ns is None or self.boot_ns is None else self.boot_ns + self.zero_ns

    def counters_of(self, host: str) -> Mapping[str, int]:
        """The counters of a host; empty if the run ended before they were read."""
        return self.counters.get(host, {})

    def ended(self, role: str, flow: str) -> dict[str, Ended]:
        """The processes of a flow in one role, by their names."""
        return {name: one for name, one in self.processes.items() if one.role == role and flow in one.flows}


def write_report(value: Any) -> Any:
    """Return a report in JSON's types, without the keys whose values are their defaults."""
    if isinstance(value, dict):
        return {key: write_report(item) for key, item in value.items()}
    if hasattr(value, "_fields"):
        unsaid = value._field_defaults
        members = zip(value._fields, value, strict=True)
        return {name: write_report(item) for name, item in members if name not in unsaid or item != unsaid[name]}
    return [write_report(item) for item in value] if isinstance(value, list | tuple) else value
