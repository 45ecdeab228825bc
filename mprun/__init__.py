# SPDX-License-Identifier: Apache-2.0
"""The package mprun.

`mprun.run("topo", "xp")` runs an experiment. `mprun.load("runs/latest")` returns the results of a run or a sweep. Both
give polars tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mprun.api import load as load
    from mprun.api import run as run


def __getattr__(name: str) -> object:
    """Import `load` and `run` on their first use. The agent also imports this package, and imports take time there."""
    if name not in ("load", "run"):
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    from mprun import api

    return getattr(api, name)
