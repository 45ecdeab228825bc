# SPDX-License-Identifier: Apache-2.0
"""Convert the text of an older file into a node tree, and list its problems."""

from __future__ import annotations

from collections.abc import Mapping

from mprun.inputs.older import experiment, topology
from mprun.inputs.older.lines import FileRole
from mprun.inputs.older.older_file import OlderFile

# The key that tells the role of a file, and a message about that of the other role.
_KINDS: Mapping[FileRole, tuple[str, str, str]] = {
    "topology": ("topoType", "xpType", "this is an experiment: name it after -x, and a topology after -t"),
    "experiment": ("xpType", "topoType", "this is a topology: name it after -t, and an experiment after -x"),
}


def convert(text: str, name: str, role: FileRole, legacy_queue: bool = False) -> OlderFile:
    """Convert the text. legacy_queue: queues have the size that the older tool gave them, not the size in the file."""
    source = OlderFile(name, text)
    key, other_key, message = _KINDS[role]
    kind, other = source.take(key), source.take(other_key)
    if other is not None and not source.has(key):
        source.refuse(other, message)
    elif role == "topology":
        source.root = topology.build(source, kind, legacy_queue)
    else:
        source.root = experiment.build(source, kind)
    return source
