# SPDX-License-Identifier: Apache-2.0
"""Pages and figures of runs with hostile texts, as a parser of HTML or XML reads them."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree

import polars
import yaml

from mprun.inputs.loading import load
from mprun.reports.chart import COLUMN, WIDE, paint
from mprun.reports.dot import render as paint_dot
from mprun.reports.dot import to_dot
from mprun.reports.drawing import Drawing, draw
from mprun.reports.figure import TIME, Chart, ChartAxis, ChartForm, Mark, Panel, Series
from mprun.reports.gallery import Gallery
from mprun.reports.history_page import HistoryLine, make_page
from mprun.reports.page import ComparisonPage, HistoryPage, ListingPage, Page, Picture, render
from tests.hostile import RUN, Finding, call, copy_run, first_line, make_sweep

# Each is a name of a column, a parameter and a text of a run. None has a control character: input files with one are
# refused, and the cases in `texts` have them.
EVIL: Sequence[str] = (
    "'\"><img src=x onerror=alert(1)>",
    "</script><script>alert(1)</script>",
    "</style></title><svg onload=alert(1)>",
    "]]><!--",
    "a/b",
    "../../../evil",
    "..",
    "$\\frac{$",
    "javascript:alert(1)",
    'x" onmouseover="alert(1)',
    '&#60;b&#62; id="x" "white" #0072b2',
)
ALL = " ".join(EVIL)

# The elements and attributes that the templates of pages make.
_HTML: Mapping[str, str] = {
    **dict.fromkeys("head title style body main header h1 h2 section thead tbody wbr".split(), ""),
    **dict.fromkeys("figcaption ol details summary code pre dl dt dd noscript small".split(), ""),
    **{
        "html": "lang",
        "meta": "charset name content http-equiv",
        "div": "class style role aria-label hidden data-values title",
        "b": "class style",
        "h3": "style",
    },
    **{
        "p": "class style",
        "button": "class type hidden",
        "script": "",
        "ul": "class style",
        "label": "class",
        "li": "class",
    },
    **{"span": "class role", "table": "class data-most", "tr": "class hidden", "th": "class colspan"},
    **{"td": "class title rowspan data-amount", "figure": "id class", "a": "href class title"},
    **{"input": "type placeholder autocomplete", "select": "", "option": "value"},
}
# The elements and attributes that matplotlib and graphviz make.
_SVG: Mapping[str, str] = {
    "svg": "width height viewbox version xmlns xmlns:xlink",
    "g": "id class transform clip-path style opacity",
    "path": "id d style clip-path transform fill stroke stroke-width stroke-dasharray",
    "use": "xlink:href x y style",
    "text": "style transform text-anchor x y font-family font-weight font-size fill",
    "a": "xlink:title",
    "rect": "x y width height fill",
    "image": "xlink:href id transform width height x y style clip-path",
    **{"polygon": "fill stroke points", "polyline": "fill stroke stroke-width stroke-dasharray points"},
    "ellipse": "fill stroke stroke-width cx cy rx ry",
    **{"clippath": "id", "style": "type", "pattern": "id patternunits x y width height", "metadata": ""},
    **dict.fromkeys(("defs", "title", "cc:work", "dc:format"), ""),
    **{"rdf:rdf": "xmlns:dc xmlns:cc xmlns:rdf", "dc:type": "rdf:resource"},
}
# An address is of this page, of a picture in the page, or of a file below its folder.
_ADDRESS = re.compile(r"#[\w.:-]+|data:image/png;base64,\s*[A-Za-z0-9+/=\s]+|(?:\.{1,2}/)*[\w%.~-]+(?:/[\w%.~-]*)*")
_ID = re.compile(r"[\w.:-]+")
_STYLE = re.compile(r"(?:[\w#.,:;() %'\"-]|url\(#[\w.:-]+\))*")
_TYPE = "http://purl.org/dc/dcmitype/StillImage"


class _Reader(HTMLParser):
    """The elements of a page with their attributes, its texts and its scripts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.texts: list[str] = []
        self.scripts: list[str] = []
        self._tag = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        self._tag = tag

    def handle_endtag(self, tag: str) -> None:
        self._tag = ""

    def handle_data(self, data: str) -> None:
        (self.scripts if self._tag == "script" else self.texts).append(data)


def find_page_fault(page: str) -> str:
    """Return what a page has that no template of mprun makes; empty without such a thing."""
    read = _Reader(page)
    inside = {name: set(f"{_HTML.get(name, '')} {_SVG.get(name, '')}".split()) for name in {*_HTML, *_SVG}}
    fault = _find_fault(read.elements, inside)
    policies = [found for tag, found in read.elements if found.get("http-equiv") == "Content-Security-Policy"]
    if fault or len(policies) != 1:
        return fault or f"{len(policies)} policies"
    before = read.elements[: read.elements.index(("meta", policies[0]))]
    if {tag for tag, _ in before} - {"html", "head", "meta"}:
        return f"elements before the policy: {before}"
    digests = [base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() for one in read.scripts]
    scripts = " ".join(f"'sha256-{one}'" for one in digests)
    pictures = "img-src data:; " if 'class="figures"' in page else ""
    expected = (
        f"default-src 'none'; {pictures}style-src 'unsafe-inline'; "
        f"script-src {scripts}; base-uri 'none'; form-action 'none'"
    )
    return "" if policies[0]["content"] == expected else f"the policy {policies[0]['content']}, not {expected}"


def find_figure_fault(svg: str) -> str:
    """Return what a figure has that no painter makes; empty without such a thing. Raises ParseError if it is no XML."""
    ElementTree.fromstring(svg)
    return _find_fault(_Reader(svg).elements, {name: set(known.split()) for name, known in _SVG.items()})


def _find_fault(elements: Sequence[tuple[str, dict[str, str]]], known: Mapping[str, set[str]]) -> str:
    ids = [found["id"] for _, found in elements if "id" in found]
    if len(set(ids)) < len(ids) or not all(map(_ID.fullmatch, ids)):
        return f"ids that are no names, or not unique: {sorted(one for one in ids if ids.count(one) > 1)[:3] or ids}"
    for tag, found in elements:
        if tag not in known or set(found) - known[tag]:
            return f"the element {tag} with {found}"
        for name, value in found.items():
            if name in ("href", "src", "xlink:href") and not _ADDRESS.fullmatch(value):
                return f"the address {value}"
            if name in ("href", "xlink:href") and value.startswith("#") and value[1:] not in ids:
                return f"an address that leads nowhere: {value}"
            if name == "style" and not _STYLE.fullmatch(value):
                return f"the style {value}"
            if name == "clip-path" and not (value.startswith("url(#") and value[5:-1] in ids):
                return f"the clip path {value}"
            if name == "rdf:resource" and value != _TYPE:
                return f"the resource {value}"
    return ""


# Pages and figures from values of which each text is hostile.

_SERIES = Series("s", "p0", (0, 1), (1e6, 2e6), (0.5e6, 1.5e6), (1.5e6, 2.5e6), samples=((1, 2, 3), (2,)))
_PLAIN = Chart("c", "t", "", "line", TIME, ChartAxis("rate", "bit/s"), (Panel("", (_SERIES,)),))


def draw_chart(form: ChartForm) -> Chart:
    """Return a figure of a form with hostile texts."""
    hostile = replace(_SERIES, label=ALL)
    along = (
        ChartAxis(ALL, categories=tuple(EVIL[:2]))
        if form in ("bar", "box", "heat")
        else ChartAxis(ALL, "share" if form == "effect" else "s", title=ALL)
    )
    up = ChartAxis("", categories=(ALL, *EVIL)) if form in ("heat", "effect") else ChartAxis(ALL, "bit/s")
    panels: tuple[Panel, ...] = (
        Panel(ALL, (hostile, replace(hostile, label=EVIL[0], dash=1))),
        Panel(EVIL[1], (hostile,)),
    )
    if form == "effect":
        panels = tuple(replace(one, series=tuple(replace(line, y=(0, 1)) for line in one.series)) for one in panels)
    return Chart(ALL, ALL, ALL, form, along, up, panels, (Mark(0.5, ALL),), ChartAxis(ALL, "bit/s"))


def _replace_texts(value: Any, kept: set[str]) -> Any:
    """Return a value of a dataclass with hostile text before each of its texts, except in the fields `kept`."""
    if isinstance(value, str):
        return f"{ALL} {value}"
    if isinstance(value, tuple):
        return tuple(_replace_texts(one, kept) for one in value)
    if is_dataclass(value) and not isinstance(value, type):
        changed = {
            one.name: _replace_texts(getattr(value, one.name), kept) for one in fields(value) if one.name not in kept
        }
        return replace(value, **changed)
    return value


def _fill(kind: Any, pictures: Sequence[Picture]) -> Any:
    """Return a value of a type: each text is hostile, and each sequence has two items."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind is Picture:
        return pictures[0]
    if origin in (typing.Union, types.UnionType):
        return _fill(arguments[0], pictures)
    if origin is tuple and arguments[-1] is not Ellipsis:
        return tuple(_fill(one, pictures) for one in arguments)
    if origin in (tuple, Sequence):
        return tuple(pictures) if arguments[0] is Picture else (_fill(arguments[0], pictures),) * 2
    if origin is Mapping:
        return {_fill(arguments[0], pictures): _fill(arguments[1], pictures)}
    if is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        values = {one.name: _fill(hints[one.name], pictures) for one in fields(typing.cast(Any, kind))}
        # the makers of pages quote the names of files
        links = {name: quote(f"runs/{ALL}") for name in ("link",) if name in values}
        return typing.cast(Any, kind)(**{**values, **links})
    return {str: ALL, bool: True, int: 1, float: 0.5}[kind]


def make_gallery(names: Sequence[str]) -> Gallery:
    """Return a gallery with figures of these names, with a heat map, and with the drawing of a network."""
    gallery = Gallery()
    for name in names:
        gallery.add(replace(_PLAIN, name=name))
    gallery.add(draw_chart("heat"))
    gallery.add_drawing(ALL, ALL, {"svg": _draw_network()})
    return gallery


def _draw_network() -> bytes:
    spec = load(RUN / "inputs/resolved-topology.yaml", RUN / "inputs/resolved-experiment.yaml").spec
    drawing: Drawing = _replace_texts(draw(spec.topology, spec.experiment.traffic, True), {"kind", "reading"})
    return paint_dot(to_dot(drawing), "svg")


def _attempt_page(kind: type, folder: Path) -> Finding:
    page = render(_fill(kind, make_gallery((EVIL[0], "own-x", "own-x-w-figure_1")).pictures))
    if ALL not in "".join(_Reader(page).texts):
        return Finding("", "the texts are not those of the run")
    return _judge(find_page_fault(page), "a page")


def _attempt_history(folder: Path) -> Finding:
    lines = [HistoryLine(ALL, text, "s", (ALL, "b"), (1.0, 2.0)) for text in EVIL]
    page = make_page(ALL, lines, _fill(HistoryPage, ()).rows)
    return _judge(find_page_fault(page), "a page")


def _attempt_form(form: ChartForm, folder: Path) -> Finding:
    for layout in (WIDE, COLUMN):
        svg = paint(draw_chart(form), layout, ("svg",))["svg"].decode()
        if fault := find_figure_fault(svg):
            return Finding("", f"a browser obeys {fault}")
        shown = EVIL[1] if form in ("bar", "box", "heat") else ALL
        if shown not in "".join(_Reader(svg).texts):
            return Finding("", "the texts are not those of the figure")
    return Finding("a figure")


def _attempt_drawing(folder: Path) -> Finding:
    return _judge(find_figure_fault(_draw_network().decode()), "a figure")


def _attempt_gallery(folder: Path) -> Finding:
    gallery = make_gallery((*EVIL, "own-x", "own-x", "own-x.2", ALL))
    names = [picture.name for picture in gallery.pictures]
    odd = [name for name in gallery.files if not re.fullmatch(r"[\w-][\w.-]*", name, re.ASCII) or len(name) > 120]
    if odd or len(set(names)) < len(names):
        return Finding("", f"names of files: {odd or names}")
    return Finding(f"{len(gallery.files)} files")


def _judge(fault: str, gets: str) -> Finding:
    return Finding("", f"a browser obeys {fault}"[:400]) if fault else Finding(gets)


# Pages and figures that commands write.


def make_hostile(run: Path) -> None:
    """Put hostile texts into each place of a run that a command accepts."""
    frame = {"flow": ["bulk"] * 3, "time_s": [0.1, 0.2, 0.3], "note": EVIL[:3]}
    polars.DataFrame({**frame, **{text: [1.0, 2.0, 4.0] for text in EVIL}}).write_parquet(run / "tables/own.parquet")
    for n, text in enumerate(EVIL):
        shutil.copy(run / "tables/own.parquet", run / f"tables/{text.replace('/', '_')} {n}.parquet")
        shutil.copy(run / "pcap/client.pcap", run / f"pcap/{text.replace('/', '_')} {n}.pcap")
    path = run / "inputs/resolved-experiment.yaml"
    experiment = yaml.safe_load(path.read_text())
    experiment["description"] = ALL
    own = {"name": "own", "tool": "exec", "from": "client", "to": "server", "command": ["echo", ALL]}
    regex = re.escape(EVIL[0])
    metrics = [{"name": "regex", "regex": regex}, {"name": "column", "column": EVIL[1], "file": "own.csv"}]
    experiment["traffic"].append(
        {**own, "tables": [{"name": "own", "file": "own.csv", "time": "at"}], "metrics": metrics}
    )
    words = {"title": ALL, "x_title": ALL[:100], "y_title": ALL[:100], "names": {"bulk": EVIL[0], "path0": EVIL[1]}}
    experiment["plots"] = [
        *({"table": "own", "column": text} for text in EVIL),
        *({"series": name, **words} for name in ("rate", "queue", "delay")),
    ]
    path.write_text(yaml.safe_dump(experiment))
    path = run / "inputs/resolved-topology.yaml"
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), "description": ALL}))
    (run / f"inputs/{EVIL[0]}.yaml").write_text(ALL)
    summary = json.loads((run / "summary.json").read_text())
    messages = {key: [ALL, *EVIL] for key in ("warnings", "failures", "errors", "middleboxes", "notes")}
    measured = {f"{owner}.{text}": {"value": 1.5, "unit": "s"} for text in EVIL for owner in ("bulk", text)}
    measured |= {f"own.{name}": {"value": 1.5, "unit": "1"} for name in ("regex", "column")}
    expected = [
        {"metric": name, "value": 1.5, "held": False, "minimum": 2, "maximum": None, "equals": None}
        for name in measured
    ]
    summary |= messages | {"metrics": summary["metrics"] | measured, "expectations": expected, "status": "failed"}
    (run / "summary.json").write_text(json.dumps(summary))
    environment = json.loads((run / "environment.json").read_text())
    environment |= {"engine_reason": ALL, "python": ALL, "versions": {ALL: ALL}, "parameters": dict.fromkeys(EVIL, ALL)}
    environment["kernel"] |= {"version": ALL, "digest": ALL}
    (run / "environment.json").write_text(json.dumps(environment))


def _make_run(folder: Path) -> Path:
    run = copy_run(folder, f"20260101-000000-{EVIL[0]}-05497f2a")
    make_hostile(run)
    return run


def make_hostile_sweep(folder: Path) -> Path:
    """Return a sweep whose axes and metrics are hostile. Its cells have the folders that mprun gives them."""
    sweep = make_sweep(folder)
    record = json.loads((sweep / "sweep.json").read_text())
    for cell, text in zip(record["cells"], EVIL, strict=False):
        cell["values"] |= {EVIL[0]: text, ALL: "\\input{/etc/passwd} ± 1", "=1+1": "@cmd"}
    record |= {"title": ALL, "axes": ["cc", EVIL[0], ALL, "=1+1"], "show": [f"bulk.{EVIL[0]}"]}
    (sweep / "sweep.json").write_text(json.dumps(record))
    for run in sweep.glob("runs/*/1"):
        make_hostile(run)
    return sweep


def _attempt_command(words: Sequence[str], make: Callable[[Path], Path], folder: Path) -> Finding:
    """Call a command on a hostile run or sweep, and read each page and each figure that the command writes."""
    made = make(folder)
    other = copy_run(folder, "20260101-000001-two-fetch-05497f2a")
    names = {"MADE": str(made), "OTHER": str(other), "FOLDER": str(folder)}
    called = call(*(re.sub("MADE|OTHER|FOLDER", lambda found: names[found[0]], word) for word in words))
    pages = sorted({*folder.rglob("*.html")})
    figures = sorted({*folder.rglob("*.svg")})
    if called.status not in (0, 1) or not pages:
        return Finding("", f"no page: {first_line(called)}")
    for read, files in ((find_page_fault, pages), (find_figure_fault, figures)):
        for file in files:
            if fault := read(file.read_text()):
                return Finding("", f"a browser obeys {fault} of {file.name}"[:400])
    odd = [file.name for file in folder.rglob("figures/*") if not re.fullmatch(r"[\w-][\w.-]*", file.name, re.ASCII)]
    return Finding("", f"names of files: {odd}") if odd else Finding(f"{len(pages)} page, {len(figures)} figures")


FORMS: Sequence[ChartForm] = typing.get_args(ChartForm)
_LIST = ("runs", "list", "-o", "FOLDER", "--html", "FOLDER/list.html")
CASES: dict[str, Callable[[Path], Finding]] = {
    **{f"figure: {form}": partial(_attempt_form, form) for form in FORMS},
    "figure: network": _attempt_drawing,
    "names of figures": _attempt_gallery,
    **{
        f"page: {kind.__name__}": partial(_attempt_page, kind)
        for kind in (Page, ComparisonPage, HistoryPage, ListingPage)
    },
    "page: history": _attempt_history,
    "report": partial(_attempt_command, ("report", "MADE"), _make_run),
    "report of a sweep": partial(_attempt_command, ("report", "MADE"), make_hostile_sweep),
    "report of two runs": partial(_attempt_command, ("report", "-o", "FOLDER", "MADE", "OTHER"), _make_run),
    "compare": partial(_attempt_command, ("compare", "-o", "FOLDER", "MADE", "OTHER", "--report"), _make_run),
    "runs list": partial(_attempt_command, _LIST, _make_run),
}


def attempt(case: str, folder: Path) -> Finding:
    """Make pages or figures with hostile texts, and read them."""
    return CASES[case](folder)
