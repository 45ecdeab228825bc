# SPDX-License-Identifier: Apache-2.0
"""The names of trace events, and of their tables."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

_BEGIN = "trace-"


def name_table(event: str) -> str:
    """Return the name of an event's table: `trace-tcp-tcp_probe` of `tcp:tcp_probe`."""
    return _BEGIN + event.replace(":", "-")


def event_of(table: str) -> str | None:
    """Return the event of a table; None for a table of something else."""
    system, dash, event = table.removeprefix(_BEGIN).partition("-")
    return f"{system}:{event}" if table.startswith(_BEGIN) and dash else None


def is_recorded(event: str, tracepoints: Iterable[str]) -> bool:
    """Return whether an experiment with these names and patterns records an event."""
    return any(fnmatchcase(event, one) for one in tracepoints)
