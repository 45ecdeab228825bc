# SPDX-License-Identifier: Apache-2.0
"""`import mprun; mprun.load("runs/latest")`: what a run or a sweep measured, as polars tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mprun.results import load as load


def __getattr__(name: str) -> object:
    """Imported when asked for: the agent imports this package where every import is dear."""
    if name != "load":
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    from mprun.results import load

    return load
