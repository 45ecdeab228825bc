# SPDX-License-Identifier: Apache-2.0
"""The tests of the suite that use the real engine: those that are marked `alone`. All of them run in a machine, but for
those that need what its image does not have."""

from __future__ import annotations

import subprocess
import sys

from tests.vm.release import ROOT

FOLDER = "tests/system"
_KERNEL = "an experiment kernel, which the image does not have"
# What a machine lacks for a test, by the test's name.
LACKING = {
    f"{FOLDER}/test_openflow.py::test_switches_in_real_time": _KERNEL,
    f"{FOLDER}/test_real_time.py::test_a_run_stops_at_the_prompt[virtual-after]": _KERNEL,
    f"{FOLDER}/test_real_time.py::test_a_run_stops_at_the_prompt[virtual-before]": _KERNEL,
    f"{FOLDER}/test_real_time.py::test_delays_in_an_experiment_kernel_in_real_time": _KERNEL,
    f"{FOLDER}/test_misfortune.py::test_wrong_netem_is_refused_before_anything_exists": "a kernel without netem",
}


def find_tests() -> list[str]:
    """The names of all tests that use the real engine, in the order in which pytest runs them."""
    argv = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "alone", "-p", "no:cacheprovider", FOLDER]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"pytest cannot list the tests: {done.stdout[-1000:]}{done.stderr[-1000:]}")
    return [line for line in done.stdout.splitlines() if line.startswith(FOLDER)]
