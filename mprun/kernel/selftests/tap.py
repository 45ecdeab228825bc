# SPDX-License-Identifier: Apache-2.0
"""Read the output of a test script in TAP, the Test Anything Protocol, as the kernel's tests use it.

Source: Documentation/dev-tools/ktap.rst of the kernel, and `mptcp_lib_result_print_all_tap()`.
"""

from __future__ import annotations

import re
from typing import Literal

from mprun.model.frozen import Frozen

TapResult = Literal["passed", "failed", "skipped"]

_PLAN = re.compile(r"^1\.\.(\d+)")
_LINE = re.compile(r"^(not )?ok (\d+)(?: - | )?([^#]*)(?:#\s*(\w+))?")
# A failure that the script expects still counts as a failure.
_EXCUSES = {"IGNORE", "XFAIL", "TODO"}


class Subtest(Frozen):
    """A subtest of a script: its name and its outcome."""

    name: str
    outcome: TapResult


class TapOutput(Frozen):
    """The output of a script. planned: the number of subtests that the script announced; None if it announced none."""

    planned: int | None
    subtests: tuple[Subtest, ...]


def parse(text: str) -> TapOutput:
    """Return the report after the last version line. Scripts write for people before this line."""
    planned = None
    subtests: list[Subtest] = []
    for line in text.splitlines():
        if line.startswith(("TAP version", "KTAP version")):
            planned, subtests = None, []
        elif match := _PLAN.match(line):
            planned = int(match[1])
        elif match := _LINE.match(line):
            subtests.append(Subtest(match[3].strip(), _tap_result(bool(match[1]), (match[4] or "").upper())))
    return TapOutput(planned, tuple(subtests))


def _tap_result(is_refused: bool, directive: str) -> TapResult:
    # tc-testing writes `skipped`
    if directive in ("SKIP", "SKIPPED"):
        return "skipped"
    return "failed" if is_refused or directive in _EXCUSES else "passed"
