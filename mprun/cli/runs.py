# SPDX-License-Identifier: Apache-2.0
"""`mprun runs list|rm`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from mprun.cli import options, runs_list, show, verify, wireshark
from mprun.cli.completion import complete_runs


@click.group("runs", context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """List and remove runs.

    RUN is the directory, the name, the beginning of the name or the digest of a run, or `latest`.
    """


@options.runs("engine.original kernel.original parent consent jobs")
def _rerun(name: str, runs: options.RunOptions, **_: Any) -> None:
    """Repeat a run, and end as the repetition: this was a command before `verify --keep`."""
    from mprun.runs.run_directory import RunDirectory

    done = verify.verify(name, runs, is_kept=True, as_json=False)
    sys.exit(0 if RunDirectory(done.path).summary().status == "passed" else 1)


command.add_command(runs_list.command, "list")


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


command.add_command(options.earlier(show.command, "show", "mprun show"))
command.add_command(options.earlier(wireshark.command, "open", "mprun wireshark"))
command.add_command(options.earlier(verify.command, "rerun", "mprun verify --keep", _rerun))
