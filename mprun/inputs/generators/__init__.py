# SPDX-License-Identifier: Apache-2.0
"""Generators of topologies, by the name under `topology` in a topology file.

Each module has `Parameters`, the keys of the file, and `expand`, a pure function from the parameters to nodes and
links. A module is imported when a file names it.
"""

GENERATORS = (
    "multi-path",
    "multi-client",
    "line",
    "star",
    "dumbbell",
    "parking-lot",
    "khalili",
    "access-points",
    "fat-tree",
    "two-level-tree",
)
