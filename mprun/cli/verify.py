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
from mprun.safety.text import plain

if TYPE_CHECKING:
    from mprun.model.permission import Consent


@click.command("verify")
@click.argument("name", metavar="[RUN]", default="latest", shell_complete=complete_runs)
@options.kernel_of_original
@options.parent
@options.consent
@click.option("--json", "as_json", is_flag=True, help="Print the verdict as JSON.")
def command(name: str, kernel: str | None, parent: Path, consent: Consent, as_json: bool) -> None:
    """Repeat RUN in the virtual engine and compare the results byte by byte.

    If the results differ, the first artifact and byte that differ are printed.
    """
    from mprun.cli.operand import find_run
    from mprun.cli.progress import Bar
    from mprun.errors import RunError
    from mprun.machine.scratch import scratch
    from mprun.model.engine_name import DEFAULT_ENGINE
    from mprun.runs.repetition import first_difference, repeat

    original = find_run(parent, name)
    before = original.environment()
    if before.real_time:
        raise RunError(f"{original.name} ran in real time ({before.engine} engine): no two such runs are equal")
    options.note_unconfined()
    with scratch("mprun-verify-") as folder, Bar() as bar:
        again = repeat(original, folder, DEFAULT_ENGINE, kernel, consent, bar.show)
        difference = first_difference(original, again.run)
    count = len(list(original.artifacts()))
    if as_json:
        facts = {name: list(pair) for name, pair in again.facts.items()}
        emit({"run": original.name, "identical": difference is None, "difference": difference, "facts": facts})
        sys.exit(0 if difference is None else 1)
    for fact, (then, now) in again.facts.items():
        click.echo(f"note: {plain(fact)}: {plain(then)} then, {plain(now)} now", err=True)
    if difference is None:
        click.echo(f"identical: {count} artifacts of {original.name}, byte by byte")
    else:
        click.echo(f"different: {difference}")
    sys.exit(0 if difference is None else 1)
