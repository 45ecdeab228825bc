# SPDX-License-Identifier: Apache-2.0
"""`mprun kernel build --watch`: build and run a command at each save."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import click

from mprun.errors import MachineError, MprunError
from mprun.kernel.watch import Watched, wait_for_change
from mprun.safety.text import name_some

# The number of changed files that a line names.
_SHOWN = 3


def watch(source: Path, files: Sequence[Path], build: Callable[[], object], argv: Sequence[str]) -> None:
    """Call `build`, and run a command if the build succeeds. Repeat both whenever a file is saved.

    source: a tree or a tarball. files: other files of the build. An interrupt ends it.
    """
    watched = Watched(source, files)
    while True:
        before = watched.look()
        started = time.monotonic()
        try:
            build()
        except MprunError as error:
            click.echo(str(error), err=True)
        else:
            _run(argv)
        click.echo(f"{time.monotonic() - started:.1f} s; waiting for the next save (Ctrl-C ends)", err=True)
        changed = wait_for_change(before, watched.look, watched.pause)
        click.echo(f"changed: {name_some(changed, _SHOWN)}", err=True)


def _run(argv: Sequence[str]) -> None:
    if not argv:
        return
    try:
        status = subprocess.run(argv).returncode
    except OSError as error:
        raise MachineError(f"{argv[0]} cannot be run: {error.strerror}") from error
    if status:
        click.echo(f"{argv[0]}: status {status}", err=True)
