# SPDX-License-Identifier: Apache-2.0
"""Expectations and tests with their results, for other programs: JUnit's XML and TAP 14. Pure.

Sources: testanything.org (version 14), and the schema that Jenkins and GitLab read (github.com/testmoapp/junitxml).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from mprun.model.frozen import Frozen
from mprun.model.run_summary import Summary
from mprun.model.scalar import spell_values
from mprun.model.sweep_files import SweepSummary
from mprun.reports.metrics import format_judged
from mprun.safety.text import printable

if TYPE_CHECKING:
    from mprun.kernel.selftests.judgement import JudgedScript


NO_SECONDS: Mapping[str, float] = {}


class CheckedExpectation(Frozen):
    """A checked expectation, or a test that has run.

    - group: its run or cell; of a test, its kernel and script.
    - detail: the measured value, or where to look.
    - is_error: it could not be checked.
    - is_skipped: it was not checked, or is known to fail, for the reason in `detail`.
    """

    group: str
    name: str
    held: bool
    detail: str = ""
    is_error: bool = False
    is_skipped: bool = False

    def __post_init__(self) -> None:
        # XML does not allow control characters, not even escaped
        for name in ("group", "name", "detail"):
            object.__setattr__(self, name, " ".join(printable(getattr(self, name)).split()))


def checks_of_run(group: str, summary: Summary) -> Iterator[CheckedExpectation]:
    """Yield the checks of a run: that it ended without errors or failures, and each expectation."""
    errors, failures = "; ".join(summary.errors), "; ".join(summary.failures)
    yield CheckedExpectation(group, "run", not errors and not failures, errors or failures, is_error=bool(errors))
    for verdict in summary.expectations:
        found = "not measured"
        if verdict.value is not None:
            found = f"measured {format_judged(summary.metrics[verdict.metric], [verdict])}"
        yield CheckedExpectation(group, say_expectation(verdict.bounds), verdict.held, found, verdict.value is None)


def checks_of_sweep(summary: SweepSummary) -> Iterator[CheckedExpectation]:
    """Yield the checks of a sweep: the runs of each cell, each expectation over them, and the statements."""
    for cell in summary.cells:
        group, runs = spell_values(cell.values) or "only", cell.runs
        told = ", ".join(f"{count} {status}" for status, count in runs._asdict().items() if count) or "no runs"
        yield CheckedExpectation(group, "runs", 0 < runs.passed == runs.total, told, runs.error > 0)
        for verdict in cell.expectations:
            detail = f"held in {verdict.held} of {verdict.of} runs"
            yield CheckedExpectation(group, say_expectation(verdict.bounds), verdict.held == verdict.of, detail)
    for one in summary.statements:
        held, skipped = one.is_true(may_come=False), one.left_out
        is_error = one.held is None and not skipped
        yield CheckedExpectation("across cells", one.holds, held is not False, one.found, is_error, skipped)


def checks_of_scripts(verdicts: Mapping[str, Sequence[JudgedScript]]) -> Iterator[CheckedExpectation]:
    """Yield the checks of scripts of kernels' own tests, by kernel: each test, and a failure of the whole script."""
    for kernel, results in verdicts.items():
        for verdict in results:
            group = f"{kernel}: {verdict.label}"
            for one in verdict.result.subtests:
                held = one.outcome != "failed"
                if reason := verdict.reasons.get(one.name):
                    yield CheckedExpectation(group, one.name, held, f"known to fail: {reason}", is_skipped=True)
                else:
                    detail = "" if held else f"see {verdict.result.log}"
                    yield CheckedExpectation(group, one.name, held, detail, is_skipped=one.outcome == "skipped")
            if verdict.result.error:
                yield CheckedExpectation(group, "the whole script", False, verdict.result.error, is_error=True)


def say_expectation(expectation: Mapping[str, Any]) -> str:
    """Return an expectation in base units, such as `bulk.goodput >= 36000000`; for a statement its text.

    The text is the same in every run, because other programs identify a check by it.
    """
    if "holds" in expectation:
        return str(expectation["holds"])
    bounds = (("==", expectation["equals"]), (">=", expectation["minimum"]), ("<=", expectation["maximum"]))
    told = [f"{word} {bound:.10g}" for word, bound in bounds if bound is not None]
    return f"{expectation['metric']} {' and '.join(told)}".strip()


def to_junit(title: str, checks: Sequence[CheckedExpectation], seconds: Mapping[str, float] = NO_SECONDS) -> str:
    """Return JUnit's XML, with a suite for each group. seconds: the time that each group took, if it is known."""
    root = ElementTree.Element("testsuites", _counts(printable(title), checks, sum(seconds.values())))
    for group in dict.fromkeys(check.group for check in checks):
        own = [check for check in checks if check.group == group]
        suite = ElementTree.SubElement(root, "testsuite", _counts(group, own, seconds.get(group, 0)))
        for check in own:
            case = ElementTree.SubElement(suite, "testcase", {"classname": group, "name": check.name, "time": "0"})
            if kind := _kind(check):
                ElementTree.SubElement(case, kind, {"message": check.detail}).text = check.detail
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _kind(check: CheckedExpectation) -> str | None:
    """Return JUnit's word for what was not as it should be; None if all was."""
    if check.is_skipped:
        return "skipped"
    return None if check.held else "error" if check.is_error else "failure"


def _counts(name: str, checks: Sequence[CheckedExpectation], seconds: float) -> dict[str, str]:
    found = Counter(map(_kind, checks))
    counts = {"failures": found["failure"], "errors": found["error"], "skipped": found["skipped"]}
    told = {word: str(count) for word, count in {"tests": len(checks), **counts}.items()}
    return {"name": name, **told, "time": f"{seconds:.1f}" if seconds else "0"}


def to_tap(checks: Sequence[CheckedExpectation]) -> str:
    """Return TAP 14, https://testanything.org/tap-version-14-specification.html."""
    lines = ["TAP version 14", f"1..{len(checks)}"]
    for number, check in enumerate(checks, start=1):
        title = _escape(f"{check.group}: {check.name}")
        directive = (
            f" # {'SKIP' if check.held else 'TODO'} {_escape(check.detail)}".rstrip() if check.is_skipped else ""
        )
        lines.append(f"{'ok' if check.held else 'not ok'} {number} - {title}{directive}")
        if not (check.held or check.is_skipped):
            detail = check.detail.replace("\\", "\\\\").replace('"', '\\"')
            lines += [
                "  ---",
                f'  message: "{detail}"',
                f"  severity: {'error' if check.is_error else 'fail'}",
                "  ...",
            ]
    return "\n".join(lines) + "\n"


def _escape(text: str) -> str:
    """Return a text of a test's line, in which # begins a directive."""
    return text.replace("\\", "\\\\").replace("#", "\\#")
