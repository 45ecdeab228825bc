# SPDX-License-Identifier: Apache-2.0
"""`mprun tools install|list`."""

from __future__ import annotations

import click

from mprun.cli import options
from mprun.cli.completion import complete_tools
from mprun.cli.output import emit, tell_built
from mprun.cli.progress import Bar
from mprun.errors import MachineError


@click.group("tools", context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Build and list the traffic tools that the distribution has no package for.

    A tool is built once per user, in the cache of the experiment kernels. A built tool needs neither root nor
    a network.
    """


@command.command()
@click.argument("name", shell_complete=complete_tools)
@options.jobs("compilers")
@click.option("--json", "as_json", is_flag=True, help="Print the tool as JSON.")
def install(name: str, jobs: int, as_json: bool) -> None:
    """Build a tool, unless the same tool is built already."""
    from mprun.workloads.built import program_store

    with Bar() as bar:
        tool, fresh = program_store.install(name, jobs, bar.show)
    tell_built(tool, fresh, as_json)


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print a list of tools as JSON.")
def list_(as_json: bool) -> None:
    """List the tools that can be built, and the versions that are built."""
    from mprun.workloads.built import PROGRAMS, program_store

    problems: dict[str, str] = {}

    def find(name: str) -> program_store.BuiltProgram | None:
        try:
            return program_store.find(name)
        except MachineError as error:
            problems[name] = str(error)
            return None

    found = {name: find(name) for name in PROGRAMS}
    if as_json:
        tools = [
            {"name": name, "description": PROGRAMS[name].description, "installed": tool} for name, tool in found.items()
        ]
        emit(tools)
        return
    for name, tool in found.items():
        absent = problems.get(name, f"not built: `mprun tools install {name}`")
        state = f"{tool.version}, {tool.digest[:12]}" if tool else absent
        click.echo(f"{name:8} {PROGRAMS[name].description}\n{'':8} {state}")
