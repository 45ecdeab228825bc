# SPDX-License-Identifier: Apache-2.0
"""The results of the tests in machines, as a table: one line per test, one column per kernel and user."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Verdict = Literal["passed", "failed", "skipped"]
MARKS: Mapping[str, str] = {"passed": "✓", "failed": "✗", "skipped": "-"}


@dataclass(frozen=True)
class Result:
    """The end of one test. why: the first line of its message, if it did not pass."""

    name: str
    verdict: Verdict
    took_s: float
    why: str = ""


def read_results(path: Path) -> list[Result]:
    """Return the results in a report of pytest in JUnit's format."""
    return [_read_case(case) for case in ElementTree.parse(path).getroot().iter("testcase")]


def _read_case(case: ElementTree.Element) -> Result:
    module = case.get("classname", "").rsplit(".", 1)[-1]
    name, took_s = f"{module}::{case.get('name')}", float(case.get("time", 0))
    for kind in ("failure", "error", "skipped"):
        found = case.find(kind)
        if found is not None:
            verdict: Verdict = "skipped" if kind == "skipped" else "failed"
            return Result(name, verdict, took_s, (found.get("message") or "").split("\n")[0])
    return Result(name, "passed", took_s)


def draw(columns: Mapping[str, list[Result]]) -> str:
    """Return the table, and below it the reasons of failed and skipped tests. columns: results by kernel and user."""
    names = list(dict.fromkeys(result.name for results in columns.values() for result in results))
    width = max(map(len, names), default=0)
    lines = [" " * width + "".join(f"  {head}" for head in columns)]
    for name in names:
        cells = []
        for head, results in columns.items():
            found = [result for result in results if result.name == name]
            cell = f"{MARKS[found[0].verdict]} {found[0].took_s:.0f} s" if found else ""
            cells.append(f"  {cell:{len(head)}}")
        lines.append((f"{name:{width}}" + "".join(cells)).rstrip())
    for head, results in columns.items():
        lines += [
            f"{MARKS[result.verdict]} {head}: {result.name}: {result.why}"
            for result in results
            if result.verdict != "passed"
        ]
    return "\n".join(lines)
