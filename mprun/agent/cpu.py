# SPDX-License-Identifier: Apache-2.0
"""Samples of CPU time in real time: of the machine's CPUs, and of the programs of the run (proc(5)).

The run has a process namespace of its own, whose /proc shows nothing else. Programs are told apart by their session:
each that the agent starts has one, and what it starts itself stays in it.
"""

from __future__ import annotations

import os

from mprun.agent.record import CPU, Recorder


class CpuSampler:
    """Records lines: those of the CPUs in /proc/stat, and /proc/PID/stat of every process.

    One that has ended is there until it is waited for, with all that it used.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._source = recorder.add_source({"tick_per_s": os.sysconf("SC_CLK_TCK")})

    def add(self, pid: int, name: str, node: str) -> None:
        """A program was started, with a session of its own."""
        self._recorder.add_source({"session": pid, "process": name, "node": node})

    def sample(self, at_ns: int) -> None:
        parts = []
        with open("/proc/stat", "rb") as file:
            parts += [line for line in file if line.startswith(b"cpu")]
        for name in os.listdir("/proc"):
            if name.isdigit():
                try:
                    with open(f"/proc/{name}/stat", "rb") as file:
                        parts.append(file.read())
                except (FileNotFoundError, ProcessLookupError):
                    # it has ended since
                    continue
        self._recorder.write(CPU, self._source, at_ns, parts)
