# SPDX-License-Identifier: Apache-2.0
"""Expectations and their results for other programs: JUnit's XML and TAP 14. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

from mprun.model.run_summary import Summary
from mprun.model.scalar import spell_values
from mprun.model.sweep_files import SweepSummary
from mprun.model.units import format_measured
from mprun.safety.text import printable


@dataclass(frozen=True)
class Check:
    """A checked expectation.

    - group: its run or cell.
    - detail: the measured value.
    - is_error: it could not be checked.
    """

    group: str
    name: str
    held: bool
    detail: str = ""
    is_error: bool = False

    def __post_init__(self) -> None:
        # XML does not allow control characters, not even escaped
        for name in ("group", "name", "detail"):
            object.__setattr__(self, name, printable(getattr(self, name)))


def checks_of_run(group: str, summary: Summary) -> Iterator[Check]:
    """Yield the checks of a run: that it ended without errors or failures, and each expectation."""
    errors, failures = "; ".join(summary.errors), "; ".join(summary.failures)
    yield Check(group, "run", not errors and not failures, errors or failures, is_error=bool(errors))
    for verdict in summary.expectations:
        found = "not measured"
        if verdict.value is not None:
            found = f"measured {format_measured(verdict.value, summary.metrics[verdict.metric].unit)}"
        yield Check(group, say_expectation(verdict.bounds), verdict.held, found, verdict.value is None)


def checks_of_sweep(summary: SweepSummary) -> Iterator[Check]:
    """Yield the checks of a sweep: the runs of each cell, each expectation over them, and the statements."""
    for cell in summary.cells:
        group, runs = spell_values(cell.values) or "only", cell.runs
        told = ", ".join(f"{count} {status}" for status, count in runs._asdict().items() if count) or "no runs"
        yield Check(group, "runs", 0 < runs.passed == runs.total, told, runs.error > 0)
        for verdict in cell.expectations:
            detail = f"held in {verdict.held} of {verdict.of} runs"
            yield Check(group, say_expectation(verdict.bounds), verdict.held == verdict.of, detail)
    for one in summary.statements:
        yield Check("across cells", one.holds, one.held is True, one.found, one.held is None)


def say_expectation(expectation: Mapping[str, Any]) -> str:
    """Return an expectation in base units, such as `bulk.goodput >= 36000000`; for a statement its text.

    The text is the same in every run, because other programs identify a check by it.
    """
    if "holds" in expectation:
        return str(expectation["holds"])
    bounds = (("==", expectation["equals"]), (">=", expectation["minimum"]), ("<=", expectation["maximum"]))
    told = [f"{word} {bound:.10g}" for word, bound in bounds if bound is not None]
    return f"{expectation['metric']} {' and '.join(told)}".strip()


def to_junit(title: str, checks: Sequence[Check]) -> str:
    """Return JUnit's XML, with a suite for each group."""
    root = ElementTree.Element("testsuites", _counts(printable(title), checks))
    for group in dict.fromkeys(check.group for check in checks):
        own = [check for check in checks if check.group == group]
        suite = ElementTree.SubElement(root, "testsuite", _counts(group, own))
        for check in own:
            case = ElementTree.SubElement(suite, "testcase", {"classname": group, "name": check.name, "time": "0"})
            if not check.held:
                kind = "error" if check.is_error else "failure"
                ElementTree.SubElement(case, kind, {"message": check.detail}).text = check.detail
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _counts(name: str, checks: Sequence[Check]) -> dict[str, str]:
    bad = [check for check in checks if not check.held]
    errors = sum(check.is_error for check in bad)
    counts = {"tests": len(checks), "failures": len(bad) - errors, "errors": errors, "skipped": 0}
    return {"name": name, **{word: str(count) for word, count in counts.items()}, "time": "0"}


def to_tap(checks: Sequence[Check]) -> str:
    """Return TAP 14, https://testanything.org/tap-version-14-specification.html."""
    lines = ["TAP version 14", f"1..{len(checks)}"]
    for number, check in enumerate(checks, start=1):
        title = f"{check.group}: {check.name}".replace("\\", "\\\\").replace("#", "\\#").replace("\n", " ")
        lines.append(f"{'ok' if check.held else 'not ok'} {number} - {title}")
        if not check.held:
            detail = check.detail.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
            lines += [
                "  ---",
                f'  message: "{detail}"',
                f"  severity: {'error' if check.is_error else 'fail'}",
                "  ...",
            ]
    return "\n".join(lines) + "\n"
