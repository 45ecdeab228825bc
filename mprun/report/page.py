# SPDX-License-Identifier: Apache-2.0
"""The page of a report: a single HTML file that needs no other files. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from mprun.report import palette

_SVG = re.compile(r"<svg\b.*</svg>", re.DOTALL)
_SIZE = re.compile(r'(<svg\b[^>]*?) width="[^"]*"( height="[^"]*")?')


@dataclass(frozen=True)
class Verdict:
    """An expectation in words. held: whether it holds; None if not known yet."""

    metric: str
    expected: str
    measured: str
    held: bool | None


@dataclass(frozen=True)
class Tile:
    """A main metric: its name, its value, and a note."""

    title: str
    value: str
    note: str = ""


@dataclass(frozen=True)
class Row:
    """A row of a table. note: the meaning of the first cell."""

    cells: tuple[str, ...]
    note: str = ""


@dataclass(frozen=True)
class Grid:
    """A table with its title. names: the number of columns with text; the others have numbers."""

    title: str
    head: tuple[str, ...]
    rows: tuple[Row, ...]
    names: int = 1


@dataclass(frozen=True)
class Picture:
    """A figure on the page.

    - svg: for a wide page.
    - narrow: for a small page, if it differs.
    - files: the files beside the page, as (kind, path).
    """

    name: str
    title: str
    caption: str
    svg: str
    narrow: str = ""
    marks: tuple[str, ...] = ()
    files: tuple[tuple[str, str], ...] = ()
    is_broad: bool = False


@dataclass(frozen=True)
class Page:
    """A report.

    - status: passed, failed, error or incomplete.
    - problems: (kind, text), the most serious first.
    - facts: the provenance.
    - repeat: commands.
    - inputs: texts by file name.
    """

    title: str
    description: str
    status: str
    verdict: str
    verdicts: Sequence[Verdict]
    tiles: Sequence[Tile]
    problems: Sequence[tuple[str, str]]
    pictures: Sequence[Picture]
    notes: Sequence[str]
    grids: Sequence[Grid]
    facts: Sequence[tuple[str, str]]
    repeat: Sequence[tuple[str, str]]
    inputs: Mapping[str, str]


def render(page: Page) -> str:
    """Return the whole page. Equal pages give equal text."""
    template = _environment().get_template("report.html")
    return template.render(page=page, light=Markup(palette.variables(False)), dark=Markup(palette.variables(True)))


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("mprun.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["inline"] = _inline
    environment.filters["stretch"] = lambda svg: _SIZE.sub(r"\1", svg, count=1)
    return environment


def _inline(svg: str) -> Markup:
    """Return one of our pictures as part of the page, in the page's colours."""
    found = _SVG.search(svg.replace('"white"', f'"{palette.PAPER}"'))
    assert found is not None
    return Markup(palette.themed(found[0]))
