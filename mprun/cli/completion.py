# SPDX-License-Identifier: Apache-2.0
"""`mprun completion`, and the completion of the arguments of other commands.

A shell asks at each press of a key, so nothing here imports code that reads or runs experiments.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the code for a shell that completes commands, options, labs, runs and kernels.

    \b
    bash  in ~/.bashrc: eval "$(mprun completion bash)"
    zsh   in ~/.zshrc, after compinit: eval "$(mprun completion zsh)"
    fish  mprun completion fish > ~/.config/fish/completions/mprun.fish
    """
    from click.shell_completion import get_completion_class

    from mprun.cli import group

    completion = get_completion_class(shell)
    assert completion is not None
    click.echo(completion(group, {}, "mprun", "_MPRUN_COMPLETE").source())


def complete_files(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Let the shell complete files."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


def complete_kernels(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the built kernels."""
    from mprun.kernel import store

    return _offer(incomplete, {kernel.name: kernel.version for kernel in store.list_kernels()})


def complete_tools(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the tools that `mprun tools install` can build."""
    from mprun.programs import PROGRAMS

    return _offer(incomplete, {name: recipe.description for name, recipe in PROGRAMS.items()})


def complete_runs(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the runs in the directory of `-o`, newest first."""
    from mprun import rundir

    runs = rundir.list_runs(Path(context.params.get("parent") or "runs"))
    return _offer(incomplete, dict.fromkeys(("latest", *(run.name for run in reversed(runs))), "") if runs else {})


def complete_labs(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the labs by number, and by name after its first letter."""
    from mprun.shipped import find_labs

    labs = find_labs()
    names = {folder.name: "" for folder in labs.values()}
    return _offer(incomplete, {number: folder.name for number, folder in labs.items()} | (names if incomplete else {}))


def _offer(incomplete: str, found: Mapping[str, str]) -> list[CompletionItem]:
    """Return the names with this beginning, each with a word of help."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(name, help=text or None) for name, text in found.items() if name.startswith(incomplete)]
