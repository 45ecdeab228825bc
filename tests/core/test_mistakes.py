# SPDX-License-Identifier: Apache-2.0
"""Mistakes that people make, and what each of them gets.

`golden/mistakes.yaml` has a list. Each entry changes the files of `mprun new`, or gives another command. The keys are:

- mistake: the mistake in words.
- topo, xp: texts to replace in the file, once each. An empty text stands for the whole file, `+` for its end.
- files: further files by their names.
- command: the command line; the default is `validate -t topo -x xp`.
- status: the exit status; the default is 2.
- grade: A if the text names the place and the remedy, B if it names one of them.
- text: what the command prints.
"""

from __future__ import annotations

import contextlib
import io
import shlex
from collections import Counter
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from mprun.cli import group
from mprun.engines import trial
from mprun.errors import MprunError
from mprun.inputs.loading import Loaded
from mprun.model.problem import InputError, InputProblem

FILE = Path(__file__).parent.parent / "golden" / "mistakes.yaml"
STATED = yaml.safe_load(FILE.read_text())


def change(text: str, changes: dict[str, str]) -> str:
    for old, new in changes.items():
        if old == "":
            text = new
        elif old == "+":
            text += new
        else:
            assert old in text, old
            text = text.replace(old, new, 1)
    return text


def call(words: list[str]) -> tuple[int, str]:
    """Return the exit status of a command line and what it prints, on both outputs."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        try:
            group.main(words, prog_name="mprun", standalone_mode=False)
        except click.ClickException as error:
            error.show()
            return error.exit_code, out.getvalue()
        except MprunError as error:
            return error.exit_code, f"{out.getvalue()}{error}\n"
        except SystemExit as error:
            return int(error.code or 0), out.getvalue()
    return 0, out.getvalue()


@pytest.fixture(scope="module")
def update(request: pytest.FixtureRequest) -> Any:
    """Yield the texts that were found, by the mistake. They replace those in the file if the user asks for that."""
    found: dict[str, str] = {}
    yield found
    if request.config.getoption("--update-golden"):
        entries = [{**one, "text": found.get(one["mistake"], one.get("text"))} for one in STATED]
        FILE.write_text(dump(entries))


class _Dumper(yaml.SafeDumper):
    pass


def _block(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, style="|" if text.endswith("\n") and text[0] != " " else None
    )


_Dumper.add_representer(str, _block)


def dump(entries: list[dict[str, Any]]) -> str:
    head = "# SPDX-License-Identifier: Apache-2.0\n# Mistakes, and what each gets (tests/core/test_mistakes.py).\n"
    return head + yaml.dump(entries, Dumper=_Dumper, sort_keys=False, width=1000, allow_unicode=True)


@pytest.mark.parametrize("entry", STATED, ids=lambda entry: entry["mistake"])
def test_mistake(
    entry: dict[str, Any], update: dict[str, str], update_golden: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert call(["new", "."])[0] == 0
    for name in ("topo", "xp"):
        path = tmp_path / f"{name}.yaml"
        path.write_text(change(path.read_text(), entry.get(name, {})))
    for name, content in entry.get("files", {}).items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    # a line breaks at the width of the terminal
    monkeypatch.setenv("COLUMNS", "100")
    status, text = call(shlex.split(entry.get("command", "validate -t topo -x xp")))
    update[entry["mistake"]] = text
    assert text == entry.get("text") or update_golden
    assert status == entry.get("status", 2)


def test_the_group_alone_names_the_command_that_lists() -> None:
    """The names of the help option depend on who asked before, so that the whole text is no entry of the list."""
    status, text = call(["runs"])
    assert status == 2
    assert "`mprun runs list` lists them" in text


def test_lab_check_names_the_place_of_its_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The text names the folder of the test, so that it is no entry of the list."""
    monkeypatch.chdir(tmp_path)
    status, text = call(["lab", "check", "01"])
    assert status == 1
    assert text.endswith("  in a copy of the lab, which `mprun lab start 01` makes\n")


def test_a_problem_of_one_file_hides_none_of_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel's answer is made here, at the path of a problem of the topology."""

    def refuse(*_: object, **__: object) -> list[str]:
        raise InputError([InputProblem("xp.yaml", 2, ("paths",), "is not known to this kernel")])

    monkeypatch.chdir(tmp_path)
    call(["new", "."])
    Path("topo.yaml").write_text("version: 1\ntopology: multi-path\npaths: []\n")
    monkeypatch.setattr(trial, "refuse_unknown", refuse)
    text = call(["validate", "-t", "topo", "-x", "xp"])[1]
    assert "topo.yaml:3: paths: " in text
    assert "xp.yaml:2: paths: is not known to this kernel\n" in text


def test_a_kernel_is_asked_for_what_is_sound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong path manager hid that no kernel has the scheduler beside it. The kernel's answer is made here."""

    def refuse(cells: tuple[Loaded, ...], *_: object, **__: object) -> list[str]:
        told = cells[0].spec.experiment.mptcp_of("client").scheduler
        raise InputError([InputProblem("xp.yaml", 11, ("scheduler",), f"no scheduler '{told}'")])

    monkeypatch.chdir(tmp_path)
    call(["new", "."])
    xp = Path("xp.yaml")
    xp.write_text(xp.read_text().replace("path_manager: fullmesh", "path_manager: mesh, scheduler: nope", 1))
    monkeypatch.setattr(trial, "refuse_unknown", refuse)
    text = call(["validate", "-t", "topo", "-x", "xp"])[1]
    assert "xp.yaml:11: hosts.client.mptcp.path_manager: 'mesh' is not known here" in text
    assert "xp.yaml:11: scheduler: no scheduler 'nope'" in text


@pytest.mark.parametrize("command", ["validate", "search"])
def test_a_kernel_is_asked_for_all_values_of_a_search(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run with a control that no kernel has counted as a violation. The kernel's answer is made here."""

    def refuse(cells: tuple[Loaded, ...], *_: object, **__: object) -> list[str]:
        asked = {str(flow.congestion) for cell in cells for flow in cell.spec.experiment.traffic}
        raise InputError([InputProblem("xp.yaml", 3, ("traffic",), f"asked for {' '.join(sorted(asked))}")])

    monkeypatch.chdir(tmp_path)
    call(["new", "."])
    flow = '{name: bulk, tool: iperf3, from: client, to: server, duration: 2s, congestion: "{{ cc }}"}'
    search = "{vary: {cc: [cubic, bbr3]}, violate: bulk.goodput > 1mbit, control: {old: {cc: cdg}}}"
    Path("xp.yaml").write_text(f"version: 1\nparams: {{cc: cubic}}\ntraffic: [{flow}]\nsearch: {search}\n")
    monkeypatch.setattr(trial, "refuse_unknown", refuse)
    assert call([command, "-t", "topo", "-x", "xp"]) == (2, "xp.yaml:3: traffic: asked for bbr3 cdg cubic\n")


def test_an_answer_of_a_kernel_names_the_parameter_that_gave_the_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel's answer is made here. An entry that makes several flows shifts the numbers of later ones."""

    def find(*_: object) -> tuple[dict[object, str], dict[object, str]]:
        places = [("traffic", n, "congestion") for n in (0, 1)] + [("hosts", "client", "mptcp", "scheduler")]
        return {}, dict.fromkeys(places, "is lacking")

    monkeypatch.chdir(tmp_path)
    call(["new", "."])
    monkeypatch.setattr(trial, "find_refusals", find)
    flow = "{name: NAME, tool: iperf3, from: client, to: server, duration: 1s, congestion: CC}"
    flows = [flow.replace("NAME", name) for name in ("one", "two")]
    head = "version: 1\nparams: {cc: cubic, s: default}\nhosts: {client: {mptcp: {scheduler: '{{ s }}'}}}\ntraffic:\n"
    words = ["validate", "-t", "topo", "-x", "xp", "-p", "cc=foo", "-p", "s=bar"]
    xp = Path("xp.yaml")
    given, other = (one.replace("CC", "'{{ cc }}'") for one in flows)
    xp.write_text(f"{head}  - {given}\n  - {flows[1].replace('CC', 'reno')}\n")
    assert call(words) == (
        2,
        "xp.yaml:5: traffic[0].congestion: is lacking (given by -p cc=foo)\n"
        "xp.yaml:6: traffic[1].congestion: is lacking\n"
        "xp.yaml:3: hosts.client.mptcp.scheduler: is lacking (given by -p s=bar)\n",
    )
    several = flows[0].replace("CC", "reno, repeat: {interval: 2s, times: 2}")
    xp.write_text(f"{head}  - {several}\n  - {other}\n")
    assert "traffic[1].congestion: is lacking\n" in call(words)[1]


def test_no_text_misleads() -> None:
    grades = Counter(entry["grade"] for entry in STATED)
    assert set(grades) == {"A", "B"}
    assert grades["A"] > 90, grades


def test_a_sweep_of_one_run_is_called_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The text names the number of CPUs, so that it is no entry of the list."""
    monkeypatch.chdir(tmp_path)
    call(["new", "."])
    told = "note: this sweep is one run: 'matrix' and 'repeat' in the experiment make several\n1 cell of 1 run, "
    assert call(["sweep", "-t", "topo", "-x", "xp", "--dry-run"])[1].startswith(told)
    with Path("xp.yaml").open("a") as file:
        file.write("repeat: {runs: 2}\n")
    assert call(["sweep", "-t", "topo", "-x", "xp", "--dry-run"])[1].startswith("1 cell of 2 runs, ")
