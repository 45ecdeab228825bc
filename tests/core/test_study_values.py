# SPDX-License-Identifier: Apache-2.0
"""The numbers of the studies' pages: each one is a recorded value, and no recorded value is stale."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from docs.generate.studies import PAGES, SHOWN, texts_of
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
    assert fill_numbers(text, {"01": {}}).count("not measured") == 1
    found = NUMBER.search(text)
    assert found is not None
    assert (found["lab"], found["shown"]) == ("01", "18.9")


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
    assert find_stale(lab, {"removed": good}) == ["removed"]


def test_the_names_of_a_lab_include_numbers_of_pages(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- 01: xp_tcp.bulk.goodput / 1mbit; .1f -->18.9<!-- -->")
    assert "xp_tcp.bulk.goodput" in names_of(open_lab("01"), [page])
    assert "xp_tcp.bulk.goodput" not in names_of(open_lab("02"), [page])
