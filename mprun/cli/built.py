# SPDX-License-Identifier: Apache-2.0
"""The output of commands that build a kernel or a program."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mprun.cli.output import emit

if TYPE_CHECKING:
    from mprun.kernel.store import Kernel
    from mprun.workloads.built.program_store import BuiltProgram


def tell(built: Kernel | BuiltProgram, is_new: bool, as_json: bool) -> None:
    """Print that it was built and the time, or that it existed already, or all facts as JSON."""
    if as_json:
        emit(built)
    elif is_new:
        click.echo(f"built {built.version} in {built.build_seconds:.0f} s: {built.path}")
    else:
        click.echo(f"{built.version} is built already: {built.path}")
