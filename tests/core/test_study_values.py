# SPDX-License-Identifier: Apache-2.0
"""The numbers of the studies' pages: each one is a recorded value, and no recorded value is stale."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from docs.generate.studies import PAGES, SHOWN, TUTORIAL, fill_verdicts, judge_recorded, pages_with_numbers, texts_of
from docs.generate.study_values import (
    NUMBER,
    STUDIES,
    MeasuredPart,
    fill_numbers,
    find_recorded,
    find_stale,
    kernel_of,
    names_of,
    plan_of,
    read_elsewhere,
    read_parts,
    sweep_of,
)
from mprun.labs.catalog import open_lab
from mprun.statements.expression import UnknownName, Value, parse_value

RECORDED = [number for number in SHOWN if read_parts(number)]
ELSEWHERE = [number for number in SHOWN if read_elsewhere(number)]

# Text of a page that has no typed numbers: generated tables and numbers, commands, other code, and targets of links.
NOT_PROSE = (
    r"<!-- figures.*?end of figures -->",
    NUMBER.pattern,
    r"```.*?```",
    r"(?m)^    [^\n]*",
    r"`[^`]*`",
    r"\]\([^)]*\)",
)
# Names with numbers: RFCs and their sections, versions, years, labs.
NAMES = r"RFC\s\d+(\s[\d.]+\d)?|(Linux|kernel|Debian|lab)\s[\d.]+\d|\b(19|20)\d\d\b"
TYPED = re.compile(r"(?<![\w.:/])\d+(\.\d+)?(?![\w/:]|\.\d)")
# Numbers that no file of a lab has: arithmetic, as the page shows it, and facts that need no run.
ARITHMETIC = {
    "01_multipath/ANSWERS.md": "32 56 94 1520",
    "02_scheduler/README.md": "19",
    "04_backup/README.md": "0.985 5.1",
    "05_congestion_control/ANSWERS.md": "9.6 130",
    "05_congestion_control/README.md": "9.6 18.9 130",
    "06_multipath_quic/README.md": "1.25 7",
    "07_own_scheduler/README.md": "1.7",
    "08_multipath_scenarios/README.md": "0.2 0.4 1.2 166 750",
    "10_openflow_topologies/ANSWERS.md": "0.01 51 94.1",
    "10_openflow_topologies/README.md": "94.1 153 184.3 216 382.6 752.4 1505 3010 6020",
    "studies/classroom.md": "3.76",
    "studies/index.md": "11 12 13 95",
    "studies/openflow_topologies.md": "62",
    "studies/sctp_and_mptcp.md": "0.2 376.2 500",
}


def part_of(goodput: float) -> MeasuredPart:
    return MeasuredPart("plan", "kernel", 1.0, {"xp.bulk.goodput": Value((goodput,), "rate")})


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def find_changed(read: Callable[[Path], str]) -> list[str]:
    """Return the names of pages that are not as the recorded values have them."""
    return [path.name for path, text in texts_of(SHOWN) if read(path) != text]


def test_each_page_has_the_recorded_values() -> None:
    assert find_changed(read) == [], "edited by hand, or a lab's file changed: python -m docs.generate.studies --pages"


def test_each_number_of_a_page_names_a_value_that_exists() -> None:
    root = STUDIES.parents[2]
    pages = [page for folder in ("docs", "labs") for page in (root / folder).rglob("*.md")]
    numbers = [(page.name, found["shown"]) for page in pages for found in NUMBER.finditer(read(page))]
    assert len(numbers) > 10
    assert [name for name, shown in numbers if shown == "not measured"] == []


def test_no_generated_number_begins_a_line() -> None:
    """In Markdown, a comment that begins a line ends the paragraph, and the rest of its line is shown as it is."""
    begin = re.compile(r"^\s*<!-- \d\d:", re.MULTILINE)
    assert [page for page in pages_with_numbers() if begin.search(read(page))] == []


def test_a_value_of_a_table_that_was_edited_by_hand_is_found() -> None:
    page = STUDIES / f"{PAGES['10']}.md"
    before, unit, after = read(page).partition(" Mbit/s")
    assert unit
    edited = f"{before[:-1]}{(int(before[-1]) + 1) % 10}{unit}{after}"
    assert find_changed(lambda path: edited if path == page else read(path)) == [page.name]


def test_a_number_that_was_edited_by_hand_is_written_again() -> None:
    parts = {"01": {"xp": part_of(18.94e6)}}
    text = "| TCP | <!-- 01: xp.bulk.goodput / 1mbit; .1f -->18.9<!-- --> |"
    assert fill_numbers(text, parts) == text
    assert fill_numbers(text.replace("18.9", "19.9"), parts) == text
    broken = text.replace("goodput / ", "goodput\n/ ")
    assert fill_numbers(broken.replace("18.9", "19.9"), parts) == broken
    assert fill_numbers(text, {"01": {}}).count("not measured") == 1
    found = NUMBER.search(text)
    assert found is not None
    assert (found["lab"], found["shown"]) == ("01", "18.9")


def numbers_of_files(folder: Path) -> set[float]:
    """Return the numbers of a lab's settings, claims and published values."""
    files = [*folder.rglob("*.yaml"), *folder.glob("published.csv")]
    return {float(one) for file in files for one in re.findall(r"\d+(?:\.\d+)?", read(file))}


def find_typed(page: Path) -> set[float]:
    """Return the numbers of a page's prose that are neither generated nor in a file of its lab."""
    of_page = {f"{name}.md": (number,) for number, name in PAGES.items()} | {"index.md": TUTORIAL}
    numbers = of_page.get(page.name, (page.parent.name[:2],))
    text = read(page)
    for pattern in NOT_PROSE:
        text = re.sub(pattern, "", text, flags=re.DOTALL)
    typed = {float(match[0]) for match in TYPED.finditer(re.sub(NAMES, "", text))}
    # one and two are words, as in "path 1"
    return typed.difference({0, 1, 2}, *(numbers_of_files(open_lab(number).folder) for number in numbers))


# The audit tells what the pages had before.
@pytest.mark.parametrize(
    "page",
    [page for page in pages_with_numbers() if page.name != "audit.md"],
    ids=lambda page: f"{page.parent.name}/{page.name}",
)
def test_no_number_of_a_page_is_typed(page: Path) -> None:
    known = ARITHMETIC.get(f"{page.parent.name}/{page.name}", "")
    remedy = "generate it from a run (docs/generate/study_values.py), or add it to ARITHMETIC if it needs no run"
    assert find_typed(page) == {float(one) for one in known.split()}, remedy


def test_a_typed_number_is_found(tmp_path: Path) -> None:
    page = tmp_path / "01_multipath" / "README.md"
    page.parent.mkdir()
    page.write_text(
        "TCP gets 18.7 Mbit/s, not <!-- 01: xp_tcp.bulk.goodput / 1mbit; .1f -->18.9<!-- -->, of 20.\n"
        "![18.6 Mbit/s](17.svg) `16` RFC 8684 3.2, Linux 6.12, 2020\n"
    )
    assert find_typed(page) == {18.7, 18.6}


def test_verdicts_of_a_page_are_those_of_the_figures() -> None:
    judged = {"01": judge_recorded(open_lab("01"), read_parts("01"))}
    text = "| <!-- 01: verdicts of tcp mptcp -->agrees (2)<!-- --> |"
    assert fill_verdicts(text, judged) == text
    assert fill_verdicts(text.replace("agrees", "differs"), judged) == text
    with pytest.raises(KeyError, match="other"):
        fill_verdicts(text.replace("mptcp", "other"), judged)


def test_a_value_that_was_not_recorded_has_a_remedy() -> None:
    (reference,) = parse_value("xp.other").references()
    with pytest.raises(UnknownName, match="make studies"):
        find_recorded(reference, {"xp": part_of(1.0)})


@pytest.mark.parametrize("number", RECORDED)
def test_no_recorded_value_is_stale(number: str) -> None:
    stale = find_stale(open_lab(number), read_parts(number))
    assert stale == [], f"files, compiler or kernel changed since these runs: make studies STUDIES={number}"


@pytest.mark.parametrize("number", ELSEWHERE)
def test_no_value_that_was_measured_elsewhere_is_stale(number: str) -> None:
    parts = read_elsewhere(number)
    assert all(part.command and part.kernel for part in parts.values())
    stale = [parts[name].command for name in find_stale(open_lab(number), parts)]
    assert stale == [], "files changed since these runs: repeat the commands, and record their values"


def test_a_value_of_elsewhere_is_stale_if_the_files_of_its_command_change() -> None:
    lab = open_lab("10")
    command = "mprun sweep -t topo_switches -x saturation --engine real"
    part = replace(part_of(1.0), plan=plan_of(sweep_of(lab, command)), command=command)
    assert find_stale(lab, {"idle": part}) == []
    assert find_stale(lab, {"idle": replace(part, command=f"{command} -p protocol=tcp")}) == ["idle"]
    assert find_stale(lab, {"idle": replace(part, plan="other")}) == ["idle"]


def test_a_run_of_another_plan_or_kernel_is_stale() -> None:
    lab = open_lab("01")
    step = lab.steps[0]
    good = MeasuredPart(plan_of(step), kernel_of(), 1.0, {})
    assert find_stale(lab, {step.name: good}) == []
    assert find_stale(lab, {step.name: replace(good, plan="other")}) == [step.name]
    assert find_stale(lab, {step.name: replace(good, kernel="other")}) == [step.name]
    assert find_stale(lab, {step.name: replace(good, kernel="other", sampled=kernel_of())}) == []
    assert find_stale(lab, {"removed": good}) == ["removed"]


def test_the_names_of_a_lab_include_numbers_of_pages(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- 01: xp_tcp.bulk.goodput / 1mbit; .1f -->18.9<!-- -->")
    assert "xp_tcp.bulk.goodput" in names_of(open_lab("01"), [page])
    assert "xp_tcp.bulk.goodput" not in names_of(open_lab("02"), [page])
