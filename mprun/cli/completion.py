# SPDX-License-Identifier: Apache-2.0
"""`mprun completion`, and what the arguments of other commands are completed with.

A shell asks at each press of the key, so nothing here imports what reads or runs experiments.
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
    """The shell knows files best."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


def complete_kernels(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Kernels that are built."""
    from mprun.kernel import store

    return _offer(incomplete, {kernel.name: kernel.version for kernel in store.list_kernels()})


def complete_tools(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Tools that `mprun tools install` can build."""
    from mprun.programs import PROGRAMS

    return _offer(incomplete, {name: recipe.description for name, recipe in PROGRAMS.items()})


def complete_runs(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Runs under the directory that `-o` names, newest first."""
    from mprun import rundir

    runs = rundir.list_runs(Path(context.params.get("parent") or "runs"))
    return _offer(incomplete, dict.fromkeys(("latest", *(run.name for run in reversed(runs))), "") if runs else {})


def complete_labs(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Labs, by number, or by name once it is begun."""
    from mprun.shipped import find_labs

    labs = find_labs()
    names = {folder.name: "" for folder in labs.values()}
    return _offer(incomplete, {number: folder.name for number, folder in labs.items()} | (names if incomplete else {}))


def _offer(incomplete: str, found: Mapping[str, str]) -> list[CompletionItem]:
    """What begins like this, with a word on each."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(name, help=text or None) for name, text in found.items() if name.startswith(incomplete)]
