# SPDX-License-Identifier: Apache-2.0
"""`mprun wireshark`: the captures of a run in Wireshark."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import click

from mprun.cli import options
from mprun.cli.completion import complete_runs
from mprun.errors import MachineError
from mprun.machine import invoking_user
from mprun.machine.packaged import PROFILE


@click.command("wireshark")
@click.argument("name", metavar="[RUN]", default="latest", shell_complete=complete_runs)
@options.parent
@click.option(
    "--profile", is_flag=True, help="Add a Wireshark profile with columns, colours and buttons for MPTCP, and use it."
)
def command(name: str, parent: Path, profile: bool) -> None:
    """Open the captures of a run in Wireshark, with host names."""
    from mprun.captures.tshark import decoding
    from mprun.cli.operand import find_run

    run = find_run(parent, name)
    captures = run.need_captures()
    program = shutil.which("wireshark")
    if program is None:
        raise MachineError(
            f"Wireshark is not installed: apt-get install wireshark; the captures are in {run.path / 'pcap'}"
        )
    run.folder.write_text("logs/hosts", "".join(f"{address} {node}\n" for address, node in run.addresses()))
    # an absolute path does not begin with `-` like an option, which may name a script
    folder = run.path.absolute()
    names = folder / "logs" / "hosts"
    chosen = [*(["-C", _install_profile()] if profile else []), *decoding(run.plan().intent.traffic)]
    for capture in (folder / name for name in captures.values()):
        subprocess.Popen([program, *chosen, "-H", str(names), "-N", "n", str(capture)], start_new_session=True)


def _install_profile() -> str:
    """Install our profile in Wireshark's folder unless a profile of that name exists. Return the name."""
    from mprun.machine.cache import find_base

    target = find_base("XDG_CONFIG_HOME", ".config") / "wireshark" / "profiles" / PROFILE.name
    if not target.exists():
        made = next(path for path in reversed([target, *target.parents]) if not path.exists())
        shutil.copytree(PROFILE, target)
        invoking_user.give(made)
        click.echo(f"added a profile to Wireshark: {target}")
    return target.name
