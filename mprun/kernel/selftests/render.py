# SPDX-License-Identifier: Apache-2.0
"""Results of tests for other programs: TAP, the Test Anything Protocol, and JUnit's XML.

Sources: testanything.org (version 13), and the schema that Jenkins and GitLab read (github.com/testmoapp/junitxml).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from xml.etree import ElementTree

from mprun.kernel.selftests.judgement import Verdict

# Characters that XML 1.0 does not allow, in any form.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render_tap(verdicts: Mapping[str, Sequence[Verdict]]) -> str:
    """Return the results as TAP. verdicts: by kernel. A known failure has the directive TODO, and its reason."""
    lines: list[str] = []
    for kernel, results in verdicts.items():
        for verdict in results:
            start = f"{kernel}: {verdict.label}"
            for one in verdict.result.subtests:
                is_refused = "not " if one.outcome == "failed" else ""
                directive = ""
                if one.outcome == "skipped":
                    directive = " # SKIP"
                elif one.name in verdict.reasons:
                    directive = f" # TODO known to fail: {_one_line(verdict.reasons[one.name])}"
                name = _one_line(f"{start}: {one.name}").replace("#", "\\#")
                lines.append(f"{is_refused}ok {len(lines) + 1} - {name}{directive}")
            if verdict.result.fault:
                fault = _one_line(f"{start}: {verdict.result.fault}").replace("#", "\\#")
                lines.append(f"not ok {len(lines) + 1} - {fault}")
    return "\n".join(["TAP version 13", f"1..{len(lines)}", *lines, ""])


def render_junit(verdicts: Mapping[str, Sequence[Verdict]]) -> bytes:
    """Return the results as XML: a test suite for each kernel and script. A known failure counts as skipped."""
    root = ElementTree.Element("testsuites", name="mprun kernel test")
    for kernel, results in verdicts.items():
        for verdict in results:
            root.append(_suite(kernel, verdict))
    for key in ("tests", "failures", "errors", "skipped"):
        root.set(key, str(sum(int(suite.get(key, "0")) for suite in root)))
    root.set("time", f"{sum(float(suite.get('time', '0')) for suite in root):.1f}")
    ElementTree.indent(root)
    return bytes(ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)) + b"\n"


def _suite(kernel: str, verdict: Verdict) -> ElementTree.Element:
    result = verdict.result
    place = f"{kernel}.{verdict.label.replace('/', '.')}"
    suite = ElementTree.Element("testsuite", name=_clean(f"{kernel}: {verdict.label}"))
    for one in result.subtests:
        case = ElementTree.SubElement(suite, "testcase", classname=_clean(place), name=_clean(one.name))
        if one.outcome == "skipped":
            ElementTree.SubElement(case, "skipped")
        elif one.name in verdict.reasons:
            said = f"known to fail: {' '.join(verdict.reasons[one.name].split())}"
            ElementTree.SubElement(case, "skipped", message=_clean(said))
        elif one.outcome == "failed":
            ElementTree.SubElement(case, "failure", message=_clean(f"see {result.log}"))
    if result.fault:
        case = ElementTree.SubElement(suite, "testcase", classname=_clean(place), name="the whole script")
        ElementTree.SubElement(case, "error", message=_clean(result.fault))
    suite.set("tests", str(len(suite)))
    for key, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(key, str(len(suite.findall(f"testcase/{tag}"))))
    suite.set("time", f"{result.wall_s:.1f}")
    return suite


def _clean(text: str) -> str:
    return _NOT_XML.sub("?", text)


def _one_line(text: str) -> str:
    return " ".join(_clean(text).split())
