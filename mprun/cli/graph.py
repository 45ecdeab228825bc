# SPDX-License-Identifier: Apache-2.0
"""`mprun graph`: the network with its link values as a picture."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mprun.cli import options
from mprun.cli.completion import complete_files

if TYPE_CHECKING:
    from mprun.reports.drawing import Drawing

SUFFIXES = {".svg": "svg", ".png": "png", ".dot": "dot", ".gv": "dot"}


@click.command("graph")
@options.topology
@click.option(
    "-x",
    "--experiment",
    metavar="FILE",
    shell_complete=complete_files,
    help="Read the experiment from FILE, and list its flows below the picture.",
)
@options.parameters
@options.allow_python
@options.allow_outside
@click.option(
    "--format",
    "language",
    type=click.Choice(list(dict.fromkeys(SUFFIXES.values()))),
    help="Choose the format. Default: the suffix of -o, or svg without -o.",
)
@click.option("-o", "--output", metavar="FILE", help="Write the picture to FILE, or to standard output if it is `-`.")
@click.option("--addresses", is_flag=True, help="Also show the addresses of interfaces, and every node.")
def command(
    topology: str,
    experiment: str | None,
    params: tuple[str, ...],
    allow_exec: bool,
    allow_outside: bool,
    language: str | None,
    output: str | None,
    addresses: bool,
) -> None:
    """Draw the network with its link values.

    Without -o the picture goes to standard output. If standard output is a terminal, an image is written
    to TOPOLOGY.svg or TOPOLOGY.png in the current directory instead.
    """
    from mprun.compile import allocate, resolve
    from mprun.inputs import load
    from mprun.model.permission import Permissions
    from mprun.reports.drawing import draw

    language = language or _language_of(output)
    allowed = Permissions(allow_exec, allow_outside)
    loaded = load(topology, experiment, options.parse_parameters(params), allowed=allowed)
    for warning in loaded.warnings:
        click.echo(f"warning: {warning}", err=True)
    spec = resolve(loaded.spec, allocate(loaded.spec))
    drawn = _render(draw(spec.topology, spec.experiment.traffic, addresses), language)
    is_image = language in ("svg", "png")
    if output is None and is_image and sys.stdout.isatty():
        output = f"{spec.topology.name}.{language}"
    if output is None or output == "-":
        click.echo(drawn, nl=False)
        return
    path = Path(output)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(drawn)
    click.echo(f"wrote {path}")


def _language_of(output: str | None) -> str:
    if output in (None, "-"):
        return "svg"
    suffix = Path(str(output)).suffix.lower()
    if suffix not in SUFFIXES:
        raise click.UsageError(
            f"-o {output}: no format has this suffix: end it in {', '.join(SUFFIXES)}, or give --format"
        )
    return SUFFIXES[suffix]


def _render(drawing: Drawing, language: str) -> bytes:
    from mprun.reports import graphviz
    from mprun.reports.dot import to_dot

    dot = to_dot(drawing)
    return dot.encode() if language == "dot" else graphviz.render(dot, "png" if language == "png" else "svg")
