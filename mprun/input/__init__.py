# SPDX-License-Identifier: Apache-2.0
"""The input stage: `load` makes a Spec of two files, or refuses them with every fault at once.

Imported when first asked for: the later stages need only the values of `model.spec`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mprun.input.stage import Loaded as Loaded
    from mprun.input.stage import load as load
    from mprun.input.stage import load_cells as load_cells
    from mprun.input.stage import load_topology as load_topology


def __getattr__(name: str) -> object:
    if name not in ("Loaded", "load", "load_cells", "load_topology"):
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    from mprun.input.startup import pause_collection, skip_plugins

    skip_plugins()
    with pause_collection():
        from mprun.input import stage

    return getattr(stage, name)
