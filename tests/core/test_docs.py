# SPDX-License-Identifier: Apache-2.0
"""Every YAML block in the docs is checked, every command that they show exists."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from docs.generate import pages
from mprun.cli import COMMANDS, group
from mprun.compile import allocate, compile_plan
from mprun.spec import load_cells

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
TOPOLOGY = (ROOT / "labs" / "01_multipath" / "topo.yaml").read_text()
# Of experiments whose entries name several hosts.
STAR = "version: 1\ntopology: star\nclients: 4\n"
BLOCKS = [
    pytest.param(block, id=f"{page.stem}-{number}")
    for page in PAGES
    for number, block in enumerate(re.findall(r"```yaml\n(.*?)```", page.read_text(), re.DOTALL))
]


@pytest.mark.parametrize("block", BLOCKS)
def test_yaml_block_compiles(block: str, tmp_path: Path) -> None:
    is_experiment = "traffic:" in block
    given = STAR if "client*" in block else TOPOLOGY
    (tmp_path / "topo.yaml").write_text(given if is_experiment else block)
    (tmp_path / "xp.yaml").write_text(block)
    for cell in load_cells(tmp_path / "topo.yaml", tmp_path / "xp.yaml" if is_experiment else None):
        compile_plan(cell.spec, allocate(cell.spec))


def test_commands_shown_exist() -> None:
    shown = set()
    for page in PAGES:
        shown |= set(re.findall(r"(?:`|^    )mprun ([a-z]+)", page.read_text(), re.MULTILINE))
    assert shown
    assert shown <= set(COMMANDS)


def test_every_command_is_in_the_readme_or_its_help() -> None:
    context = click.Context(group)
    for name in COMMANDS:
        command = group.get_command(context, name)
        assert command is not None
        assert command.help
        assert command.get_short_help_str(200)


@pytest.mark.parametrize(("path", "text"), [pytest.param(*page, id=page[0].name) for page in pages()])
def test_generated_page_is_current(path: Path, text: str, update_golden: bool) -> None:
    if update_golden:
        path.write_text(text)
    assert path.read_text() == text, "run: make golden"


def test_every_key_has_a_meaning_and_an_example() -> None:
    for name in ("topology", "experiment"):
        lines = (ROOT / "docs" / "reference" / f"{name}.md").read_text().splitlines()
        rows = [line.removeprefix("| ").removesuffix(" |").split(" | ") for line in lines if line.startswith("| `")]
        assert len(rows) > 50
        assert [row for row in rows if len(row) != 5 or not all(cell.strip("` ") for cell in row)] == []
