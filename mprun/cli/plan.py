# SPDX-License-Identifier: Apache-2.0
"""`mprun plan`: the commands of a run as text, as JSON, or compared with another plan."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from mprun.cli import options
from mprun.errors import SpecError
from mprun.model.plan import Plan, render


@click.command("plan")
@options.files("topology.optional experiment.optional params seed strict python outside")
@click.option("--json", "as_json", is_flag=True, help="Print the plan as JSON.")
@click.option("--diff", nargs=2, metavar="A B", help="Compare two plans: run directories or plan.json files.")
def command(files: options.FileOptions, as_json: bool, diff: tuple[str, str] | None) -> None:
    """Show what a run would do: the commands of each node, as a person would type them.

    The plan does not depend on this machine: it is the plan for the virtual engine on Debian 12. Its digest
    is the same on every machine.
    """
    if diff:
        _show_difference(*diff)
        return
    if not files.topology or not files.experiment:
        from mprun.cli.mistake import advise_files

        context = click.get_current_context()
        raise click.UsageError(f"{advise_files(context, ())}, or write --diff A B", context)
    from mprun.compile import allocate, compile_plan

    loaded = files.load()
    plan = compile_plan(loaded.spec, allocate(loaded.spec))
    click.echo(plan.to_text() if as_json else render(plan), nl=False)


def _show_difference(first: str, second: str) -> None:
    """Print the difference. The exit status is 1 if the plans differ, as for diff(1)."""
    import difflib

    one, other = (render(_read_plan(name)).splitlines() for name in (first, second))
    lines = list(difflib.unified_diff(one, other, first, second, lineterm="", n=1))
    for line in lines:
        colour = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1])
        click.echo(click.style(line, fg=colour))
    if lines:
        sys.exit(1)
    click.echo("no difference")


def _read_plan(name: str) -> Plan:
    from mprun.cli.operand import find_run
    from mprun.safety.folder import Folder
    from mprun.safety.text import make_printable
    from mprun.storage.table import readable

    path = Path(name)
    with readable(path):
        if path.is_file():
            try:
                return Plan.from_json(make_printable(Folder(path.parent).read_json(path.name)))
            except ValueError:
                raise SpecError(f"{name} is no plan: name the directory of a run or a plan.json") from None
        return find_run(options.DEFAULT_PARENT, name).plan()
