# SPDX-License-Identifier: Apache-2.0
"""Paths and options as a person would type them."""

from __future__ import annotations

from pathlib import Path


def spell_path(path: Path) -> str:
    """Return a path as short as a person would type it: relative if it is below the current folder."""
    folder = Path.cwd()
    return str(path.relative_to(folder)) if path.is_relative_to(folder) else str(path)


def spell_kernel(name: str) -> str:
    """Return the option of a command that runs files on a kernel; empty for the default one."""
    from mprun.kernel.store import DEFAULT_NAME

    return "" if name in ("", DEFAULT_NAME) else f" --kernel {name}"
