# SPDX-License-Identifier: Apache-2.0
"""Every YAML block in the docs compiles, every command in the docs exists, and generated pages are current."""

from __future__ import annotations

import ast
import io
import re
import shlex
import tokenize
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from docs.generate import pages
from mprun.cli import COMMANDS, group
from mprun.compile import allocate, compile_plan
from mprun.inputs.loading import load, load_cells
from mprun.labs.definition import read_lab
from tests.core.test_imports import ROOMS
from tests.pages import NAMED, PAGES, RECORDS, ROOT, blocks_of, commands_in_blocks, commands_in_sentences

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


def test_programs_shown_for_exec_are_installed() -> None:
    """The machine has them: they are among the packages that `make setup` installs."""
    entries = re.findall(r"tool: exec.*", (ROOT / "docs" / "workloads.md").read_text())
    programs = {name for entry in entries for name in re.findall(r"(?:command|server): \[([\w.-]+)", entry)}
    assert programs
    assert programs <= set((ROOT / "packages.txt").read_text().split())


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


DESIGN = ROOT / "docs" / "design.md"
GENERAL_RECORDS = ROOT / "docs" / "reference" / "decisions.md"
WITH_RECORDS = [pytest.param(page, id=str(page.relative_to(ROOT))) for page in (GENERAL_RECORDS, *RECORDS)]
MOST_WORDS_OF_DESIGN = 4000
# A row of the table of own code: its files, and their lines.
OWN_CODE = re.compile(r"^(\| [\w' -]+: ((?:`[\w/.]+`(?:, )?)+) \| )(\d+)(?= \|)", re.MULTILINE)


def _records(page: Path) -> list[tuple[str, str]]:
    """Return title and text of each record of a page."""
    return [
        (title, text) for title, text in re.findall(r"^## (.+)\n((?:(?!## ).*\n)+)", page.read_text(), re.MULTILINE)
    ]


@pytest.mark.parametrize("page", WITH_RECORDS)
def test_a_record_begins_with_its_decision_and_has_a_reason(page: Path) -> None:
    records = _records(page)
    assert records
    for title, text in records:
        kinds = re.findall(r"^- \*+([A-Z][a-z ]+)\*+: ", text, re.MULTILINE)
        assert kinds[:1] == ["Decision"], title
        assert set(kinds) <= {"Decision", "Reason", "Figure", "Also tried", "Also considered"}, title
        # a figure may be the reason
        assert {"Reason", "Figure"} & set(kinds), title


def test_each_decision_has_one_record() -> None:
    titles = [title for page in (GENERAL_RECORDS, *RECORDS) for title, _ in _records(page)]
    assert len(titles) > 100
    assert sorted(set(titles)) == sorted(titles)


@pytest.mark.parametrize("page", [pytest.param(DESIGN, id="docs/design.md"), *WITH_RECORDS])
def test_files_that_a_record_names_exist(page: Path) -> None:
    """A file is named by its path from the top of the checkout or from `mprun/`."""
    named = re.findall(r"`([\w-]+(?:/[\w.-]+)+\.(?:py|c|h|md|patch|fragment))`", page.read_text())
    assert [name for name in named if not (ROOT / name).is_file() and not (ROOT / "mprun" / name).is_file()] == []


def test_the_design_is_short_and_leads_to_all_records() -> None:
    text = DESIGN.read_text()
    assert len(text.split()) <= MOST_WORDS_OF_DESIGN
    linked = re.findall(r"\]\(\.\./(mprun/\w+/DECISIONS\.md)\)", text)
    assert {ROOT / path for path in linked} == set(RECORDS)


def test_lines_of_own_code_are_current(update_golden: bool) -> None:
    def counted(row: re.Match[str]) -> str:
        return row[1] + str(sum(_lines_of_code(ROOT / path) for path in re.findall(r"`(.+?)`", row[2])))

    text = DESIGN.read_text()
    current = OWN_CODE.sub(counted, text)
    assert len(OWN_CODE.findall(text)) == text.split("\n## Own code")[1].count("\n| ") - 2
    if update_golden:
        DESIGN.write_text(current)
    assert DESIGN.read_text() == current, "run: make golden"


def _lines_of_code(path: Path) -> int:
    """Return the number of lines of a Python file or folder that are not blank and no comment or docstring."""
    if path.is_dir():
        return sum(_lines_of_code(file) for file in path.rglob("*.py"))
    text = path.read_text()
    lines = set[int]()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.string.strip() and token.type != tokenize.COMMENT:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node) is not None:
            lines -= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    return len(lines)


def test_lines_of_code_are_neither_blank_nor_comments(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text('"""A module.\n\nMore.\n"""\n\n# a comment\nONE = """\n\n"""  # three lines\n')
    (tmp_path / "two.py").write_text('def two() -> None:\n    """Do nothing."""\n\n    return\n')
    assert [_lines_of_code(tmp_path / name) for name in ("one.py", "two.py", ".")] == [3, 2, 5]
