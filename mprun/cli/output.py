# SPDX-License-Identifier: Apache-2.0
"""Results for programs: JSON of `--json` and CSV of `--csv`, the same for all commands."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence

import click

from mprun.safety.cell import write_rows


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
