# SPDX-License-Identifier: Apache-2.0
"""The kernel's tests of traffic control (tools/testing/selftests/tc-testing): one script for each file of tests.

Each test sets up a queueing discipline, a filter or an action with tc(8), and compares what tc then prints.
"""

from __future__ import annotations

from pathlib import Path

from mprun.kernel.selftests.test_source import Script, shown_tests
from mprun.model import engine_paths

NAME = "tc-testing"


def list_own(selftests: Path) -> list[Script]:
    """Return the files of tests in a prepared folder, sorted by name, such as `tc-testing/qdiscs/netem`."""
    folder = selftests / NAME / "tc-tests"
    shown = shown_tests(selftests)
    directory = f"{engine_paths.ROOT}/selftests/{NAME}"
    found = []
    for path in sorted(folder.rglob("*.json")):
        name = path.relative_to(folder)
        command = ("/usr/bin/python3", "./tdc.py", "--outfile", "/tmp/results", "-f", f"tc-tests/{name}")
        found.append(Script(NAME, str(name.with_suffix("")), directory, command, shown))
    return found
