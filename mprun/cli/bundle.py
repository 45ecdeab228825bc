# SPDX-License-Identifier: Apache-2.0
"""`mprun bundle`: one file of a run or a sweep, to share."""

from __future__ import annotations

from pathlib import Path

import click

from mprun.cli import operand, options
from mprun.cli.completion import complete_runs
from mprun.cli.operand import find_either
from mprun.cli.progress import Bar
from mprun.storage.sweep_directory import SweepDirectory
from mprun.storage.table import readable

_OTHER_ARCHIVES = (".tar", ".gz", ".tgz", ".xz", ".7z")


@click.command("bundle")
@click.argument("name", metavar="[RUN|SWEEP]", default="latest", shell_complete=complete_runs)
@options.parent
@options.to(
    "Write the bundle to FILE, a new file. Default: NAME.mprun.zip in the current directory.",
    type=options.Target(b"PK", is_new=True, has_folder=True, suffixes=[".zip"]),
)
@options.text(
    "--license licence", "SPDX|URL", "Set the licence of the bundle: an SPDX identifier, such as CC-BY-4.0, or a URL."
)
@click.option("--pcaps", "with_pcaps", is_flag=True, help="Include the captures.")
def command(name: str, parent: Path, target: Path | None, licence: str | None, with_pcaps: bool) -> None:
    """Pack a run or a sweep into one archive, a bundle.

    A bundle contains inputs, plan, kernel recipe, versions, metrics and figures. It is a zip file and an
    RO-Crate. `mprun verify FILE` repeats its runs.
    """
    from mprun.bundles.licence import find_licence
    from mprun.bundles.pack import pack
    from mprun.cli.report import write_report

    if target is not None and target.suffix.lower() in _OTHER_ARCHIVES:
        raise click.UsageError(f"--to {target}: a bundle is a zip file: end the name in .zip")
    url = "" if licence is None else find_licence(licence)
    found = find_either(parent, name)
    if isinstance(found, SweepDirectory):
        operand.tell_incomplete(found)
    else:
        operand.restore_tables(found)
    write_report(found)
    with readable(found.path), Bar() as bar:
        path = pack(found, target, url, with_pcaps, bar.show)
    click.echo(path)
