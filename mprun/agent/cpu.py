# SPDX-License-Identifier: Apache-2.0
"""Sample CPU time in real time: of the machine's CPUs, and of the programs of the run (proc(5)).

The run has its own process namespace, so its /proc shows only the run's processes. A session identifies a program: the
agent starts each program in a new session, and the program's children stay in it.
"""

from __future__ import annotations

import os

from mprun.agent.record import CPU, Recorder


class CpuSampler:
    """Record the lines of the CPUs in /proc/stat, and /proc/PID/stat of every process.

    A process that has ended is listed with its total CPU time until it is waited for.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._source = recorder.add_source({"tick_per_s": os.sysconf("SC_CLK_TCK")})

    def add(self, pid: int, name: str, node: str) -> None:
        """Record that a program was started in a session of its own. pid: of the program, and so of its session."""
        self._recorder.add_source({"session": pid, "process": name, "node": node})

    def sample(self, at_ns: int) -> None:
        """Record the CPU time of all CPUs and of all processes of the run, under the time `at_ns` (CLOCK_MONOTONIC)."""
        parts = []
        with open("/proc/stat", "rb") as file:
            parts += [line for line in file if line.startswith(b"cpu")]
        for name in os.listdir("/proc"):
            if name.isdigit():
                try:
                    with open(f"/proc/{name}/stat", "rb") as file:
                        parts.append(file.read())
                except (FileNotFoundError, ProcessLookupError):
                    # the process has ended meanwhile
                    continue
        self._recorder.write(CPU, self._source, at_ns, parts)
