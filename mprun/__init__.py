# SPDX-License-Identifier: Apache-2.0
"""The package mprun.

`mprun.run("topo", "xp")` runs an experiment, and `mprun.sweep("topo", "xp")` all cells of its matrix.
`mprun.load("latest")` returns the results of a run or a sweep. All three give polars tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mprun.api import load as load
    from mprun.api import run as run
    from mprun.api import sweep as sweep

__all__ = ("load", "run", "sweep")


def __getattr__(name: str) -> object:
    """Import a function on its first use. The agent also imports this package, and imports take time there."""
    if name not in __all__:
        known = ", ".join(__all__)
        raise AttributeError(f"module '{__name__}' has no attribute '{name}': it has {known}, and a shell all commands")
    from mprun import api

    return getattr(api, name)


def __dir__() -> list[str]:
    return sorted(__all__)
