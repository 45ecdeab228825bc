# SPDX-License-Identifier: Apache-2.0
"""`mprun completion`, and the completion of the arguments of other commands.

A shell asks at each press of a key, so nothing here imports code that checks or runs experiments. Files that cannot be
read offer nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mprun.errors import MprunError
from mprun.machine.packaged import find_labs

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

# Files that cannot be read offer nothing.
_UNREADABLE = contextlib.suppress(MprunError, OSError)


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
    from mprun.kernel import store

    return _offer(incomplete, {kernel.name: kernel.version for kernel in store.list_kernels()})


def complete_tools(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the tools that `mprun tools install` can build."""
    from mprun.workloads.built import PROGRAMS

    return _offer(incomplete, {name: recipe.description for name, recipe in PROGRAMS.items()})


def complete_runs(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the runs in the directory of `-o`, newest first, and the steps of the lab that is named or is here."""
    from mprun.storage import run_directory

    runs = run_directory.list_runs(_parent(context))
    found = dict.fromkeys(("latest", *(run.name for run in reversed(runs))), "") if runs else {}
    return _offer(incomplete, found | dict.fromkeys(_list_steps(incomplete), "the newest run of this step"))


def _list_steps(incomplete: str) -> list[str]:
    """Return `01/xp_tcp` and so on after `01/`, or the steps of the lab in the current folder."""
    lab, slash, _ = incomplete.rpartition("/")
    folder = find_labs().get(lab.split("_")[0].zfill(2), Path(lab)) if slash else Path()
    if not (folder / "lab.yaml").is_file():
        return []
    from mprun.inputs.document import Document
    from mprun.inputs.reader import read

    steps: object = []
    with _UNREADABLE:
        steps = Document(read(folder / "lab.yaml", "experiment")).part("steps")
    entries = [step for step in steps if isinstance(step, dict)] if isinstance(steps, list) else []
    names = (str(step.get("name") or Path(str(step.get("experiment", ""))).stem) for step in entries)
    return [f"{lab}{slash}{name}" for name in names]


def complete_labs(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the labs by number, and by name after its first letter."""
    labs = find_labs()
    names = {folder.name: "" for folder in labs.values()}
    return _offer(incomplete, {number: folder.name for number, folder in labs.items()} | (names if incomplete else {}))


def complete_parameters(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the parameters of the files of -t and -x, and the properties that the experiment's matrix varies."""
    from mprun.inputs.document import Document
    from mprun.inputs.reader import read

    found: dict[str, str] = {}
    for role in ("topology", "experiment"):
        given = context.params.get(role)
        if isinstance(given, str):
            with _UNREADABLE:
                document = Document(read(given, role))
                matrix = document.part("matrix")
                found |= {f"{name}=": "an axis" for name in matrix} if isinstance(matrix, dict) else {}
                found |= {f"{name}=": str(value) for name, value in document.parameters().items()}
    found.pop("zip=", None)
    found.pop("exclude=", None)
    return _offer(incomplete, found)


def complete_metrics(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the metrics of the run, or of the first run of the sweep, that is named first. Default: the newest run."""
    from mprun.storage import look_up

    parent, named = _parent(context), _first_argument(context) or "latest"
    found: list[str] = []
    with _UNREADABLE:
        found += look_up.find_run(parent, named).summary().metrics
    with _UNREADABLE:
        for kept in islice(look_up.find_sweep(parent, named).runs(), 1):
            found += kept.summary.metrics
    return _offer(incomplete, dict.fromkeys(found, ""))


def complete_values(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the parameters and metrics of the newest run, after the last comma of a list of names."""
    from mprun.storage import look_up

    before, comma, last = incomplete.rpartition(",")
    names = ["name", "status", "engine", "seed"]
    with _UNREADABLE:
        run = look_up.find_run(_parent(context), "latest")
        names += [*run.environment().parameters, *run.summary().metrics]
    return _offer(incomplete, {f"{before}{comma}{name}": "" for name in names if name.startswith(last)})


def complete_counters(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the names of the kernel's counters in the run that is named first. Default: the newest run."""
    from mprun.storage import look_up

    names: set[str] = set()
    with _UNREADABLE:
        report = look_up.find_run(_parent(context), str(context.params.get("name") or "latest")).agent_report()
        names.update(*report.counters.values(), *report.counters_before.values())
    return _offer(incomplete, dict.fromkeys(sorted(names), ""))


def complete_axes(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from mprun.storage import look_up

    axes: tuple[str, ...] = ()
    with _UNREADABLE:
        axes = look_up.find_sweep(_parent(context), _first_argument(context)).record.axes
    return _offer(incomplete, dict.fromkeys(axes, ""))


def _parent(context: click.Context) -> Path:
    return Path(context.params.get("parent") or "runs")


def _first_argument(context: click.Context) -> str:
    """Return the first argument of a command line that ends in an option, which click names later; empty without."""
    return str(context.params.get("first") or next(iter(context.args), ""))


def _offer(incomplete: str, found: Mapping[str, str]) -> list[CompletionItem]:
    """Return the names with this beginning, each with a word of help."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(name, help=text or None) for name, text in found.items() if name.startswith(incomplete)]
