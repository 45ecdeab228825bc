# SPDX-License-Identifier: Apache-2.0
"""Convert the text of an older file into a node tree, and list its problems."""

from __future__ import annotations

from mprun.inputs.older import experiment, topology
from mprun.inputs.older.lines import FileRole
from mprun.inputs.older.older_file import OlderFile


def convert(text: str, name: str, role: FileRole, legacy_queue: bool = False) -> OlderFile:
    """Convert the text. legacy_queue: queues have the size that the older tool gave them, not the size in the file."""
    source = OlderFile(name, text)
    source.root = topology.build(source, legacy_queue) if role == "topology" else experiment.build(source)
    return source
