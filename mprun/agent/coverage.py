# SPDX-License-Identifier: Apache-2.0
"""The counters of executed lines of a kernel with the profile `coverage` (`kernel/profile/coverage.c`)."""

from __future__ import annotations

COUNTS = "/proc/mprun_coverage"


def write(path: str) -> None:
    """Write the counters until now to `path`, as the kernel gives them."""
    with open(COUNTS, "rb") as counts, open(path, "wb") as file:
        while block := counts.read(1 << 20):
            file.write(block)
