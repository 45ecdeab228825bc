# SPDX-License-Identifier: Apache-2.0
"""The stops of programs in the experiment kernel: their system calls, page faults and signals.

The kernel counts the stops, because they take most of the time of a run (`kernel/src/mprun_cost.c`). The counts depend
on the host and on versions of programs, so they are in a file of their own that no repetition compares. Other kernels
do not count stops.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

from mprun.agent import run_file

COUNTS = "/proc/mprun_stops"


def write(path: str) -> None:
    """Write the stops until now to the file `path`: a JSON array of {program, call, count}, the most frequent first."""
    with suppress(FileNotFoundError), open(COUNTS, errors="replace") as counts:
        stops = sorted(read(counts), key=lambda stop: (-stop["count"], stop["program"], stop["call"]))
        with run_file.create(path) as made:
            json.dump(stops, made)


def read(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Yield the stops in lines "COUNT CALL PROGRAM". A program can choose its name, so broken lines are left out."""
    for line in lines:
        count, _, rest = line.rstrip("\n").partition(" ")
        call, _, program = rest.partition(" ")
        if count.isdecimal():
            yield {"program": program, "call": call, "count": int(count)}
