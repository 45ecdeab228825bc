# SPDX-License-Identifier: Apache-2.0
"""`mprun new`: a commented topology and experiment to start from."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from mprun.cli import options, output

# The topologies, and an experiment with the expectations for each topology. The first line has the licence of the file.
_START = Path(__file__).parent / "start"
_KINDS = ("multi-path", "line", "graph")


@click.command()
@click.argument("directory", default=".", type=options.Target(is_file=False))
@options.choice(
    "--topology kind", _KINDS, "Choose the network to start from. `graph` lists nodes and links.", "multi-path"
)
def command(directory: Path, kind: str) -> None:
    """Write topo.yaml and xp.yaml, with comments, to DIRECTORY. Default: the current directory."""
    files = {
        directory / "topo.yaml": _read(f"{kind}.yaml"),
        directory / "xp.yaml": _read("experiment.yaml") + _read(f"{kind}.expect.yaml"),
    }
    output.write_files(files, "name another directory")
    click.echo(f"wrote {' and '.join(map(str, files))}")
    topology, experiment = (shlex.quote(str(directory / name)) for name in ("topo", "xp"))
    click.echo(f"next: mprun -t {topology} -x {experiment}")


def _read(name: str) -> str:
    return (_START / name).read_text(encoding="utf-8").partition("\n")[2]
