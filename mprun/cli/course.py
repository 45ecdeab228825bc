# SPDX-License-Identifier: Apache-2.0
"""`mprun course export`: what a teacher hands to a class."""

from __future__ import annotations

from pathlib import Path

import click

from mprun.cli import options
from mprun.cli.completion import complete_labs
from mprun.machine.packaged import find_labs


@click.group("course", context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Export what a teacher hands to a class."""


@command.command()
@click.argument("target", metavar="DIRECTORY|FILE.zip", type=options.Target(is_folder=True))
@click.argument("names", metavar="[LAB]...", nargs=-1, shell_complete=complete_labs)
def export(target: Path, names: tuple[str, ...]) -> None:
    """Write labs, kernel, schemas and a hand-out of two pages to a new folder or to one archive.

    The labs have no answers. The default is all labs. The kernel is an archive as `mprun kernel export` writes it, so
    students compile nothing. README.md and handout.html say what to type.
    """
    from mprun.kernel.store import find_kernel
    from mprun.labs.catalog import open_lab
    from mprun.labs.course.contents import export_course
    from mprun.labs.course.pages import GRADE
    from mprun.machine import invoking_user

    wanted = names or [str(folder) for folder in find_labs().values()]
    labs = list({lab.folder.resolve(): lab for lab in map(open_lab, wanted)}.values())
    course = export_course(labs, find_kernel(), target)
    invoking_user.give(target)
    count = len(labs)
    size = f"{course.size_bytes / 1e6:.1f} MB"
    click.echo(f"{target}: {count} lab{'s' * (count != 1)}, {len(course.files)} files, {size}")
    click.echo(f"the kernel's archive has SHA-256 {course.digest}")
    click.echo("  show the class this digest in the room, or print handout.html, which has it")
    click.echo(f"to grade: {GRADE.format(number=labs[0].number)}")
