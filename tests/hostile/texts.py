# SPDX-License-Identifier: Apache-2.0
"""Text in a stranger's run directory that a terminal, a browser or a spreadsheet would interpret."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import polars

from tests.hostile import Finding, call, call_verb, copy_run, first_line
from tests.hostile.exports import find_formula
from tests.hostile.pages import find_figure_fault, find_page_fault

EVIL = "\x1b]0;pwn\x07\x9b2J\u202e<script>alert(1)</script>=cmd|' /C calc'!A0"
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def _json(run: Path, name: str, change: Callable[[dict[str, object]], None]) -> None:
    value = json.loads((run / name).read_text())
    change(value)
    (run / name).write_text(json.dumps(value))


def _table(run: Path, name: str) -> None:
    frame = polars.read_parquet(run / "tables" / f"{name}.parquet")
    texts = [column for column, kind in frame.schema.items() if kind == polars.String]
    changed = frame.with_columns(polars.col(texts) + EVIL)
    changed.write_parquet(run / "tables" / f"{name}.parquet")


def _replace(run: Path, name: str, word: str) -> None:
    path = run / name
    path.write_text(path.read_text().replace(word, json.dumps(word + EVIL)[1:-1]))


CASES: dict[str, Callable[[Path], object]] = {
    "warnings": lambda run: _json(run, "summary.json", lambda v: v.update(warnings=[EVIL], failures=[EVIL])),
    "status": lambda run: _json(run, "summary.json", lambda v: v.update(status=EVIL)),
    "metrics": lambda run: _replace(run, "summary.json", "bulk.goodput"),
    "units": lambda run: _replace(run, "summary.json", "bit/s"),
    "environment": lambda run: _replace(run, "environment.json", "iperf 3.12"),
    "parameters": lambda run: _json(run, "environment.json", lambda v: v.update(parameters={EVIL: EVIL, "cc": EVIL})),
    "engine": lambda run: _json(run, "environment.json", lambda v: v.update(engine_reason=EVIL, python=EVIL)),
    "plan": lambda run: _replace(run, "plan.json", "path0"),
    "nodes": lambda run: _replace(run, "plan.json", "client"),
    "agent": lambda run: _replace(run, "agent.json", "path0"),
    "sockets": lambda run: _table(run, "sockets"),
    "interfaces": lambda run: _table(run, "interfaces"),
    "requests": lambda run: _table(run, "requests"),
    "queues": lambda run: _table(run, "queues"),
    "table's name": lambda run: shutil.copy(run / "tables" / "queues.parquet", run / "tables" / "a\x1b[2J.parquet"),
    "capture's name": lambda run: shutil.copy(run / "pcap" / "client.pcap", run / "pcap" / "a\x1b[2J.pcap"),
    "inputs": lambda run: (run / "inputs" / "evil\x1b[2J.yaml").write_text(EVIL),
    "log": lambda run: (run / "logs" / "bulk.out").write_text(EVIL),
    "resolved": lambda run: _replace(run, "inputs/resolved-experiment.yaml", "one MPTCP transfer"),
    "incomplete json": lambda run: (run / "summary.json").write_text('{"\x1b[2J'),
}


def attempt(cases: Sequence[str], verb: str, folder: Path) -> Finding:
    """Put the text into several places of a run, and call a command on the run."""
    run = copy_run(folder)
    for case in cases:
        CASES[case](run)
    called = call_verb(verb, run)
    if OBEYED.search(called.text):
        return Finding("", f"a terminal obeys: {OBEYED.sub('#', called.text)[:300]}")
    pages = [page for page in (run.parent / "list.html", run / "report.html") if page.exists()]
    for read, files in ((find_page_fault, pages), (find_figure_fault, (run / "figures").glob("*.svg"))):
        for page in files:
            text = page.read_text()
            if OBEYED.search(text) or read(text):
                return Finding("", f"a browser obeys {page.name}: {read(text)}"[:400])
    for page in (*(run / "figures").glob("*.csv"), *(run / "tables").glob("*.csv")):
        if formula := find_formula(page.read_bytes().decode()):
            return Finding("", f"a spreadsheet obeys {page.name}: {formula}")
    return Finding(first_line(called))


_E = r"\e]0;pwn\a"
_TRAFFIC = "traffic: [{name: x, tool: ping, from: client, to: server}]\n"
# by the place of the text: a topology, an experiment and a lab
INPUTS: dict[str, tuple[str, str, str]] = {
    "description": (f'description: "{_E}"\n', _TRAFFIC, ""),
    "direction": ('description: "\\u202e"\n', _TRAFFIC, ""),
    "old control": ('description: "\\x9b2J"\n', _TRAFFIC, ""),
    "parameter": ("", f'params: {{p: "{_E}"}}\n{_TRAFFIC}', ""),
    "axis": ("", f'params: {{p: a}}\nmatrix: {{p: [a, "{_E}"]}}\n{_TRAFFIC}', ""),
    "key of one's own": ("", f'"x-{_E}": 1\n{_TRAFFIC}', ""),
    "key": (f'"{_E}": 1\n', _TRAFFIC, ""),
    "filter": ("", f'capture: [{{host: client, filter: "tcp {_E}"}}]\n{_TRAFFIC}', ""),
    "command": (
        "",
        f'traffic: [{{name: x, tool: exec, from: client, to: server, command: [echo, "{_E}"]}}]\n',
        "",
    ),
    "title of a lab": ("", _TRAFFIC, f'title: "{_E}"\naim: a\n'),
    "aim of a lab": ("", _TRAFFIC, f'title: t\naim: "{_E}"\n'),
}
INPUT_VERBS = {
    "validate": ("validate", "-t", "FOLDER/topo", "-x", "FOLDER/xp"),
    "plan": ("plan", "-t", "FOLDER/topo", "-x", "FOLDER/xp"),
    "graph": ("graph", "-t", "FOLDER/topo", "-x", "FOLDER/xp", "--format", "dot"),
    "lab show": ("lab", "show", "FOLDER"),
}


def attempt_input(case: str, verb: str, folder: Path) -> Finding:
    """Put the text into an input file, and call a command on the file."""
    topology, experiment, lab = INPUTS[case]
    (folder / "topo.yaml").write_text(
        f"version: 1\n{topology}topology: multi-path\npaths: [{{rate: 20mbit, delay: 20ms}}]\n"
    )
    (folder / "xp.yaml").write_text(f"version: 1\n{experiment}")
    steps = "steps: [{topology: topo, experiment: xp}]\n"
    (folder / "lab.yaml").write_text(f"version: 1\n{lab or 'title: t' + chr(10) + 'aim: a' + chr(10)}{steps}")
    called = call(*(word.replace("FOLDER", str(folder)) for word in INPUT_VERBS[verb]))
    if OBEYED.search(called.text):
        return Finding("", f"a terminal obeys: {OBEYED.sub('#', called.text)[:300]}")
    return Finding(first_line(called).replace(f"{folder}/", ""))
