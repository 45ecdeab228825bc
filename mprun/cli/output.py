# SPDX-License-Identifier: Apache-2.0
"""Results for programs: JSON of `--json` and CSV of `--csv`, the same for all commands."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, is_dataclass

import click

from mprun.safety.cell import write_rows


def emit(value: object) -> None:
    """Print a value as JSON: on one line, or with indents on a terminal. Dataclasses become mappings.

    Only ASCII is printed, because texts of strangers may have characters that a terminal obeys.
    """
    click.echo(json.dumps(value, default=_to_json, indent=2 if sys.stdout.isatty() else None))


def emit_csv(rows: Sequence[Mapping[str, object]]) -> None:
    """Print rows as CSV, with the keys of the first row as the header (RFC 4180)."""
    names = list(rows[0]) if rows else []
    click.echo(write_rows([names, *([row[name] for name in names] for row in rows)]), nl=False)


def _to_json(value: object) -> object:
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    raise TypeError(f"{type(value).__name__} has no form in JSON")
