# SPDX-License-Identifier: Apache-2.0
"""`mprun convert`: files of the older format converted to YAML."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import click

import mprun
from mprun.cli import options, output, prose
from mprun.cli.completion import complete_files
from mprun.errors import SpecError

STANDARD_OUTPUT = Path("-")


@click.command("convert")
@click.argument("topology", shell_complete=complete_files)
@click.argument("experiments", metavar="[EXPERIMENT]...", nargs=-1, shell_complete=complete_files)
@options.to(
    "Write the files to DIRECTORY, or to standard output if it is '-'. Default: the current directory.",
    metavar="DIRECTORY",
    type=click.Path(path_type=Path),
)
@click.option("--force", is_flag=True, help="Overwrite existing files.")
@options.files("strict python outside")
@click.option(
    "--legacy-queue",
    is_flag=True,
    help="Give queues the size that the older tool built, not the size in the file.",
)
def command(
    topology: str,
    experiments: tuple[str, ...],
    target: Path | None,
    force: bool,
    files: options.FileOptions,
    legacy_queue: bool,
) -> None:
    """Convert a TOPOLOGY and EXPERIMENTs of the older key:value format to equivalent YAML files.

    A file that is YAML already is checked together with the others and not changed.
    """
    folder = Path() if target is None or target == STANDARD_OUTPUT else target
    texts = _convert(topology, experiments, files, legacy_queue, folder)
    if target == STANDARD_OUTPUT:
        click.echo("---\n".join(texts.values()), nl=False)
        return
    written = {folder / f"{Path(name).stem}.yaml": text for name, text in texts.items()}
    if len(written) < len(texts):
        raise SpecError(f"{', '.join(texts)}: two of them would be one file: convert them one by one")
    output.write_files(written, "name another directory, or add --force", force)
    click.echo(f"wrote {', '.join(map(str, written))}")


def _convert(
    topology: str, experiments: tuple[str, ...], files: options.FileOptions, legacy_queue: bool, folder: Path
) -> Mapping[str, str]:
    """Return the YAML text of each file of the older format, after all files are checked."""
    from mprun.inputs.loading import load_trees
    from mprun.inputs.named_file import find
    from mprun.inputs.older.conversion import convert
    from mprun.inputs.older.lines import FileRole, is_older
    from mprun.inputs.reader import read
    from mprun.inputs.rendering import render

    allowed = files.permissions()
    network = read(topology, "topology", allowed, legacy_queue)
    if legacy_queue and network.root is not None and not network.older_keys:
        raise SpecError(f"--legacy-queue: {network.name} is not of the older format: its queues mean what they say")
    warnings: dict[str, None] = {}
    for experiment in experiments or (None,):
        tree = None if experiment is None else read(experiment, "experiment", allowed)
        warnings |= dict.fromkeys(load_trees(network, tree, files.strict).warnings)
    prose.warn(warnings)
    texts = {}
    for n, given in enumerate((topology, *experiments)):
        name = find(given)
        text = Path(name).read_text(encoding="utf-8-sig")
        if name.endswith(".py") or not is_older(text):
            continue
        role: FileRole = "experiment" if n else "topology"
        converted = convert(text, name, role, legacy_queue)
        assert converted.root is not None
        texts[name] = render(converted.root, converted.comments, _modeline(role, folder))
    if not texts:
        raise SpecError(f"{', '.join((topology, *experiments))}: YAML already, there is nothing to convert")
    return texts


def _modeline(role: str, folder: Path) -> str:
    """Return the line that names the schema for editors, for a folder in this source tree.

    Other folders get no such line: a file that is passed on must not name a path of this machine.
    """
    root = Path(mprun.__file__).resolve().parents[1]
    schema = root / "schemas" / f"{role}.schema.json"
    if not schema.exists() or not folder.resolve().is_relative_to(root):
        return ""
    return f"# yaml-language-server: $schema={os.path.relpath(schema, folder.resolve())}"
