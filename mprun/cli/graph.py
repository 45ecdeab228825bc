# SPDX-License-Identifier: Apache-2.0
"""`mprun graph`: the network with its link values as a picture."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mprun.cli import options

if TYPE_CHECKING:
    from mprun.reports.drawing import Drawing

SUFFIXES = {".svg": "svg", ".png": "png", ".dot": "dot", ".gv": "dot"}


@click.command("graph")
@options.files("topology experiment.optional params python outside")
@options.choice(
    "--format language",
    dict.fromkeys(SUFFIXES.values()),
    "Choose the format. Default: the suffix of --to, or svg without --to.",
)
@options.to(
    "Write the picture to FILE, or to standard output if it is `-`.",
    type=options.Target(b"<", b"\x89PNG", b"graph ", takes_dash=True, suffixes=[*SUFFIXES]),
)
@click.option("--addresses", is_flag=True, help="Also show the addresses of interfaces, and every node.")
def command(files: options.FileOptions, language: str | None, target: Path | None, addresses: bool) -> None:
    """Draw the network with its link values. With an experiment, its flows are listed below the picture.

    Without --to the picture goes to standard output. If standard output is a terminal, an image is written
    to TOPOLOGY.svg or TOPOLOGY.png in the current directory instead.
    """
    from mprun.compile import allocate, resolve
    from mprun.reports.drawing import draw

    language = _language_of(target, language)
    loaded = files.load()
    spec = resolve(loaded.spec, allocate(loaded.spec))
    drawn = _render(draw(spec.topology, spec.experiment.traffic, addresses), language)
    is_image = language in ("svg", "png")
    if target is None and is_image and sys.stdout.isatty():
        target = Path(f"{spec.topology.name}.{language}")
    if target is None or target == Path("-"):
        click.echo(drawn, nl=False)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(drawn)
    click.echo(f"wrote {target}")


def _language_of(target: Path | None, asked: str | None) -> str:
    """Return the format: `asked`, or that of the file's suffix, or svg for standard output. Raises UsageError."""
    of_name = SUFFIXES.get(target.suffix.lower()) if target else None
    if asked and of_name and asked != of_name:
        raise click.UsageError(f"--to {target} is for {of_name}, and --format says {asked}: change one of the two")
    if target is None or target == Path("-"):
        of_name = "svg"
    if not (found := asked or of_name):
        raise click.UsageError(
            f"--to {target}: no format has this suffix: end it in {', '.join(SUFFIXES)}, or give --format"
        )
    return found


def _render(drawing: Drawing, language: str) -> bytes:
    from mprun.reports.dot import render, to_dot

    dot = to_dot(drawing)
    return dot.encode() if language == "dot" else render(dot, "png" if language == "png" else "svg")
