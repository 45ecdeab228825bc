# SPDX-License-Identifier: Apache-2.0
"""`mprun shell`: the network of a topology, with Mininet's prompt on it."""

from __future__ import annotations

import tempfile
from pathlib import Path

import click

from mprun.cli import options


@click.command("shell")
@options.topology
@options.parameters
@options.engine
@options.kernel
def command(topology: str, params: tuple[str, ...], engine: str, kernel: str) -> None:
    """Build the network and offer Mininet's prompt on it, in real time.

    `client ping server`, `client ip route`, `nodes`, `links`, `dump`, `exit`. Nothing is left behind.
    """
    from mprun import runner
    from mprun.spec import load

    loaded = load(topology, None, options.parse_parameters(params))
    place = runner.choose_place(engine, kernel)  # type: ignore[arg-type]
    click.echo(f"engine: {place.engine} ({place.reason}), in real time", err=True)
    with tempfile.TemporaryDirectory(prefix="mprun-shell-") as scratch:
        runner.run_spec(loaded.spec, place, Path(scratch), (), loaded.warnings, lambda *_: None, "only")
