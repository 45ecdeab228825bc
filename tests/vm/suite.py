# SPDX-License-Identifier: Apache-2.0
"""The tests of the suite in real time, which are marked `alone`. All of them run in a machine, except for tests that
need what its image does not have."""

from __future__ import annotations

import functools
import subprocess
import sys

from tests.vm.release import ROOT

FOLDER = "tests/system"
_KERNEL = "an experiment kernel, which the image does not have"
# What a machine lacks for a test, by the test's name.
LACKING = {
    f"{FOLDER}/test_addressing.py::test_prompt_knows_hosts_without_ipv4": _KERNEL,
    f"{FOLDER}/test_kills.py::test_a_run_ends_with_all_below_it[running-virtual]": _KERNEL,
    f"{FOLDER}/test_kills.py::test_a_run_ends_with_all_below_it[starting-virtual]": _KERNEL,
    f"{FOLDER}/test_kills.py::test_a_sweep_ends_with_all_below_it": _KERNEL,
    f"{FOLDER}/test_kills.py::test_a_worker_that_still_imports_ends_with_its_sweep": _KERNEL,
    f"{FOLDER}/test_kills.py::test_the_kernel_of_a_worker_ends_with_the_worker": _KERNEL,
    f"{FOLDER}/test_openflow.py::test_prompt_on_openflow_switches": _KERNEL,
    f"{FOLDER}/test_openflow.py::test_switches_in_real_time": _KERNEL,
    f"{FOLDER}/test_real_time.py::test_a_run_stops_at_the_prompt[virtual-after]": _KERNEL,
    f"{FOLDER}/test_real_time.py::test_a_run_stops_at_the_prompt[virtual-before]": _KERNEL,
    f"{FOLDER}/test_real_time.py::test_delays_in_an_experiment_kernel_in_real_time": _KERNEL,
    f"{FOLDER}/test_shell.py::test_lines_from_a_pipe_are_obeyed": _KERNEL,
    f"{FOLDER}/test_shell.py::test_prompt_on_the_network[virtual]": _KERNEL,
    f"{FOLDER}/test_misfortune.py::test_wrong_netem_is_refused_before_anything_exists": "a kernel without netem",
}


@functools.cache
def find_tests() -> tuple[str, ...]:
    """Return the names of all tests in real time, in the order in which pytest runs them."""
    argv = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "alone", "-p", "no:cacheprovider", FOLDER]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"pytest cannot list the tests: {done.stdout[-1000:]}{done.stderr[-1000:]}")
    return tuple(line for line in done.stdout.splitlines() if line.startswith(FOLDER))
