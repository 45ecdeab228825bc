# SPDX-License-Identifier: Apache-2.0
"""Results in the same form for all commands: marks, JSON of `--json`, CSV of `--csv`, and what was built."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from mprun.safety.cell import write_rows

if TYPE_CHECKING:
    from mprun.kernel.store import Kernel
    from mprun.workloads.built.program_store import BuiltProgram


def mark(is_held: bool | None) -> str:
    """Return a green tick, a red cross, or a yellow question mark if it is not known."""
    text, colour = {True: ("✓", "green"), False: ("✗", "red"), None: ("?", "yellow")}[is_held]
    return click.style(text, fg=colour)


def emit(value: object) -> None:
    """Print a value as JSON: on one line, or with indents on a terminal. Records become mappings.

    Only ASCII is printed, because texts of strangers may have characters that a terminal obeys.
    """
    # most commands print no JSON
    from mprun.model.codec import PLAIN

    click.echo(json.dumps(PLAIN.encode(value), indent=2 if sys.stdout.isatty() else None))


def emit_csv(rows: Sequence[Mapping[str, object]]) -> None:
    """Print rows as CSV, with the keys of the first row as the header (RFC 4180)."""
    names = list(rows[0]) if rows else []
    click.echo(write_rows([names, *([row[name] for name in names] for row in rows)]), nl=False)


def tell_built(built: Kernel | BuiltProgram, is_new: bool, as_json: bool) -> None:
    """Print that it was built and the time, or that it existed already, or all facts as JSON."""
    if as_json:
        emit(built)
    elif is_new:
        click.echo(f"built {built.version} in {built.build_seconds:.0f} s: {built.path}")
    else:
        click.echo(f"{built.version} is built already: {built.path}")
