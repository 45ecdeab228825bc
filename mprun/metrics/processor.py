# SPDX-License-Identifier: Apache-2.0
"""Convert samples of CPU time to rows: of CPUs from the first sample on, of programs from their start. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from mprun.metrics.readings import Readings, measured
from mprun.metrics.rows import ColumnKind, Rows, SampleSource
from mprun.model.agent_report import Ended
from mprun.model.units import NS_PER_S

if TYPE_CHECKING:
    import polars

OF_CPU: Mapping[str, ColumnKind] = {
    **{"time_ns": "whole", "host": "text", "process": "text"},
    **dict.fromkeys(("user_ns", "system_ns"), "whole"),
}
# Columns of a line of /proc/stat (proc(5)). user_ns includes nice, and idle_ns includes the wait for disks.
STATES = {"user_ns": (1, 2), "system_ns": (3,), "idle_ns": (4, 5), "irq_ns": (6,), "softirq_ns": (7,), "steal_ns": (8,)}
OF_PROCESSORS: Mapping[str, ColumnKind] = {"time_ns": "whole", "cpu": "text", **dict.fromkeys(STATES, "whole")}
# Fields of /proc/PID/stat that follow the program's name in parentheses (proc(5)).
SESSION, USER, SYSTEM, CHILDREN_USER, CHILDREN_SYSTEM = 3, 11, 12, 13, 14
# The agent's session is the one of its parent, outside of the run's process namespace.
AGENT_SESSION = 0


class Processors:
    """Rows of CPU time. A program has the time of all processes of its session, and of their children."""

    def __init__(self) -> None:
        self.programs = Rows(OF_CPU)
        self.processors = Rows(OF_PROCESSORS)
        self._names: dict[int, tuple[str | None, str]] = {AGENT_SESSION: (None, "agent")}
        self._first: dict[str, list[int]] = {}

    def add(self, facts: SampleSource) -> None:
        """Add a program that was started: its session, its name and its node."""
        assert facts.session is not None
        self._names[facts.session] = (facts.node, facts.process)

    def read(self, lines: bytes, at_ns: int, tick_per_s: int) -> None:
        """Add the lines of /proc/stat and of /proc/PID/stat."""
        tick_ns = NS_PER_S // tick_per_s
        used: dict[int, list[int]] = {}
        for line in lines.decode(errors="replace").splitlines():
            if line.startswith("cpu"):
                self._read_processor(line.split(), at_ns, tick_ns)
                continue
            fields = line.rpartition(")")[2].split()
            ticks = [int(fields[column]) for column in (USER, SYSTEM, CHILDREN_USER, CHILDREN_SYSTEM)]
            total = used.setdefault(int(fields[SESSION]), [0, 0])
            total[0] += (ticks[0] + ticks[2]) * tick_ns
            total[1] += (ticks[1] + ticks[3]) * tick_ns
        for session, (user_ns, system_ns) in sorted(used.items()):
            if session in self._names:
                self.programs.add((at_ns, *self._names[session], user_ns, system_ns))

    def _read_processor(self, words: list[str], at_ns: int, tick_ns: int) -> None:
        if words[0] == "cpu":
            # the sum of all
            return
        values = [sum(int(words[column]) for column in columns) * tick_ns for columns in STATES.values()]
        first = self._first.setdefault(words[0], values)
        since = (value - before for value, before in zip(values, first, strict=True))
        self.processors.add((at_ns, words[0], *since))


def measure_cpu(processes: Mapping[str, Ended], programs: polars.DataFrame) -> Readings:
    """Return cpu.client and cpu.server of each flow, by the last sample of each program that serves one flow."""
    last = programs.group_by("process", maintain_order=True).last()
    used_ns = {row["process"]: row["user_ns"] + row["system_ns"] for row in last.iter_rows(named=True)}
    metrics = {}
    for role, metric in (("flow", "cpu.client"), ("server", "cpu.server")):
        sums: dict[str, int] = {}
        for name, process in processes.items():
            # a flow and its group; several flows share a program only as members of a group
            if process.role == role and len(process.flows) in (1, 2) and name in used_ns:
                flow = process.flows[0]
                sums[flow] = sums.get(flow, 0) + used_ns[name]
        for flow, total_ns in sums.items():
            metrics[f"{flow}.{metric}"] = measured(total_ns / 1e9, "time")
    return Readings(metrics)
