# SPDX-License-Identifier: Apache-2.0
"""`mprun runs list|show|open|rerun|rm`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mprun.cli import options, runs_list, show, wireshark
from mprun.cli.completion import complete_runs

if TYPE_CHECKING:
    from mprun.model.engine_name import EngineChoice
    from mprun.model.permission import Consent


@click.group("runs", context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """List, show, open, repeat and remove runs.

    RUN is the directory, the name, the beginning of the name or the digest of a run, or `latest`.
    """


# `mprun show` again: a person who has listed the runs looks for it here
command.add_command(show.command)
command.add_command(wireshark.command, "open")
command.add_command(runs_list.command, "list")


@command.command()
@click.argument("name", metavar="[RUN]", default="latest", shell_complete=complete_runs)
@options.engine
@options.kernel_of_original
@options.parent
@options.consent
def rerun(name: str, engine: EngineChoice, kernel: str | None, parent: Path, consent: Consent) -> None:
    """Repeat a run in a new run directory.

    The engine is the engine of the original run. The real engine is used only if --engine or your configuration
    file names it.
    """
    from mprun.cli.operand import find_run
    from mprun.cli.progress import Bar
    from mprun.cli.show_run import show_summary
    from mprun.runs.place import refuse_machine_kernel
    from mprun.runs.repetition import repeat

    original = find_run(parent, name)
    if engine == "auto":
        before = original.environment().engine
        refuse_machine_kernel(before, engine)
        engine = before
    options.note_unconfined()
    with Bar() as bar:
        again = repeat(original, original.path.parent, engine, kernel, consent, bar.show)
    show_summary(again.summary, again.run)
    sys.exit(0 if again.summary.status == "passed" else 1)


@command.command()
@click.argument("names", metavar="RUN|SWEEP...", nargs=-1, required=True, shell_complete=complete_runs)
@options.parent
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
def rm(names: tuple[str, ...], parent: Path, yes: bool) -> None:
    """Remove runs and sweeps. Removing a sweep removes all its runs."""
    from mprun.runs import run_directory
    from mprun.sweeps import sweep_directory

    for found in [sweep_directory.find_either(parent, name) for name in names]:
        is_sweep = isinstance(found, sweep_directory.SweepDirectory)
        if yes or click.confirm(f"remove {'sweep ' if is_sweep else ''}{found.path}?"):
            if isinstance(found, sweep_directory.SweepDirectory):
                sweep_directory.remove(found)
            else:
                run_directory.remove(found)
