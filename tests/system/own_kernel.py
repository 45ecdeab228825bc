# SPDX-License-Identifier: Apache-2.0
"""The kernel of a user's own that tests share, because a build takes some four minutes of two idle CPUs.

It has the solution of lab 07, a scheduler that uses trace_printk(), and counters of executed lines. It stays in
the user's cache, beside the store of runs, for all checkouts. It is built again only if one of these, the recipe or the
source of Linux has changed.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from mprun.kernel.addition import TEMPLATES
from mprun.machine.cache import cache
from tests.system.conftest import COMMAND, ROOT, environment

LAB = ROOT / "labs" / "07_own_scheduler"
SOLUTION = LAB / "solution" / "own.c"
NAME = "mine"
# Its programs for workloads are those of the user.
CACHE = cache("tests")
CHOICE = "\treturn mprun_srtt(one) < mprun_srtt(other);\n"
PRINTING = '\ttrace_printk("srtt %u and %u\\n", mprun_srtt(one), mprun_srtt(other));\n'


def write_printer() -> Path:
    """Write a scheduler that prints the round-trip times it compares."""
    text = (TEMPLATES / "scheduler.c").read_text().replace("@NAME@", "printer").replace("@FILE@", "printer.c")
    assert CHOICE in text
    path = CACHE / "printer.c"
    path.write_text(text.replace(CHOICE, PRINTING + CHOICE))
    return path


def build(name: str, *words: str) -> dict[str, str]:
    """Build a kernel, unless it exists. Return the environment for its use."""
    (CACHE / "mprun").mkdir(parents=True, exist_ok=True)
    if not (CACHE / "mprun" / "tools").exists():
        (CACHE / "mprun" / "tools").symlink_to(cache("tools"))
    env = environment(XDG_CACHE_HOME=str(CACHE))
    subprocess.run([*COMMAND, "kernel", "build", "--name", name, *words], env=env, check=True)
    return env


def build_own_kernel() -> tuple[dict[str, str], list[str]]:
    """Build the kernel, unless it exists.

    Return the environment for its use, and the options of the build in addition to the solution.
    """
    more = ["--with-scheduler", str(write_printer()), "--profile", "coverage"]
    return build(NAME, "--with-scheduler", str(SOLUTION), *more), more


if __name__ == "__main__":
    build_own_kernel()
