# SPDX-License-Identifier: Apache-2.0
"""What is said of a kernel or program that was asked to be built."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from mprun.kernel.store import Kernel
    from mprun.programs.store import Installed


def tell(built: Kernel | Installed, is_new: bool, as_json: bool) -> None:
    """That it was built, in what time, or was already; or all of it as JSON."""
    if as_json:
        click.echo(json.dumps(asdict(built)))
    elif is_new:
        click.echo(f"built {built.version} in {built.build_seconds:.0f} s: {built.path}")
    else:
        click.echo(f"{built.version} is built already: {built.path}")
