# SPDX-License-Identifier: Apache-2.0
"""Generators of topologies, by the name under `topology` in a topology file.

Each module has `Parameters`, the keys of the file, and `expand`, a pure function from the parameters to nodes and
links. A module is imported when a file names it.
"""

from __future__ import annotations

GENERATORS = {
    "multi-path": "mprun.topologies.multi_path",
    "multi-client": "mprun.topologies.multi_client",
    "line": "mprun.topologies.line",
    "star": "mprun.topologies.star",
    "dumbbell": "mprun.topologies.dumbbell",
    "parking-lot": "mprun.topologies.parking_lot",
    "khalili": "mprun.topologies.khalili",
    "access-points": "mprun.topologies.access_points",
    "fat-tree": "mprun.topologies.fat_tree",
    "two-level-tree": "mprun.topologies.two_level_tree",
}
