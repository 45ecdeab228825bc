# SPDX-License-Identifier: Apache-2.0
"""Generators of topologies, by the name under `topology` in a topology file.

Each module has `Parameters`, the keys of the file, and `expand`, a pure function from the parameters to nodes and
links. A module is imported when a file names it.
"""

from __future__ import annotations

GENERATORS = {
    "multi-path": "mprun.inputs.generators.multi_path",
    "multi-client": "mprun.inputs.generators.multi_client",
    "line": "mprun.inputs.generators.line",
    "star": "mprun.inputs.generators.star",
    "dumbbell": "mprun.inputs.generators.dumbbell",
    "parking-lot": "mprun.inputs.generators.parking_lot",
    "khalili": "mprun.inputs.generators.khalili",
    "access-points": "mprun.inputs.generators.access_points",
    "fat-tree": "mprun.inputs.generators.fat_tree",
    "two-level-tree": "mprun.inputs.generators.two_level_tree",
}
