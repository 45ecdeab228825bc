# SPDX-License-Identifier: Apache-2.0
"""No text of a stranger becomes an element of a page or a figure, or a formula or a command of an exported table."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hostile import exports, pages

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("painted_once")]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.mark.parametrize("case", pages.CASES)
def test_a_page_has_what_its_template_makes(case: str, tmp_path: Path) -> None:
    """Before, a column of a user's own table stood unescaped in ids of figures, and `a/b` ended in a traceback."""
    assert pages.attempt(case, tmp_path).harm == ""


@pytest.mark.parametrize("case", exports.CASES)
def test_an_exported_text_stays_a_text(case: str, tmp_path: Path) -> None:
    """Before, a text with `±` was taken for a number of LaTeX, and names of columns passed CSV files as formulas."""
    assert exports.attempt(case, tmp_path).harm == ""


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("<img src=x onerror=alert(1)>", "the element img"),
        ('<p class="" onclick="x">', "the element p"),
        ('<a href="javascript:alert(1)">', "the address"),
        ('<a href="//evil.org/x">', "the address"),
        ('<p style="background: url(http://evil.org)">', "the style"),
        ('<figure id="a"></figure><figure id="a">', "ids"),
        ('<a href="#none">', "an address that leads nowhere"),
        ("<p>text</p>", "0 policies"),
    ],
)
def test_what_no_template_makes_is_found(text: str, fault: str) -> None:
    assert pages.find_page_fault(f"<!DOCTYPE html><html><head></head><body>{text}</body></html>").startswith(fault)


@pytest.mark.parametrize("text", ["=1+1", "a,=1+1", "a;=1+1", 'b,"a\n=1+1"', " @cmd", "a\t+cmd", "-1+1"])
def test_a_formula_is_found(text: str) -> None:
    assert exports.find_formula(f"1,2\r\n{text},-1.5\r\n")


@pytest.mark.parametrize(
    "text", [r"\input{a}", "$x$", "a & b % c", "x_1", r"\\ [9cm]", "^^5cinput", r"$\input{a} \pm 1$"]
)
def test_a_command_of_latex_is_found(text: str) -> None:
    assert exports.find_command(rf"\begin{{tabular}}{{lr}} {text} \\ \end{{tabular}}")


@pytest.mark.parametrize("text", ["<img src=x>", "[a](b)", "![a](http://b/c.png)", "<http://a.b>"])
def test_markup_is_found(text: str) -> None:
    assert exports.find_markup(f"| a |\n| --- |\n| {text} |\n")
