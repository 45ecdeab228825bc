# SPDX-License-Identifier: Apache-2.0
"""The package mprun. `mprun.load("runs/latest")` returns the results of a run or a sweep as polars tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mprun.results import load as load


def __getattr__(name: str) -> object:
    """Import `load` on its first use. The agent also imports this package, and each import takes time there."""
    if name != "load":
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    from mprun.results import load

    return load
