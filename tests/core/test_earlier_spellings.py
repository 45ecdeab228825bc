# SPDX-License-Identifier: Apache-2.0
"""Earlier spellings of commands and options: each is hidden, prints the spelling of today, and works."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from mprun.cli import EARLIER, group
from tests.hostile import copy_run
from tests.pages import ROOT

TOPOLOGY = str(ROOT / "labs" / "01_multipath" / "topo")


def test_commands_are_hidden_and_say_their_name_of_today(tmp_path: Path) -> None:
    runs = group.get_command(click.Context(group), "runs")
    assert isinstance(runs, click.Group)
    hidden = {name for name, command in runs.commands.items() if command.hidden}
    assert (hidden, set(EARLIER)) == ({"show", "open", "rerun"}, {"reproduce"})
    said = CliRunner().invoke(group, ["--help"]).output + CliRunner().invoke(group, ["runs", "--help"]).output
    assert not [name for name in ("reproduce", "rerun") if name in said]
    done = CliRunner().invoke(group, ["runs", "show", str(copy_run(tmp_path)), "--json"])
    assert done.exit_code == 0
    assert done.stderr.startswith("note: this command is now `mprun show`\n")
    assert done.stdout.startswith("{")
    refused = CliRunner().invoke(group, ["reproduce", str(tmp_path / "none.zip")])
    assert refused.stderr.startswith("note: this command is now `mprun verify`\n")


@pytest.mark.parametrize(
    "words",
    [("graph", "-t", TOPOLOGY, "--format", "dot"), ("topology", "expand", "-t", TOPOLOGY)],
    ids=lambda words: words[0],
)
def test_o_was_the_name_of_a_written_file(words: tuple[str, ...], tmp_path: Path) -> None:
    now, before = (
        CliRunner().invoke(group, [*words, option, str(tmp_path / name)])
        for option, name in (("--to", "a"), ("-o", "b"))
    )
    assert (now.exit_code, now.stderr) == (0, "")
    assert (before.exit_code, before.stderr) == (0, "note: here -o is now spelled --to\n")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert "-o," not in CliRunner().invoke(group, [*words[:2], "--help"]).output
