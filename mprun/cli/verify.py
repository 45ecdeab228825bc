# SPDX-License-Identifier: Apache-2.0
"""`mprun verify`: repeat a run and compare every byte."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mprun.cli import options
from mprun.cli.completion import complete_runs
from mprun.cli.output import emit
from mprun.text import plain

if TYPE_CHECKING:
    from mprun.model.permission import Consent


@click.command("verify")
@click.argument("name", metavar="[RUN]", default="latest", shell_complete=complete_runs)
@options.kernel
@options.parent
@options.consent
@click.option("--json", "as_json", is_flag=True, help="Print the verdict as JSON.")
def command(name: str, kernel: str, parent: Path, consent: Consent, as_json: bool) -> None:
    """Repeat RUN in the virtual engine and compare the results byte by byte.

    If the results differ, the first artifact and byte that differ are printed.
    """
    from mprun import rundir, runner
    from mprun.cli.progress import Bar
    from mprun.errors import RunError
    from mprun.model.engine import DEFAULT_ENGINE
    from mprun.place import choose_place
    from mprun.scratch import scratch
    from mprun.version import code_digest, code_of

    original = rundir.find(parent, name)
    before = original.read("environment.json")
    if before.get("real_time"):
        raise RunError(f"{original.name} ran in real time ({before['engine']} engine): no two such runs are equal")
    place = choose_place(DEFAULT_ENGINE, kernel)
    assert place.kernel is not None
    options.note_unconfined()
    ran_on = before["kernel"].get("digest", "unknown")
    if ran_on != place.kernel.digest:
        click.echo(f"note: the run used kernel {plain(ran_on)[:12]}, this is {place.kernel.digest[:12]}", err=True)
    if (made_by := code_of(before)) != code_digest():
        click.echo(f"note: mprun was {plain(made_by)} then and is {code_digest()} now", err=True)
    with scratch("mprun-verify-") as folder, Bar() as bar:
        again, _ = runner.repeat(original, folder, place, bar.show, consent)
        difference = runner.first_difference(original, again)
    count = len(list(original.artifacts()))
    if as_json:
        emit({"run": original.name, "identical": difference is None, "difference": difference})
    elif difference is None:
        click.echo(f"identical: {count} artifacts of {original.name}, byte by byte")
    else:
        click.echo(f"different: {difference}")
    sys.exit(0 if difference is None else 1)
