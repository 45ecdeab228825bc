# SPDX-License-Identifier: Apache-2.0
"""The input stage: `load` makes a Spec of two files, or refuses them with every fault at once.

Imported when first asked for: the later stages need only the values of `spec.spec`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mprun.spec.input import Loaded as Loaded
    from mprun.spec.input import load as load
    from mprun.spec.input import load_cells as load_cells
    from mprun.spec.input import load_topology as load_topology


def __getattr__(name: str) -> object:
    if name not in ("Loaded", "load", "load_cells", "load_topology"):
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    from mprun.spec.startup import pause_collection, skip_plugins

    skip_plugins()
    with pause_collection():
        from mprun.spec import input as stage

    return getattr(stage, name)
