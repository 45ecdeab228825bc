# SPDX-License-Identifier: Apache-2.0
"""The counts of the experiment kernel: of the stops of programs, and of executed lines. Other kernels have none.

Stops are system calls, page faults and signals. The kernel counts them, because they take most of the time of a run
(`kernel/src/mprun_cost.c`). The counts depend on the host and on versions of programs, so they are in a file of their
own that no repetition compares. Only a kernel with the profile `coverage` counts lines (`kernel/profile/coverage.c`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

from mprun.agent import run_file

STOPS = "/proc/mprun_stops"
LINES = "/proc/mprun_coverage"


def write_stops(path: str) -> None:
    """Write the stops until now to the file `path`: a JSON array of {program, call, count}, the most frequent first."""
    with suppress(FileNotFoundError), open(STOPS, errors="replace") as counts:
        stops = sorted(read_stops(counts), key=lambda stop: (-stop["count"], stop["program"], stop["call"]))
        with run_file.create(path) as made:
            json.dump(stops, made)


def read_stops(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Yield the stops in lines "COUNT CALL PROGRAM". A program can choose its name, so broken lines are left out."""
    for line in lines:
        count, _, rest = line.rstrip("\n").partition(" ")
        call, _, program = rest.partition(" ")
        if count.isdecimal():
            yield {"program": program, "call": call, "count": int(count)}


def write_lines(path: str) -> None:
    """Copy the counters of executed lines, as they are now, to the file `path`."""
    if not os.path.exists(LINES):
        return
    with open(LINES, "rb") as counts, run_file.create(path, "wb") as made:
        while block := counts.read(1 << 20):
            made.write(block)
