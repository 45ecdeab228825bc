# SPDX-License-Identifier: Apache-2.0
"""Exported tables of runs and sweeps with hostile texts, as a spreadsheet, LaTeX or a reader of Markdown takes them."""

from __future__ import annotations

import csv
import json
import re
import sqlite3
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import polars
import yaml
from markdown_it import MarkdownIt

from mprun.labs.definition import read_lab
from mprun.labs.published_values import COLUMNS, FILE
from mprun.labs.study_figure import judge_figure
from mprun.labs.study_page import write_page
from mprun.metrics.claim_check import MeasuredRun
from mprun.model.run_summary import MetricValue
from mprun.questions.baseline import VALUE, BaselineDifference, to_markdown
from mprun.reports.figure import to_csv
from mprun.safety.cell import Number, write_cell
from tests.hostile import Finding, call, copy_run, first_line, make_sweep
from tests.hostile.pages import draw_chart

# Names of columns, parameters and cells of a run's tables. A cell may have a tab, and a name may not.
EVIL: Sequence[str] = (
    "=1+1",
    "@cmd",
    "+cmd|' /C calc'!A0",
    "-2+3+cmd",
    " =1+1",
    "＝1+1",
    "x;=1+1",
    'x",=1+1,"',
    "x'\"; DROP TABLE own; --",
    "\\input{/etc/passwd}",
    "\\input{/etc/passwd} ± 1",
    "1 ± \\input{/etc/passwd}",
    "^^5cinput{a} $x$ %",
    "[9cm] *",
    "x | <img src=x onerror=alert(1)>",
    "[x](javascript:alert(1)) ![y](z) `a` &lt;",
)
# Commands of LaTeX that mprun writes. A sign after a backslash stands for itself.
_COMMANDS = {"begin", "end", "toprule", "midrule", "bottomrule", "pm"}
_SIGNS = {"textbackslash", "textasciitilde", "textasciicircum", "textmu"}
_NUMBERS = re.compile(r"\$-?[0-9.]+ \\pm [0-9.]+\$")


def find_formula(text: str) -> str:
    """Return the first cell that a spreadsheet takes for a formula; empty without one. Numbers may be negative."""
    for separator in ",;\t":
        for row in csv.reader(text.splitlines(keepends=True), delimiter=separator):
            for cell in row:
                if re.match(r"\s*[=+\-@＝＋－＠]", cell) and not re.fullmatch(r"-?[0-9.]+(?:e[+-]?[0-9]+)?", cell):
                    return cell
    return ""


def find_command(text: str) -> str:
    """Return the first command or active sign in a text of LaTeX that mprun does not write; empty without one."""
    text = _NUMBERS.sub("", text)
    for command in re.findall(r"\\([A-Za-z]+|.)", text, re.DOTALL):
        if command.isalpha() and command not in _COMMANDS | _SIGNS:
            return f"\\{command}"
    plain = re.sub(r"\\(?:[A-Za-z]+(?:\{\})?|.)", "", text, flags=re.DOTALL)
    plain = re.sub(r"\{(?:tabular|l+r+|\[|\*)\}", "", plain)
    found = re.search(r"[\\$%#_{}^~]", plain)
    broken = re.search(r"\\\\\s*[\[*]|rule\s*\[", text)
    return found[0] if found else broken[0] if broken else ""


def find_markup(text: str) -> str:
    """Return the first thing in a text of Markdown that mprun does not write, such as a link; empty without one."""
    parser = MarkdownIt("commonmark", {"html": True}).enable("table")
    for token in parser.parse(text):
        for one in (token, *(token.children or ())):
            is_ours = one.type == "image" and re.fullmatch(r"[\w-]+\.svg", str(one.attrs["src"]))
            if one.type in ("html_inline", "html_block", "link_open", "image", "fence") and not is_ours:
                return f"{one.type} {one.content}"
    return ""


def _make_hostile(run: Path) -> None:
    columns = {text: [1.5, -2.0, None] for text in EVIL}
    cells = {f"note {n}": [text, "-", "x\t=1+1"] for n, text in enumerate(EVIL)}
    path = run / "tables" / "own.parquet"
    polars.DataFrame({"flow": ["bulk"] * 3, "time_s": [0.1, 0.2, -0.3], **columns, **cells}).write_parquet(path)
    path.with_name("=1+1.parquet").write_bytes(path.read_bytes())
    summary = json.loads((run / "summary.json").read_text())
    summary["metrics"] |= {f"{text}.x": {"value": -1.5, "unit": "s"} for text in EVIL}
    summary["warnings"] = list(EVIL)
    (run / "summary.json").write_text(json.dumps(summary))
    environment = json.loads((run / "environment.json").read_text())
    parameters = dict(zip(EVIL, reversed(EVIL), strict=True))
    (run / "environment.json").write_text(json.dumps({**environment, "parameters": parameters}))


def _make_run(folder: Path) -> Path:
    run = copy_run(folder)
    _make_hostile(run)
    return run


def _make_sweep(folder: Path) -> Path:
    sweep = make_sweep(folder)
    record = json.loads((sweep / "sweep.json").read_text())
    for cell in record["cells"]:
        cell["values"] |= {text: text for text in EVIL}
    (sweep / "sweep.json").write_text(json.dumps(record))
    for run in sweep.glob("runs/*/1"):
        _make_hostile(run)
    return sweep


def _attempt_export(kind: str, make: Callable[[Path], Path], folder: Path) -> Finding:
    made = make(folder)
    metrics = json.loads((next(made.glob("**/summary.json"))).read_text())["metrics"]
    words = [word for name in metrics for word in ("--metric", name)] if kind in ("markdown", "latex") else []
    called = call("export", f"--{kind}", str(made), "--to", str(folder / "out"), *words)
    files = sorted((folder / "out").glob("*"))
    if called.status or not files:
        return Finding("", f"nothing is exported: {first_line(called)}")
    odd = [file.name for file in files if not re.fullmatch(r"[\w-][\w.-]*", file.name, re.ASCII)]
    if odd:
        return Finding("", f"names of files: {odd}")
    for file in files:
        fault = _find_fault(kind, file)
        if fault:
            return Finding("", f"{kind}: {file.name}: {fault}")
    return Finding(f"{len(files)} files")


def _find_fault(kind: str, file: Path) -> str:
    if kind == "csv":
        return find_formula(file.read_bytes().decode()) or _find_change(file)
    if kind == "latex":
        return find_command(file.read_text())
    if kind == "markdown":
        return find_markup(file.read_text())
    with sqlite3.connect(file) as database:
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master")]
        if "own" in tables:
            columns = [row[1] for row in database.execute("PRAGMA table_info(own)")]
            values = database.execute("SELECT * FROM own").fetchone()
            if set(EVIL) - set(columns) or set(EVIL) - set(values):
                return "a text has changed"
        return "" if tables else "no tables"


def _find_change(file: Path) -> str:
    """Return a value of the run's own table that is not what was exported; empty if all are."""
    if file.name != "own.csv":
        return ""
    plain = [text.replace("'", "") for text in EVIL]
    with file.open(newline="") as lines:
        head, first, second, third = csv.reader(lines)
    names = [name.replace("'", "") for name in head]
    if names != ["flow", "time_s", *plain, *(f"note {n}" for n in range(len(EVIL)))]:
        return f"columns {head}"
    texts = [cell.replace("'", "") for cell in first[-len(EVIL) :]]
    numbers = [row[1:3] for row in (first, second, third)]
    if texts != plain or numbers != [["0.1", "1.5"], ["0.2", "-2.0"], ["-0.3", ""]]:
        return f"cells {texts}, {numbers}"
    return ""


def _attempt_cells(folder: Path) -> Finding:
    """Write each text and some numbers in each language."""
    for text in EVIL:
        for other in (text, Number("-1.5"), -1.5, None):
            row = [write_cell(one, "latex") for one in (text, other)]
            if fault := find_command(f"\\midrule\n{' & '.join(row)} \\\\\n{row[0]} & 1"):
                return Finding("", f"LaTeX obeys {fault}")
        if fault := find_markup(f"| a | b |\n| --- | --- |\n| {write_cell(text, 'markdown')} | 1 |\n"):
            return Finding("", f"Markdown has {fault}")
        if fault := find_formula(f"{write_cell(text, 'csv')},{write_cell(-1.5, 'csv')}\r\n"):
            return Finding("", f"a spreadsheet obeys {fault}")
    return Finding(f"{len(EVIL)} texts")


def _attempt_figure(folder: Path) -> Finding:
    chart = draw_chart("bar")
    fault = find_formula(to_csv(chart))
    return Finding("", f"a spreadsheet obeys {fault}") if fault else Finding("a CSV file")


def _attempt_baseline(folder: Path) -> Finding:
    changes = [BaselineDifference(f"{VALUE}{text}", "1 s", "2 s", "value") for text in EVIL]
    fault = find_markup(to_markdown(dict.fromkeys(EVIL, changes)))
    return Finding("", f"Markdown has {fault}") if fault else Finding("a table")


def _write_lab(folder: Path) -> Path:
    """Write a lab whose texts are hostile. Return its folder."""
    rows = [("Figure 1", EVIL[0], EVIL[1], "metric", "19", "Mbit/s", "value", EVIL[-1])]
    rows += [(name, "", "", "", text, "", "statement", text) for text in EVIL for name in ("Figure 1", "Figure 2")]
    with (folder / FILE).open("w", newline="") as file:
        csv.writer(file).writerows([COLUMNS, *rows])
    figure = {
        **{"name": "rates", "published": "Figure 1", "title": EVIL[-1], "quantity": EVIL[0]},
        "values": [{"name": "one", "label": EVIL[1], "series": EVIL[0], "here": "xp.tcp.goodput"}],
        "checks": [{"says": text, "holds": "here.one > 1mbit", "why": text} for text in EVIL],
    }
    drawing = {
        "name": "drawing",
        "published": "Figure 2",
        "title": EVIL[0],
        "not_measured": EVIL[0],
        "command": EVIL[-1],
    }
    claims = [{"says": text, "holds": "xp.tcp.goodput > 1mbit", "why": text} for text in EVIL]
    steps = [{"topology": "topo", "experiment": "xp"}]
    lab = {
        "version": 1,
        "title": EVIL[-1],
        "aim": EVIL[-1],
        "steps": steps,
        "claims": claims,
        "figures": [figure, drawing],
    }
    (folder / "lab.yaml").write_text(yaml.safe_dump(lab, allow_unicode=True))
    (folder / "topo.yaml").write_text("version: 1\ntopology: multi-path\npaths: [{rate: 20mbit, delay: 20ms}]\n")
    traffic = "{name: tcp, tool: iperf3, from: client, to: server, duration: 1s}"
    (folder / "xp.yaml").write_text(f"version: 1\ntraffic: [{traffic}]\n")
    return folder


def _attempt_lab_page(folder: Path) -> Finding:
    lab = read_lab(_write_lab(folder))
    measured = MeasuredRun({"tcp.goodput": MetricValue(2e6, "bit/s")}, lambda _: None)
    judged = [judge_figure(figure, {"xp": measured}, {}) for figure in lab.figures]
    page = write_page(folder, lab, judged, {}, {})
    if fault := find_markup(page.read_text()):
        return Finding("", f"Markdown has {fault}")
    faults = [find_formula(file.read_text()) for file in page.parent.glob("*.csv")]
    return Finding("", f"a spreadsheet obeys {faults}") if any(faults) else Finding("a page")


def _attempt_grades(folder: Path) -> Finding:
    called = call("lab", "check", str(_write_lab(folder)), str(folder), "--csv")
    fault = find_formula(called.text)
    if fault or called.text.count("\r\n") != 2:
        return Finding("", f"a spreadsheet obeys {fault}: {called.text[:300]}")
    return Finding(first_line(called))


CASES: dict[str, Callable[[Path], Finding]] = {
    "cells": _attempt_cells,
    "CSV of a figure": _attempt_figure,
    "table of baselines": _attempt_baseline,
    "page of a lab": _attempt_lab_page,
    "lab check --csv": _attempt_grades,
    **{
        f"export --{kind} of a {what}": partial(_attempt_export, kind, make)
        for kind in ("csv", "sqlite", "markdown", "latex")
        for what, make in (("run", _make_run), ("sweep", _make_sweep))
    },
}


def attempt(case: str, folder: Path) -> Finding:
    """Export a table with hostile texts, and read it."""
    return CASES[case](folder)
