# SPDX-License-Identifier: Apache-2.0
"""The verdict on a script's result: known failures and unexpected failures, and changes between two kernels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from fnmatch import fnmatchcase
from typing import Any

from mprun.kernel.selftests.known import Known, find_known
from mprun.kernel.selftests.script_run import ScriptResult
from mprun.kernel.selftests.tap import TapResult
from mprun.model.frozen import Frozen

# The state of a subtest that a kernel's tests do not have.
ABSENT = "absent"


class JudgedScript(Frozen):
    """A script's result.

    - reasons: the reason of each known failure, by the subtest's name.
    - needless: the patterns of the user's list of known failures whose subtests all passed.
    """

    result: ScriptResult
    reasons: Mapping[str, str] = field(default_factory=dict)
    needless: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        return self.result.script.label

    @property
    def unexpected(self) -> list[str]:
        """The subtests that failed and are not known to fail."""
        return [name for name in self.result.names("failed") if name not in self.reasons]

    @property
    def passed(self) -> bool:
        return not self.unexpected and not self.result.error

    def to_json(self) -> dict[str, Any]:
        """Return the verdict with the names of failed and skipped subtests."""
        result = self.result
        return {
            "script": self.label,
            "passed": self.passed,
            "status": result.status,
            "fault": result.error,
            "subtests": len(result.subtests),
            "subtests_passed": len(result.names("passed")),
            "failed": self.unexpected,
            "known_to_fail": dict(self.reasons),
            "needless": list(self.needless),
            "skipped": result.names("skipped"),
            "simulated_s": result.simulated_s,
            "wall_s": result.wall_s,
            "log": str(result.log),
        }


class SubtestChange(Frozen):
    """A subtest with another outcome on the second kernel. before, after: an outcome, or ABSENT."""

    script: str
    subtest: str
    before: str
    after: str


def judge(result: ScriptResult, known: Sequence[Known], own: Sequence[Known], scheduler: str | None) -> JudgedScript:
    """Return the verdict on a script's result.

    - known: mprun's list of known failures.
    - own: the user's list of known failures.
    - scheduler: the MPTCP scheduler of the run; None: the kernel's default.
    """
    reasons = {}
    for name in result.names("failed"):
        if entry := find_known([*own, *known], result.script.name, name, scheduler):
            reasons[name] = entry.reason
    needless = [entry.subtest for entry in own if _is_needless(entry, result, scheduler)]
    return JudgedScript(result, reasons, tuple(needless))


def _is_needless(entry: Known, result: ScriptResult, scheduler: str | None) -> bool:
    outcomes = {one.outcome for one in result.subtests if fnmatchcase(one.name, entry.subtest)}
    return entry.is_of(result.script.name, scheduler) and outcomes == {"passed"}


def find_changes(before: Sequence[JudgedScript], after: Sequence[JudgedScript]) -> list[SubtestChange]:
    """Return the subtests whose outcomes differ between two kernels, sorted by script, in the order of the tests.

    Subtests of a script with the same name are numbered. A script that did not end correctly has its problem as a
    subtest without a name.
    """
    first, second = (_tap_results(judged_scripts) for judged_scripts in (before, after))
    keys = dict.fromkeys([*first, *second])
    changes = [SubtestChange(*key, first.get(key, ABSENT), second.get(key, ABSENT)) for key in keys]
    return sorted((one for one in changes if one.before != one.after), key=lambda one: one.script)


def _tap_results(judged_scripts: Sequence[JudgedScript]) -> dict[tuple[str, str], TapResult | str]:
    found: dict[tuple[str, str], TapResult | str] = {}
    for judged in judged_scripts:
        label, result = judged.label, judged.result
        found |= {(label, name): one.outcome for name, one in zip(_number(result), result.subtests, strict=True)}
        found[label, ""] = result.error or "ended"
    return found


def _number(result: ScriptResult) -> Iterator[str]:
    seen = Counter[str]()
    for one in result.subtests:
        seen[one.name] += 1
        yield one.name if seen[one.name] == 1 else f"{one.name} ({seen[one.name]})"
