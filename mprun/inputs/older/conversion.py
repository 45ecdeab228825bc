# SPDX-License-Identifier: Apache-2.0
"""The way from the text of an older file to its tree and its faults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from yaml.nodes import MappingNode

from mprun.inputs.older import experiment, topology
from mprun.inputs.older.lines import Role, split
from mprun.inputs.older.older_file import Source
from mprun.model.fault import Fault


@dataclass(frozen=True)
class Conversion:
    """root: None if the file has faults that prevent a tree. keys: the key on each line, for messages."""

    root: MappingNode | None
    faults: tuple[Fault, ...]
    warnings: tuple[Fault, ...]
    keys: Mapping[int, str]
    comments: Mapping[int, tuple[str, ...]]


def convert(text: str, name: str, role: Role, legacy_queue: bool = False) -> Conversion:
    """Convert the text. legacy_queue: queues have the size that the older tool gave them, not the size in the file."""
    lines = split(text, name)
    source = Source(name, lines)
    root = topology.build(source, legacy_queue) if role == "topology" else experiment.build(source)
    keys = {entry.line: entry.key for entry in lines.entries.values()}
    return Conversion(root, tuple(source.faults), tuple(source.warnings), keys, lines.comments)
