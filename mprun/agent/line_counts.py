# SPDX-License-Identifier: Apache-2.0
"""The counters of executed lines of a kernel with the profile `coverage` (`kernel/profile/coverage.c`)."""

from __future__ import annotations

from mprun.agent import run_file

COUNTS = "/proc/mprun_coverage"


def write(path: str) -> None:
    """Copy the kernel's counters of executed lines, as they are now, to the file `path`."""
    with open(COUNTS, "rb") as counts, run_file.create(path, "wb") as made:
        while block := counts.read(1 << 20):
            made.write(block)
