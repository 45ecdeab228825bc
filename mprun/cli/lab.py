# SPDX-License-Identifier: Apache-2.0
"""`mprun lab list|run`: the labs that come with mprun."""

from __future__ import annotations

import sys
from pathlib import Path, PurePath
from typing import Any

import click
import yaml

from mprun.cli import options
from mprun.errors import SpecError
from mprun.shipped import find_shipped


def find_labs() -> dict[str, Path]:
    """Number -> folder of every lab in this directory's `labs`, or else of those that come with mprun."""
    for folder in (Path("labs"), find_shipped("labs")):
        labs = {path.name.split("_")[0]: path for path in sorted(folder.glob("*/")) if (path / "lab.yaml").is_file()}
        if labs:
            return labs
    raise SpecError("no labs here: change into a checkout of mprun")


def _open_lab(number: str) -> tuple[Path, dict[str, Any]]:
    labs = find_labs()
    key = number.split("_")[0]
    if key not in labs:
        raise SpecError(f"no lab '{number}'; labs: {', '.join(path.name for path in labs.values())}")
    return labs[key], yaml.safe_load((labs[key] / "lab.yaml").read_text())


@click.group("lab", context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """List and run the labs that come with mprun."""


@command.command("list")
def list_() -> None:
    """List the labs."""
    for number in find_labs():
        folder, lab = _open_lab(number)
        click.echo(f"{folder.name:24} {lab['title']}")


@command.command()
@click.argument("number", metavar="LAB")
@options.engine
@options.kernel
@options.parent
def run(number: str, engine: str, kernel: str, parent: Path) -> None:
    """Run all experiments of a lab and show their results side by side."""
    from mprun import runner
    from mprun.cli.progress import Bar
    from mprun.cli.show import show_comparison
    from mprun.spec import load

    folder, lab = _open_lab(number)
    place = runner.choose_place(engine, kernel)  # type: ignore[arg-type]
    click.echo(f"{folder.name}: {lab['title']}")
    click.echo(f"engine: {place.engine} ({place.reason})", err=True)
    statuses = []
    for part in lab.get("parts", [lab]):
        summaries = {}
        for name in part["experiments"]:
            loaded = load(folder / part["topology"], folder / name)
            with Bar() as bar:
                inputs = (loaded.spec, place, parent, loaded.sources, loaded.warnings)
                directory, summary = runner.run_spec(*inputs, bar.show)
            options.give_to_invoker(directory.path)
            summaries[PurePath(name).name] = summary
        show_comparison(summaries, part["compare"])
        statuses += [summary["status"] for summary in summaries.values()]
    sys.exit(0 if all(status == "passed" for status in statuses) else 1)
