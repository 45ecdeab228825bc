# SPDX-License-Identifier: Apache-2.0
"""Every YAML block in the docs compiles, every command in the docs exists, and generated pages are current."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from docs.generate import pages
from mprun.cli import COMMANDS, group
from mprun.compile import allocate, compile_plan
from mprun.inputs import load, load_cells
from mprun.labs.definition import read_lab
from tests.core.test_imports import ROOMS
from tests.pages import NAMED, PAGES, ROOT, blocks_of, commands_in_blocks, commands_in_sentences

LAB = ROOT / "labs" / "01_multipath"
# A line of a shell up to its first pipe, redirection or `&` outside quotes.
UP_TO_PIPE = re.compile(r"""(?:'[^']*'|"[^"]*"|[^'"])*?(?=\s+[|>&]|$)""")
# For experiments with several hosts per entry.
STAR = "version: 1\ntopology: star\nclients: 4\n"
WITH_YAML = [pytest.param(page, id=str(page.relative_to(ROOT))) for page in PAGES if blocks_of(page, "yaml")]


@pytest.mark.parametrize("page", WITH_YAML)
def test_yaml_blocks_compile(page: Path, tmp_path: Path) -> None:
    (tmp_path / "topo.yaml").write_text((LAB / "topo.yaml").read_text())
    (tmp_path / "star.yaml").write_text(STAR)
    for block in blocks_of(page, "python", "c"):
        if program := NAMED.match(block):
            (tmp_path / program[2]).write_text(block)
    for block in blocks_of(page, "console"):
        for environment in re.findall(r"-m venv (\w+)", block):
            (tmp_path / environment).mkdir()
    for number, block in enumerate(blocks_of(page, "yaml")):
        named = NAMED.match(block)
        path = tmp_path / (named[2] if named else f"block{number}.yaml")
        path.write_text((path.read_text() if named and named[1] else "") + block)
        _check(path, page)


def _check(path: Path, page: Path) -> None:
    """Check a topology or a lab alone, and an experiment on the network of its command, of lab 01 or of a star."""
    text = path.read_text()
    if path.name == "lab.yaml":
        for name in re.findall(r"experiment: (\w+)", text):
            (path.parent / f"{name}.yaml").write_text((LAB / f"{name}.yaml").read_text())
        read_lab(path.parent)
        return
    if "traffic:" not in text and "matrix:" not in text:
        compile_plan(spec := load(path, None).spec, allocate(spec))
        return
    shown = re.search(rf"-t (\w+) -x {path.stem}\b", page.read_text())
    own = shown[1] if shown and (path.parent / f"{shown[1]}.yaml").exists() else "topo"
    for cell in load_cells(path.parent / ("star" if "client*" in text else own), path):
        compile_plan(cell.spec, allocate(cell.spec))
        # a reader who copies the block should get both subflows
        assert not [warning for warning in cell.warnings if "no path manager" in warning]


def _commands(page: Path) -> Iterator[str]:
    """Yield each mprun command line on a page, in a block or in a sentence."""
    lines = commands_in_blocks(page, "", "console", "sh", "indented")
    for line in lines:
        yield up_to_pipe[0] if (up_to_pipe := UP_TO_PIPE.match(line)) else line
    yield from commands_in_sentences(page)


SHOWN = sorted({command for page in PAGES for command in _commands(page)})


@pytest.mark.parametrize("line", SHOWN)
def test_command_shown_is_one(line: str) -> None:
    # what follows `--` is a command of its own
    words = shlex.split(line.split(" -- ")[0])[1:]
    if not words or "..." in words or words[0].isupper():
        return
    words = ["run", *words] if words[0].startswith("-") and words[0] not in ("--help", "--version") else words
    if words[0].startswith("-"):
        return
    context = click.Context(group, info_name="mprun")
    assert words[0] in COMMANDS
    command = group.get_command(context, words.pop(0))
    while isinstance(command, click.Group) and words:
        names = words.pop(0)
        for name in re.split(r"[|,]", names):
            assert command.get_command(context, name) is not None, f"{line}: no '{name}'"
        command = command.get_command(context, re.split(r"[|,]", names)[-1])
    assert command is not None
    if words:
        known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
        unknown = [word for word in words if re.fullmatch(r"--?[a-z][a-z-]*", word) and word not in known]
        assert not unknown, f"{line}: {command.name} has no {unknown}"


def test_there_are_commands() -> None:
    assert len(SHOWN) > 50


def test_every_command_is_in_the_reference_and_has_help() -> None:
    context = click.Context(group)
    reference = (ROOT / "docs" / "reference" / "commands.md").read_text()
    for name in COMMANDS:
        command = group.get_command(context, name)
        assert command is not None
        assert command.help
        assert command.get_short_help_str(200)
        assert f"\n## mprun {name}\n" in reference


def test_the_list_of_commands_has_a_line_each() -> None:
    """Each command has one line on a terminal of 80 columns."""
    said = CliRunner().invoke(group, ["--help"], terminal_width=80).output.split("Start:\n")[1].splitlines()
    assert [line.split()[0] for line in said if line.startswith("  ")] == list(COMMANDS)


@pytest.mark.parametrize(("path", "text"), [pytest.param(*page, id=page[0].name) for page in pages()])
def test_generated_page_is_current(path: Path, text: str, update_golden: bool) -> None:
    if update_golden:
        path.write_text(text)
    assert path.read_text() == text, "run: make golden"


def test_every_key_has_a_meaning_and_an_example() -> None:
    for name in ("topology", "experiment", "lab"):
        lines = (ROOT / "docs" / "reference" / f"{name}.md").read_text().splitlines()
        rows = [line.removeprefix("| ").removesuffix(" |").split(" | ") for line in lines if line.startswith("| `")]
        assert len(rows) > 10
        assert [row for row in rows if len(row) != 5 or not all(cell.strip("` ") for cell in row)] == []


def test_the_design_has_a_row_for_each_room() -> None:
    text = (ROOT / "docs" / "design.md").read_text()
    rooms = re.findall(r"^\| `([\w.]+)` \|", text.split("## Rooms")[1].split("\n## ")[0], re.MULTILINE)
    assert [room for room in ROOMS if not room.startswith("__")] == rooms
