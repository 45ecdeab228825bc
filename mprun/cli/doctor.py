# SPDX-License-Identifier: Apache-2.0
"""`mprun doctor`: a check of what this machine can run, with the command that fixes each missing item."""

from __future__ import annotations

import sys

import click

from mprun.cli import prose
from mprun.cli.output import emit, mark


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="Print the checks as JSON.")
def command(as_json: bool) -> None:
    """Check what this machine can run, and print the command that fixes each missing item.

    The last line installs all missing packages of the distribution that a run can need.

    The exit status is 0 if at least one engine can run an experiment, and 3 if none can.
    """
    from mprun.machine.machine_kind import identify
    from mprun.runs.machine_check import check_machine, install_command

    checks = list(check_machine(identify()))
    usable = all(check.ok for check in checks if check.serves in ("virtual", "both")) or all(
        check.ok for check in checks if check.serves in ("real", "both")
    )
    if as_json:
        emit(checks)
    else:
        width = max(len(check.name) for check in checks)
        for check in checks:
            # curl names all its libraries, for which a terminal has no room
            room = max(20, prose.terminal_width() - width - 4) if sys.stdout.isatty() else sys.maxsize
            says = check.says if len(check.says) <= room else f"{check.says[: room - 4].rstrip()} ..."
            click.echo(f"{mark(check.ok)} {check.name:{width}}  {says}")
            if not check.ok and check.mend:
                click.echo(prose.wrap(check.mend, f"  {'':{width}}  → ", f"  {'':{width}}    "))
        if packages := install_command(checks):
            click.echo(f"to install what is missing from this distribution:\n{packages}")
    sys.exit(0 if usable else 3)
