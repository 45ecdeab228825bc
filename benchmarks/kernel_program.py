# SPDX-License-Identifier: Apache-2.0
"""Run a program in the experiment kernel, in simulated time, for comparisons with other tools."""

from __future__ import annotations

from pathlib import Path

from mprun.engines.agent_process import ENVIRONMENT
from mprun.engines.guest import Guest, booted
from mprun.kernel.store import find_kernel

INSIDE = "/run/mprun/run"
BENCHMARKS = "/run/mprun/benchmarks"
MEMORY_MIB = 1536


def run(argv: list[str], folder: Path, timeout_s: float) -> str:
    """Return the output of the program. `folder` is its working directory and the only place that it can write to.

    Raises subprocess.TimeoutExpired.
    """
    guest = Guest(
        argv=argv,
        cwd=INSIDE,
        log=f"{INSIDE}/said.txt",
        opened={folder: INSIDE},
        shown={Path(__file__).parent: BENCHMARKS},
        environment={**ENVIRONMENT, "HOME": "/tmp", "PYTHONDONTWRITEBYTECODE": "1"},
        memory_mib=MEMORY_MIB,
    )
    with (folder / "console.txt").open("wb") as console, booted(find_kernel(), guest, console) as process:
        process.wait(timeout_s)
    return (folder / "said.txt").read_text(errors="replace")
