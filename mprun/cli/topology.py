# SPDX-License-Identifier: Apache-2.0
"""`mprun topology list|profiles|expand`: generators, profiles of links, and the nodes and links of a topology."""

from __future__ import annotations

from pathlib import Path

import click

from mprun.cli import options, output
from mprun.cli.output import emit


@click.group("topology", context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """List generators and the profiles of links, or write a topology as nodes and links."""


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print the generators as JSON.")
def list_(as_json: bool) -> None:
    """List the generators, including generators of installed packages."""
    from mprun.inputs.generator import COLLECTION

    generators = COLLECTION.describe()
    if as_json:
        emit(list(generators))
        return
    width = max(len(one.name) for one in generators)
    for one in generators:
        origin = f" [{one.package}]" if one.package else ""
        click.echo(f"{one.name:{width}}  {one.summary}{origin}")


@command.command()
@click.option("--json", "as_json", is_flag=True, help="Print the profiles as JSON.")
def profiles(as_json: bool) -> None:
    """List the values of each link profile.

    Values are spelled as in a topology file. Forward is the uplink. `-` stands for a property that the profile does
    not set. Other keys of a link override its profile.
    """
    from mprun.inputs.profile_list import columns, describe_profiles

    described = describe_profiles()
    if as_json:
        emit(list(described))
        return
    names = columns(described)
    rows = [("profile", "direction", *names)]
    for one in described:
        for n, (direction, values) in enumerate(one.rows):
            rows.append((one.name if n == 0 else "", direction, *(str(values.get(name, "-")) for name in names)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


@command.command()
@options.files("topology params python outside")
@options.to("Write to FILE, a new file.", type=options.Target(is_new=True))
def expand(files: options.FileOptions, target: Path | None) -> None:
    """Write a topology as nodes and links that can be changed by hand.

    The written topology builds the same network. Values that mprun derives, such as most addresses and default
    queues, are not written.
    """
    from yaml.nodes import MappingNode

    from mprun.inputs.loading import load_topology
    from mprun.inputs.rendering import render
    from mprun.inputs.writer import write_topology
    from mprun.inputs.yaml_tree import parse

    spec = load_topology(files.topology, files.parameters, files.permissions())
    root = parse(write_topology(spec, ""), spec.name)
    assert isinstance(root, MappingNode)
    text = render(root, {}, f"# {spec.name}, expanded by mprun.")
    if target is None:
        click.echo(text, nl=False)
        return
    output.write_files({target: text}, "name a new file")
    click.echo(target)
