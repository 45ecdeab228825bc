# SPDX-License-Identifier: Apache-2.0
"""The page of a report: a single HTML file that needs no other files. Pure."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import ClassVar, Protocol

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup, escape

from mprun.model.frozen import Frozen
from mprun.reports import palette
from mprun.reports.effect import SideValue
from mprun.reports.metrics import ExpectationRow

_SVG = re.compile(r"<svg\b.*</svg>", re.DOTALL)
# The part of pages with figures.
_FIGURES = "figures.html"
_SCRIPT = re.compile(r"<script>(.*?)</script>", re.DOTALL)
# graphviz' background, in a tag
_WHITE = re.compile('"white"(?=[^<>]*>)')
_SIZE = re.compile(r'(<svg\b[^>]*?) width="[^"]*"( height="[^"]*")?')


class Tile(Frozen):
    """A main metric: its name, its value, and a note."""

    title: str
    value: str
    note: str = ""


class PageRow(Frozen):
    """A row of a table. note: the meaning of the first cell."""

    cells: tuple[str, ...]
    note: str = ""


class Grid(Frozen):
    """A table with its title. names: the number of columns with text; the others have numbers."""

    title: str
    head: tuple[str, ...]
    rows: tuple[PageRow, ...]
    names: int = 1


class Picture(Frozen):
    """A figure on the page.

    - svg: for a wide page.
    - narrow: for a small page, if it differs.
    - files: the files beside the page, as (kind, path).
    - is_broad: it keeps its own size. fits_column: nevertheless, it leaves room for a figure beside it.
    - values: what the pointer shows on the wide picture, as JSON (`chart.paint`); empty for nothing.
    """

    name: str
    title: str
    caption: str
    svg: str
    narrow: str = ""
    marks: tuple[str, ...] = ()
    files: tuple[tuple[str, str], ...] = ()
    is_broad: bool = False
    fits_column: bool = False
    values: str = ""


class LeftFile(Frozen):
    """A file that a run left. link: its address, relative to the page."""

    name: str
    link: str
    size: str


class IllustratedPage(Frozen):
    """A page with figures."""

    title: str
    description: str
    pictures: Sequence[Picture]
    notes: Sequence[str]


class ResultPage(IllustratedPage):
    """A page with results that are judged.

    - status: passed, failed, error or incomplete; empty if nothing is judged.
    - tiles: the main metrics, or the main differences.
    - problems: (kind, text), the most serious first.
    - repeat: commands.
    """

    status: str
    verdict: str
    verdicts: Sequence[ExpectationRow]
    tiles: Sequence[Tile]
    problems: Sequence[tuple[str, str]]
    repeat: Sequence[tuple[str, str]]


class Page(ResultPage):
    """A report.

    - facts: the provenance.
    - inputs: texts by file name.
    - files: the files that the run left, and the number of those that are not listed.
    """

    TEMPLATE: ClassVar[str] = "report.html"
    grids: Sequence[Grid]
    facts: Sequence[tuple[str, str]]
    inputs: Mapping[str, str]
    files: Sequence[LeftFile] = ()
    unlisted: int = 0


class ListedCell(Frozen):
    """A value of a run. amount: orders numbers; None for a text."""

    text: str
    amount: float | None
    is_missing: bool = False


class ListedRun(Frozen):
    """A row of a page that lists runs. link: the address of the report, or of the run's directory without one."""

    name: str
    link: str
    has_report: bool
    status: str
    cells: tuple[ListedCell, ...]


class ListingPage(Frozen):
    """A page that lists runs.

    - head: the titles of all columns, the run and its status first.
    - names: the number of columns with texts; the others have numbers.
    - statuses: those that occur.
    - most: the number of rows that are shown at first.
    """

    TEMPLATE: ClassVar[str] = "listing.html"
    title: str
    description: str
    head: tuple[str, ...]
    names: int
    statuses: tuple[str, ...]
    rows: Sequence[ListedRun]
    most: int

    @property
    def has_folders(self) -> bool:
        """True if a link opens a folder."""
        return not all(row.has_report for row in self.rows)


class EffectRow(Frozen):
    """A metric of a cell with a value for each side. cell: empty for a run."""

    cell: str
    metric: str
    meaning: str
    values: tuple[SideValue, ...]


class SideRow(Frozen):
    """A side of a comparison: its name, the result of its runs, and its directory."""

    name: str
    status: str
    place: str


class ComparisonPage(ResultPage):
    """A comparison of two or more sides.

    - differing, alike, alone: metrics that clearly differ, that do not, and that not all sides have.
    - remarks: texts below the table.
    - inputs: (title, lines) of what differs in inputs and versions.
    """

    TEMPLATE: ClassVar[str] = "comparison.html"
    sides: Sequence[SideRow]
    differing: Sequence[EffectRow]
    alike: Sequence[EffectRow]
    alone: Sequence[EffectRow]
    remarks: Sequence[str]
    inputs: Sequence[tuple[str, Sequence[str]]]


class HistoryRow(Frozen):
    """A commit that changed a baseline. values: (name, before, after, change) of each line that differs."""

    commit: str
    date: str
    subject: str
    baseline: str
    values: Sequence[tuple[str, str, str, str]]


class HistoryPage(IllustratedPage):
    """The values of baselines over commits. rows: the changes, newest first."""

    TEMPLATE: ClassVar[str] = "history.html"
    rows: Sequence[HistoryRow]


class TemplatePage(Protocol):
    """The content of a page, and the name of the template that shows the content."""

    TEMPLATE: ClassVar[str]


def render(page: TemplatePage) -> str:
    """Return the whole page. Equal pages give equal text."""
    name = page.TEMPLATE
    colours = {"light": Markup(palette.variables(False)), "dark": Markup(palette.variables(True))}
    return _environment().get_template(name).render(page=page, policy=_policy(name), **colours)


@cache
def _policy(name: str) -> str:
    """Return the Content-Security-Policy of a template's pages.

    It allows the scripts of the templates by their digests, the styles in the page, and pictures in the page, because
    a heat map has a scale in pixels. It allows nothing from elsewhere.
    """
    environment = _environment()
    assert environment.loader is not None
    sources = [environment.loader.get_source(environment, one)[0] for one in ("base.html", name)]
    if f'"{_FIGURES}"' in sources[1]:
        sources.insert(0, environment.loader.get_source(environment, _FIGURES)[0])
    scripts = [script for source in sources for script in _SCRIPT.findall(source)]
    digests = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    pictures = "" if name == "listing.html" else "img-src data:; "
    return (
        f"default-src 'none'; {pictures}style-src 'unsafe-inline'; script-src {allowed}; base-uri 'none'; "
        "form-action 'none'"
    )


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("mprun.reports"),
        autoescape=select_autoescape(),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["inline"] = _inline
    # a narrow page may break a name after a dot or an underscore
    environment.filters["breakable"] = lambda name: Markup(re.sub(r"([._])", r"\1<wbr>", str(escape(name))))
    environment.filters["stretch"] = lambda svg: _SIZE.sub(r"\1", svg, count=1)
    return environment


def _inline(svg: str) -> Markup:
    """Return one of our pictures as part of the page, in the page's colours."""
    found = _SVG.search(_WHITE.sub(f'"{palette.PAPER}"', svg))
    assert found is not None
    return Markup(palette.themed(found[0]))
