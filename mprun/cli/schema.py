# SPDX-License-Identifier: Apache-2.0
"""`mprun schema`: the JSON Schemas of the files, for editors."""

from __future__ import annotations

from pathlib import Path

import click

from mprun.cli import options


@click.command()
@click.argument("which", required=False, type=click.Choice(["topology", "experiment", "lab", "config"]))
@click.option("--write", "directory", type=options.Target(is_file=False), help="Write all schemas to DIRECTORY.")
def command(which: str | None, directory: Path | None) -> None:
    """Print the JSON Schema of a topology, an experiment, a lab file or your configuration file.

    With the schema, an editor completes keys and checks values. In VS Code the first line of a file names
    its schema: `# yaml-language-server: $schema=...`.
    """
    if (which is None) == (directory is None):
        raise click.UsageError(
            "name one schema, `topology`, `experiment`, `lab` or `config`, or write all with --write DIR"
        )
    from mprun.inputs.json_schema import SCHEMAS, render

    if directory is None:
        assert which is not None
        click.echo(render(which), nl=False)
        return
    directory.mkdir(parents=True, exist_ok=True)
    for name in SCHEMAS:
        (directory / f"{name}.schema.json").write_text(render(name), encoding="utf-8")
        click.echo(f"{directory / name}.schema.json")
